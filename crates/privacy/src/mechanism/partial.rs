//! Sums that are split between several collectors.
//!
//! Integer addition commutes, so a release has the same bytes whether one collector has all vectors
//! of a round or several collectors share them. A collector keeps vectors unread until it is told
//! which slots count, and then adds the vectors of those slots. A part contains no noise, so it is
//! as secret as the vectors. The sum of the parts starts from the noise, as in
//! [`Collecting::close`](super::Collecting::close).

use std::fmt;

use zeroize::Zeroizing;

use super::collecting::{Closed, VectorRefused};
use super::lattice::Lattice;
use super::release::{Header, Release, ReleaseShape};
use super::sealed::Sealed;
use super::settings::Mechanism;
use super::source::{NoiseError, NoiseSource};

/// The unread vectors of a round at one of several collectors, created by
/// [`Mechanism::begin_part`].
pub struct PartCollecting {
    lattice: Lattice,
    header: Header,
    n_numbers: usize,
    vectors: Sealed,
}

/// The sum of one collector's clipped vectors, in units of the lattice's spacing. The sum contains
/// no noise and is secret.
pub struct PartialSum {
    sums: Zeroizing<Vec<i64>>,
}

/// The reason a part is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartRefused {
    /// The part has the wrong length.
    #[error("a partial sum has {found} numbers, the release has {expected}")]
    WrongLength {
        /// The part's length.
        found: usize,
        /// The release's length.
        expected: usize,
    },
    /// A number is larger than the given number of clipped vectors can make it.
    #[error("a partial sum is larger than {n_vectors} clipped vectors can make it")]
    TooLarge {
        /// The number of vectors that the part claims to contain.
        n_vectors: usize,
    },
}

impl Mechanism {
    /// Returns true if every slot takes part in every round (q = 1). Then no coins are needed, and
    /// parts can be summed before the round's randomness is drawn.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.coin_rate().is_one()
    }

    /// Begins a collector's part of a round, for vectors with `n_numbers` ≤ M numbers; the
    /// remaining numbers are zero. `None` if coins decide participation, or the vectors are too
    /// long.
    #[must_use]
    pub fn begin_part(
        &self,
        (round, shape): (u64, ReleaseShape),
        n_numbers: u32,
    ) -> Option<PartCollecting> {
        let settings = self.settings();
        (self.has_parts() && n_numbers <= settings.n_features).then(|| PartCollecting {
            lattice: *self.lattice(),
            header: Header::of(self, round, shape),
            n_numbers: n_numbers as usize,
            vectors: Sealed::new(settings.n_slots, n_numbers),
        })
    }

    /// Closes a round that is split into parts: draws noise for every coordinate from a fresh key,
    /// and adds the parts to the noise. The release is bitwise equal to the one from
    /// [`Collecting::close`](super::Collecting::close) with the vectors of all parts.
    ///
    /// # Errors
    /// If the source provides no randomness. In that case the round has no release.
    ///
    /// # Panics
    /// If a part and the release differ in length; [`PartialSum::of`] refuses such parts.
    pub fn close_parts<S: NoiseSource>(
        &self,
        (round, shape): (u64, ReleaseShape),
        parts: impl IntoIterator<Item = PartialSum>,
        source: &mut S,
    ) -> Result<Closed<S::Kind>, NoiseError> {
        let header = Header::of(self, round, shape);
        let mut sums = self.noise_of_round(&header, source)?.0;
        for part in parts {
            assert_eq!(part.sums.len(), sums.len(), "a part of another length");
            for (sum, number) in sums.iter_mut().zip(part.sums.iter()) {
                *sum = sum.wrapping_add(*number); // cannot wrap: below 2^61 + N K < 2^63
            }
        }
        Ok(Closed { release: Release::new(header, sums), event: self.event() })
    }
}

impl PartCollecting {
    /// Accepts a slot's vector without reading it, like
    /// [`Collecting::receive`](super::Collecting::receive).
    ///
    /// # Errors
    /// For public reasons; see [`VectorRefused`].
    pub fn receive(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        self.vectors.keep(slot, vector)
    }

    /// Returns true if the slot's vector has arrived.
    #[must_use]
    pub fn has(&self, slot: u32) -> bool {
        self.vectors.by_slot.contains_key(&slot)
    }

    /// Returns the slots whose vectors have arrived, in ascending order.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.vectors.by_slot.keys().copied()
    }

    /// Reads, clips and sums the vectors of the slots that count. The steps are the same for every
    /// vector (INV-5). The vectors are kept, so that the part can be recomputed.
    ///
    /// # Panics
    /// If a clipped vector is still too long: the process stops before anything is sent (INV-7).
    #[must_use]
    pub fn add_up(&self, counts: impl Fn(u32) -> bool) -> PartialSum {
        let stride = self.header.n_features as usize;
        let mut sums = Zeroizing::new(vec![0; self.header.len()]);
        let mut scaled = Zeroizing::new(vec![0; self.n_numbers]);
        for (slot, vector) in self.vectors.by_slot.iter().filter(|(slot, _)| counts(**slot)) {
            let first = self.header.sum_of(*slot) as usize * stride;
            let sums = &mut sums[first..first + self.n_numbers];
            self.lattice.add(vector, -1, &mut scaled, sums);
        }
        PartialSum { sums }
    }
}

impl PartialSum {
    /// Creates a part of a round from the numbers received, which are the sum of the vectors of
    /// `n_vectors` slots.
    ///
    /// # Errors
    /// If the numbers cannot be the sum of `n_vectors` clipped vectors of this mechanism.
    pub fn of(
        mechanism: &Mechanism,
        (round, shape): (u64, ReleaseShape),
        numbers: Zeroizing<Vec<i64>>,
        n_vectors: usize,
    ) -> Result<Self, PartRefused> {
        let expected = Header::of(mechanism, round, shape).len();
        if numbers.len() != expected {
            return Err(PartRefused::WrongLength { found: numbers.len(), expected });
        }
        // INV-7: each of n clipped vectors is at most K in every coordinate.
        let bound = u128::from(mechanism.lattice().bound()) * n_vectors as u128;
        match numbers.iter().all(|number| u128::from(number.unsigned_abs()) <= bound) {
            true => Ok(Self { sums: numbers }),
            false => Err(PartRefused::TooLarge { n_vectors }),
        }
    }

    /// Returns the numbers, in the order of a release; secret.
    #[must_use]
    pub fn numbers(&self) -> &[i64] {
        &self.sums
    }
}

/// Shows only the round (INV-4).
impl fmt::Debug for PartCollecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartCollecting").field("round", &self.header.round).finish_non_exhaustive()
    }
}

/// Shows none of the numbers (INV-4).
impl fmt::Debug for PartialSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialSum").finish_non_exhaustive()
    }
}
