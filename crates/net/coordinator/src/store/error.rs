//! Errors of a store.

use std::path::PathBuf;

use fedbo_database::FileFault;
use fedbo_error_class::{Class, Classified};

use super::StudyState;

/// Error from a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store does not exist.
    #[error("{}: there is no coordinator store; create one with `fedbo coordinator study create`", path.display())]
    Absent {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is not a coordinator's store.
    #[error("{}: {message}", path.display())]
    NotAStore {
        /// Path of the file.
        path: PathBuf,
        /// Description of the file and the remedy.
        message: String,
    },
    /// The file has a different layout version.
    #[error("{}: its layout has version {found}, this program reads {expected}; use the fedbo that wrote it", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Version that this program reads.
        expected: i64,
    },
    /// The file cannot be accessed.
    #[error("{}: {message}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Error message from the system and the remedy.
        message: String,
    },
    /// The stored data is inconsistent.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Description of the inconsistency and the remedy.
        message: String,
    },
    /// A study with this name exists.
    #[error(
        "study {name:?} exists already, and its configuration is frozen; give the new study \
         another name, or replace lost tokens with `fedbo coordinator agents token`"
    )]
    Exists {
        /// Name of the study.
        name: String,
    },
    /// The study does not exist.
    #[error("there is no study {name:?}; `fedbo coordinator study ls` lists them")]
    NoStudy {
        /// Name of the study.
        name: String,
    },
    /// The slot does not exist, or has no agent.
    #[error("there is no agent in slot {slot}")]
    NoSlot {
        /// Number of the slot.
        slot: u32,
    },
    /// A study's state does not allow the change.
    #[error("the study is {from}, so it cannot become {to}")]
    State {
        /// State of the study.
        from: StudyState,
        /// Requested state.
        to: StudyState,
    },
    /// The token is unknown or void.
    #[error(
        "the token is not from this coordinator, or is void: a newer one was made for its slot, or the slot was revoked; ask the operator for a new one"
    )]
    TokenUnknown,
    /// The agent agreed to a configuration other than the study's.
    #[error(
        "the token was made for another configuration than the study's, so it cannot be used; ask the operator for a new one"
    )]
    OtherConfig,
    /// The token has expired.
    #[error("the token has expired; ask the operator for a new one")]
    TokenExpired,
    /// Another agent has enrolled with the token.
    #[error("the token was used already, with another key; ask the operator for a new one")]
    TokenUsed,
    /// The key already has a different slot in the study.
    #[error("this key already holds slot {slot} of the study; an agent has one slot")]
    KeyTaken {
        /// Slot that the key has.
        slot: u32,
    },
    /// The round already has a release, and releases are never repeated (INV-2).
    #[error("round {round} has been released; it cannot be released again")]
    Released {
        /// Number of the round.
        round: u64,
    },
    /// Another process leads the study.
    #[error("another coordinator has taken over the study")]
    Superseded,
}

impl Classified for StoreError {
    fn class(&self) -> Class {
        match self {
            Self::Refused { .. } => Class::Output,
            _ => Class::Input,
        }
    }
}

impl StoreError {
    pub(crate) fn of(fault: FileFault, path: &std::path::Path) -> Self {
        let path = path.to_owned();
        match fault {
            FileFault::Absent => Self::Absent { path },
            FileFault::NotOurs(message) => Self::NotAStore { path, message },
            FileFault::Version { found, expected } => Self::Version {
                path,
                found,
                expected,
            },
            FileFault::Refused(message) => Self::Refused { path, message },
            FileFault::Gone => Self::Refused {
                path,
                message: "the file was moved, deleted or replaced while it was in use; put it back with the files of the same \
                          name ending in -wal and -shm"
                    .to_owned(),
            },
            FileFault::Damaged(message) => Self::Corrupt { path, message },
        }
    }
}
