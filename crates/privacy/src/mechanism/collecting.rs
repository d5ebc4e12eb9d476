//! A round of the mechanism. Vectors stay unread until the round closes; then coins and noise are
//! drawn, and the vectors are added.

use std::fmt;

use zeroize::Zeroizing;

use super::bits::{Bits, Purpose};
use super::coins::Coins;
use super::release::{Header, Release, ReleaseShape};
use super::sealed::Sealed;
use super::settings::Mechanism;
use super::source::{NoiseError, NoiseSource};
use crate::accounting::PrivacyEvent;

/// The reason a vector is refused. Each reason is public and reveals nothing about
/// coordinates, coins or other slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorRefused {
    /// The slot is not on the roster.
    #[error("slot {slot} is not on the roster of slots 0 to {last}")]
    UnknownSlot {
        /// The slot.
        slot: u32,
        /// The last slot on the roster.
        last: u32,
    },
    /// The vector has the wrong number of features.
    #[error("slot {slot}: the vector has {found} features, the mechanism uses {expected}")]
    WrongLength {
        /// The slot.
        slot: u32,
        /// M, the number of features of the mechanism.
        expected: u32,
        /// The number of features received.
        found: usize,
    },
    /// The slot has already sent its vector. The error does not depend on the content of the second
    /// vector, and servers repeat their response to the first one (INV-6).
    #[error("slot {slot} has already sent its vector of this round; the first one counts")]
    Repeated {
        /// The slot.
        slot: u32,
    },
}

/// A round that accepts vectors and keeps them unread until it closes. The round holds no key,
/// noise or coins: if a machine is cloned during the round, each copy draws its own.
pub struct Collecting {
    mechanism: Mechanism,
    round: u64,
    shape: ReleaseShape,
    vectors: Sealed,
}

/// The result of a round: the released sums and their privacy cost.
#[derive(Debug)]
#[must_use = "a release has been paid for when it is made"]
pub struct Closed<K> {
    /// The released sums.
    pub release: Release<K>,
    /// The privacy event of the release.
    pub event: PrivacyEvent,
}

impl Mechanism {
    /// Begins a round without drawing any randomness yet.
    pub fn begin(&self, round: u64, shape: ReleaseShape) -> Collecting {
        let settings = self.settings();
        Collecting {
            mechanism: self.clone(),
            round,
            shape,
            vectors: Sealed::new(settings.n_slots, settings.n_features),
        }
    }

    /// Draws a round's randomness from two independent streams of a fresh key: the noise for every
    /// coordinate, with which the sums start, and a coin for every slot (INV-8).
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
    /// Accepts a slot's vector without reading it. A vector with a non-finite coordinate is also
    /// accepted, and treated as zero.
    ///
    /// # Errors
    /// For public reasons; see [`VectorRefused`]. The round continues without the vector.
    pub fn receive(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        self.vectors.keep(slot, vector)
    }

    /// Closes the round, even if no vector has arrived (INV-3). Draws noise for every coordinate
    /// and a coin for every slot from two independent streams of a fresh key. Then reads the
    /// vectors in slot order, clips each vector, and adds it to its sum if the slot's coin selects
    /// it (INV-8).
    ///
    /// The sums start from the noise, so a sum without noise never exists. The cost is
    /// O(P M + N M), and each vector costs the same regardless of its content and coin: no branch
    /// depends on either (INV-5). Each vector is cleared after it was added, and the other secrets
    /// before this returns.
    ///
    /// # Errors
    /// If the source provides no randomness. In that case no vector has been read, and the round
    /// has no release.
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

    /// Returns the round's number.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns the shape of the release.
    pub fn shape(&self) -> ReleaseShape {
        self.shape
    }
}

/// Shows the round and its shape, but nothing about vectors or counts (INV-4).
impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting")
            .field("round", &self.round)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
