//! The errors of a ledger.

use std::fmt;
use std::path::{Path, PathBuf};

use fedbo_database::FileFault;
use fedbo_error_class::{Class, Classified};
use fedbo_privacy::accounting::{AccountantKind, Budget};

use crate::{Difference, UnreadableEvent};

/// Error for a release that the budget does not allow. Nothing is written, and the ledger remains
/// usable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the budget is spent: epsilon is {spent} after {n_releases} releases and would be {would_be} \
     after {count} more, budget.epsilon = {}, budget.delta = {}; end the study here; a larger \
     budget needs a new study", .budget.epsilon(), .budget.delta().get()
)]
pub struct BudgetSpent {
    /// The budget: ε and δ.
    pub budget: Budget,
    /// ε of the releases so far.
    pub spent: f64,
    /// Number of releases so far.
    pub n_releases: u64,
    /// Number of further releases requested.
    pub count: u64,
    /// ε including the requested releases.
    pub would_be: f64,
}

/// An error of a ledger. No variant contains bytes of a release.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file does not exist.
    #[error("{}: there is no such ledger; name the results folder of a private run, or the file of a ledger", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The path already exists. Creating a ledger never overwrites a file.
    #[error(
        "{}: the file exists already; open it to continue its study, or name another file", path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a ledger.
    #[error("{}: {message}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// A description of the content, and how to fix the problem.
        message: String,
    },
    /// The file's layout has a different version.
    #[error("{}: its layout has version {found}, this program reads {expected}; use the fedbo that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// This program's version.
        expected: i64,
    },
    /// The file cannot be read.
    #[error("{}: cannot read: {message}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message, and how to fix the problem.
        message: String,
    },
    /// The file or its disk refused a write.
    #[error("{}: cannot write: {message}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message, and how to fix the problem.
        message: String,
    },
    /// The file is no longer where it was opened.
    #[error(
        "{}: the ledger was moved, deleted or replaced while it was in use; put it back with the files of the same name \
         ending in -wal and -shm, which belong to it",
        path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The stored data are not a valid history.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The damage, its location, and how to fix it.
        message: String,
    },
    /// Another process has the ledger open for writing.
    #[error("{}: {by} is running the study of this ledger; wait until it ends, or end it", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// The holder, for messages.
        by: String,
    },
    /// Another process has since opened the ledger. Only the most recent writer can commit.
    #[error(
        "{}: another process has taken over this ledger; this one stops, nothing was released", path.display()
    )]
    Superseded {
        /// The file.
        path: PathBuf,
    },
    /// The ledger belongs to a different study.
    #[error(
        "{}: the ledger belongs to another study: {}; a changed configuration is a new study with its \
         own ledger; name another file, or restore the configuration in the ledger", path.display(), Listed(differences)
    )]
    OtherCharter {
        /// The file.
        path: PathBuf,
        /// The keys that differ. There is at least one.
        differences: Vec<Difference>,
    },
    /// The charter is invalid.
    #[error("{key} = {value}, expected {expected}")]
    Charter {
        /// The key of the charter.
        key: &'static str,
        /// The value of the key.
        value: String,
        /// Description of the accepted values.
        expected: &'static str,
    },
    /// This round or a later one was already released. Use [`crate::Ledger::stored`] to get a
    /// stored release.
    #[error(
        "round {round} is not the next: the last released one is {last}; each round is released once, in order"
    )]
    RoundPassed {
        /// The requested round.
        round: u64,
        /// The last released round.
        last: u64,
    },
    /// A round number or a release exceeds its limit.
    #[error("{what} = {value}, expected at most {max}")]
    TooLarge {
        /// The name of the number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest accepted value.
        max: u64,
    },
    /// No mechanism can have this event.
    #[error(transparent)]
    Event(#[from] UnreadableEvent),
    /// The budget is spent.
    #[error(transparent)]
    BudgetSpent(#[from] BudgetSpent),
    /// The accountant cannot compute the cost, so nothing is released.
    #[error("accountant = {accountant}: {message}")]
    Accounting {
        /// The accountant.
        accountant: AccountantKind,
        /// The accountant's message.
        message: String,
    },
    /// An earlier commit failed. The ledger must be reopened to find out whether that commit is on
    /// disk.
    #[error("{}: the ledger has stopped because a commit failed ({cause}); fix the cause and restart", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
        /// The error of the failed commit.
        cause: String,
    },
}

impl Classified for LedgerError {
    fn class(&self) -> Class {
        match self {
            Self::BudgetSpent(_) => Class::BudgetSpent,
            Self::Write { .. }
            | Self::Gone { .. }
            | Self::Superseded { .. }
            | Self::Stopped { .. } => Class::Output,
            Self::RoundPassed { .. } | Self::TooLarge { .. } | Self::Event(_) => Class::Internal,
            _ => Class::Input,
        }
    }
}

/// Formats the first few differences.
struct Listed<'a>(&'a [Difference]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 3;
        for (i, Difference { key, here, there }) in self.0.iter().take(MAX).enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{key} = {here} here, {there} in the ledger")?;
        }
        match self.0.len().saturating_sub(MAX) {
            0 => Ok(()),
            n => write!(f, "; and {n} more"),
        }
    }
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

impl LedgerError {
    /// Converts a fault of the file at `path` to an error.
    pub(crate) fn of(fault: FileFault, path: &Path, doing: Operation) -> Self {
        let path = path.to_owned();
        match (fault, doing) {
            (FileFault::Absent, _) => Self::Absent { path },
            (FileFault::NotOurs(message), _) => Self::NotALedger { path, message },
            (FileFault::Version { found, expected }, _) => Self::Version { path, found, expected },
            (FileFault::Refused(message), Operation::Read) => Self::Read { path, message },
            (FileFault::Refused(message), Operation::Write) => Self::Write { path, message },
            (FileFault::Gone, _) => Self::Gone { path },
            (FileFault::Damaged(message), _) => Self::Corrupt { path, message },
        }
    }
}
