//! The card of a secure-sum server, which contains the server's public keys.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::keys::sha256;
use crate::{PublicKey, Signature, SigningKey};

/// The public keys of a secure-sum server, signed by the server.
///
/// The string form is `fbs1_` followed by unpadded URL-safe base64 of the signing key, the two
/// X25519 keys, the signing key's signature over the X25519 keys, and the first four bytes of the
/// SHA-256 of all preceding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCard {
    /// The key that signs the server's share of a release.
    pub key: PublicKey,
    /// X25519 key for sealing shares to a leader. Shares for a helper are sealed to its
    /// [`RoundKey`](crate::RoundKey) instead.
    pub seal: [u8; 32],
    /// X25519 key for deriving the verification key that the two servers share.
    pub agree: [u8; 32],
    signature: Signature,
}

/// Error for a string that is not a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardUnreadable {
    /// The string is not a card, or a part of it is missing.
    #[error(
        "this is not the card of a server: a card begins with \"fbs1_\" and has {TEXT_LENGTH} \
         characters; copy it again from the output of `fedbo helper card`"
    )]
    OtherKind,
    /// Some characters were changed.
    #[error("the card was mistyped: its last characters do not match the rest; copy it again")]
    Mistyped,
    /// The card is not signed by the key that it names.
    #[error("the card is not signed by the key that it names, so it was changed")]
    NotSigned,
}

const PREFIX: &str = "fbs1_";
const PURPOSE: &str = "fedbo server card, version 1";
const SIZE: usize = 32 + 32 + 32 + 64 + 4;
const TEXT_LENGTH: usize = PREFIX.len() + (4 * SIZE).div_ceil(3);

impl ServerCard {
    /// Creates the card of the owner of `key`.
    pub fn new(key: &SigningKey, seal: [u8; 32], agree: [u8; 32]) -> Self {
        let signature = key.sign(PURPOSE, &[&seal, &agree]);
        Self { key: key.public(), seal, agree, signature }
    }
}

impl fmt::Display for ServerCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes =
            [self.key.0.as_slice(), &self.seal, &self.agree, &self.signature.0].concat();
        let check = sha256(&bytes);
        bytes.extend(&check[..4]);
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl FromStr for ServerCard {
    type Err = CardUnreadable;

    /// Parses a card. Surrounding white space is ignored.
    fn from_str(text: &str) -> Result<Self, CardUnreadable> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(CardUnreadable::OtherKind)?;
        if encoded.len() + PREFIX.len() != TEXT_LENGTH {
            return Err(CardUnreadable::OtherKind);
        }
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes());
        let bytes = bytes.map_err(|_| CardUnreadable::Mistyped)?;
        let mut fields = crate::fields::Fields(&bytes);
        let mut read = || {
            let (key, seal, agree) = (fields.take()?, fields.take()?, fields.take()?);
            let (signature, check) = (fields.take()?, fields.take::<4>()?);
            let card = Self { key: PublicKey(key), seal, agree, signature: Signature(signature) };
            Some((card, check))
        };
        let (card, check) = read().ok_or(CardUnreadable::Mistyped)?;
        if sha256(&bytes[..SIZE - 4])[..4] != check {
            return Err(CardUnreadable::Mistyped);
        }
        let signed = card.key.verify(PURPOSE, &[&card.seal, &card.agree], &card.signature);
        signed.map(|()| card).map_err(|_| CardUnreadable::NotSigned)
    }
}

impl Serialize for ServerCard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ServerCard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
