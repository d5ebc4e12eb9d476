//! Errors of a peer.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_party::{EvaluationError, HomeError, TrialsError};
use fedbo_protocol::AgentError;
use fedbo_transport::{LinkError, ListenError};
use fedbo_wire::PublicKey;

/// An error in opening a peer's home: it cannot be used, or belongs to another peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtherHome {
    /// It cannot be used at all.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// It belongs to another peer.
    #[error(
        "{}: this folder is of the peer {name:?}, begun with another {what}; name another home, or go on with what was there \
         when it was begun", path.display()
    )]
    Differs {
        /// The home.
        path: PathBuf,
        /// The difference: federation, name or key.
        what: &'static str,
        /// The name of the peer that it belongs to.
        name: String,
    },
}

/// An error that stops a peer. Its measurements, and the reports that it has received, are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Its file, or the federation's.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its home.
    #[error(transparent)]
    Home(#[from] OtherHome),
    /// Its trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// An event cannot be stored.
    #[error("{0}; all that was confirmed before is kept, start again to go on")]
    Memory(HomeError),
    /// A trial cannot be evaluated.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// Nobody can be listened to.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Threads cannot be started.
    #[error("no threads can be started: {0}")]
    Threads(std::io::Error),
    /// There are no random numbers.
    #[error("the operating system gives no random numbers: {0}")]
    NoRandomness(String),
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] AgentError),
    /// The stored log contradicts the federation or the trials.
    #[error(
        "the peer's memory does not fit its federation or its trials: {0}; restore its home from a copy"
    )]
    Log(String),
    /// The peer's report for a round differs from the one that it kept.
    #[error(
        "round {round}: what the peer reported is not what it would report now; its trials, its file or this program have changed: \
         put back what was there"
    )]
    ReportDiffers {
        /// The round.
        round: u64,
    },
    /// The federation's file is not what this peer needs.
    #[error("{0}")]
    Unfit(String),
    /// Addresses of neighbours are missing, or too many.
    #[error("{0}")]
    Addresses(String),
    /// A way to a neighbour cannot be tried.
    #[error("{neighbour}: {source}")]
    Link {
        /// The neighbour, in words.
        neighbour: String,
        /// The cause.
        source: LinkError,
    },
    /// The peer that answers at a neighbour's address has another key than the neighbour had.
    #[error(
        "who answers at {url} as {neighbour:?} has the key {found}, known is {known}: either somebody else is in its place, or its home \
         was made anew; nothing was sent to it. Ask its owner; if the key is right, name it as key of this neighbour in the \
         peer's file"
    )]
    Impostor {
        /// The neighbour.
        neighbour: String,
        /// The address.
        url: String,
        /// Its key, as it was.
        known: PublicKey,
        /// The key of the peer that answers.
        found: PublicKey,
    },
    /// The peer that answers is not the expected one, or cannot prove its key.
    #[error("{url}: {message}")]
    Unexpected {
        /// The address.
        url: String,
        /// A description of the peer that answers, and the remedy.
        message: String,
    },
    /// A neighbour has another file.
    #[error(
        "{neighbour:?} at {url} has another federation file than this peer ({path}): give all peers the same, with the same \
         [topology]; what each tunes, its command, may differ"
    )]
    OtherFile {
        /// The neighbour.
        neighbour: String,
        /// The address.
        url: String,
        /// This peer's file.
        path: String,
    },
    /// A neighbour refuses for good.
    #[error("{neighbour:?} refuses {what}: {message}")]
    Refused {
        /// The neighbour.
        neighbour: String,
        /// The request that it refuses.
        what: String,
        /// The reason, and the remedy.
        message: String,
    },
    /// A neighbour has more of this peer's reports than this peer.
    #[error(
        "{neighbour:?} has {theirs} reports of this peer, whose home holds {ours}: either the home was set back to an older copy, \
         then put back the newest one, as values that were shared cannot be measured anew; or the neighbour does not tell the truth"
    )]
    SetBack {
        /// The neighbour.
        neighbour: String,
        /// Reports that it has.
        theirs: u64,
        /// Reports that are here.
        ours: u64,
    },
}
