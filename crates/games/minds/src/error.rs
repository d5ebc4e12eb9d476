//! Errors of a game.

use fedbo_gp::GpError;
use fedbo_optim::OptimError;

/// The reason why a game, a round or a player is refused, or a decision could not be made. Players count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GameError {
    /// A game needs somebody to play with.
    #[error("a game has at least 2 players, found {found}")]
    TooFewPlayers {
        /// Number of action sets.
        found: usize,
    },
    /// An action set has no action, or no coordinate.
    #[error("player {player} has no action")]
    NoAction {
        /// The player.
        player: usize,
    },
    /// An action of a finite set lies outside the unit cube.
    #[error("action {index} of player {player} does not lie in the unit cube")]
    OutsideCube {
        /// The player.
        player: usize,
        /// The index of the action.
        index: usize,
    },
    /// A number of players, actions, payoffs or probabilities does not fit.
    #[error("{what}: {found}, expected {expected}")]
    Count {
        /// The things that are counted.
        what: &'static str,
        /// The number that was found.
        found: usize,
        /// The number that was expected.
        expected: usize,
    },
    /// An action is not one of the player's set.
    #[error("round {round}: player {player} has no such action")]
    UnknownAction {
        /// The round, from 0.
        round: usize,
        /// The player.
        player: usize,
    },
    /// A payoff is NaN or infinite.
    #[error("round {round}: the payoff of player {player} is not finite")]
    Payoff {
        /// The round, from 0.
        round: usize,
        /// The player.
        player: usize,
    },
    /// An entry of a payoff table is NaN or infinite.
    #[error("entry {index} of a payoff table is not finite")]
    Table {
        /// The index of the entry, from 0.
        index: usize,
    },
    /// There is no such player.
    #[error("player {player} of {n_players}, counted from 0")]
    UnknownPlayer {
        /// The number of the player that was given.
        player: usize,
        /// The number of players.
        n_players: usize,
    },
    /// A setting is out of range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The range.
        expected: &'static str,
    },
    /// Something is defined for finite action sets only.
    #[error("{what} needs a finite action set, and that of player {player} is continuous")]
    NeedsFiniteActions {
        /// The strategy or computation that needs it.
        what: &'static str,
        /// The player whose action set is continuous.
        player: usize,
    },
    /// A player's beliefs do not name every other player once.
    #[error(
        "player {player} believes nothing, or two things, of player {other}, or something of itself"
    )]
    Beliefs {
        /// The player that holds the beliefs.
        player: usize,
        /// The player that they are about.
        other: usize,
    },
    /// Beliefs within beliefs are too many.
    #[error("a tree of more than {most} beliefs")]
    TooManyBeliefs {
        /// The most there may be.
        most: usize,
    },
    /// An expectation over all joint actions of the others is too large to be taken exactly.
    #[error(
        "{found} joint actions of the others: expectations over more than {most} are taken by samples"
    )]
    TooManyJointActions {
        /// The number of joint actions.
        found: usize,
        /// The most that are enumerated.
        most: usize,
    },
    /// A mixed strategy gives no probability, or an action that the player has not.
    #[error("the mixed strategy of player {player} gives nothing that can be played")]
    NoLaw {
        /// The player.
        player: usize,
    },
    /// No posterior.
    #[error(transparent)]
    Gp(#[from] GpError),
    /// No maximum.
    #[error(transparent)]
    Optim(#[from] OptimError),
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "actions, rounds and dimensions are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// Refuses a setting unless it is finite and `fits`.
pub(crate) fn setting(
    name: &'static str,
    value: f64,
    expected: &'static str,
    fits: impl Fn(f64) -> bool,
) -> Result<(), GameError> {
    if value.is_finite() && fits(value) {
        return Ok(());
    }
    Err(GameError::Setting { name, value: value.to_string(), expected })
}
