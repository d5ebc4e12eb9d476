//! A peer's report of a round to its neighbours, and the neighbours' receipts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::{BadSignature, Digest, LAYOUT_VERSION, ProblemCode, PublicKey, Signature, SigningKey};

/// A peer's raw observations of one round. Reports are not private.
///
/// ```text
/// "FBRP" | version u16 | last u16 | sender u32 | dim u32 | round u64 | federation 32 | n u32 | n observations | signature 64
/// an observation: succeeded u8 | value 8 | coordinates 8·dim
/// ```
///
/// Numbers are little-endian. Value and coordinates are IEEE 754 binary64. `last` and `succeeded`
/// are 0 or 1. The value of a failed trial has all bits zero. The signature covers all bytes before
/// it.
#[derive(Clone, PartialEq)]
pub struct PeerReport {
    /// Hash of the configuration shared by all peers.
    pub federation: Digest,
    /// The sender's index on the roster.
    pub sender: u32,
    /// The round. This is also the number of the report, because a sender makes one report per
    /// round, starting with round 0.
    pub round: u64,
    /// True if this is the sender's last report.
    pub is_last: bool,
    /// The observations shared in this round.
    pub observations: Vec<SharedObservation>,
}

/// An observation as shared with neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedObservation {
    /// Coordinates in the unit cube. Not checked here.
    pub unit: Vec<f64>,
    /// The value, to be maximized, or `None` if the trial failed. Not checked to be finite here.
    pub value: Option<f64>,
}

/// Error for bytes that are not a report of this federation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportUnreadable {
    /// The bytes do not begin with the magic number of reports.
    #[error("not a report: it does not begin with the bytes FBRP")]
    OtherKind,
    /// The version is not supported.
    #[error("a report of version {found}, supported: [{LAYOUT_VERSION}]")]
    Version {
        /// The version found.
        found: u16,
    },
    /// A flag is neither 0 nor 1, or a failed trial has a value.
    #[error("the report's field {field} has an invalid value")]
    Field {
        /// Name of the field.
        field: &'static str,
    },
    /// The points have the wrong number of dimensions.
    #[error("the report's points have {found} coordinates, the federation's {expected}")]
    Dim {
        /// Number of dimensions in the report.
        found: u32,
        /// Number of dimensions in the federation.
        expected: u32,
    },
    /// There are too few or too many bytes.
    #[error("the report has {found} bytes, expected {expected} for its number of observations")]
    Size {
        /// The number of bytes found.
        found: usize,
        /// The number of bytes expected.
        expected: usize,
    },
}

impl ReportUnreadable {
    /// Returns the problem code of the peer's response.
    pub fn code(&self) -> ProblemCode {
        match self {
            Self::OtherKind | Self::Field { .. } => ProblemCode::BadRequest,
            Self::Version { .. } => ProblemCode::UnsupportedVersion,
            Self::Dim { .. } | Self::Size { .. } => ProblemCode::WrongLength,
        }
    }
}

const MAGIC: [u8; 4] = *b"FBRP";
const PURPOSE: &str = "fedbo report, version 1";
/// Size of the header before the observations, in bytes.
const HEADER_SIZE: usize = 4 + 2 + 2 + 4 + 4 + 8 + 32 + 4;
/// Size of a signature, in bytes.
const SIGNATURE_SIZE: usize = 64;

impl PeerReport {
    /// Returns the size of a report with `n_observations`, in bytes; `usize::MAX` on overflow.
    pub fn n_bytes(dim: usize, n_observations: usize) -> usize {
        dim.saturating_mul(8)
            .saturating_add(9)
            .saturating_mul(n_observations)
            .saturating_add(HEADER_SIZE + SIGNATURE_SIZE)
    }

