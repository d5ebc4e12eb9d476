//! Whose action comes from where, and what happens where none comes.

use std::time::Duration;

use fedbo_objective::CommandSpec;

/// How a player is asked; not part of what a game is, so it may be changed between two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Mover {
    /// It reasons, in this process.
    Reasoning,
    /// A program, run once a round.
    Program {
        /// The program.
        command: CommandSpec,
        /// What happens if it fails.
        on_failure: OnFailure,
    },
    /// Moves are told.
    ByHand {
        /// For how long one waits for a move.
        timeout: Option<Duration>,
        /// What happens then.
        on_failure: OnFailure,
    },
}

/// What happens to a game when a player gives no action: its program crashes, answers nonsense, or takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The run ends; the same line goes on with this round.
    #[default]
    Stop,
    /// An action drawn uniformly stands in.
    Random,
    /// The player's last action stands in; a random one in the first round.
    Repeat,
}

/// What happens when the payoffs of a round do not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostPayoffs {
    /// The run ends; the same line plays this round again.
    #[default]
    Stop,
    /// The round stands in the record without the payoffs that are lost, and nobody learns from it what is not there.
    GoOn,
}
