//! Errors of a peer.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_error_class::{Class, Classified};
use fedbo_party::{EvaluationError, HomeError, TrialsError};
use fedbo_protocol::AgentError;
use fedbo_transport::{LinkError, ListenError};
use fedbo_wire::PublicKey;

/// Error while opening a peer's home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtherHome {
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The home belongs to a different peer.
    #[error(
        "{}: this folder belongs to the peer {name:?}, which was started with another {what}; use another home, or continue \
         with the original one", path.display()
    )]
    Differs {
        /// Path of the home.
        path: PathBuf,
        /// Name of the difference: federation, name or key.
        what: &'static str,
        /// Name of the peer that owns the home.
        name: String,
    },
}

/// Error that stops a peer. The peer's measurements and received reports are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer file or the federation file is invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// The home cannot be used, or belongs to a different peer.
    #[error(transparent)]
    Home(#[from] OtherHome),
    /// The trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// An event cannot be stored.
    #[error("{0}; everything that was confirmed before is kept; start again to continue")]
    Memory(HomeError),
    /// A trial cannot be evaluated.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// The peer cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The peer's threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    /// The system provides no random numbers.
    #[error("the operating system provides no random numbers: {0}")]
    NoRandomness(String),
    /// The peer's machine failed.
    #[error(transparent)]
    Machine(#[from] AgentError),
    /// The stored log contradicts the federation or the trials.
    #[error(
        "the peer's database does not match its federation or its trials: {0}; restore its home from a copy"
    )]
    Log(String),
    /// The peer's report for a round differs from the stored one.
    #[error(
        "round {round}: the peer's stored report differs from the one that it would make now; its trials, its file or this \
         program have changed: restore the previous version"
    )]
    ReportDiffers {
        /// The round.
        round: u64,
    },
    /// The federation file does not fit this peer.
    #[error("{0}")]
    Unfit(String),
    /// The addresses of neighbours are invalid, too few or too many.
    #[error("{0}")]
    Addresses(String),
    /// A connection to a neighbour cannot be set up.
    #[error("{neighbour}: {source}")]
    Link {
        /// Name or address of the neighbour.
        neighbour: String,
        /// The cause.
        source: LinkError,
    },
    /// The peer at a neighbour's address has a key that differs from the known one.
    #[error(
        "the peer at {url} that answers as {neighbour:?} has the key {found}, but the known key is {known}: either another \
         peer has taken its place, or its home was created again; nothing was sent to it. Ask its owner; if the key is right, \
         set it as key of this neighbour in the peer's file"
    )]
    Impostor {
        /// Name of the neighbour.
        neighbour: String,
        /// The address.
        url: String,
        /// Known key of the neighbour.
        known: PublicKey,
        /// Key of the peer at the address.
        found: PublicKey,
    },
    /// The peer that responds is not the expected one, or cannot prove that it has its key.
    #[error("{url}: {message}")]
    Unexpected {
        /// The address.
        url: String,
        /// Description of the peer at the address and the remedy.
        message: String,
    },
    /// A neighbour has a different federation file.
    #[error(
        "{neighbour:?} at {url} has another federation file than this peer ({path}): give all peers the same, with the same \
         [topology]; only their commands may differ"
    )]
    OtherFile {
        /// Name of the neighbour.
        neighbour: String,
        /// The neighbour's address.
        url: String,
        /// Path of this peer's federation file.
        path: String,
    },
    /// A neighbour refuses permanently.
    #[error("{neighbour:?} refuses {what}: {message}")]
    Refused {
        /// Name of the neighbour.
        neighbour: String,
        /// The refused request.
        what: String,
        /// The reason and the remedy.
        message: String,
    },
    /// A neighbour has more of this peer's reports than the peer itself has.
    #[error(
        "{neighbour:?} has {theirs} reports of this peer, but its home holds {ours}: either the home was restored from an \
         older copy (then restore the newest one, as values that were shared cannot be measured again), or the neighbour does \
         not tell the truth"
    )]
    RolledBack {
        /// Name of the neighbour.
        neighbour: String,
        /// Number of this peer's reports that the neighbour has.
        theirs: u64,
        /// Number of this peer's reports in its own home.
        ours: u64,
    },
}

impl Classified for PeerError {
    fn class(&self) -> Class {
        match self {
            Self::Home(OtherHome::Home(error)) => error.class(),
            Self::Memory(_) => Class::Output,
            Self::Trials(error) | Self::Evaluation(EvaluationError::Trials(error)) => error.class(),
            Self::Impostor { .. }
            | Self::Unexpected { .. }
            | Self::OtherFile { .. }
            | Self::Refused { .. }
            | Self::RolledBack { .. }
            | Self::Link { .. } => Class::Remote,
            Self::Threads(_) | Self::NoRandomness(_) | Self::Machine(_) => Class::Internal,
            _ => Class::Input,
        }
    }
}
