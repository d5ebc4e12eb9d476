//! An agent's delivery in a round of a secure sum: one vector in two shares, each sealed for one server.

use std::fmt;

use crate::upload::Header;
use crate::{Digest, UploadUnreadable};

/// A vector on its way to the two servers of a secure sum.
///
/// ```text
/// "FBSU" | version u16 | 0 u16 | slot u32 | n_features u32 | round u64 | config 32 | map 32 | nonce 16 | public share | sealed for the leader |
///          sealed for the helper
/// ```
///
/// Numbers have their little end first; the sizes of the last three follow from the study's configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedUpload {
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// Hash of the feature map that it was made with.
    pub map: Digest,
    /// The agent's slot.
    pub slot: u32,
    /// Round it belongs to.
    pub round: u64,
    /// The report's name.
    pub nonce: [u8; 16],
    /// The part that both servers see.
    pub public: Vec<u8>,
    /// The leader's share, which it alone can open.
    pub for_leader: Vec<u8>,
    /// The helper's share, which it alone can open.
    pub for_helper: Vec<u8>,
}

/// Bytes of the parts of a report, which the study's configuration fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSizes {
    /// M, which the header repeats.
    pub n_features: u32,
    /// Of the public share.
    pub public: usize,
    /// Of the leader's sealed share.
    pub for_leader: usize,
    /// Of the helper's sealed share.
    pub for_helper: usize,
}

const MAGIC: [u8; 4] = *b"FBSU";

impl SealedUpload {
    /// Size of the message: all uploads of a study have it.
    pub fn n_bytes(sizes: SealedSizes) -> usize {
        Header::SIZE + 16 + sizes.public + sizes.for_leader + sizes.for_helper
    }

    /// The message.
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

    /// Reads the message of a study with such parts. Nothing is allocated before the size is known to be right (INV-19).
    ///
    /// # Errors
    /// If the bytes are not exactly such a message.
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
