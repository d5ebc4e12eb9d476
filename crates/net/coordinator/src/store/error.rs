//! Errors of a store.

use std::path::PathBuf;

use fedbo_database::FileFault;

use super::StudyState;

/// An error of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store.
    #[error("{}: there is no coordinator's store; `fedbo coordinator study create` begins one", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a coordinator's store.
    #[error("{}: {message}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// A description of the file, and the remedy.
        message: String,
    },
    /// The layout is of another version.
    #[error("{}: its layout has version {found}, this program reads {expected}; use the fedbo that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's.
        found: i64,
        /// Ours.
        expected: i64,
    },
    /// The file or its disk refuses.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's error message, and the remedy.
        message: String,
    },
    /// The stored data contradict themselves.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The contradiction, and the remedy.
        message: String,
    },
    /// The name is taken.
    #[error(
        "there is a study {name:?} already; its configuration is frozen, so give the new one another name. Tokens that were lost are made anew \
         with `fedbo coordinator agents token`"
    )]
    Exists {
        /// The name.
        name: String,
    },
    /// There is no such study.
    #[error("there is no study {name:?}; `fedbo coordinator study ls` lists them")]
    NoStudy {
        /// The name.
        name: String,
    },
    /// There is no such slot, or nobody holds it.
    #[error("there is no agent in slot {slot}")]
    NoSlot {
        /// The slot.
        slot: u32,
    },
    /// A study's state does not allow the change.
    #[error("the study is {from}, so it cannot become {to}")]
    State {
        /// The state of the study.
        from: StudyState,
        /// The state that was asked for.
        to: StudyState,
    },
    /// The coordinator has given out no such token.
    #[error(
        "the token is none of this coordinator's, or is void: a newer one was made for its slot, or the slot was revoked; ask the operator for a new one"
    )]
    TokenUnknown,
    /// The agent agrees to another configuration than the study's.
    #[error(
        "the token was made for another configuration than the study's, so nobody takes a slot by it; ask the operator for a new one"
    )]
    OtherConfig,
    /// The token is too old.
    #[error("the token has expired; ask the operator for a new one")]
    TokenExpired,
    /// Somebody else has enrolled with the token.
    #[error("the token was used already, with another key; ask the operator for a new one")]
    TokenUsed,
    /// The key has another slot of the study.
    #[error("this key holds slot {slot} of the study already; one agent has one slot")]
    KeyTaken {
        /// The slot.
        slot: u32,
    },
    /// A release is never made again (INV-2).
    #[error("round {round} has been released; a release is never made again")]
    Released {
        /// The round.
        round: u64,
    },
    /// Another process plays the study's rounds.
    #[error("another coordinator has taken over the study")]
    Superseded,
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
