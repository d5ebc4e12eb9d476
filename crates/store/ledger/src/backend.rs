//! Access to a ledger's rows in a file or a database, for [`crate::Ledger`] and for verification.

use std::fmt;

use crate::chain::{Entry, Hash};
use crate::{Head, LedgerError};

/// The key of an entry lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Seq(i64),
    Round(i64),
}

/// Storage of one ledger that is open for writing.
///
/// Opening a ledger raises the fencing token in the storage. [`Backend::append`] compares the token
/// inside its transaction.
pub(crate) trait Backend: Send {
    /// Passes one entry to `take` after checking its hash. Returns false if there is no such entry.
    fn find(&self, key: Key, take: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<bool, LedgerError>;

    /// Appends an entry durably in one transaction, if it follows the last entry and `token` is
    /// still the ledger's fencing token (INV-15). After a failure, the entry may or may not be
    /// stored.
    fn append(&mut self, token: i64, entry: &Entry<'_>, head: &Head) -> Result<(), LedgerError>;

    /// Performs housekeeping after an acknowledged commit.
    fn tidy(&self) {}
}

/// A ledger's rows in one transaction, for verification.
pub(crate) trait Source {
    /// The error of a read operation.
    type Failure: fmt::Display;

    /// Returns true if the stored data are damaged. Other failures come from the system and may be
    /// temporary.
    fn is_damage(failure: &Self::Failure) -> bool;

    /// Lists problems of the storage itself: pages, indexes, layout and triggers.
    fn problems(&mut self) -> Result<Vec<String>, Self::Failure>;

    /// Returns all charters. A sound ledger has exactly one.
    fn charters(&mut self) -> Result<Vec<StoredCharter>, Self::Failure>;

    /// Returns the fencing token.
    fn token(&mut self) -> Result<i64, Self::Failure>;

    /// Passes each entry to `each`, ordered by number.
    fn entries(&mut self, each: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<(), Self::Failure>;
}

/// A stored charter that has not been checked.
#[derive(Clone, Debug)]
pub(crate) struct StoredCharter {
    pub(crate) name: String,
    pub(crate) config: Vec<u8>,
    pub(crate) epsilon: f64,
    pub(crate) delta: f64,
    pub(crate) mode: String,
    pub(crate) accountant: String,
    pub(crate) hash: Hash,
}

/// A stored row of the ledger.
pub(crate) struct StoredEntry<'r> {
    pub(crate) seq: u64,
    pub(crate) previous: Hash,
    pub(crate) round: u64,
    pub(crate) event: &'r [u8],
    pub(crate) release: &'r [u8],
    pub(crate) hash: Hash,
}

impl StoredEntry<'_> {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            seq: self.seq,
            previous: &self.previous,
            round: self.round,
            event: self.event,
            release: self.release,
        }
    }

    pub(crate) fn has_its_hash(&self) -> bool {
        self.entry().hash() == self.hash
    }
}
