//! A player's thoughts, for a program to show.

use serde::Serialize;

use crate::Action;
use crate::level0::Law;

/// A player's decision, and the thought that led to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The thought that led to it; `None` in an initial round, which is played uniformly at random.
    pub thought: Option<ReasoningStep>,
}

/// A thought that a player had, or is imagined to have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasoningStep {
    /// The player that thinks.
    pub player: usize,
    /// The level at which it thinks.
    pub level: usize,
    /// The choice that it comes to.
    pub choice: Choice,
    /// The thoughts that it imagined of the others, one a player; empty at level 0.
    pub others: Vec<ReasoningStep>,
}

/// The choice that a thought comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Level 0.
    Mixed {
        /// The probability of every action, if they are finitely many and known.
        probabilities: Option<Vec<f64>>,
        /// The action that was drawn; `None` where the whole distribution was taken, or more than one draw.
        drawn: Option<Action>,
    },
    /// Level 1 and above.
    Response {
        /// The best response.
        action: Action,
        /// Its expected upper confidence bound.
        bound: f64,
        /// Those of all own actions, if they are finitely many.
        bounds: Option<Vec<f64>>,
    },
}

impl ReasoningStep {
    /// Level 0 with this law.
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
