//! Access to a ledger's rows: what [`crate::Ledger`] and the verification ask of a file or a database.

use std::fmt;

use crate::chain::{Entry, Hash};
use crate::{Head, LedgerError};

/// The key by which an entry is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Seq(i64),
    Round(i64),
}

/// Keeps the entries of one ledger that is open for writing.
///
/// Whoever opened it raised the fencing token in it; [`Backend::append`] looks at the token inside its transaction.
pub(crate) trait Backend: Send {
    /// Shows `take` one entry, after checking that it has its hash; whether there is one.
    fn find(&self, key: Key, take: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<bool, LedgerError>;

    /// Makes an entry durable behind the one it names as the last, in one transaction, if the token is still the ledger's
    /// (INV-15). When it fails, the entry may be there or not.
    fn append(&mut self, token: i64, entry: &Entry<'_>, head: &Head) -> Result<(), LedgerError>;

    /// After a commit was acknowledged.
    fn tidy(&self) {}
}

/// A ledger's rows in one transaction, as a verification reads them.
pub(crate) trait Source {
    /// The error of a read.
    type Failure: fmt::Display;

    /// Returns true if the stored data are damaged. Other failures are of the system, and may pass.
    fn is_damage(failure: &Self::Failure) -> bool;

    /// Returns what is wrong with the container of the rows: pages, indexes, layout, triggers.
    fn problems(&mut self) -> Result<Vec<String>, Self::Failure>;

    /// All charters; there must be one.
    fn charters(&mut self) -> Result<Vec<StoredCharter>, Self::Failure>;

    /// The fencing token.
    fn token(&mut self) -> Result<i64, Self::Failure>;

    /// Each entry, by number.
    fn entries(&mut self, each: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<(), Self::Failure>;
}

/// A charter as it is stored: not checked.
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

/// One row of the ledger.
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
