//! Action sets of the players, and joint actions.

use std::ops::Range;

use fedbo_optim::Points;
use fedbo_streams::Stream;
use serde::{Deserialize, Serialize};

use crate::error::count;
use crate::{GameError, Round};

/// Action set of one player, X_i in thesis section 8.2.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionSet {
    /// A list of points in the unit cube `[0,1]^d`.
    Finite(Points),
    /// The whole cube `[0,1]^d`.
    Continuous {
        /// The dimension d.
        dim: usize,
    },
}

/// One player's action in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Action {
    /// Index in a finite list, from 0.
    Index(usize),
    /// Point in the cube.
    Point(Vec<f64>),
}

impl ActionSet {
    /// Returns n equally spaced points in `[0, 1]`, including both ends; only 0 for n = 1.
    pub fn grid(n: usize) -> Self {
        let last = count(n.saturating_sub(1).max(1));
        let points = (0..n).map(|i| count(i) / last).collect();
        Self::Finite(Points::from_flat(1, points))
    }

    /// Returns the dimension d.
    pub fn dim(&self) -> usize {
        match self {
            Self::Finite(points) => points.dim(),
            Self::Continuous { dim } => *dim,
        }
    }

    /// Returns the number of actions, or `None` for a continuous set.
    pub fn n_actions(&self) -> Option<usize> {
        match self {
            Self::Finite(points) => Some(points.len()),
            Self::Continuous { .. } => None,
        }
    }

    /// Returns the d coordinates of an action, or `None` if the action is not in this set.
    pub fn point<'a>(&'a self, action: &'a Action) -> Option<&'a [f64]> {
        match (self, action) {
            (Self::Finite(points), Action::Index(index)) => {
                (*index < points.len()).then(|| points.row(*index))
            }
            (Self::Continuous { dim }, Action::Point(point)) => {
                let fits = point.len() == *dim && point.iter().all(|v| (0.0..=1.0).contains(v));
                fits.then_some(point.as_slice())
            }
            _ => None,
        }
    }

    /// Draws an action uniformly.
    pub fn uniform(&self, stream: &mut Stream) -> Action {
        match self {
            Self::Finite(points) => Action::Index(stream.below(points.len())),
            Self::Continuous { dim } => {
                Action::Point((0..*dim).map(|_| stream.uniform()).collect())
            }
        }
    }
}

/// The action sets of n ≥ 2 players, and the number of initial random rounds.
///
/// A joint action is a point in `[0,1]^D`, the concatenation of the players' coordinates. Joint
/// actions of finite sets are numbered so that the last player's index varies fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Game {
    action_sets: Vec<ActionSet>,
    n_initial: usize,
    /// The index of each player's first coordinate, followed by D.
    offsets: Vec<usize>,
}

impl Game {
    /// Creates a game. In its first `n_initial` rounds, every player acts uniformly at random.
    ///
    /// # Errors
    /// With fewer than two players, an action set without actions, or an action outside the cube.
    pub fn new(action_sets: Vec<ActionSet>, n_initial: usize) -> Result<Self, GameError> {
        if action_sets.len() < 2 {
            return Err(GameError::TooFewPlayers { found: action_sets.len() });
        }
        let mut offsets = vec![0];
        for (player, set) in action_sets.iter().enumerate() {
            if set.dim() == 0 || set.n_actions() == Some(0) {
                return Err(GameError::NoAction { player });
            }
            if let ActionSet::Finite(points) = set {
                let inside = |x: &[f64]| x.iter().all(|v| (0.0..=1.0).contains(v));
                if let Some(index) = points.rows().position(|x| !inside(x)) {
                    return Err(GameError::OutsideCube { player, index });
                }
            }
            offsets.push(offsets[player] + set.dim());
        }
        Ok(Self { action_sets, n_initial, offsets })
    }

    /// Returns the number of players n.
    pub fn n_players(&self) -> usize {
        self.action_sets.len()
    }

    /// Returns the number of initial random rounds.
    pub fn n_initial(&self) -> usize {
        self.n_initial
    }

    /// Returns a player's action set.
    pub fn action_set(&self, player: usize) -> &ActionSet {
        &self.action_sets[player]
    }

    /// Returns the dimension D of joint actions.
    pub fn dim(&self) -> usize {
        self.offsets[self.n_players()]
    }

    /// Returns the range of a player's coordinates in a joint action.
    pub fn coordinates(&self, player: usize) -> Range<usize> {
        self.offsets[player]..self.offsets[player + 1]
    }

    /// Returns the iteration number t ≥ 1 after `n_rounds` rounds. Initial rounds do not count.
    pub fn iteration(&self, n_rounds: usize) -> usize {
        n_rounds.saturating_sub(self.n_initial) + 1
    }

    /// Returns a joint action as a point with D coordinates, or `None` if the action does not
    /// belong to this game.
    pub fn joint(&self, actions: &[Action]) -> Option<Vec<f64>> {
        if actions.len() != self.n_players() {
            return None;
        }
        let mut joint = Vec::with_capacity(self.dim());
        for (set, action) in self.action_sets.iter().zip(actions) {
            joint.extend_from_slice(set.point(action)?);
        }
        Some(joint)
    }

