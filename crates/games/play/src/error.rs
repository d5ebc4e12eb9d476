//! Errors of a game that people play.

use std::path::PathBuf;

use fedbo_config::Changes;
use fedbo_games::GameError;
use fedbo_objective::{CommandError, Failure};

use crate::payoffs::PAYOFF_MAX;

/// The reason why a player gave no action, or a round has no payoffs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingActionReason {
    /// The program failed, or did not end in time.
    #[error(transparent)]
    Program(#[from] Failure),
    /// The program did not print what was asked for.
    #[error("it printed {found}, expected {expected}{stderr}")]
    Nonsense {
        /// Its last line.
        found: String,
        /// The output that was asked for.
        expected: String,
        /// The end of its standard error, with words that lead to it; empty if there was none.
        stderr: String,
    },
    /// The program says that it has no payoff for a player.
    #[error("the payoff of {player:?} is no finite number within ±{PAYOFF_MAX:e}")]
    LostPayoff {
        /// The first of them.
        player: String,
    },
    /// The program did not print an action of the player's.
    #[error("it printed {found}, {why}")]
    NoAction {
        /// Its last line.
        found: String,
        /// The reason why it is none.
        why: String,
    },
    /// Nobody told a move in time.
    #[error("no move was told within {seconds} s")]
    NoMove {
        /// The time.
        seconds: f64,
    },
}

/// The reason why a game cannot go on. The record of what was played is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// A player gave no action, and the file says that the game stops then.
    #[error("round {round}: no action of {player:?}: {cause}")]
    Player {
        /// The round, from 1.
        round: usize,
        /// The player.
        player: String,
        /// The cause.
        cause: MissingActionReason,
    },
    /// The payoffs did not come, and the file says that the game stops then.
    #[error("round {round}: no payoffs: {cause}")]
    Payoffs {
        /// The round, from 1.
        round: usize,
        /// The cause.
        cause: MissingActionReason,
    },
    /// The same went wrong round after round.
    #[error("round {round}: {what} failed {times} times in a row, the last time because {cause}")]
    Repeatedly {
        /// The last round, from 1.
        round: usize,
        /// A player, or the payoffs.
        what: String,
        /// The number of failures in a row.
        times: usize,
        /// The last cause.
        cause: MissingActionReason,
    },
    /// The file of the record holds another game.
    #[error(
        "{}: it holds the game with other settings: {changes}; name another storage, or put the file back", path.display()
    )]
    Differs {
        /// The record.
        path: PathBuf,
        /// The keys that differ.
        changes: Box<Changes>,
    },
    /// Nothing was played yet.
    #[error("{}: no game is kept there yet; begin it with fedbo play", path.display())]
    Absent {
        /// The path at which the record would be.
        path: PathBuf,
    },
    /// The record cannot be a game's.
    #[error("{}: {message}", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// A description of the file, and the way out.
        message: String,
    },
    /// The record is of another version.
    #[error(
        "{}: its layout has version {found}, this program's has {expected}; use the program that wrote it", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The file's.
        found: i64,
        /// This program's.
        expected: i64,
    },
    /// The file or its disk refuses.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's message, and the way out.
        message: String,
    },
    /// The file is no longer where it was.
    #[error(
        "{}: the file is no longer where it was when the game began to use it; put it back, or begin anew", path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// Another process has played a round in the meantime.
    #[error(
        "{}: round {round} was played by another process meanwhile; let one process play a game", path.display()
    )]
    Overtaken {
        /// The record.
        path: PathBuf,
        /// The round, from 1.
        round: usize,
    },
    /// A move was told that cannot be taken.
    #[error("{message}")]
    Move {
        /// The reason, and the way out.
        message: String,
    },
    /// A command of the file cannot be run.
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
    /// A setting cannot be used.
    #[error(transparent)]
    Game(#[from] GameError),
}
