//! Level 0: mixed strategies, which need no model of the others' reasoning (thesis section
//! 8.3.1.1).

mod exp3;
mod gp_mw;

use std::fmt::Debug;
use std::sync::Arc;

use fedbo_streams::Stream;

use crate::error::count;
use crate::payoff_model::PayoffModel;
use crate::{Action, ActionSet, Game, GameError, Round, Ucb};

pub use exp3::{Exp3Rate, Exp3Settings, Exploration, FeatureLaw};
pub use gp_mw::{GpMwSettings, MwRate};

use exp3::Exp3;
use gp_mw::GpMw;

/// A player's level-0 strategy P_{i,t}^0, as plain data.
#[derive(Clone, Debug)]
pub enum Level0Strategy {
    /// Uniform random actions.
    RandomSearch,
    /// Fixed probabilities, one per action of a finite set.
    Fixed(Vec<f64>),
    /// Multiplicative weights on optimistic payoffs.
    GpMw(GpMwSettings),
    /// Exponential weights for linear adversarial bandits, on random features.
    Exp3(Exp3Settings),
    /// A custom strategy, such as an existing attack or defence.
    Custom(Arc<dyn MixedStrategy>),
}

/// A custom mixed strategy. Its decisions must depend only on the record, so that a game can
/// continue from its record.
pub trait MixedStrategy: Debug + Send + Sync {
    /// Probabilities of the player's actions in the next round, if the action set is finite and the
    /// probabilities are known. They are normalized to sum to 1.
    fn probabilities(&self, game: &Game, player: usize, rounds: &[Round]) -> Option<Vec<f64>>;

    /// Draws the player's action in the next round. Called only if `probabilities` returns `None`.
    fn sample(&self, game: &Game, player: usize, rounds: &[Round], stream: &mut Stream) -> Action;
}

impl Level0Strategy {
    /// Returns true if both strategies always have the same distribution; always false for
    /// [`Level0Strategy::Custom`].
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::RandomSearch, Self::RandomSearch) => true,
            (Self::Fixed(a), Self::Fixed(b)) => a == b,
            (Self::GpMw(a), Self::GpMw(b)) => a == b,
            (Self::Exp3(a), Self::Exp3(b)) => a == b,
            _ => false,
        }
    }
}

/// Distribution of a player's next action.
#[derive(Clone, Debug)]
pub(crate) enum Law {
    /// Probabilities that sum to 1.
    Finite(Vec<f64>),
    /// Uniform over a cube.
    Cube,
    /// A distribution from which actions can only be drawn.
    Sampler(Arc<dyn MixedStrategy>),
}

impl Law {
    /// Normalizes probabilities to sum to 1.
    fn finite(weights: Vec<f64>, n_actions: usize, player: usize) -> Result<Self, GameError> {
        if weights.len() != n_actions {
            return Err(GameError::Count {
                what: "probabilities of a mixed strategy",
                found: weights.len(),
                expected: n_actions,
            });
        }
        let sum: f64 = weights.iter().sum();
        if !(sum.is_finite() && sum > 0.0 && weights.iter().all(|w| *w >= 0.0)) {
            return Err(GameError::NoLaw { player });
        }
        Ok(Self::Finite(weights.iter().map(|w| w / sum).collect()))
    }

    /// Draws an action.
    pub(crate) fn sample(
        &self,
        game: &Game,
        player: usize,
        rounds: &[Round],
        stream: &mut Stream,
    ) -> Result<Action, GameError> {
        let action = match self {
            Self::Finite(probabilities) => stream.choose(probabilities).map(Action::Index),
            Self::Cube => Some(game.action_set(player).uniform(stream)),
            Self::Sampler(strategy) => Some(strategy.sample(game, player, rounds, stream)),
        };
        let playable = action.filter(|action| game.action_set(player).point(action).is_some());
        playable.ok_or(GameError::NoLaw { player })
    }
}

/// A level-0 strategy with its state. The state depends only on the record, and is updated round by
/// round.
#[derive(Clone, Debug)]
pub(crate) struct Level0 {
    pub(crate) player: usize,
    strategy: Level0Strategy,
    /// Index of the payoff model and its confidence bound, if the strategy needs them.
    model: Option<(usize, Ucb)>,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    None,
    GpMw(GpMw),
    Exp3(Box<Exp3>),
}

