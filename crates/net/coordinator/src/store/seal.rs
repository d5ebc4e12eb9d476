//! Vectors are sealed before they are stored: the database never has the key (INV-16).

use std::fmt;

use fedbo_wire::{Digest, SigningKey, digest};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use zeroize::{Zeroize as _, Zeroizing};

/// Seals vectors with ChaCha20-Poly1305 under a key that is derived from the coordinator's secret key, with a fresh random
/// nonce each; study, round and slot are authenticated with them, so none passes for another.
pub struct Seal {
    aead: LessSafeKey,
    marks: hmac::Key,
}

/// An error in sealing or reading a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// No nonce can be drawn.
    #[error("the system has no randomness to give")]
    Randomness,
    /// It was sealed under another key, for another place, or was changed.
    #[error(
        "a vector in the database was sealed by a coordinator with another key, or was changed; all replicas must have the same \
         --key file"
    )]
    Broken,
}

/// The identity of a vector: the study by its configuration, the round, the slot.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// [`fedbo_wire::config_digest`] of the study.
    pub config: Digest,
    /// The round.
    pub round: u64,
    /// The slot.
    pub slot: u32,
}

impl Place {
    fn bytes(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..32].copy_from_slice(&self.config.0);
        bytes[32..40].copy_from_slice(&self.round.to_le_bytes());
        bytes[40..].copy_from_slice(&self.slot.to_le_bytes());
        bytes
    }
}

impl fmt::Debug for Seal {
    /// Shows nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The seal of all replicas that have this key.
    #[must_use]
    pub fn of(key: &SigningKey) -> Self {
        let secret = key.to_file_text();
        let derive = |purpose: &str| Zeroizing::new(digest(purpose, &[secret.as_bytes()]).0);
        let inbox = derive("fedbo inbox key, version 1");
        let marks = derive("fedbo inbox marks, version 1");
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, &inbox[..])
            .expect("a key of this cipher has 32 bytes");
        Self {
            aead: LessSafeKey::new(unbound),
            marks: hmac::Key::new(hmac::HMAC_SHA256, &marks[..]),
        }
    }

    /// Seals weights: the nonce, the sealed numbers, the tag.
    ///
    /// # Errors
    /// [`SealError::Randomness`].
    pub fn seal(&self, place: &Place, weights: &[f64]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Randomness)?;
        let mut sealed = Vec::with_capacity(NONCE_LEN + 8 * weights.len() + 16);
        sealed.extend(nonce);
        for weight in weights {
            sealed.extend(weight.to_le_bytes());
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(place.bytes());
        let (_, numbers) = sealed.split_at_mut(NONCE_LEN);
        let made = self.aead.seal_in_place_separate_tag(nonce, aad, numbers);
        let Ok(tag) = made else {
            sealed.zeroize();
            return Err(SealError::Broken);
        };
        sealed.extend(tag.as_ref());
        Ok(sealed)
    }

    /// The weights that were sealed.
    ///
    /// # Errors
    /// [`SealError::Broken`].
    pub fn open(&self, place: &Place, sealed: &[u8]) -> Result<Vec<f64>, SealError> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError::Broken)?;
        let mut rest = Zeroizing::new(rest.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.aead.open_in_place(nonce, Aad::from(place.bytes()), &mut rest);
        let opened = opened.map_err(|_| SealError::Broken)?;
        let numbers = opened.chunks_exact(8);
        if !numbers.remainder().is_empty() {
            return Err(SealError::Broken);
        }
        let weight = |bytes: &[u8]| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            f64::from_le_bytes(number)
        };
        Ok(numbers.map(weight).collect())
    }

    /// A keyed hash by which equal vectors of a place are told from different ones.
    #[must_use]
    pub fn mark(&self, place: &Place, weights: &[f64]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.marks);
        context.update(&place.bytes());
        for weight in weights {
            context.update(&weight.to_le_bytes());
        }
        context.sign().as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { config: Digest([7; 32]), round: 3, slot: 5 }
    }

    fn bits(weights: &[f64]) -> Vec<u64> {
        weights.iter().map(|weight| weight.to_bits()).collect()
    }

    /// Every bit comes back, also of what is no number; nowhere else, under no other key, and not after a change.
    #[test]
    fn a_vector_is_read_where_it_was_sealed_for_and_nowhere_else() {
        let seal = Seal::of(&SigningKey::from_seed([1; 32]));
        let weights = [1.5, -0.0, f64::NAN, f64::NEG_INFINITY, 1e-310];
        let sealed = seal.seal(&place(), &weights).unwrap();
        let same = Seal::of(&SigningKey::from_seed([1; 32]));
        assert_eq!(bits(&same.open(&place(), &sealed).unwrap()), bits(&weights));
        let other = Seal::of(&SigningKey::from_seed([2; 32]));
        assert_eq!(other.open(&place(), &sealed), Err(SealError::Broken));
        for elsewhere in [
            Place { slot: 6, ..place() },
            Place { round: 4, ..place() },
            Place { config: Digest([8; 32]), ..place() },
        ] {
            assert_eq!(seal.open(&elsewhere, &sealed), Err(SealError::Broken));
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open(&place(), &changed), Err(SealError::Broken));
            assert_eq!(seal.open(&place(), &sealed[..at]), Err(SealError::Broken));
        }
    }

    #[test]
    fn nothing_of_a_vector_shows_and_no_two_seals_are_alike() {
        let seal = Seal::of(&SigningKey::from_seed([1; 32]));
        let weights = [1.25; 4];
        let [a, b] = [(); 2].map(|()| seal.seal(&place(), &weights).unwrap());
        assert_ne!(a, b);
        let plain = 1.25_f64.to_le_bytes();
        assert!(!a.windows(8).any(|window| window == plain));
        assert_eq!(seal.mark(&place(), &weights), seal.mark(&place(), &[1.25; 4]));
        assert_ne!(seal.mark(&place(), &weights), seal.mark(&place(), &[1.0; 4]));
        let other = Seal::of(&SigningKey::from_seed([2; 32]));
        assert_ne!(seal.mark(&place(), &weights), other.mark(&place(), &weights));
    }
}
