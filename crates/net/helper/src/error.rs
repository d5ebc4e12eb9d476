//! Errors of a helper.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_error_class::{Class, Classified};
use fedbo_ledger::LedgerError;
use fedbo_party::HomeError;
use fedbo_privacy::mechanism::NoiseError;
use fedbo_servers::NoSum;
use fedbo_transport::LinkError;
use fedbo_wire::{PublicKey, ServerMessageUnreadable};

/// Error while using a helper's folder or one of its studies.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelperError {
    /// The folder contains no helper.
    #[error(
        "{}: there is no helper here; create one with `fedbo helper card --data DIR`, or name another folder with --data", path.display()
    )]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or its database cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The helper's key is missing.
    #[error("{}: the helper's key is missing; restore it from a backup: no study can continue without it", path.display())]
    KeyMissing {
        /// Expected path of the key.
        path: PathBuf,
    },
    /// A study's configuration cannot be read.
    #[error("study {study:?}: {source}")]
    Text {
        /// Name of the study.
        study: String,
        /// Reason that the configuration cannot be read.
        source: Box<FileError>,
    },
    /// A study cannot be served.
    #[error("study {study:?}: {source}")]
    Study {
        /// Name of the study.
        study: String,
        /// Reason that the study is not served.
        source: NoSum,
    },
    /// A study is not a secure sum that this helper can serve.
    #[error("study {study:?} {why}")]
    NotOurs {
        /// Name of the study.
        study: String,
        /// The reason, worded as the end of a sentence.
        why: &'static str,
    },
    /// The ledger refused an operation.
    #[error(transparent)]
    Ledger(Box<LedgerError>),
    /// Either the database or the ledger lacks a release that the other contains.
    #[error(
        "study {study:?}: {} does not have the share of round {round} that {} has: it was rolled back or replaced; restore its latest state",
        path.display(), other.display()
    )]
    RolledBack {
        /// Name of the study.
        study: String,
        /// Round of the release.
        round: u64,
        /// The file that was rolled back or replaced.
        path: PathBuf,
        /// The file that contains the share.
        other: PathBuf,
    },
    /// A study has released shares, but its ledger is missing.
    #[error(
        "study {study:?}: {} is missing, the ledger of the releases; restore its latest state, nothing is released without it", path.display()
    )]
    LedgerMissing {
        /// Name of the study.
        study: String,
        /// Expected path of the ledger.
        path: PathBuf,
    },
    /// The database is missing, but ledgers exist.
    #[error(
        "{} is missing, but {} exists; restore the latest state of the missing file, or name another folder for a new helper", path.display(), ledger.display()
    )]
    SharesMissing {
        /// Expected path of the database.
        path: PathBuf,
        /// An existing ledger.
        ledger: PathBuf,
    },
    /// A study names a different helper.
    #[error(
        "study {study:?} names the helper {named}, and {} is {own}: name that helper's folder with \
         --data; or, if this is the right one, the study's file has another card than `fedbo \
         helper card` prints, and its operator must create a new study", path.display()
    )]
    OtherHelper {
        /// Name of the study.
        study: String,
        /// Key of the helper named in the study.
        named: PublicKey,
        /// The folder.
        path: PathBuf,
        /// The key of this helper.
        own: PublicKey,
    },
    /// The key of a round cannot be stored or erased.
    #[error("{}: {cause}; the helper must be able to write and remove keys of rounds there", path.display())]
    RoundKey {
        /// The file or folder.
        path: PathBuf,
        /// Error from the operating system.
        cause: std::io::Error,
    },
    /// The system provides no random numbers for a session.
    #[error("the operating system provides no random numbers ({0})")]
    NoRandomness(getrandom::Error),
    /// Drawing noise failed.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The study uses seeded noise, which this build does not support (INV-10).
    #[error(
        "study {study:?} has simulate = true, and this program is built without simulation: use a \
         program with simulation, or have the study created without simulate"
    )]
    Simulation {
        /// Name of the study.
        study: String,
    },
}

impl Classified for HelperError {
    fn class(&self) -> Class {
        match self {
            Self::Home(error) => error.class(),
            Self::Ledger(error) => error.class(),
            Self::Noise(_) => Class::Internal,
            _ => Class::Input,
        }
    }
}

