//! Errors of a game.

use fedbo_gp::GpError;
use fedbo_optim::OptimError;

/// A game, a round or a player was refused, or a decision failed. Players count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GameError {
    /// A game has fewer than two players.
    #[error("a game has at least 2 players, found {found}")]
    TooFewPlayers {
        /// Number of action sets.
        found: usize,
    },
    /// An action set has no actions or no coordinates.
    #[error("player {player} has no action")]
    NoAction {
        /// The player.
        player: usize,
    },
    /// An action of a finite set is outside the unit cube.
    #[error("action {index} of player {player} does not lie in the unit cube")]
    OutsideCube {
        /// The player.
        player: usize,
        /// The index of the action.
        index: usize,
    },
    /// The number of players, actions, payoffs or probabilities is wrong.
    #[error("{what}: {found}, expected {expected}")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// The actual number.
        found: usize,
        /// The expected number.
        expected: usize,
    },
    /// An action is not in the player's set.
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
        /// The given player number.
        player: usize,
        /// The number of players.
        n_players: usize,
    },
    /// A setting is out of range.
    #[error("{name} = {value}: expected {expected}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The given value.
        value: String,
        /// The permitted range.
        expected: &'static str,
    },
    /// A strategy or computation is defined only for finite action sets.
    #[error("{what} needs a finite action set, and that of player {player} is continuous")]
    NeedsFiniteActions {
        /// The strategy or computation.
        what: &'static str,
        /// The player with the continuous action set.
        player: usize,
    },
    /// A player's beliefs do not cover every other player exactly once.
    #[error(
        "player {player} has no belief or two beliefs about player {other}, or one about itself"
    )]
    Beliefs {
        /// The player with the beliefs.
        player: usize,
        /// The player about which the beliefs are missing, duplicated or invalid.
        other: usize,
    },
    /// A tree of beliefs has too many nodes.
    #[error("a tree of more than {most} beliefs")]
    TooManyBeliefs {
        /// The maximum.
        most: usize,
    },
    /// The other players have too many joint actions for an exact expectation.
    #[error(
        "{found} joint actions of the others: expectations over more than {most} are taken by samples"
    )]
    TooManyJointActions {
        /// The number of joint actions.
        found: usize,
        /// The maximum number for enumeration.
        most: usize,
    },
    /// A mixed strategy has no valid probabilities, or returns an action outside the player's set.
    #[error("the mixed strategy of player {player} has no playable action")]
    NoLaw {
        /// The player.
        player: usize,
    },
    /// An operation on a Gaussian process failed.
    #[error(transparent)]
    Gp(#[from] GpError),
    /// Maximization failed.
    #[error(transparent)]
    Optim(#[from] OptimError),
}

/// Converts a count to `f64`.
#[expect(clippy::cast_precision_loss, reason = "actions, rounds and dimensions are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// Refuses a setting that is not finite or does not satisfy `fits`.
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
