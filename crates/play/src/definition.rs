//! What a game is: fixed when its first round is played, the same for all who go on with it.

use fedbo_gp::Family;
use fedbo_space::{ParameterSpec, Space, SpaceError};
use serde::{Deserialize, Serialize};

/// Everything that decides what reasoning players do. Stored with the record; equal definitions, equal payoffs and equal moves of
/// everybody else give equal games.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The game's name.
    pub name: String,
    /// Seed of every draw.
    pub seed: u64,
    /// Rounds at the beginning that reasoning players play uniformly at random.
    pub n_initial: usize,
    /// The players in order.
    pub players: Vec<PlayerSpec>,
}

/// One player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayerSpec {
    /// Its name.
    pub name: String,
    /// The parameters of its actions, in order, by name.
    pub space: Vec<(String, ParameterSpec)>,
    /// Number of equally spaced values of each float; `None` leaves floats continuous.
    pub grid: Option<usize>,
    /// Where its actions come from.
    pub plays: Plays,
}

/// Where a player's actions come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plays {
    /// It reasons as R2-B2 does.
    Reasoning(MindSpec),
    /// A program is asked in each round.
    Program,
    /// A person, or a program of one's own, tells its moves.
    ByHand,
}

/// How a player thinks, with all that it believes of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MindSpec {
    /// What it does at level 0.
    pub level0: Level0Spec,
    /// Its model of its payoffs.
    pub model: ModelSpec,
    /// β_t, the same at every round.
    pub ucb_multiplier: f64,
    /// How it chooses.
    pub reasoning: Reasoning,
}

/// The levels of thesis section 8.3.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reasoning {
    /// Level 0: a draw from its mixed strategy.
    Level0,
    /// Level k ≥ 1: the best response to what it believes of the others.
    Response {
        /// Draws of an expectation over level-0 strategies: 0 for the exact one, 1 for R2-B2-Lite.
        samples: usize,
        /// For every other player its number, and how it is believed to think.
        believes: Vec<(usize, MindSpec)>,
    },
}

impl MindSpec {
    /// k: 0, or one more than the highest level believed of another.
    pub fn level(&self) -> usize {
        match &self.reasoning {
            Reasoning::Level0 => 0,
            Reasoning::Response { believes, .. } => {
                let levels = believes.iter().map(|(_, mind)| mind.level());
                1 + levels.max().unwrap_or(0)
            }
        }
    }
}

/// A mixed strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level0Spec {
    /// Uniformly at random.
    Random,
    /// With these probabilities, one an action.
    Fixed(Vec<f64>),
    /// Multiplicative weights on optimistic payoffs, which lie in this range.
    GpMw {
        /// Least and largest payoff.
        range: (f64, f64),
    },
    /// Exponential weights on random features; payoffs lie in this range.
    Exp3 {
        /// Least and largest payoff.
        range: (f64, f64),
    },
}

impl Level0Spec {
    /// As a file writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Fixed(_) => "fixed",
            Self::GpMw { .. } => "gp-mw",
            Self::Exp3 { .. } => "exp3",
        }
    }
}

/// A model of a player's payoffs over joint actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// `matern-5/2`, `matern-3/2` or `squared-exponential`.
    pub kernel: String,
    /// Whether payoffs are brought to mean 0 and variance 1.
    pub standardize: bool,
    /// Length scales (one a coordinate of joint actions), signal variance and noise variance; `None` has them learned.
    pub given: Option<(Vec<f64>, f64, f64)>,
}

impl ModelSpec {
    /// The kernel's family; `None` for a word that this program does not know.
    pub fn family(&self) -> Option<Family> {
        match self.kernel.as_str() {
            "matern-5/2" => Some(Family::Matern52),
            "matern-3/2" => Some(Family::Matern32),
            "squared-exponential" => Some(Family::SquaredExponential),
            _ => None,
        }
    }

    /// The word for a family.
    pub(crate) fn word(family: Family) -> &'static str {
        match family {
            Family::Matern52 => "matern-5/2",
            Family::Matern32 => "matern-3/2",
            Family::SquaredExponential => "squared-exponential",
        }
    }
}

impl PlayerSpec {
    /// The space of its actions.
    ///
    /// # Errors
    /// If a parameter cannot be used.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::from_specs(self.space.iter().map(|(name, spec)| (name.as_str(), spec)))
    }

    /// In a few words for people: `level 2`, `by a program`.
    pub fn how(&self) -> String {
        match &self.plays {
            Plays::Reasoning(mind) => match mind.level() {
                0 => format!("level 0 ({})", mind.level0.name()),
                level => format!("level {level}"),
            },
            Plays::Program => "program".to_owned(),
            Plays::ByHand => "by hand".to_owned(),
        }
    }
}

impl Definition {
    /// The number of the player of this name.
    pub fn player(&self, name: &str) -> Option<usize> {
        self.players.iter().position(|player| player.name == name)
    }

    /// What the stored definition says otherwise than this one, if it does: the key, what is stored, what this one says.
    pub fn difference(&self, stored: &Self) -> Option<(String, String, String)> {
        let (own, theirs) = (self.keys(), stored.keys());
        if own.len() != theirs.len() {
            let names = |definition: &Self| {
                let names: Vec<&str> = definition.players.iter().map(|p| p.name.as_str()).collect();
                names.join(", ")
            };
            return Some(("the players".to_owned(), names(stored), names(self)));
        }
        let pairs = theirs.into_iter().zip(own);
        pairs
            .filter(|(stored, new)| stored != new)
            .map(|((key, stored), (_, new))| (key, stored, new))
            .next()
    }

    /// What it says, key by key as they stand in a file.
    fn keys(&self) -> Vec<(String, String)> {
        let mut keys = vec![
            ("game.name".to_owned(), self.name.clone()),
            ("game.seed".to_owned(), self.seed.to_string()),
            ("game.initial".to_owned(), self.n_initial.to_string()),
        ];
        for player in &self.players {
            let at = format!("[players.{}]", player.name);
            keys.push((format!("{at} space"), json(&player.space)));
            keys.push((format!("{at} grid"), json(&player.grid)));
            keys.push((at, json(&player.plays)));
        }
        keys
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"))
}
