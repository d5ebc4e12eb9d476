//! Encryption of shares for one server, and the key that both servers verify proofs with.

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

/// Bytes that a seal adds: the encapsulated key and the tag.
const SEAL_SIZE: usize = KEY + 16;

/// A server's secret keys, derived from 32 secret bytes: one to open what is sealed for it, one for the common verification key.
pub struct SealingKey {
    open: <Kem as hpke::Kem>::PrivateKey,
    agree: StaticSecret,
    public: SealingPublicKey,
}

/// The public halves of a server's keys. They are of use to agents where the server signed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealingPublicKey {
    /// The key to which shares are sealed (X25519).
    pub seal: [u8; KEY],
    /// The key for the verification key (X25519).
    pub agree: [u8; KEY],
}

/// A share that was not sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's key is none of X25519, so nothing can be sealed for it")]
pub struct NotSealed;

/// A share that a server cannot open: it was made for another server, study, round or slot, or it was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the share was not sealed for this server, study, round and slot, or it was changed")]
pub struct NotOpened;

impl SealingPublicKey {
    /// Bytes of a sealed share.
    #[must_use]
    pub fn sealed_size(share_size: usize) -> usize {
        share_size + SEAL_SIZE
    }

    /// Seals a share (RFC 9180: base mode, X25519, HKDF-SHA256, ChaCha20-Poly1305). `info` names study, round, slot and server; `bound` is
    /// authenticated with it.
    ///
    /// # Errors
    /// If the key is none.
    pub fn seal(&self, info: &[u8], bound: &[u8], share: &[u8]) -> Result<Vec<u8>, NotSealed> {
        let key = <Kem as hpke::Kem>::PublicKey::from_bytes(&self.seal).map_err(|_| NotSealed)?;
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
}

impl SealingKey {
    /// The keys that follow from 32 secret bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let derived = |purpose: &[u8]| {
            let mut hasher = Sha256::new();
            hasher.update(purpose);
            hasher.update(seed);
            Zeroizing::new(<[u8; 32]>::from(hasher.finalize()))
        };
        let (open, seal) = Kem::derive_keypair(&*derived(b"fedbo secure sum, key of shares\0"));
        let agree = StaticSecret::from(*derived(b"fedbo secure sum, key of the verification\0"));
        let public = SealingPublicKey {
            seal: seal.to_bytes().into(),
            agree: PublicKey::from(&agree).to_bytes(),
        };
        Self { open, agree, public }
    }

    /// The public halves.
    #[must_use]
    pub fn public(&self) -> SealingPublicKey {
        self.public
    }

    /// Opens a share.
    ///
    /// # Errors
    /// If it was sealed for something else, or was changed.
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
            &self.open,
            &encapsulated.map_err(|_| NotOpened)?,
            info,
            sealed,
            bound,
        );
        opened.map(Zeroizing::new).map_err(|_| NotOpened)
    }

    /// The key with which both servers verify the proofs of a study: a hash of what both can compute of their keys (Diffie and Hellman
    /// 1976) and of the study. The public text, which names both keys, fixes it before any agent joins, and no agent knows it.
    /// None if the other key is not of use.
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
    /// The public half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.public.fmt(f)
    }
}
