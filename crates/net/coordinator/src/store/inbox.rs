//! Vectors between the replica that took them and the one that plays the round.

use super::{Lead, StoreError, StudyKey};

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

/// The inbox in which replicas leave vectors for the leader. Its content ends with the round, and with a crash of the
/// database: then agents are asked for it again.
pub trait Inbox: Send + Sync {
    /// Takes a vector if its round is open, in one transaction; the first of a slot and round counts (INV-6). A repeat is
    /// answered as the first was, also after the round.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn post(&self, posting: &Posting<'_>) -> Result<Posted, StoreError>;

    /// Returns true if a vector of this slot and round would be taken, and has not come.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn awaits(&self, study: StudyKey, slot: u32, round: u64) -> Result<bool, StoreError>;

    /// The vectors of a round but for those of `known` slots.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn arrived(
        &self,
        study: StudyKey,
        round: u64,
        known: &[u32],
    ) -> Result<Vec<Arrived>, StoreError>;

    /// Takes no more vectors of the round that is being played. What was taken before can be read when this returns.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn shut(&self, lead: &Lead) -> Result<(), StoreError>;

    /// Deletes the vectors of all rounds up to this one, and takes no more of them (INV-16).
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError>;

    /// A number that is another one after a crash of the database has emptied the inbox.
    ///
    /// # Errors
    /// If the store cannot be used.
    fn epoch(&self) -> Result<i64, StoreError>;
}
