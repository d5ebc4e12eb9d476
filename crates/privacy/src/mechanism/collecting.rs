//! A round of the mechanism: vectors are kept unread until it closes; then coins and noise, then the vectors, then the release.

use std::fmt;

use zeroize::Zeroizing;

use super::bits::{Bits, Purpose};
use super::coins::Coins;
use super::release::{Header, Release, ReleaseShape};
use super::sealed::Sealed;
use super::settings::Mechanism;
use super::source::{NoiseError, NoiseSource};
use crate::accounting::PrivacyEvent;

/// The reason why a vector was not taken. Each reason is public: it says nothing of coordinates, coins or other slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorRefused {
    /// No such slot.
    #[error("slot {slot} is not on the roster, whose slots are 0 to {last}")]
    UnknownSlot {
        /// The slot.
        slot: u32,
        /// The last one.
        last: u32,
    },
    /// Another number of features.
    #[error("slot {slot}: the vector has {found} features, the mechanism uses {expected}")]
    WrongLength {
        /// The slot.
        slot: u32,
        /// M.
        expected: u32,
        /// The number of features that came.
        found: usize,
    },
    /// The slot has had its vector. The answer is the same whatever the second holds, and whoever answers agents repeats
    /// what the first was told (INV-6).
    #[error("slot {slot} has sent its vector of this round; the first one counts")]
    Repeated {
        /// The slot.
        slot: u32,
    },
}

/// A round that takes vectors, and keeps them unread until it closes. It holds no key, no noise and no coin: where a machine is
/// copied as it stands and goes on twice, each of the two draws its own.
pub struct Collecting {
    mechanism: Mechanism,
    round: u64,
    shape: ReleaseShape,
    vectors: Sealed,
}

/// The result of a round: the sums that it hands out, and what they cost.
#[derive(Debug)]
#[must_use = "a release has been paid for when it is made"]
pub struct Closed<K> {
    /// The sums.
    pub release: Release<K>,
    /// The privacy event that they cost.
    pub event: PrivacyEvent,
}

impl Mechanism {
    /// Begins a round. Nothing is drawn yet.
    pub fn begin(&self, round: u64, shape: ReleaseShape) -> Collecting {
        let settings = self.settings();
        Collecting {
            mechanism: self.clone(),
            round,
            shape,
            vectors: Sealed::new(settings.n_slots, settings.n_features),
        }
    }

    /// Draws a round's randomness from a fresh key: noise for every coordinate, from which its sums start, and a coin for every slot, of two
    /// independent streams (INV-8).
    pub(super) fn noise_of_round<S: NoiseSource>(
        &self,
        header: &Header,
        source: &mut S,
    ) -> Result<(Vec<i64>, Coins), NoiseError> {
        let key = source.key(header.round)?;
        let mut noise = Bits::new(&key, Purpose::Noise);
        let mut tosses = Bits::new(&key, Purpose::Coins);
        let law = self.noise();
        let sums = (0..header.n_coordinates()).map(|_| law.sample(&mut noise)).collect();
        let coins = Coins::toss(self.coin_rate(), self.settings().n_slots, &mut tosses);
        source.count(noise.n_words() + tosses.n_words());
        Ok((sums, coins))
    }
}

impl Collecting {
    /// Takes the vector of a slot, without reading it. One with a coordinate that is not finite is taken like any other, and
    /// counts as zero.
    ///
    /// # Errors
    /// For reasons that are public: see [`VectorRefused`]. The round goes on as if the vector had not come.
    pub fn receive(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        self.vectors.keep(slot, vector)
    }

    /// Ends the round, also one to which nobody came (INV-3): draws noise for every coordinate and a coin for every slot from two
    /// independent streams of a fresh key, then reads the vectors in the order of slots, clips each and adds it to its sum if the
    /// slot's coin says so (INV-8).
    ///
    /// The sums start from the noise, so at no time is there a sum without it. Cost O(P M + N M), for each vector the same whatever
    /// is in it and however its coin fell: nothing branches on either (INV-5). Whatever is secret is cleared on the way.
    ///
    /// # Errors
    /// If the source has no randomness to give. Nothing has been read then, and the round has no release.
    pub fn close<S: NoiseSource>(self, source: &mut S) -> Result<Closed<S::Kind>, NoiseError> {
        let Self { mechanism, round, shape, vectors } = self;
        let header = Header::of(&mechanism, round, shape);
        let (mut sums, coins) = mechanism.noise_of_round(&header, source)?;
        let n_features = mechanism.settings().n_features as usize;
        let mut scaled = Zeroizing::new(vec![0; n_features]);
        for (slot, vector) in vectors.by_slot {
            let first = header.sum_of(slot) as usize * n_features;
            let sums = &mut sums[first..first + n_features];
            mechanism.lattice().add(&vector, coins.mask(slot), &mut scaled, sums);
        }
        Ok(Closed { release: Release::new(header, sums), event: mechanism.event() })
    }

    /// The round's number.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The shape of its release.
    pub fn shape(&self) -> ReleaseShape {
        self.shape
    }
}

/// The round and its shape; nothing of vectors or counts (INV-4).
impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting")
            .field("round", &self.round)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
