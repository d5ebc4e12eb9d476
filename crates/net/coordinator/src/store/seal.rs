//! Encryption of vectors before they are stored. The database never has the key (INV-16).

use std::fmt;

use fedbo_wire::{Digest, SigningKey, digest};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use zeroize::{Zeroize as _, Zeroizing};

use super::ShardId;

/// Seals vectors with ChaCha20-Poly1305.
///
/// The key is derived from the coordinator's secret key, and each vector gets a new random nonce.
/// Study, round and owner are authenticated as associated data, so one sealed vector cannot be
/// substituted for another.
pub struct Seal {
    aead: LessSafeKey,
    marks: hmac::Key,
}

/// Error while sealing or opening a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system provides no random numbers for a nonce.
    #[error("cannot get random numbers from the system")]
    Randomness,
    /// The data was sealed with a different key or for a different place, or was modified.
    #[error(
        "a vector in the database was sealed by a coordinator with another key, or was changed; \
         all replicas must use the same --key file"
    )]
    Broken,
}

/// Identity of a vector or a sum: its study, round and owner.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// [`fedbo_wire::config_digest`] of the study.
    pub config: Digest,
    /// The round.
    pub round: u64,
    /// Slot or shard to which the numbers belong.
    pub owner: Owner,
}

/// Owner of sealed numbers.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    /// A vector from this slot.
    Slot(u32),
    /// A sum from this shard, in a round that began at this time, over the slots with this digest.
    /// A sum over slots other than the ones chosen by the leader cannot be opened (INV-29).
    Shard(ShardId, u64, Digest),
}

impl Place {
    /// Encodes the place. The length differs between slots and shards.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.config.0.to_vec();
        bytes.extend(self.round.to_le_bytes());
        match self.owner {
            Owner::Slot(slot) => bytes.extend(slot.to_le_bytes()),
            Owner::Shard(shard, began_ms, slots) => {
                bytes.extend(shard.0.to_le_bytes());
                bytes.extend(began_ms.to_le_bytes());
                bytes.extend(slots.0);
            }
        }
        bytes
    }
}

impl fmt::Debug for Seal {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// Derives the sealing keys. All replicas with this key derive the same sealing keys.
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

    /// Seals weights. The result is the nonce, the ciphertext and the tag.
    ///
    /// # Errors
    /// [`SealError::Randomness`].
    pub fn seal(&self, place: &Place, weights: &[f64]) -> Result<Vec<u8>, SealError> {
        self.seal_words(place, weights.iter().map(|weight| weight.to_bits()))
    }

    /// Seals a sum, in the same format as [`Self::seal`].
    ///
    /// # Errors
    /// [`SealError::Randomness`].
    pub fn seal_sum(&self, place: &Place, sum: &[i64]) -> Result<Vec<u8>, SealError> {
        self.seal_words(place, sum.iter().map(|number| number.cast_unsigned()))
    }

    fn seal_words(
        &self,
        place: &Place,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::Randomness)?;
        let mut sealed = Vec::with_capacity(NONCE_LEN + 8 * words.len() + 16);
        sealed.extend(nonce);
        for word in words {
            sealed.extend(word.to_le_bytes());
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

    /// Opens sealed weights.
    ///
    /// # Errors
    /// [`SealError::Broken`].
    pub fn open(&self, place: &Place, sealed: &[u8]) -> Result<Vec<f64>, SealError> {
        self.open_words(place, sealed, f64::from_bits)
    }

    /// Opens a sealed sum.
    ///
    /// # Errors
    /// [`SealError::Broken`].
    pub fn open_sum(&self, place: &Place, sealed: &[u8]) -> Result<Vec<i64>, SealError> {
        self.open_words(place, sealed, u64::cast_signed)
    }

    fn open_words<N>(
        &self,
        place: &Place,
        sealed: &[u8],
        number: impl Fn(u64) -> N,
    ) -> Result<Vec<N>, SealError> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError::Broken)?;
        let mut rest = Zeroizing::new(rest.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.aead.open_in_place(nonce, Aad::from(place.bytes()), &mut rest);
        let opened = opened.map_err(|_| SealError::Broken)?;
        let (words, rest) = opened.as_chunks();
        if !rest.is_empty() {
            return Err(SealError::Broken);
        }
        Ok(words.iter().map(|bytes| number(u64::from_le_bytes(*bytes))).collect())
    }

    /// Returns a keyed hash that distinguishes different vectors for the same place.
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
        Place { config: Digest([7; 32]), round: 3, owner: Owner::Slot(5) }
    }

    fn bits(weights: &[f64]) -> Vec<u64> {
        weights.iter().map(|weight| weight.to_bits()).collect()
    }

    /// Opening restores every bit, including those of NaN and infinities. Opening fails for a
    /// different place, a different key or modified data.
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
            Place { owner: Owner::Slot(6), ..place() },
            Place { owner: Owner::Shard(ShardId(5), 0, Digest([0; 32])), ..place() },
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
    fn a_sum_is_read_where_it_was_sealed_for_and_nowhere_else() {
        let seal = Seal::of(&SigningKey::from_seed([1; 32]));
        let over = |slots| {
            let owner = Owner::Shard(ShardId(-4), 9, Digest([slots; 32]));
            Place { owner, ..place() }
        };
        let of = |shard, began_ms| {
            let owner = Owner::Shard(ShardId(shard), began_ms, Digest([1; 32]));
            Place { owner, ..place() }
        };
        let sum = [0, 1, -1, i64::MAX, i64::MIN];
        let sealed = seal.seal_sum(&of(-4, 9), &sum).unwrap();
        assert_eq!(seal.open_sum(&of(-4, 9), &sealed).unwrap(), sum);
        for elsewhere in [of(-4, 8), of(4, 9), over(2), place(), Place { round: 4, ..of(-4, 9) }] {
            assert_eq!(seal.open_sum(&elsewhere, &sealed), Err(SealError::Broken));
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
