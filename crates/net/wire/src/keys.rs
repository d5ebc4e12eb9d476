//! Ed25519 keys and signatures (RFC 8032), and the bytes that signatures cover.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::hex::{from_hex, hex_text};

/// The secret half of a key, used for signing. Derived from a 32-byte seed.
///
/// A key can be copied only through its file text. The seed is cleared when the key is dropped. The
/// expanded key that the signature library computes from the seed is not.
pub struct SigningKey {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// The public half of a key. Identifies an agent, a coordinator, a helper or a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

hex_text!(PublicKey, "public key");
hex_text!(Signature, "signature");
hex_text!(Digest, "SHA-256 hash");

/// Error for a signature by a different key or over different bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not match: it is by another key, or the signed data has changed")]
pub struct BadSignature;

/// Error for a string that is not a secret key. Reveals nothing about the string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyUnreadable {
    /// The string does not begin with the prefix of a secret key.
    #[error(
        "not a secret key: expected one line that begins with \"fedbo-secret-key-1 \"; restore the file from a copy, or enrol with a new key"
    )]
    OtherKind,
    /// The prefix is present but not followed by 64 hexadecimal digits.
    #[error(
        "the secret key is damaged: 64 hexadecimal digits must follow \"fedbo-secret-key-1 \"; restore the file from a copy, or enrol with a new key"
    )]
    Damaged,
}

const FILE_PREFIX: &str = "fedbo-secret-key-1 ";

impl SigningKey {
    /// Creates the key for a seed. Equal seeds give equal keys, so a seed must be secret and
    /// unpredictable.
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .expect("every 32 bytes are the seed of an Ed25519 key");
        let mut public = PublicKey([0; 32]);
        public.0.copy_from_slice(pair.public_key().as_ref()); // 32 bytes, as for every Ed25519 key
        let kept = Zeroizing::new(seed);
        seed.zeroize();
        Self { seed: kept, pair, public }
    }

    /// Returns the public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs a list of parts for a purpose, framed as in [`digest`].
    pub fn sign(&self, purpose: &str, parts: &[&[u8]]) -> Signature {
        let mut signature = Signature([0; 64]);
        let made = self.pair.sign(&framed(purpose, parts));
        signature.0.copy_from_slice(made.as_ref()); // 64 bytes, as for every Ed25519 signature
        signature
    }

    /// Derives 32 secret bytes for a different purpose. The bytes reveal nothing about the key.
    pub fn derived(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(digest(purpose, &[self.seed.as_ref()]).0)
    }

    /// Returns the line of a key file: `fedbo-secret-key-1`, a space and the seed in hexadecimal.
    pub fn to_file_text(&self) -> Zeroizing<String> {
        let digits = Zeroizing::new(HEXLOWER.encode(self.seed.as_ref()));
        let mut text = Zeroizing::new(String::with_capacity(FILE_PREFIX.len() + 65));
        text.push_str(FILE_PREFIX);
        text.push_str(&digits);
        text.push('\n');
        text
    }

    /// Parses the text of a key file, with or without a final line break.
    ///
    /// # Errors
    /// If `text` is not the content of a key file.
    pub fn from_file_text(text: &str) -> Result<Self, KeyUnreadable> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let digits = line.strip_prefix(FILE_PREFIX).ok_or(KeyUnreadable::OtherKind)?;
        let seed = from_hex("secret key", digits).map_err(|_| KeyUnreadable::Damaged)?;
        Ok(Self::from_seed(*Zeroizing::new(seed)))
    }
}

impl fmt::Debug for SigningKey {
    /// Prints the public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey {{ public: {} }}", self.public)
    }
}

impl PublicKey {
    /// Checks that this key signed these parts for this purpose.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(
        &self,
        purpose: &str,
        parts: &[&[u8]],
        signature: &Signature,
    ) -> Result<(), BadSignature> {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(&framed(purpose, parts), &signature.0)
            .map_err(|_| BadSignature)
    }
}

/// Returns the SHA-256 hash of the purpose and each part, each preceded by its length as eight
/// little-endian bytes.
///
/// The hash input is different for different purposes or lists of parts.
pub fn digest(purpose: &str, parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Digest(hasher.finalize().into())
}

/// Returns the SHA-256 hash of the bytes, without framing.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the bytes to sign, framed as in [`digest`].
fn framed(purpose: &str, parts: &[&[u8]]) -> Vec<u8> {
    let parts = || std::iter::once(purpose.as_bytes()).chain(parts.iter().copied());
    let mut bytes = Vec::with_capacity(parts().map(|part| 8 + part.len()).sum());
    for part in parts() {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}
