//! An agent's upload in a round: one weight sample, in a message whose size is fixed by the
//! configuration (INV-12).

use std::fmt;

use zeroize::Zeroize as _;

use crate::fields::Fields;
use crate::{Digest, LAYOUT_VERSION, ProblemCode};

/// A weight sample ω_n for the coordinator.
///
/// ```text
/// "FBUP" | version u16 | 0 u16 | slot u32 | n_features u32 | round u64 | config 32 | map 32 | weights 8·M
/// ```
///
/// Numbers are little-endian. Weights are IEEE 754 binary64.
#[derive(Clone, PartialEq)]
pub struct Upload {
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// Hash of the feature map to which the weights belong.
    pub map: Digest,
    /// The agent's slot.
    pub slot: u32,
    /// Round of the upload. Round 0 is the exchange before the first query.
    pub round: u64,
    /// The M weights. Not checked to be finite here (INV-5).
    pub weights: Vec<f64>,
}

/// Error for bytes that are not an upload of this study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadUnreadable {
    /// The bytes do not begin with the magic number of this study's kind of upload.
    #[error("not an upload of this study: it does not begin with the bytes {expected}")]
    OtherKind {
        /// The expected first bytes.
        expected: &'static str,
    },
    /// The version is not supported.
    #[error("an upload of version {found}, supported: [{LAYOUT_VERSION}]")]
    Version {
        /// The version found.
        found: u16,
    },
    /// The reserved bytes are not zero.
    #[error("bytes 6 and 7 of an upload are zero in this version, here they are {found}")]
    Reserved {
        /// The value of the reserved bytes.
        found: u16,
    },
    /// The number of weights differs from the study's.
    #[error("the upload has {found} weights, the study uses {expected}")]
    Features {
        /// The number of weights in the header.
        found: u32,
        /// The study's M.
        expected: u32,
    },
    /// There are too few or too many bytes.
    #[error("the upload has {found} bytes, one of this study has {expected}")]
    Size {
        /// The number of bytes found.
        found: usize,
        /// The number of bytes expected.
        expected: usize,
    },
}

impl UploadUnreadable {
    /// Returns the problem code of the coordinator's response.
    pub fn code(&self) -> ProblemCode {
        match self {
            Self::OtherKind { .. } | Self::Reserved { .. } => ProblemCode::BadRequest,
            Self::Version { .. } => ProblemCode::UnsupportedVersion,
            Self::Features { .. } | Self::Size { .. } => ProblemCode::WrongLength,
        }
    }
}

const MAGIC: [u8; 4] = *b"FBUP";

/// The header that all kinds of uploads share.
pub(crate) struct Header {
    pub(crate) slot: u32,
    pub(crate) n_features: u32,
    pub(crate) round: u64,
    pub(crate) config: Digest,
    pub(crate) map: Digest,
}

impl Header {
    pub(crate) const SIZE: usize = 4 + 2 + 2 + 4 + 4 + 8 + 32 + 32;

    pub(crate) fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::SIZE);
        bytes.extend(magic);
        bytes.extend(LAYOUT_VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.slot.to_le_bytes());
        bytes.extend(self.n_features.to_le_bytes());
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.config.0);
        bytes.extend(self.map.0);
        bytes
    }

    /// Reads the header of a message of exactly `expected` bytes. Returns the header and the rest
    /// of the message.
    pub(crate) fn read<'a>(
        magic: [u8; 4],
        named: &'static str,
        bytes: &'a [u8],
        (n_features, expected): (u32, usize),
    ) -> Result<(Self, Fields<'a>), UploadUnreadable> {
        let wrong_size = || UploadUnreadable::Size { found: bytes.len(), expected };
        let mut fields = Fields(bytes);
        if !bytes.starts_with(&magic) {
            return Err(UploadUnreadable::OtherKind { expected: named });
        }
        let _: [u8; 4] = fields.take().ok_or_else(wrong_size)?;
        let version = fields.u16().ok_or_else(wrong_size)?;
        if version != LAYOUT_VERSION {
            return Err(UploadUnreadable::Version { found: version });
        }
        let reserved = fields.u16().ok_or_else(wrong_size)?;
        if reserved != 0 {
            return Err(UploadUnreadable::Reserved { found: reserved });
        }
        let slot = fields.u32().ok_or_else(wrong_size)?;
        let found = fields.u32().ok_or_else(wrong_size)?;
        if found != n_features {
            return Err(UploadUnreadable::Features { found, expected: n_features });
        }
        if bytes.len() != expected {
            return Err(wrong_size());
        }
        let header = Self {
            slot,
            n_features,
            round: fields.u64().ok_or_else(wrong_size)?,
            config: Digest(fields.take().ok_or_else(wrong_size)?),
            map: Digest(fields.take().ok_or_else(wrong_size)?),
        };
        Ok((header, fields))
    }
}

impl Upload {
    /// Returns the size of an upload with M weights in bytes, which is the same for all uploads of
    /// a study; `usize::MAX` on overflow.
    pub fn n_bytes(n_features: usize) -> usize {
        n_features.saturating_mul(8).saturating_add(Header::SIZE)
    }

    /// Encodes the upload. With more than `u32::MAX` weights, no decoder accepts the result.
    pub fn to_bytes(&self) -> Vec<u8> {
        let n_features = u32::try_from(self.weights.len()).unwrap_or(u32::MAX);
        let header = Header {
            slot: self.slot,
            n_features,
            round: self.round,
            config: self.config,
            map: self.map,
        };
        let mut bytes = header.to_bytes(MAGIC);
        bytes.reserve_exact(8 * self.weights.len());
        for weight in &self.weights {
            bytes.extend(weight.to_le_bytes());
        }
        bytes
    }

    /// Decodes an upload of a study with M = `n_features`, preserving every bit of the weights.
    /// Checks the size before it allocates (INV-19).
    ///
    /// # Errors
    /// If the bytes are not such an upload.
    pub fn from_bytes(bytes: &[u8], n_features: u32) -> Result<Self, UploadUnreadable> {
        let expected = Self::n_bytes(n_features as usize);
        let (header, mut fields) = Header::read(MAGIC, "FBUP", bytes, (n_features, expected))?;
        let Header { slot, round, config, map, .. } = header;
        let weights = fields.weights(n_features.into());
        let wrong_size = || UploadUnreadable::Size { found: bytes.len(), expected };
        Ok(Self { slot, round, config, map, weights: weights.ok_or_else(wrong_size)? })
    }
}

/// Overwrites the weights when dropped (INV-16). A caller that moves the weights out must clear
/// them.
impl Drop for Upload {
    fn drop(&mut self) {
        self.weights.zeroize();
    }
}

impl fmt::Debug for Upload {
    /// Prints only lengths, to keep weights out of logs (INV-4).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Upload {{ slot: {}, round: {}, {} weights }}",
            self.slot,
            self.round,
            self.weights.len()
        )
    }
}
