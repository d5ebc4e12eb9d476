//! A round of the mechanism: coins and noise first, then vectors, then the release.

use std::fmt;
use std::marker::PhantomData;

use zeroize::Zeroize;

use super::bits::{Bits, Purpose};
use super::coins::Coins;
use super::lattice::Lattice;
use super::release::{Header, Release, ReleaseShape};
use super::settings::Mechanism;
use super::source::{NoiseError, NoiseSource};
use crate::accounting::PrivacyEvent;

/// Why a vector was not taken. Each reason is public: it says nothing of coordinates, coins or other slots.
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
        /// What came.
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

/// A round that takes vectors. Holds sums and two bits a slot; no vector outlives the call that brought it (INV-16).
///
/// The sums start from the noise, so at no time is there a sum without it. Whatever is secret is cleared when this is
/// dropped.
pub struct Collecting<K> {
    header: Header,
    n_slots: u32,
    lattice: Lattice,
    event: PrivacyEvent,
    coins: Coins,
    /// One bit a slot: its vector has come.
    seen: Vec<u64>,
    sums: Vec<i64>,
    scaled: Vec<i32>,
    kind: PhantomData<fn() -> K>,
}

/// What a round hands out: the sums, and what they cost.
#[derive(Debug)]
#[must_use = "a release has been paid for when it is made"]
pub struct Closed<K> {
    /// The sums.
    pub release: Release<K>,
    /// What they cost.
    pub event: PrivacyEvent,
}

impl Mechanism {
    /// Begins a round: draws noise for every coordinate and a coin for every slot from two independent streams of a fresh
    /// key, before any vector is read (INV-8).
    ///
    /// # Errors
    /// If the source has no randomness to give.
    pub fn begin<S: NoiseSource>(
        &self,
        round: u64,
        shape: ReleaseShape,
        source: &mut S,
    ) -> Result<Collecting<S::Kind>, NoiseError> {
        let header = Header::of(self, round, shape);
        let key = source.key(round)?;
        let mut noise = Bits::new(&key, Purpose::Noise);
        let mut tosses = Bits::new(&key, Purpose::Coins);
        let law = self.noise();
        let sums = (0..header.n_coordinates())
            .map(|_| law.sample(&mut noise))
            .collect();
        let n_slots = self.settings().n_slots;
        let coins = Coins::toss(self.coin_rate(), n_slots, &mut tosses);
        source.count(noise.n_words() + tosses.n_words());
        Ok(Collecting {
            header,
            n_slots,
            lattice: *self.lattice(),
            event: self.event(),
            coins,
            seen: vec![0; n_slots.div_ceil(64) as usize],
            sums,
            scaled: vec![0; self.settings().n_features as usize],
            kind: PhantomData,
        })
    }
}

impl<K> Collecting<K> {
    /// Takes the vector of a slot: clips it, and adds it to its sum if the slot's coin says so.
    ///
    /// Cost O(M), the same for every vector and coin: nothing branches on either (INV-5). A vector with a coordinate that
    /// is not finite is taken like any other and counts as zero.
    ///
    /// # Errors
    /// For reasons that are public: see [`VectorRefused`]. The round goes on as if the vector had not come.
    pub fn receive(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        if slot >= self.n_slots {
            return Err(VectorRefused::UnknownSlot {
                slot,
                last: self.n_slots - 1,
            });
        }
        if vector.len() != self.scaled.len() {
            return Err(VectorRefused::WrongLength {
                slot,
                expected: self.header.n_features,
                found: vector.len(),
            });
        }
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.seen[word] & bit != 0 {
            return Err(VectorRefused::Repeated { slot });
        }
        self.seen[word] |= bit;
        let region = match self.header.shape {
            ReleaseShape::Regions => slot % self.header.n_regions, // INV-11
            ReleaseShape::Total => 0,
        };
        let first = region as usize * self.scaled.len();
        let sums = &mut self.sums[first..first + self.scaled.len()];
        self.lattice
            .add(vector, self.coins.mask(slot), &mut self.scaled, sums);
        Ok(())
    }

    /// Ends the round: the sums become the release, also when nobody came (INV-3). Nothing here can fail.
    pub fn close(mut self) -> Closed<K> {
        Closed {
            release: Release::new(self.header.clone(), std::mem::take(&mut self.sums)),
            event: self.event,
        }
    }

    /// The round's number.
    pub fn round(&self) -> u64 {
        self.header.round
    }

    /// The shape of its release.
    pub fn shape(&self) -> ReleaseShape {
        self.header.shape
    }
}

impl<K> Drop for Collecting<K> {
    fn drop(&mut self) {
        self.sums.zeroize();
        self.scaled.zeroize();
        self.seen.zeroize();
    }
}

/// The round and its shape; nothing of vectors, coins or counts (INV-4).
impl<K> fmt::Debug for Collecting<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting")
            .field("round", &self.header.round)
            .field("shape", &self.header.shape)
            .finish_non_exhaustive()
    }
}
