//! Errors of a playable game.

use std::path::PathBuf;

use fedbo_config::Changes;
use fedbo_games::GameError;
use fedbo_objective::{CommandError, Failure};

use crate::payoffs::PAYOFF_MAX;

/// A player gave no action, or a round has no payoffs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingActionReason {
    /// The program failed or timed out.
    #[error(transparent)]
    Program(#[from] Failure),
    /// The program's output is invalid.
    #[error("it printed {found}, expected {expected}{stderr}")]
    Nonsense {
        /// The last line of the program's output.
        found: String,
        /// The expected output.
        expected: String,
        /// The end of its standard error with an introduction; empty if there was no output.
        stderr: String,
    },
    /// The program reported a player's payoff as lost.
    #[error("the payoff of {player:?} is not a finite number within ±{PAYOFF_MAX:e}")]
    LostPayoff {
        /// The first affected player.
        player: String,
    },
    /// The program's output is not an action of the player.
    #[error("it printed {found}, {why}")]
    NoAction {
        /// The last line of the program's output.
        found: String,
        /// The reason.
        why: String,
    },
    /// No move was submitted in time.
    #[error("no move was submitted within {seconds} s")]
    NoMove {
        /// The timeout.
        seconds: f64,
    },
}

/// A game cannot continue. The record of the rounds played so far is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// A player gave no action, and the file requests to stop the game in this case.
    #[error("round {round}: no action from {player:?}: {cause}")]
    Player {
        /// The round, from 1.
        round: usize,
        /// The player.
        player: String,
        /// The cause.
        cause: MissingActionReason,
    },
    /// The payoffs are missing, and the file requests to stop the game in this case.
    #[error("round {round}: no payoffs: {cause}")]
    Payoffs {
        /// The round, from 1.
        round: usize,
        /// The cause.
        cause: MissingActionReason,
    },
    /// The same failure occurred in too many rounds in a row.
    #[error("round {round}: {what} failed {times} times in a row, the last time because {cause}")]
    Repeatedly {
        /// The last round, from 1.
        round: usize,
        /// The player, or the payoffs.
        what: String,
        /// The number of failures in a row.
        times: usize,
        /// The last cause.
        cause: MissingActionReason,
    },
    /// The record belongs to a different game.
    #[error(
        "{}: it contains the game with different settings: {changes}; choose another storage, or restore the file", path.display()
    )]
    Differs {
        /// The record.
        path: PathBuf,
        /// The keys that differ.
        changes: Box<Changes>,
    },
    /// There is no game at this path yet.
    #[error("{}: no game is stored there yet; start it with fedbo play", path.display())]
    Absent {
        /// The path of the missing record.
        path: PathBuf,
    },
    /// The file is not a record of a game.
    #[error("{}: {message}", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// A description of the file, and the remedy.
        message: String,
    },
    /// The record's layout has a different version.
    #[error(
        "{}: its layout has version {found}, this program's has {expected}; use the program that wrote it", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The version of this program.
        expected: i64,
    },
    /// The file or its disk failed.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's message, and the remedy.
        message: String,
    },
    /// The file was moved or deleted.
    #[error(
        "{}: the file was moved, removed or replaced while the game used it; put it back, or start again", path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Another process played the round in the meantime.
    #[error(
        "{}: round {round} was played by another process in the meantime; run only one process per game", path.display()
    )]
    Overtaken {
        /// The record.
        path: PathBuf,
        /// The round, from 1.
        round: usize,
    },
    /// A submitted move is invalid.
    #[error("{message}")]
    Move {
        /// The reason why the move is invalid, and the remedy.
        message: String,
    },
    /// A command in the file cannot be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A reasoning player cannot decide.
    #[error("{player:?} cannot decide: {cause}")]
    Mind {
        /// The player.
        player: String,
        /// The cause.
        cause: GameError,
    },
    /// A setting is invalid.
    #[error(transparent)]
    Game(#[from] GameError),
}
