//! Vectors in transit from the replica that received them to the leader.

use super::StudyKey;

/// A vector in transit, sealed against readers of the database (INV-16).
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a> {
    /// The study.
    pub study: StudyKey,
    /// Round of the vector.
    pub round: u64,
    /// Slot of the sender.
    pub slot: u32,
    /// Keyed hash that distinguishes a repeat from a different vector. `None` if the difference
    /// does not matter.
    pub mark: Option<&'a [u8]>,
    /// Sealed vector.
    pub sealed: &'a [u8],
}

/// Outcome of posting a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The vector, or an earlier one from this slot for this round, is stored (INV-6).
    Taken,
    /// An earlier vector from this slot for this round has a different mark.
    Conflict,
    /// The round has not begun.
    Early {
        /// Current round.
        current: u64,
    },
    /// No round has begun.
    BeforeTheFirst,
    /// The round accepts no more vectors.
    Late,
}

/// A vector in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Slot of the sender.
    pub slot: u32,
    /// Sealed vector, as it was posted.
    pub sealed: Vec<u8>,
}
