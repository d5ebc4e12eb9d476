//! β_t: the factor of a payoff's standard deviation in the upper confidence bound.

use std::f64::consts::PI;

use crate::error::{count, setting};
use crate::{Game, GameError};

/// The form of the upper confidence bound of a payoff, α = μ + β_t^{1/2} σ (thesis (8.2)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ucb {
    /// The width β_t^{1/2}.
    pub width: UcbWidth,
    /// True if σ is the standard deviation of an observation, as in the authors' code; false if it
    /// is that of the noise-free payoff.
    pub with_noise: bool,
}

/// The factor β_t^{1/2} of σ, after taking the square root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UcbWidth {
    /// √(2 ln(|X_i| t² π²/(3δ))), where |X_i| is the number of the player's own actions (Theorem
    /// 8.1).
    Theorem {
        /// δ in (0, 1).
        failure_prob: f64,
    },
    /// A factor that is the same at every iteration.
    Constant(f64),
    /// √(c d ln 2t); c = 0.5 in the authors' code.
    Logarithmic {
        /// c ≥ 0.
        factor: f64,
        /// The dimension d.
        dim: CountedDim,
    },
}

/// Coordinates counted in d.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedDim {
    /// Coordinates of the joint action.
    Joint,
    /// The player's own coordinates.
    Own,
    /// The player's own coordinates in the expectation at level 1; joint coordinates in best
    /// responses and at level 0, as in the authors' code for synthetic games.
    OwnInExpectations,
}

/// Purpose of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundPurpose {
    Level0,
    Expectation,
    Response,
}

impl Ucb {
    /// Creates a bound for the noise-free payoff.
    pub fn new(width: UcbWidth) -> Self {
        Self { width, with_noise: false }
    }

    pub(crate) fn validate(&self, game: &Game, player: usize) -> Result<(), GameError> {
        match self.width {
            UcbWidth::Theorem { failure_prob } => {
                setting(
                    "failure_prob",
                    failure_prob,
                    "a number between 0 and 1, ends excluded",
                    |v| v > 0.0 && v < 1.0,
                )?;
                match game.action_set(player).n_actions() {
                    Some(_) => Ok(()),
                    None => Err(GameError::NeedsFiniteActions {
                        what: "the width of Theorem 8.1",
                        player,
                    }),
                }
            }
            UcbWidth::Constant(width) => setting("ucb_width", width, "at least 0", |v| v >= 0.0),
            UcbWidth::Logarithmic { factor, .. } => {
                setting("ucb_factor", factor, "at least 0", |v| v >= 0.0)
            }
        }
    }

    /// Returns β_t^{1/2} for player `player` at iteration t ≥ 1.
    pub(crate) fn factor(&self, game: &Game, player: usize, t: usize, of: BoundPurpose) -> f64 {
        match self.width {
            UcbWidth::Theorem { failure_prob } => {
                let n_actions = game.action_set(player).n_actions().unwrap_or(1);
                theorem_beta(n_actions, t, failure_prob).sqrt()
            }
            UcbWidth::Constant(width) => width,
            UcbWidth::Logarithmic { factor, dim } => {
                let own = match dim {
                    CountedDim::Joint => false,
                    CountedDim::Own => true,
                    CountedDim::OwnInExpectations => of == BoundPurpose::Expectation,
                };
                let d = if own { game.action_set(player).dim() } else { game.dim() };
                (factor * count(d) * (2.0 * count(t.max(1))).ln()).sqrt()
            }
        }
    }
}

/// Returns β_t = 2 ln(|X_1| t² π²/(3δ)) (Theorem 8.1).
pub(crate) fn theorem_beta(n_actions: usize, t: usize, failure_prob: f64) -> f64 {
    let logs = count(n_actions).ln() + 2.0 * count(t.max(1)).ln() + 2.0 * PI.ln();
    2.0 * (logs - (3.0 * failure_prob).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ActionSet;

    /// Computed by hand: 2 ln(100·9·π²/0.3) at t = 3; 0.5·d·ln 10 at t = 5 with d = 1 or d = 1 + 2.
    #[test]
    fn widths_are_the_published_ones() {
        let plane = ActionSet::Continuous { dim: 2 };
        let game = Game::new(vec![ActionSet::grid(100), plane], 0).unwrap();
        let at = |width, t, of| Ucb::new(width).factor(&game, 0, t, of).powi(2);
        let theorem = UcbWidth::Theorem { failure_prob: 0.1 };
        let expected = 2.0 * (900.0 * PI * PI / 0.3_f64).ln();
        assert!((at(theorem, 3, BoundPurpose::Level0) - expected).abs() < 1e-12);
        for (dim, expectation, response) in [
            (CountedDim::Joint, 3.0, 3.0),
            (CountedDim::Own, 1.0, 1.0),
            (CountedDim::OwnInExpectations, 1.0, 3.0),
        ] {
            let width = UcbWidth::Logarithmic { factor: 0.5, dim };
            let unit = 0.5 * 10.0_f64.ln();
            assert!((at(width, 5, BoundPurpose::Expectation) - expectation * unit).abs() < 1e-12);
            assert!((at(width, 5, BoundPurpose::Response) - response * unit).abs() < 1e-12);
            assert!((at(width, 5, BoundPurpose::Level0) - response * unit).abs() < 1e-12);
        }
    }

    #[test]
    fn widths_out_of_range_are_refused() {
        let game = Game::new(vec![ActionSet::grid(2), ActionSet::Continuous { dim: 1 }], 0);
        let game = game.unwrap();
        let dim = CountedDim::Own;
        for bad in [
            UcbWidth::Theorem { failure_prob: 0.0 },
            UcbWidth::Theorem { failure_prob: 1.0 },
            UcbWidth::Constant(-1.0),
            UcbWidth::Constant(f64::NAN),
            UcbWidth::Logarithmic { factor: -0.1, dim },
        ] {
            assert!(matches!(Ucb::new(bad).validate(&game, 0), Err(GameError::Setting { .. })));
        }
        let theorem = Ucb::new(UcbWidth::Theorem { failure_prob: 0.1 });
        assert_eq!(theorem.validate(&game, 0), Ok(()));
        let refused = theorem.validate(&game, 1);
        assert!(matches!(refused, Err(GameError::NeedsFiniteActions { player: 1, .. })));
    }
}
