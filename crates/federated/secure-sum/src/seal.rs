//! Encryption of shares for a server, and the servers' common key for the verification of proofs.

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

/// Number of bytes that a seal adds: the encapsulated key and the tag.
const SEAL_SIZE: usize = KEY + 16;

/// A secret key that opens shares sealed for it (X25519). The helper has one for each round, and
/// erases it when the round closes (INV-27).
pub struct OpeningKey {
    secret: <Kem as hpke::Kem>::PrivateKey,
    public: [u8; KEY],
}

/// A server's secret keys, derived from 32 secret bytes: one opens sealed shares, the other yields
/// the common verification key.
pub struct SealingKey {
    open: OpeningKey,
    agree: StaticSecret,
}

/// The public halves of a server's keys. Agents may only use them if the server has signed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealingPublicKey {
    /// The public key for sealing shares for the leader (X25519). Shares for the helper are sealed
    /// with its key of the round.
    pub seal: [u8; KEY],
    /// The public key for deriving the verification key (X25519).
    pub agree: [u8; KEY],
}

/// A share could not be sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's key is not a key of X25519, so nothing can be sealed for it")]
pub struct NotSealed;

/// A server cannot open a share: it was sealed for another server, study, round or slot, or was
/// modified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the share was not sealed for this server, study, round and slot, or it was changed")]
pub struct NotOpened;

/// Size in bytes of a sealed share.
#[must_use]
pub fn sealed_size(share_size: usize) -> usize {
    share_size + SEAL_SIZE
}

/// Seals a share for a key (RFC 9180: base mode, X25519, HKDF-SHA256, ChaCha20-Poly1305). `info`
/// names study, round, slot and server; `bound` is the authenticated additional data.
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
    /// The key of a round, derived from 32 secret bytes.
    #[must_use]
    pub fn of_round(seed: &[u8; 32]) -> Self {
        Self::from_seed(b"fedbo secure sum, key of a round\0", seed)
    }

    fn from_seed(purpose: &[u8], seed: &[u8; 32]) -> Self {
        let (secret, public) = Kem::derive_keypair(&*derived(purpose, seed));
        Self { secret, public: public.to_bytes().into() }
    }

    /// The public half, for sealing shares.
    #[must_use]
    pub fn public(&self) -> [u8; KEY] {
        self.public
    }

    /// Opens a share.
    ///
    /// # Errors
    /// If it was sealed for another purpose, or was modified.
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

/// Derives a separate secret for each purpose.
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

    /// The public halves.
    #[must_use]
    pub fn public(&self) -> SealingPublicKey {
        let agree = PublicKey::from(&self.agree).to_bytes();
        SealingPublicKey { seal: self.open.public, agree }
    }

    /// Opens a share.
    ///
    /// # Errors
    /// If it was sealed for another purpose, or was modified.
    pub fn open(
        &self,
        info: &[u8],
        bound: &[u8],
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NotOpened> {
        self.open.open(info, bound, sealed)
    }

    /// The key with which both servers verify the proofs of a study. `None` if the other key is not
    /// valid.
    ///
    /// It is a hash of the servers' Diffie–Hellman secret (Diffie and Hellman 1976) and the study.
    /// The public text names both public keys and thereby fixes it before any agent joins. No agent
    /// knows it.
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
    /// Prints the type only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpeningKey")
    }
}
