//! Errors of a helper.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_ledger::LedgerError;
use fedbo_party::HomeError;
use fedbo_privacy::mechanism::NoiseError;
use fedbo_servers::NoSum;
use fedbo_transport::LinkError;
use fedbo_wire::ServerMessageUnreadable;

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
    /// The shares of a study that are stored and its ledger contradict each other.
    #[error(
        "the ledger of study {study:?} does not have the share of round {round} that was given away: it was set back or replaced; put back the \
         ledger as it was last"
    )]
    SetBack {
        /// The study.
        study: String,
        /// The round.
        round: u64,
    },
    /// There is no randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The study's noise comes from a seed, and this build has none such (INV-10).
    #[error(
        "study {study:?} has simulate = true, and this program is built without simulation: nothing would be promised of its releases"
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
