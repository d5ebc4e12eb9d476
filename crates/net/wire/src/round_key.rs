//! The helper's key for a round, to which the helper's shares are sealed.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex::from_hex;
use crate::{BadSignature, Digest, HexUnreadable, PublicKey, Signature, SigningKey};

/// The helper's key for one round of one study, signed by the helper.
///
/// The key proves that the helper has opened this round. The helper keeps the secret half, and
/// erases it when the round closes.
///
/// The string form consists of 208 hexadecimal digits: the round as 8 little-endian bytes, the key,
/// and the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundKey {
    /// The round.
    pub round: u64,
    /// The public key (X25519).
    pub key: [u8; 32],
    /// The helper's signature over the study, the round and the key.
    pub signature: Signature,
}

const PURPOSE: &str = "fedbo helper round key, version 1";

impl RoundKey {
    /// Size of a key and its signature in bytes, without the round.
    pub(crate) const SIZE: u64 = 32 + 64;

    /// Creates and signs the key for a round of the study with this configuration.
    pub fn new(helper: &SigningKey, config: &Digest, round: u64, key: [u8; 32]) -> Self {
        let parts: [&[u8]; 3] = [&config.0, &round.to_le_bytes(), &key];
        Self { round, key, signature: helper.sign(PURPOSE, &parts) }
    }

    /// Checks that the helper signed the key for this study and the key's round.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(&self, helper: &PublicKey, config: &Digest) -> Result<(), BadSignature> {
        let parts: [&[u8]; 3] = [&config.0, &self.round.to_le_bytes(), &self.key];
        helper.verify(PURPOSE, &parts, &self.signature)
    }
}

impl fmt::Display for RoundKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.round.to_le_bytes()[..], &self.key, &self.signature.0].concat();
        HEXLOWER.encode_display(&bytes).fmt(f)
    }
}

impl FromStr for RoundKey {
    type Err = HexUnreadable;

    fn from_str(text: &str) -> Result<Self, HexUnreadable> {
        let bytes: [u8; 8 + 32 + 64] = from_hex("key of a round", text)?;
        let (mut round, mut key, mut signature) = ([0; 8], [0; 32], [0; 64]);
        round.copy_from_slice(&bytes[..8]);
        key.copy_from_slice(&bytes[8..40]);
        signature.copy_from_slice(&bytes[40..]);
        let (round, signature) = (u64::from_le_bytes(round), Signature(signature));
        Ok(Self { round, key, signature })
    }
}

impl Serialize for RoundKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RoundKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