impl Level0 {
    /// Creates the state before the first round.
    pub(crate) fn new(
        game: &Game,
        player: usize,
        strategy: &Level0Strategy,
        model: Option<(usize, Ucb)>,
    ) -> Result<Self, GameError> {
        let set = game.action_set(player);
        let needs_finite = |what| GameError::NeedsFiniteActions { what, player };
        let state = match strategy {
            Level0Strategy::RandomSearch | Level0Strategy::Custom(_) => State::None,
            Level0Strategy::Fixed(weights) => {
                let n_actions = set.n_actions().ok_or(needs_finite("a list of probabilities"))?;
                Law::finite(weights.clone(), n_actions, player)?;
                State::None
            }
            Level0Strategy::GpMw(settings) => {
                let n_actions = set.n_actions().ok_or(needs_finite("GP-MW"))?;
                State::GpMw(GpMw::new(settings.clone(), n_actions)?)
            }
            Level0Strategy::Exp3(settings) => match set {
                ActionSet::Finite(points) => {
                    State::Exp3(Box::new(Exp3::new(settings.clone(), points)?))
                }
                ActionSet::Continuous { .. } => return Err(needs_finite("EXP3")),
            },
        };
        Ok(Self { player, strategy: strategy.clone(), model, state })
    }

    /// Returns true if this is the state of `strategy` for this player and model.
    pub(crate) fn is(
        &self,
        player: usize,
        strategy: &Level0Strategy,
        model: Option<(usize, Ucb)>,
    ) -> bool {
        self.player == player && self.model == model && self.strategy.is_same(strategy)
    }

    /// Updates the state with a round that the models have already observed. `index` counts rounds
    /// from 0.
    pub(crate) fn observe(
        &mut self,
        game: &Game,
        models: &[PayoffModel],
        index: usize,
        round: &Round,
    ) -> Result<(), GameError> {
        match &mut self.state {
            State::None => Ok(()),
            State::GpMw(weights) => match &self.model {
                Some((model, ucb)) => weights.observe(game, &models[*model], ucb, index, round),
                None => Ok(()),
            },
            State::Exp3(exp3) => {
                let was_random = index < game.n_initial();
                match (&round.actions[self.player], round.payoffs[self.player]) {
                    (Action::Index(action), Some(payoff)) => {
                        exp3.observe(*action, payoff, was_random)
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Returns the distribution of the next action.
    pub(crate) fn law(&self, game: &Game, rounds: &[Round]) -> Result<Law, GameError> {
        let set = game.action_set(self.player);
        match (&self.state, &self.strategy) {
            (State::GpMw(weights), _) => Ok(Law::Finite(weights.probabilities())),
            (State::Exp3(exp3), _) => Ok(Law::Finite(exp3.probabilities())),
            (State::None, Level0Strategy::Fixed(weights)) => {
                Law::finite(weights.clone(), weights.len(), self.player)
            }
            (State::None, Level0Strategy::Custom(strategy)) => {
                match (strategy.probabilities(game, self.player, rounds), set.n_actions()) {
                    (Some(weights), Some(n_actions)) => {
                        Law::finite(weights, n_actions, self.player)
                    }
                    _ => Ok(Law::Sampler(Arc::clone(strategy))),
                }
            }
            (State::None, _) => Ok(match set.n_actions() {
                Some(n) => Law::Finite(vec![1.0 / count(n); n]),
                None => Law::Cube,
            }),
        }
    }
}

/// exp(s_a)/Σ exp(s_b) for finite scores. The largest score is subtracted first to avoid overflow.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| libm::exp(s - largest)).collect();
    let sum: f64 = weights.iter().sum(); // at least 1
    weights.iter().map(|w| w / sum).collect()
}

/// Scales a payoff between the bounds to [0, 1].
fn unit_payoff(payoff: f64, bounds: (f64, f64)) -> f64 {
    ((payoff - bounds.0) / (bounds.1 - bounds.0)).clamp(0.0, 1.0)
}

/// Refuses an empty or infinite range of payoffs.
fn check_bounds(bounds: Option<(f64, f64)>) -> Result<(), GameError> {
    match bounds {
        Some((low, high)) if !((high - low).is_finite() && low < high) => Err(GameError::Setting {
            name: "payoff_bounds",
            value: format!("({low}, {high})"),
            expected: "two finite numbers, the lower one first",
        }),
        _ => Ok(()),
    }
}
