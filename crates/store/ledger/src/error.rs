//! The errors of a ledger.

use std::fmt;
use std::path::{Path, PathBuf};

use fedbo_database::FileFault;
use fedbo_privacy::accounting::{AccountantKind, Budget};

use crate::{Difference, UnreadableEvent};

/// A release that the budget does not allow. Nothing was written, the ledger goes on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the budget is spent: epsilon is {spent} after {n_releases} releases and would be {would_be} after {count} more, \
     budget.epsilon = {}, budget.delta = {}; end the study here, a larger budget is a new study", .budget.epsilon(), .budget.delta().get()
)]
pub struct BudgetSpent {
    /// The ε and the δ that may be spent.
    pub budget: Budget,
    /// ε of the releases so far.
    pub spent: f64,
    /// Releases so far.
    pub n_releases: u64,
    /// Further releases that were asked for.
    pub count: u64,
    /// ε with them.
    pub would_be: f64,
}

/// An error of a ledger. No variant holds bytes of a release.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is no such file.
    #[error("{}: there is no such ledger; name the results folder of a private run, or a ledger's file", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// A new ledger is never begun over something that exists.
    #[error(
        "{}: there is such a file already; open it to go on with its study, or name another file", path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is no ledger.
    #[error("{}: {message}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// A description of what it is, and the way out.
        message: String,
    },
    /// The file's layout is of another version.
    #[error("{}: its layout has version {found}, this program reads {expected}; use the fedbo that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// Ours.
        expected: i64,
    },
    /// The file cannot be read.
    #[error("{}: cannot read: {message}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message, and the way out.
        message: String,
    },
    /// The file or its disk refuses a write.
    #[error("{}: cannot write: {message}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message, and the way out.
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
    /// The stored data are no clean history.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The damage, its place, and the way out.
        message: String,
    },
    /// Another process has the ledger open for writing.
    #[error("{}: {by} runs the study of this ledger; wait for its end or end it", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// The holder, in words.
        by: String,
    },
    /// Another process has opened the ledger since this one did; only the last one may write.
    #[error(
        "{}: another process has taken this ledger over; this one stops, nothing was released", path.display()
    )]
    Superseded {
        /// The file.
        path: PathBuf,
    },
    /// The ledger is another study's.
    #[error(
        "{}: the ledger is of another study: {}; a change of the configuration is a new study with a ledger of its own: \
         name another file, or restore what the ledger says", path.display(), Listed(differences)
    )]
    OtherCharter {
        /// The file.
        path: PathBuf,
        /// The keys that differ; at least one.
        differences: Vec<Difference>,
    },
    /// No ledger can be begun with this charter.
    #[error("{key} = {value}, expected {expected}")]
    Charter {
        /// The key of the charter.
        key: &'static str,
        /// The value that stands there.
        value: String,
        /// The values that are accepted, in words.
        expected: &'static str,
    },
    /// The round has been released, or a later one has. What was released is [`crate::Ledger::stored`].
    #[error(
        "round {round} is not the next: the last one released is {last}; each is released once, and in order"
    )]
    RoundPassed {
        /// The round.
        round: u64,
        /// The last one.
        last: u64,
    },
    /// A round's number or a release is larger than a ledger takes.
    #[error("{what} = {value}, expected at most {max}")]
    TooLarge {
        /// The name of the number that is too large.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest that is taken.
        max: u64,
    },
    /// The event is none of a mechanism.
    #[error(transparent)]
    Event(#[from] UnreadableEvent),
    /// The budget is spent.
    #[error(transparent)]
    BudgetSpent(#[from] BudgetSpent),
    /// The accountant cannot say what the releases cost, so nothing is released.
    #[error("accountant = {accountant}: {message}")]
    Accounting {
        /// The accountant.
        accountant: AccountantKind,
        /// Its message.
        message: String,
    },
    /// An earlier commit failed: whether it is on the disk is only known after opening the ledger anew.
    #[error("{}: the ledger has stopped, as a commit failed ({cause}); mend that and start again", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
        /// The reason why the commit failed.
        cause: String,
    },
}

/// Differences in words, the first few.
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

/// The operation during which something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

impl LedgerError {
    /// A fault of the file at `path`.
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
