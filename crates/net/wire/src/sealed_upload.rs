//! An agent's upload in a round of a secure sum: one vector in two shares, each sealed for one of
//! the servers.

use std::fmt;

use crate::upload::Header;
use crate::{Digest, UploadUnreadable};

/// A vector for the two servers of a secure sum.
///
/// ```text
/// "FBSU" | version u16 | 0 u16 | slot u32 | n_features u32 | round u64 | config 32 | map 32 | nonce 16 | public share | sealed for the leader |
///          sealed for the helper
/// ```
///
/// Numbers are little-endian. The study's configuration fixes the sizes of the last three parts.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedUpload {
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// Hash of the feature map with which the vector was made.
    pub map: Digest,
    /// The agent's slot.
    pub slot: u32,
    /// Round of the upload.
    pub round: u64,
    /// Identifier of the report.
    pub nonce: [u8; 16],
    /// The public share, which both servers see.
    pub public: Vec<u8>,
    /// The leader's sealed share, which only the leader can open.
    pub for_leader: Vec<u8>,
    /// The helper's sealed share, which only the helper can open.
    pub for_helper: Vec<u8>,
}

/// Sizes of the parts of an upload in bytes. The study's configuration fixes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSizes {
    /// The number of features M, which the header repeats.
    pub n_features: u32,
    /// Size of the public share.
    pub public: usize,
    /// Size of the leader's sealed share.
    pub for_leader: usize,
    /// Size of the helper's sealed share.
    pub for_helper: usize,
}

const MAGIC: [u8; 4] = *b"FBSU";

impl SealedUpload {
    /// Returns the size of an upload in bytes, which is the same for all uploads of a study.
    pub fn n_bytes(sizes: SealedSizes) -> usize {
        Header::SIZE + 16 + sizes.public + sizes.for_leader + sizes.for_helper
    }

    /// Encodes the upload.
    pub fn to_bytes(&self, n_features: u32) -> Vec<u8> {
        let header = Header {
            slot: self.slot,
            n_features,
            round: self.round,
            config: self.config,
            map: self.map,
        };
        let mut bytes = header.to_bytes(MAGIC);
        bytes.extend(self.nonce);
        bytes.extend(&self.public);
        bytes.extend(&self.for_leader);
        bytes.extend(&self.for_helper);
        bytes
    }

    /// Decodes an upload with parts of these sizes. Checks the size before it allocates (INV-19).
    ///
    /// # Errors
    /// If the bytes are not such an upload.
    pub fn from_bytes(bytes: &[u8], sizes: SealedSizes) -> Result<Self, UploadUnreadable> {
        let expected = Self::n_bytes(sizes);
        let (header, mut fields) =
            Header::read(MAGIC, "FBSU", bytes, (sizes.n_features, expected))?;
        let wrong_size = || UploadUnreadable::Size { found: bytes.len(), expected };
        let nonce = fields.take().ok_or_else(wrong_size)?;
        let mut part =
            |size: usize| fields.bytes(size as u64).map(<[u8]>::to_vec).ok_or_else(wrong_size);
        let (public, for_leader) = (part(sizes.public)?, part(sizes.for_leader)?);
        let for_helper = part(sizes.for_helper)?;
        let Header { slot, round, config, map, .. } = header;
        Ok(Self { config, map, slot, round, nonce, public, for_leader, for_helper })
    }
}

impl fmt::Debug for SealedUpload {
    /// Prints lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_bytes = self.public.len() + self.for_leader.len() + self.for_helper.len();
        write!(f, "SealedUpload {{ slot: {}, round: {}, {n_bytes} bytes }}", self.slot, self.round)
    }
}
