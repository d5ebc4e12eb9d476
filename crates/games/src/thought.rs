//! What a player thought, for a program to show.

use serde::Serialize;

use crate::Action;
use crate::level0::Law;

/// What a player decided, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// What led to it; `None` in an initial round, which is played uniformly at random.
    pub thought: Option<Thought>,
}

/// What a player thought, or is imagined to think.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thought {
    /// Who thinks.
    pub player: usize,
    /// At which level.
    pub level: usize,
    /// What it comes to.
    pub choice: Choice,
    /// What it imagined of the others, one thought a player; empty at level 0.
    pub others: Vec<Thought>,
}

/// What a thought comes to.
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

impl Thought {
    /// Level 0 with this law.
    pub(crate) fn mixed(player: usize, law: Law, drawn: Option<Action>) -> Self {
        let probabilities = match law {
            Law::Finite(probabilities) => Some(probabilities),
            Law::Cube | Law::Sampler(_) => None,
        };
        Self {
            player,
            level: 0,
            choice: Choice::Mixed {
                probabilities,
                drawn,
            },
            others: Vec::new(),
        }
    }
}
