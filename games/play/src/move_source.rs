//! The source of each player's action, and the response to a missing action.

use std::time::Duration;

use fedbo_objective::CommandSpec;

/// Source of a player's moves. It is not part of a game's definition, so it may change between
/// runs.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveSource {
    /// The player reasons in this process.
    Reasoning,
    /// A program, run once per round.
    Program {
        /// The program.
        command: CommandSpec,
        /// The response to a failure.
        on_failure: OnFailure,
    },
    /// Moves are told by hand.
    ByHand {
        /// The timeout for a move; `None` for no limit.
        timeout: Option<Duration>,
        /// The response to a timeout.
        on_failure: OnFailure,
    },
}

/// Response to a missing action: the program crashes, prints invalid output, or times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Ends the run; the same command line resumes with this round.
    #[default]
    Stop,
    /// Substitutes a uniformly drawn action.
    Random,
    /// Substitutes the player's last action, or a random one in the first round.
    Repeat,
}

/// Response to missing payoffs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostPayoffs {
    /// Ends the run; the same command line plays this round again.
    #[default]
    Stop,
    /// Records the round without the lost payoffs, and the players learn nothing from these.
    GoOn,
}
