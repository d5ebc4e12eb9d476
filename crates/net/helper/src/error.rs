//! Errors of a helper.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_ledger::LedgerError;
use fedbo_party::HomeError;
use fedbo_privacy::mechanism::NoiseError;
use fedbo_servers::NoSum;
use fedbo_transport::LinkError;
use fedbo_wire::{PublicKey, ServerMessageUnreadable};

/// An error in using a helper's folder or one of its studies.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelperError {
    /// There is no helper.
    #[error(
        "{}: there is no helper here; `fedbo helper card --data DIR` begins one there, and --data names another folder", path.display()
    )]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or the file in it cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The key is gone.
    #[error("{}: the helper's key is missing; put a copy back: without it no study goes on", path.display())]
    KeyMissing {
        /// The path at which it should be.
        path: PathBuf,
    },
    /// A study's text cannot be read.
    #[error("study {study:?}: {source}")]
    Text {
        /// The study.
        study: String,
        /// The reason.
        source: Box<FileError>,
    },
    /// A study cannot be served.
    #[error("study {study:?}: {source}")]
    Study {
        /// The study.
        study: String,
        /// The reason.
        source: NoSum,
    },
    /// A study is none of a secure sum, or names another helper.
    #[error("study {study:?} {why}")]
    NotOurs {
        /// The study.
        study: String,
        /// The reason.
        why: &'static str,
    },
    /// The ledger refuses.
    #[error(transparent)]
    Ledger(Box<LedgerError>),
    /// One of two files that know the same releases lacks one of them.
    #[error(
        "study {study:?}: {} does not have the share of round {round} that {} has: it was set back or replaced; put it back as it was last",
        path.display(), other.display()
    )]
    SetBack {
        /// The study.
        study: String,
        /// The round.
        round: u64,
        /// The file that was set back.
        path: PathBuf,
        /// The file that has the share.
        other: PathBuf,
    },
    /// The ledger of a study that has released something is gone.
    #[error(
        "study {study:?}: {} is missing, the ledger of what was released; put it back as it was last, nothing is released without it", path.display()
    )]
    LedgerMissing {
        /// The study.
        study: String,
        /// The path at which it should be.
        path: PathBuf,
    },
    /// The file of shares is gone, while ledgers are there.
    #[error(
        "{} is missing, and {} is there: put the first back as it was last, or name another folder for another helper", path.display(), ledger.display()
    )]
    SharesMissing {
        /// The path at which the file should be.
        path: PathBuf,
        /// A ledger.
        ledger: PathBuf,
    },
    /// A study names another helper.
    #[error(
        "study {study:?} names the helper {named}, and {} is {own}: name that helper's folder with --data; or, if this is the right one, the \
         study's file has another card than `fedbo helper card` prints, and its operator makes a new study", path.display()
    )]
    OtherHelper {
        /// The study.
        study: String,
        /// The key of the helper that it names.
        named: PublicKey,
        /// The folder.
        path: PathBuf,
        /// The key of this helper.
        own: PublicKey,
    },
    /// There is no randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The study's noise comes from a seed, and this build has none such (INV-10).
    #[error(
        "study {study:?} has simulate = true, and this program is built without simulation: use one that is built with it, or have the study made \
         without simulate"
    )]
    Simulation {
        /// The study.
        study: String,
    },
}

impl From<LedgerError> for HelperError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(Box::new(error))
    }
}

/// An error in joining a study.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The coordinator's address cannot be used.
    #[error("{url}: {message}")]
    Url {
        /// The address.
        url: String,
        /// The reason.
        message: &'static str,
    },
    /// The coordinator was not reached, or refused.
    #[error("{url}: {source}")]
    Link {
        /// The coordinator's address.
        url: String,
        /// The reason.
        source: LinkError,
    },
    /// The answer is not signed by the coordinator that was named.
    #[error("{url}: {message}")]
    Impostor {
        /// The coordinator's address.
        url: String,
        /// The reason.
        message: String,
    },
    /// The study was joined before, with another text.
    #[error(
        "study {study:?} was joined before, with another text or coordinator: a study's text never changes; give the new one another name"
    )]
    Joined {
        /// The study.
        study: String,
    },
    /// The helper cannot serve it.
    #[error(transparent)]
    Helper(#[from] HelperError),
}

impl From<HomeError> for JoinError {
    fn from(error: HomeError) -> Self {
        Self::Helper(error.into())
    }
}

/// The reason why a request of a leader is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The message cannot be read.
    #[error(transparent)]
    Message(#[from] ServerMessageUnreadable),
    /// The round is over here, or does not release.
    #[error("round {round} is over at the helper, or releases nothing")]
    Round { round: u64 },
    /// The leader's share is none of the round, or of other slots.
    #[error("the leader's share of round {round} is refused: {why}")]
    LeaderShare { round: u64, why: String },
    /// The leader had shown another share of the round.
    #[error("the leader has shown another share of round {round} before")]
    OtherShare { round: u64 },
    /// The helper cannot go on.
    #[error(transparent)]
    Stopped(#[from] HelperError),
}

impl Refused {
    /// Returns true if something went wrong in storing or drawing, and not only because the budget is spent.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        match self {
            Self::Stopped(HelperError::Ledger(error)) => {
                !matches!(**error, LedgerError::BudgetSpent(_))
            }
            Self::Stopped(_) => true,
            _ => false,
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
