//! The source of each player's action, and the response where none comes.

use std::time::Duration;

use fedbo_objective::CommandSpec;

/// The way in which a player is asked; not part of a game's definition, so it may be changed between two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveSource {
    /// It reasons, in this process.
    Reasoning,
    /// A program, run once a round.
    Program {
        /// The program.
        command: CommandSpec,
        /// The response to its failure.
        on_failure: OnFailure,
    },
    /// Moves are told.
    ByHand {
        /// The longest time to wait for a move; `None` for no limit.
        timeout: Option<Duration>,
        /// The response when no move came by then.
        on_failure: OnFailure,
    },
}

/// The response of a game when a player gives no action: its program crashes, answers nonsense, or takes too long.
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

/// The response of a game when the payoffs of a round do not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostPayoffs {
    /// The run ends; the same line plays this round again.
    #[default]
    Stop,
    /// The round stands in the record without the payoffs that are lost, and nobody learns from it what is not there.
    GoOn,
}