    /// Encodes the report for a space of `dim` dimensions, signed with the sender's key. Equal
    /// reports have equal bytes.
    ///
    /// If a point has a different number of dimensions, or there are more than `u32::MAX`
    /// observations, no decoder accepts the result.
    pub fn to_bytes(&self, dim: usize, key: &SigningKey) -> Vec<u8> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = Vec::with_capacity(Self::n_bytes(dim, self.observations.len()));
        bytes.extend(MAGIC);
        bytes.extend(LAYOUT_VERSION.to_le_bytes());
        bytes.extend(u16::from(self.is_last).to_le_bytes());
        bytes.extend(self.sender.to_le_bytes());
        bytes.extend(count(dim));
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.federation.0);
        bytes.extend(count(self.observations.len()));
        for observation in &self.observations {
            bytes.push(observation.value.is_some().into());
            bytes.extend(observation.value.unwrap_or(0.0).to_le_bytes());
            for coordinate in &observation.unit {
                bytes.extend(coordinate.to_le_bytes());
            }
        }
        let signature = key.sign(PURPOSE, &[&bytes]);
        bytes.extend(signature.0);
        bytes
    }

    /// Decodes a report from a federation whose space has `dim` dimensions.
    ///
    /// Checks the size before it allocates (INV-19). [`PeerReport::verify`] checks the signature.
    ///
    /// # Errors
    /// If the bytes are not such a report.
    pub fn from_bytes(bytes: &[u8], dim: u32) -> Result<Self, ReportUnreadable> {
        if !bytes.starts_with(&MAGIC) {
            return Err(ReportUnreadable::OtherKind);
        }
        let cut_off = || ReportUnreadable::Size {
            found: bytes.len(),
            expected: Self::n_bytes(dim as usize, 0),
        };
        let mut fields = Fields(bytes);
        let _: [u8; 4] = fields.take().ok_or_else(cut_off)?;
        let version = fields.u16().ok_or_else(cut_off)?;
        if version != LAYOUT_VERSION {
            return Err(ReportUnreadable::Version { found: version });
        }
        let is_last = match fields.u16().ok_or_else(cut_off)? {
            0 => false,
            1 => true,
            _ => return Err(ReportUnreadable::Field { field: "last" }),
        };
        let sender = fields.u32().ok_or_else(cut_off)?;
        let found = fields.u32().ok_or_else(cut_off)?;
        if found != dim {
            return Err(ReportUnreadable::Dim { found, expected: dim });
        }
        let round = fields.u64().ok_or_else(cut_off)?;
        let federation = Digest(fields.take().ok_or_else(cut_off)?);
        let n = fields.u32().ok_or_else(cut_off)?;
        let expected = Self::n_bytes(dim as usize, n as usize);
        let wrong_size = || ReportUnreadable::Size { found: bytes.len(), expected };
        if bytes.len() != expected {
            return Err(wrong_size());
        }
        let mut observations = Vec::new(); // grows with the bytes present (INV-19)
        for _ in 0..n {
            let [succeeded] = fields.take().ok_or_else(wrong_size)?;
            let value: [u8; 8] = fields.take().ok_or_else(wrong_size)?;
            let value = match succeeded {
                1 => Some(f64::from_le_bytes(value)),
                0 if value == [0; 8] => None,
                0 => return Err(ReportUnreadable::Field { field: "value" }),
                _ => return Err(ReportUnreadable::Field { field: "succeeded" }),
            };
            let unit = fields.weights(dim.into()).ok_or_else(wrong_size)?;
            observations.push(SharedObservation { unit, value });
        }
        Ok(Self { federation, sender, round, is_last, observations })
    }

    /// Returns the signed part of a report's bytes, which is everything but the signature.
    ///
    /// The signed parts of two reports are equal if their contents are, regardless of the
    /// signatures.
    pub fn content_of(bytes: &[u8]) -> &[u8] {
        let end = bytes.len().saturating_sub(SIGNATURE_SIZE);
        &bytes[..end]
    }

    /// Checks that this key signed the bytes of a report.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(bytes: &[u8], key: &PublicKey) -> Result<(), BadSignature> {
        let (content, signature) = bytes.split_last_chunk().ok_or(BadSignature)?;
        key.verify(PURPOSE, &[content], &Signature(*signature))
    }
}

impl fmt::Debug for PeerReport {
    /// Prints only counts, to keep observations out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PeerReport {{ sender: {}, round: {}, {} observations }}",
            self.sender,
            self.round,
            self.observations.len()
        )
    }
}

const RECEIPT: &str = "fedbo receipt, version 1";
const IDENTITY: &str = "fedbo peer, version 1";

/// A peer's signed count of the reports received from a sender.
///
/// The sender resends its reports until it has a receipt for them. The count is durable before the
/// receipt is issued (INV-17).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Number of the sender's reports received without a gap. This is also the number of the next
    /// report.
    pub received_from: u64,
    /// The receiver's signature.
    pub proof: Signature,
}

impl Receipt {
    /// Creates a receipt for this sender's reports, signed with `key`.
    pub fn new(key: &SigningKey, federation: &Digest, sender: u32, received_from: u64) -> Self {
        let parts = receipt_parts(federation, sender, received_from);
        Self { received_from, proof: key.sign(RECEIPT, &[&parts.0, &parts.1, &parts.2]) }
    }

    /// Checks that the owner of this key issued the receipt.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(
        &self,
        key: &PublicKey,
        federation: &Digest,
        sender: u32,
    ) -> Result<(), BadSignature> {
        let parts = receipt_parts(federation, sender, self.received_from);
        key.verify(RECEIPT, &[&parts.0, &parts.1, &parts.2], &self.proof)
    }
}

fn receipt_parts(federation: &Digest, sender: u32, received: u64) -> ([u8; 32], [u8; 4], [u8; 8]) {
    (federation.0, sender.to_le_bytes(), received.to_le_bytes())
}

/// The identity of a peer, returned by `GET /v1/peer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerIdentity {
    /// Name on the roster.
    pub name: String,
    /// Index on the roster, counted from 0.
    pub slot: u32,
    /// The peer's key.
    pub key: PublicKey,
    /// Hash of the configuration shared by all peers.
    pub federation: Digest,
    /// Signature over the requester's challenge, the name, the slot and the federation. Proves that
    /// the peer holds the key.
    pub proof: Signature,
}

impl PeerIdentity {
    /// Creates the response to a 32-byte challenge, signed with `key`.
    pub fn new(
        key: &SigningKey,
        name: &str,
        slot: u32,
        federation: Digest,
        challenge: &Digest,
    ) -> Self {
        let parts: [&[u8]; 4] = [&challenge.0, name.as_bytes(), &slot.to_le_bytes(), &federation.0];
        Self {
            name: name.to_owned(),
            slot,
            key: key.public(),
            federation,
            proof: key.sign(IDENTITY, &parts),
        }
    }

    /// Checks that the peer holds the key that it names.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(&self, challenge: &Digest) -> Result<(), BadSignature> {
        let parts: [&[u8]; 4] =
            [&challenge.0, self.name.as_bytes(), &self.slot.to_le_bytes(), &self.federation.0];
        self.key.verify(IDENTITY, &parts, &self.proof)
    }
}