impl From<LedgerError> for HelperError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(Box::new(error))
    }
}

/// Error while joining a study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The coordinator's address cannot be used.
    #[error("{url}: {message}")]
    Url {
        /// The address.
        url: String,
        /// The problem with the address.
        message: &'static str,
    },
    /// The coordinator could not be reached, or refused the request.
    #[error("{url}: {source}")]
    Link {
        /// The coordinator's address.
        url: String,
        /// The reason.
        source: LinkError,
    },
    /// The response is not signed by the named coordinator.
    #[error("{url}: {message}")]
    Impostor {
        /// The coordinator's address.
        url: String,
        /// The reason.
        message: String,
    },
    /// The study was already joined with a different configuration or coordinator.
    #[error(
        "study {study:?} was joined before, with another text or coordinator: a study's text never changes; give the new one another name"
    )]
    Joined {
        /// Name of the study.
        study: String,
    },
    /// The helper cannot serve the study.
    #[error(transparent)]
    Helper(#[from] HelperError),
}

impl Classified for JoinError {
    fn class(&self) -> Class {
        match self {
            Self::Link { source: LinkError::Setting(_), .. } => Class::Input,
            Self::Link { .. } | Self::Impostor { .. } => Class::Remote,
            Self::Helper(error) => error.class(),
            _ => Class::Input,
        }
    }
}

impl From<HomeError> for JoinError {
    fn from(error: HomeError) -> Self {
        Self::Helper(error.into())
    }
}

/// Reason that a leader's request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The message cannot be read.
    #[error(transparent)]
    Message(ServerMessageUnreadable),
    /// The request belongs to a different session: the helper has restarted, or the request was
    /// replayed.
    #[error("the helper has started a new session; open the round first")]
    Session,
    /// The helper has closed or never opened the round, or the round has no release.
    #[error("round {round} is over at the helper, was not opened, or releases nothing")]
    Round { round: u64 },
    /// The helper's folder is an older copy: it lacks a share known to the leader (INV-28).
    #[error(
        "the helper's folder does not have the share of round {round} that the coordinator knows: \
         the folder was rolled back to an older copy, and this study is no longer served from it; \
         restore the latest state of the folder, or end the study and create it again"
    )]
    RolledBack { round: u64 },
    /// The coordinator's folder is an older copy: the coordinator asks for a round before the last
    /// closed one (INV-28).
    #[error(
        "round {round} is over, and so is round {last}: the coordinator's folder was rolled back \
         to an older copy, and nothing more is summed for it; restore the latest state of the \
         folder, or end the study and create it again"
    )]
    LeaderRolledBack { round: u64, last: u64 },
    /// The leader's share is malformed, or is for a different round or different slots.
    #[error("the leader's share of round {round} is refused: {why}")]
    LeaderShare { round: u64, why: String },
    /// The leader has already revealed a different share of the round.
    #[error("the leader has already shown another share of round {round}")]
    OtherShare { round: u64 },
    /// The helper cannot continue with the study.
    #[error(transparent)]
    Stopped(#[from] HelperError),
}

impl Refused {
    /// Returns true if storage or randomness failed; a spent budget does not count.
    pub(crate) fn is_storage_failure(&self) -> bool {
        match self {
            Self::Stopped(HelperError::Ledger(error)) => {
                !matches!(**error, LedgerError::BudgetSpent(_))
            }
            Self::Stopped(_) => true,
            _ => false,
        }
    }
}

impl From<ServerMessageUnreadable> for Refused {
    fn from(error: ServerMessageUnreadable) -> Self {
        match error {
            ServerMessageUnreadable::Field { field: "session" } => Self::Session,
            other => Self::Message(other),
        }
    }
}

impl From<HomeError> for Refused {
    fn from(error: HomeError) -> Self {
        Self::Stopped(error.into())
    }
}

impl From<LedgerError> for Refused {
    fn from(error: LedgerError) -> Self {
        Self::Stopped(error.into())
    }
}

impl From<NoiseError> for Refused {
    fn from(error: NoiseError) -> Self {
        Self::Stopped(error.into())
    }
}
