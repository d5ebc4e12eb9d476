//! A player's reasoning steps, for display.

use serde::Serialize;

use crate::Action;
use crate::level0::Law;

/// A player's decision and the reasoning behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The reasoning behind the action; `None` in an initial round, which is played uniformly at
    /// random.
    pub thought: Option<ReasoningStep>,
}

/// A player's reasoning step, either actual or simulated by another player.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasoningStep {
    /// The reasoning player.
    pub player: usize,
    /// The level of reasoning.
    pub level: usize,
    /// The resulting choice.
    pub choice: Choice,
    /// The simulated steps of the others, one per player; empty at level 0.
    pub others: Vec<ReasoningStep>,
}

/// The result of a reasoning step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Level 0.
    Mixed {
        /// The probability of each action, if the set is finite and the probabilities are known.
        probabilities: Option<Vec<f64>>,
        /// The drawn action; `None` if the whole distribution or several draws were used.
        drawn: Option<Action>,
    },
    /// Level 1 and above.
    Response {
        /// The best response.
        action: Action,
        /// The expected upper confidence bound of the action.
        bound: f64,
        /// The bounds of all own actions, if the set is finite.
        bounds: Option<Vec<f64>>,
    },
}

impl ReasoningStep {
    /// Creates a level-0 step with this distribution.
    pub(crate) fn mixed(player: usize, law: Law, drawn: Option<Action>) -> Self {
        let probabilities = match law {
            Law::Finite(probabilities) => Some(probabilities),
            Law::Cube | Law::Sampler(_) => None,
        };
        Self {
            player,
            level: 0,
            choice: Choice::Mixed { probabilities, drawn },
            others: Vec::new(),
        }
    }
}
