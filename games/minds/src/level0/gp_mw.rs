//! GP-MW: multiplicative weights on optimistic payoffs (Sessa et al. 2019; thesis appendix E.1).

use fedbo_optim::Points;

use super::{check_bounds, softmax, unit_payoff};
use crate::error::{count, setting};
use crate::payoff_model::PayoffModel;
use crate::ucb::BoundPurpose;
use crate::{ActionSet, Game, GameError, Round, Ucb};

/// Settings of [`GpMw`](super::Level0Strategy::GpMw).
#[derive(Clone, Debug, PartialEq)]
pub struct GpMwSettings {
    /// The rate η.
    pub mw_rate: MwRate,
    /// Lower and upper bound of the payoffs. They scale the confidence bounds to [0, 1], and the
    /// result is clipped, as the theorem requires. `None` uses raw bounds, as the authors' code
    /// does.
    pub payoff_bounds: Option<(f64, f64)>,
}

/// The rate η, for K actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MwRate {
    /// √(8 ln K/T) for a game of T rounds (Theorem 8.1 and Sessa et al. 2019, Theorem 1).
    Horizon(usize),
    /// η_t = √(8 ln K/t), applied to all payoffs so far, for games of unknown length (Cesa-Bianchi
    /// & Lugosi 2006, Theorem 2.3).
    Anytime,
    /// A fixed rate; 0.1 in the authors' code.
    Given(f64),
}

/// The weights.
///
/// P_{t+1}(x_i) ∝ exp(η Σ_{s≤t} u_s(x_i)),   u_s(x_i) = clip(α_{s+1}(x_i, x_{−i,s}))
///
/// α_{s+1} is the bound computed after round s: "after iteration t, 𝒜 calculates the updated value"
/// (appendix E.1). In exact arithmetic, this is Sessa et al.'s update with losses 1 − u.
#[derive(Clone, Debug)]
pub(crate) struct GpMw {
    settings: GpMwSettings,
    /// Σ_s u_s.
    cumulative: Vec<f64>,
    n_rounds: usize,
}

impl GpMw {
    pub(crate) fn new(settings: GpMwSettings, n_actions: usize) -> Result<Self, GameError> {
        check_bounds(settings.payoff_bounds)?;
        match settings.mw_rate {
            MwRate::Given(rate) => setting("mw_rate", rate, "above 0", |v| v > 0.0)?,
            MwRate::Horizon(0) => setting("horizon", 0.0, "at least 1 round", |v| v > 0.0)?,
            MwRate::Horizon(_) | MwRate::Anytime => {}
        }
        Ok(Self { settings, cumulative: vec![0.0; n_actions], n_rounds: 0 })
    }

    /// Adds the bounds of all the player's own actions, given the others' actions in a round.
    pub(crate) fn observe(
        &mut self,
        game: &Game,
        model: &PayoffModel,
        ucb: &Ucb,
        index: usize,
        round: &Round,
    ) -> Result<(), GameError> {
        let player = model.player();
        let (ActionSet::Finite(own), Some(joint)) =
            (game.action_set(player), game.joint(&round.actions))
        else {
            return Err(GameError::UnknownAction { round: index, player });
        };
        let mut cells = Points::new(game.dim());
        let mut cell = joint;
        for x in own.rows() {
            cell[game.coordinates(player)].copy_from_slice(x);
            cells.push(&cell);
        }
        let factor = model.factor(game, ucb, game.iteration(index + 1), BoundPurpose::Level0);
        let bounds = model.bounds(&cells, ucb, factor);
        for (sum, bound) in self.cumulative.iter_mut().zip(bounds) {
            *sum += match self.settings.payoff_bounds {
                Some(range) => unit_payoff(bound, range),
                None => bound,
            };
        }
        self.n_rounds += 1;
        Ok(())
    }

    pub(crate) fn probabilities(&self) -> Vec<f64> {
        let ln_k = count(self.cumulative.len()).ln();
        let rate = match self.settings.mw_rate {
            MwRate::Given(rate) => rate,
            MwRate::Horizon(horizon) => (8.0 * ln_k / count(horizon)).sqrt(),
            MwRate::Anytime => (8.0 * ln_k / count(self.n_rounds + 1)).sqrt(),
        };
        let scores: Vec<f64> = self.cumulative.iter().map(|sum| rate * sum).collect();
        softmax(&scores)
    }
}
