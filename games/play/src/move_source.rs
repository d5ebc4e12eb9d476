//! The source of each player's actions, and the action to take if one is missing.

use std::time::Duration;

use fedbo_objective::CommandSpec;

/// Source of a player's moves. The source is not part of a game's definition, so it can change
/// between runs.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveSource {
    /// The player reasons in this process.
    Reasoning,
    /// A program that runs once per round.
    Program {
        /// The program.
        command: CommandSpec,
        /// Action to take on a failure.
        on_failure: OnFailure,
    },
    /// Moves are made by hand.
    ByHand {
        /// The timeout for a move; `None` for no limit.
        timeout: Option<Duration>,
        /// Action to take on a timeout.
        on_failure: OnFailure,
    },
}

/// Action to take if a move is missing: the program crashes, prints invalid output, or times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Ends the run. The same command line resumes at this round.
    #[default]
    Stop,
    /// Substitutes a uniformly drawn action.
    Random,
    /// Repeats the player's last action, or draws a random one in the first round.
    Repeat,
}

/// Action to take if payoffs are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostPayoffs {
    /// Ends the run. The same command line plays this round again.
    #[default]
    Stop,
    /// Records the round without the lost payoffs, from which the players learn nothing.
    GoOn,
}
