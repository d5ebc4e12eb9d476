//! Vectors between the replica that took them and the one that plays the round.

use super::StudyKey;

/// A vector on its way: sealed, so that who reads the database does not read it (INV-16).
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a> {
    /// The study.
    pub study: StudyKey,
    /// The round that it is for.
    pub round: u64,
    /// The slot of its sender.
    pub slot: u32,
    /// A keyed hash by which a repeat is told from another vector; none where it makes no difference.
    pub mark: Option<&'a [u8]>,
    /// The vector.
    pub sealed: &'a [u8],
}

/// The outcome of posting a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is there, or one of this slot and round was before it (INV-6).
    Taken,
    /// Another one with another mark was before it.
    Conflict,
    /// Its round is still to come.
    Early {
        /// The round that is being played.
        current: u64,
    },
    /// No round has begun.
    BeforeTheFirst,
    /// Its round takes no more.
    Late,
}

/// A vector that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The slot of its sender.
    pub slot: u32,
    /// As it was posted.
    pub sealed: Vec<u8>,
}