    /// Checks that a round belongs to this game. Errors report `index` as its number.
    ///
    /// # Errors
    /// If an action or a payoff is invalid.
    pub fn check(&self, index: usize, round: &Round) -> Result<(), GameError> {
        for (what, found) in [
            ("actions of a round", round.actions.len()),
            ("payoffs of a round", round.payoffs.len()),
        ] {
            if found != self.n_players() {
                return Err(GameError::Count { what, found, expected: self.n_players() });
            }
        }
        for (player, set) in self.action_sets.iter().enumerate() {
            if set.point(&round.actions[player]).is_none() {
                return Err(GameError::UnknownAction { round: index, player });
            }
            if round.payoffs[player].is_some_and(|payoff| !payoff.is_finite()) {
                return Err(GameError::Payoff { round: index, player });
            }
        }
        Ok(())
    }

    /// Returns the number of joint actions, or `None` if a set is continuous or the product
    /// overflows.
    pub(crate) fn n_joint(&self) -> Option<usize> {
        let sizes = self.action_sets.iter().map(ActionSet::n_actions);
        sizes.into_iter().try_fold(1_usize, |n, k| n.checked_mul(k?))
    }

    /// Returns the difference between the numbers of two joint actions that differ only in this
    /// player's index, by 1.
    pub(crate) fn stride(&self, player: usize) -> usize {
        let later = &self.action_sets[player + 1..];
        later.iter().filter_map(ActionSet::n_actions).product()
    }

    /// Returns all joint actions as points, in the order of their numbers. Sets must be finite.
    pub(crate) fn joint_points(&self) -> Points {
        let mut rows: Vec<Vec<f64>> = vec![Vec::new()];
        for set in &self.action_sets {
            if let ActionSet::Finite(points) = set {
                let extend = |row: &Vec<f64>| {
                    let of_row: Vec<Vec<f64>> =
                        points.rows().map(|x| [row.as_slice(), x].concat()).collect();
                    of_row
                };
                rows = rows.iter().flat_map(extend).collect();
            }
        }
        Points::from_rows(self.dim(), rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane() -> Points {
        Points::from_rows(2, [[0.0, 0.5], [1.0, 0.25]])
    }

    #[test]
    fn joint_actions_are_numbered_with_the_last_player_fastest() {
        let sets = vec![ActionSet::grid(3), ActionSet::Finite(plane()), ActionSet::grid(2)];
        let game = Game::new(sets, 0).unwrap();
        let points = game.joint_points();
        assert_eq!((game.n_joint(), points.len()), (Some(12), 12));
        for a in 0..3 {
            for b in 0..2 {
                for c in 0..2 {
                    let number = a * game.stride(0) + b * game.stride(1) + c * game.stride(2);
                    let actions = [a, b, c].map(Action::Index);
                    assert_eq!(game.joint(&actions).unwrap(), points.row(number));
                }
            }
        }
        assert_eq!(game.coordinates(1), 1..3);
        assert_eq!(game.joint(&[Action::Index(0), Action::Index(2), Action::Index(0)]), None);
    }

    #[test]
    fn games_and_rounds_that_are_none_are_refused() {
        let one = Game::new(vec![ActionSet::grid(3)], 0);
        assert_eq!(one, Err(GameError::TooFewPlayers { found: 1 }));
        let empty = vec![ActionSet::grid(3), ActionSet::Finite(Points::new(1))];
        assert_eq!(Game::new(empty, 0), Err(GameError::NoAction { player: 1 }));
        let outside = ActionSet::Finite(Points::from_flat(1, vec![0.5, f64::NAN]));
        let found = Game::new(vec![outside, ActionSet::grid(3)], 0);
        assert_eq!(found, Err(GameError::OutsideCube { player: 0, index: 1 }));

        let game =
            Game::new(vec![ActionSet::grid(3), ActionSet::Continuous { dim: 2 }], 1).unwrap();
        let round = |a, b: Vec<f64>, payoff| Round {
            actions: vec![Action::Index(a), Action::Point(b)],
            payoffs: vec![None, Some(payoff)],
        };
        assert_eq!(game.check(0, &round(2, vec![0.0, 1.0], 0.0)), Ok(()));
        let refused = [
            (round(3, vec![0.0, 1.0], 0.0), GameError::UnknownAction { round: 7, player: 0 }),
            (round(0, vec![0.0, 1.1], 0.0), GameError::UnknownAction { round: 7, player: 1 }),
            (round(0, vec![0.0], 0.0), GameError::UnknownAction { round: 7, player: 1 }),
            (round(0, vec![0.0, 1.0], f64::NAN), GameError::Payoff { round: 7, player: 1 }),
        ];
        for (round, error) in refused {
            assert_eq!(game.check(7, &round), Err(error));
        }
        assert_eq!((game.iteration(0), game.iteration(1), game.iteration(5)), (1, 1, 5));
    }
}
