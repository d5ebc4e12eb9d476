//! Errors of a party's home and trials.

use std::path::PathBuf;

use fedbo_error_class::{Class, Classified};
use fedbo_storage::StorageError;
use fedbo_study::StudyError;
use fedbo_transport::KeyError;

/// Error when opening or using a party's home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The home does not exist.
    #[error("{}: there is no agent here; enrol one with `fedbo agent enrol` and the token that the study's operator gave you", path.display())]
    Absent {
        /// The missing folder or file.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be created or written.
    #[error("{}: {cause}; make the agent's folder writable, or name another", path.display())]
    Folder {
        /// Path of the folder or file.
        path: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// The agent's database is not usable.
    #[error("{}: {message}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Description of the problem, and how to fix it.
        message: String,
    },
    /// The database or its disk failed, temporarily or permanently. Examples are a full disk and
    /// missing permissions.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's error message, and how to fix the problem.
        message: String,
    },
    /// The schema of the agent's database has a different version.
    #[error("{}: its layout has version {found}, this program reads {expected}; {}", path.display(), way_on(*found, *expected))]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// The version that this program supports.
        expected: i64,
    },
    /// The agent's database is inconsistent.
    #[error("{}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        message: String,
    },
    /// The key is missing.
    #[error("{}: the agent's key is missing; restore it from a copy, or enrol with a new token in a new home", path.display())]
    KeyMissing {
        /// Expected path of the key.
        path: PathBuf,
    },
    /// The key or its folder is not usable.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another process holds a lock.
    #[error("{}: {by} {what}; wait until it ends, or stop it", path.display())]
    Held {
        /// Path of the lock file.
        path: PathBuf,
        /// Description of the process that holds the lock.
        by: String,
        /// Description of that process's work.
        what: String,
    },
    /// The home does not have the requested study. Or no study was requested, and the home does not
    /// have exactly one.
    #[error("{}: {which}", path.display())]
    AmbiguousStudy {
        /// The home.
        path: PathBuf,
        /// The requested study, the studies in the home, and how to fix the problem.
        which: String,
    },
}

impl Classified for HomeError {
    fn class(&self) -> Class {
        match self {
            Self::Folder { .. } | Self::Refused { .. } => Class::Output,
            _ => Class::Input,
        }
    }
}

/// Returns advice for a database with a different version.
fn way_on(found: i64, expected: i64) -> &'static str {
    match found < expected {
        true => "`fedbo agent run` brings it up to date",
        false => "use the fedbo that wrote it",
    }
}

/// Error when reading or writing trials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialsError {
    /// The study is stored with different settings, or cannot be opened.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A stored trial is not the one that the agent requested.
    #[error(
        "{}: trial {number} is not the one that the agent asked for; the trials were changed by hand or belong to another \
         run: restore them from a copy", path.display()
    )]
    Strange {
        /// The file.
        path: PathBuf,
        /// Number of the trial.
        number: u64,
    },
}

impl Classified for TrialsError {
    fn class(&self) -> Class {
        match self {
            Self::Storage(error) => error.class(),
            Self::Study(error) => error.class(),
            _ => Class::Input,
        }
    }
}
