//! Encryption of shares for a server, and the servers' shared verification key.

use std::fmt;

use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _};
use sha2::{Digest as _, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::VerificationKey;

type Kem = X25519HkdfSha256;

const KEY: usize = 32;

/// Overhead of a seal in bytes: the encapsulated key and the tag.
const SEAL_SIZE: usize = KEY + 16;

/// A secret key that opens shares sealed for it (X25519). The helper has one key per round, and
/// erases it when the round closes (INV-27).
pub struct OpeningKey {
    secret: <Kem as hpke::Kem>::PrivateKey,
    public: [u8; KEY],
}

/// A server's secret keys, derived from 32 secret bytes. One key opens sealed shares, and the other
/// is used to derive the shared verification key.
pub struct SealingKey {
    open: OpeningKey,
    agree: StaticSecret,
}

/// The public halves of a server's keys. Agents must use them only if the server has signed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealingPublicKey {
    /// The public key that seals shares for the leader (X25519). Shares for the helper are sealed
    /// with its round key.
    pub seal: [u8; KEY],
    /// The public key used to derive the verification key (X25519).
    pub agree: [u8; KEY],
}

/// The error if a share could not be sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's key is not a valid X25519 key, so nothing can be sealed for it")]
pub struct NotSealed;

/// The error if a share could not be opened, because it was sealed for a different server, study,
/// round or slot, or was modified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the share was not sealed for this server, study, round and slot, or it was changed")]
pub struct NotOpened;

/// Returns the size in bytes of a sealed share.
#[must_use]
pub fn sealed_size(share_size: usize) -> usize {
    share_size + SEAL_SIZE
}

/// Seals a share with a public key (RFC 9180: base mode, X25519, HKDF-SHA256, ChaCha20-Poly1305).
/// `info` identifies the study, round, slot and server. `bound` is the additional authenticated
/// data.
///
/// # Errors
/// If the key is not valid.
pub fn seal(
    key: &[u8; KEY],
    info: &[u8],
    bound: &[u8],
    share: &[u8],
) -> Result<Vec<u8>, NotSealed> {
    let key = <Kem as hpke::Kem>::PublicKey::from_bytes(key).map_err(|_| NotSealed)?;
    let (encapsulated, sealed) = hpke::single_shot_seal::<ChaCha20Poly1305, HkdfSha256, Kem>(
        &OpModeS::Base,
        &key,
        info,
        share,
        bound,
    )
    .map_err(|_| NotSealed)?;
    let mut bytes = encapsulated.to_bytes().to_vec();
    bytes.extend(sealed);
    Ok(bytes)
}

impl OpeningKey {
    /// Derives the key of a round from 32 secret bytes.
    #[must_use]
    pub fn of_round(seed: &[u8; 32]) -> Self {
        Self::from_seed(b"fedbo secure sum, key of a round\0", seed)
    }

    fn from_seed(purpose: &[u8], seed: &[u8; 32]) -> Self {
        let (secret, public) = Kem::derive_keypair(&*derived(purpose, seed));
        Self { secret, public: public.to_bytes().into() }
    }

    /// Returns the public half, which seals shares.
    #[must_use]
    pub fn public(&self) -> [u8; KEY] {
        self.public
    }

    /// Opens a sealed share.
    ///
    /// # Errors
    /// If the share was sealed for another purpose, or was modified.
    pub fn open(
        &self,
        info: &[u8],
        bound: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NotOpened> {
        let (encapsulated, sealed) = sealed.split_at_checked(KEY).ok_or(NotOpened)?;
        let encapsulated = <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated);
        let opened = hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Base,
            &self.secret,
            &encapsulated.map_err(|_| NotOpened)?,
            info,
            sealed,
            bound,
        );
        opened.map(Zeroizing::new).map_err(|_| NotOpened)
    }
}

/// Derives a secret that is independent for each purpose.
fn derived(purpose: &[u8], seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut hasher = Sha256::new();
    hasher.update(purpose);
    hasher.update(seed);
    Zeroizing::new(hasher.finalize().into())
}

impl SealingKey {
    /// Derives the keys from 32 secret bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let open = OpeningKey::from_seed(b"fedbo secure sum, key of shares\0", seed);
        let agree = *derived(b"fedbo secure sum, key of the verification\0", seed);
        Self { open, agree: StaticSecret::from(agree) }
    }

    /// Returns the public halves of both keys.
    #[must_use]
    pub fn public(&self) -> SealingPublicKey {
        let agree = PublicKey::from(&self.agree).to_bytes();
        SealingPublicKey { seal: self.open.public, agree }
    }

    /// Opens a share.
    ///
    /// # Errors
    /// If the share was sealed for another purpose, or was modified.
    pub fn open(
        &self,
        info: &[u8],
        bound: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NotOpened> {
        self.open.open(info, bound, sealed)
    }

    /// Returns the key with which both servers verify a study's proofs, or `None` if the other
    /// server's key is not valid.
    ///
    /// The key is a hash of the servers' Diffie–Hellman secret (Diffie and Hellman 1976) and the
    /// study. The public text contains both public keys, so the verification key is fixed before
    /// any agent joins. No agent knows the key.
    #[must_use]
    pub fn verification_key(
        &self,
        other: &SealingPublicKey,
        study: &[u8],
    ) -> Option<VerificationKey> {
        let shared = self.agree.diffie_hellman(&PublicKey::from(other.agree));
        if !shared.was_contributory() {
            return None;
        }
        let mut hasher = Sha256::new();
        hasher.update(b"fedbo secure sum, verification key\0");
        hasher.update(shared.as_bytes());
        hasher.update(study);
        Some(VerificationKey(Zeroizing::new(hasher.finalize().into())))
    }
}

impl fmt::Debug for SealingKey {
    /// Prints the public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.public().fmt(f)
    }
}

impl fmt::Debug for OpeningKey {
    /// Prints only the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpeningKey")
    }
}
