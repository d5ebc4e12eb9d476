//! Errors of what a party keeps.

use std::path::PathBuf;

use fedbo_storage::StorageError;
use fedbo_study::StudyError;
use fedbo_transport::KeyError;

/// An error in opening or using a party's home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// There is none.
    #[error("{}: there is no agent here; enrol one with `fedbo agent enrol` and the token that the study's operator gave you", path.display())]
    Absent {
        /// The folder, or the file in it.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be made or written.
    #[error("{}: {cause}; make the agent's folder writable, or name another", path.display())]
    Folder {
        /// The folder or file that cannot be made or written.
        path: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// The agent's memory cannot be used.
    #[error("{}: {message}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// A description of the file or of what happened to it, and the remedy.
        message: String,
    },
    /// The agent's memory or its disk refuses, for now or for good: a full disk, rights that are missing.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's error message, and the remedy.
        message: String,
    },
    /// The layout of the agent's memory is of another version.
    #[error("{}: its layout has version {found}, this program reads {expected}; {}", path.display(), way_on(*found, *expected))]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// Ours.
        expected: i64,
    },
    /// The agent's memory contradicts itself.
    #[error("{}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The contradiction that was found.
        message: String,
    },
    /// The key is missing.
    #[error("{}: the agent's key is missing; put a copy back, or enrol with a new token in a new home", path.display())]
    KeyMissing {
        /// The path at which it should be.
        path: PathBuf,
    },
    /// The key, or the folder that it is in, cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Another process is at work.
    #[error("{}: {by} {what}; wait for its end or end it", path.display())]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// The process that holds the lock, in words.
        by: String,
        /// The work of that process, in words.
        what: String,
    },
    /// The home has several memberships, or none of this name.
    #[error("{}: {which}", path.display())]
    WhichStudy {
        /// The home.
        path: PathBuf,
        /// The study that was asked for, the studies that there are, and the remedy.
        which: String,
    },
}

/// The way out where a memory is of another version than the program's.
fn way_on(found: i64, expected: i64) -> &'static str {
    match found < expected {
        true => "`fedbo agent run` brings it up to date",
        false => "use the fedbo that wrote it",
    }
}

/// An error in reading or writing trials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialsError {
    /// The study among the trials is another one.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The file.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// They are not those that the agent asked for.
    #[error(
        "{}: trial {number} is not what the agent asks for in its place; the trials were changed by hand or are another \
         run's: restore them from a copy", path.display()
    )]
    Strange {
        /// The file.
        path: PathBuf,
        /// The trial.
        number: u64,
    },
}
