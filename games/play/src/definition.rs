//! The definition of a game, which is fixed when the first round is played and must not change
//! afterwards.

use fedbo_config::{Changes, Keys};
use fedbo_gp::Family;
use fedbo_space::{Parameter, ParameterSpec, Space, SpaceError};
use serde::{Deserialize, Serialize};

/// All inputs of the reasoning players' decisions, stored with the record. Two games are equal if
/// their definitions, their payoffs and the moves of all other players are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The game's name.
    pub name: String,
    /// Root seed of all random draws.
    pub seed: u64,
    /// Number of initial rounds in which the reasoning players act uniformly at random.
    pub n_initial: usize,
    /// The players in order.
    pub players: Vec<PlayerSpec>,
}

/// One player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayerSpec {
    /// The player's name.
    pub name: String,
    /// The parameters of its actions, in order, by name.
    pub space: Vec<(String, ParameterSpec)>,
    /// Number of equally spaced values of each float; `None` leaves floats continuous.
    pub grid: Option<usize>,
    /// The source of its actions.
    pub plays: ActionSource,
}

/// The source of a player's actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionSource {
    /// The player reasons with R2-B2.
    Reasoning(MindSpec),
    /// A program runs once per round.
    Program,
    /// A person or a user's program submits the moves.
    ByHand,
}

/// A player's reasoning, with its beliefs about the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MindSpec {
    /// Strategy at level 0.
    pub level0: Level0Spec,
    /// Model of the player's payoffs.
    pub model: ModelSpec,
    /// Factor of the standard deviation in the bound, which is the same in every round.
    pub ucb_multiplier: f64,
    /// Level of reasoning, with the player's beliefs.
    pub reasoning: Reasoning,
}

/// The levels of thesis section 8.3.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reasoning {
    /// Level 0: a draw from its mixed strategy.
    Level0,
    /// Level k ≥ 1: the best response to the player's beliefs about the others.
    Response {
        /// Number of draws for an expectation over level-0 strategies: 0 for the exact expectation,
        /// 1 for R2-B2-Lite.
        samples: usize,
        /// The number and the believed reasoning of each other player.
        believes: Vec<(usize, MindSpec)>,
    },
}

impl MindSpec {
    /// Returns the level k: 0, or one more than the highest level among the beliefs.
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
    /// Fixed probabilities, one per action.
    Fixed(Vec<f64>),
    /// Multiplicative weights on optimistic payoffs in the given range.
    GpMw {
        /// Smallest and largest payoff.
        range: (f64, f64),
    },
    /// Exponential weights on random features, for payoffs in the given range.
    Exp3 {
        /// Smallest and largest payoff.
        range: (f64, f64),
    },
}

impl Level0Spec {
    /// Returns the name of the strategy in game files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Fixed(_) => "fixed",
            Self::GpMw { .. } => "gp-mw",
            Self::Exp3 { .. } => "exp3",
        }
    }

    /// Describes all settings briefly.
    fn shown(&self) -> String {
        match self {
            Self::Random => self.name().to_owned(),
            Self::Fixed(weights) => json(weights),
            Self::GpMw { range } | Self::Exp3 { range } => {
                format!("{} with payoffs from {} to {}", self.name(), range.0, range.1)
            }
        }
    }
}

/// A model of a player's payoffs over joint actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// `matern-5/2`, `matern-3/2` or `squared-exponential`.
    pub kernel: String,
    /// True if payoffs are standardized to mean 0 and variance 1.
    pub standardize: bool,
    /// Length scales (one per coordinate of joint actions), signal variance and noise variance;
    /// `None` if they are learned.
    pub given: Option<(Vec<f64>, f64, f64)>,
}

impl ModelSpec {
    /// Returns the kernel's family, or `None` if the name is unknown.
    pub fn family(&self) -> Option<Family> {
        match self.kernel.as_str() {
            "matern-5/2" => Some(Family::Matern52),
            "matern-3/2" => Some(Family::Matern32),
            "squared-exponential" => Some(Family::SquaredExponential),
            _ => None,
        }
    }

    /// Returns the name of a family in game files.
    pub(crate) fn word(family: Family) -> &'static str {
        match family {
            Family::Matern52 => "matern-5/2",
            Family::Matern32 => "matern-3/2",
            Family::SquaredExponential => "squared-exponential",
        }
    }

    /// Describes the source of the hyperparameters.
    fn shown(&self) -> String {
        match &self.given {
            None => "learned".to_owned(),
            Some((lengthscales, outputscale, noise)) => format!(
                "length scales {}, signal variance {outputscale}, noise variance {noise}",
                json(lengthscales)
            ),
        }
    }
}

impl PlayerSpec {
    /// Returns the player's action space.
    ///
    /// # Errors
    /// If a parameter is invalid.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::from_specs(self.space.iter().map(|(name, spec)| (name.as_str(), spec)))
    }

    /// Returns a short description for users: `level 2`, `by a program`.
    pub fn how(&self) -> String {
        match &self.plays {
            ActionSource::Reasoning(mind) => match mind.level() {
                0 => format!("level 0 ({})", mind.level0.name()),
                level => format!("level {level}"),
            },
            ActionSource::Program => "program".to_owned(),
            ActionSource::ByHand => "by hand".to_owned(),
        }
    }
}

impl Definition {
    /// Returns the number of the player with this name, from 0.
    pub fn player(&self, name: &str) -> Option<usize> {
        self.players.iter().position(|player| player.name == name)
    }

    /// Returns the keys that differ from the stored definition.
    pub fn difference(&self, stored: &Self) -> Option<Changes> {
        const STORED: &str = "the stored game";
        // All keys before the first differing one are equal. Differences outside the keys are found
        // by comparing the stored forms.
        Changes::between(&stored.keys(), &self.keys(), STORED).or_else(|| {
            let [stored, given] = [stored, self].map(|each| {
                let mut plain = each.clone();
                for player in &mut plain.players {
                    for (name, spec) in &mut player.space {
                        if let Ok(parameter) = Parameter::from_spec(name, spec) {
                            *spec = parameter.to_spec();
                        }
                    }
                }
                serde_json::to_value(&plain).unwrap_or_default()
            });
            Changes::between_tables(&stored, &given, STORED)
        })
    }

    /// Returns the settings, key by key as in a file.
    fn keys(&self) -> Keys {
        let names: Vec<&str> = self.players.iter().map(|p| p.name.as_str()).collect();
        let mut keys = Keys::default();
        keys.push(&["game", "name"], &self.name);
        keys.push(&["game", "seed"], self.seed);
        keys.push(&["game", "initial"], self.n_initial);
        keys.push(&["players"], &names);
        for player in &self.players {
            let at = ["players", player.name.as_str()];
            let parameters: Vec<&str> =
                player.space.iter().map(|(name, _)| name.as_str()).collect();
            keys.push(&[&at[..], &["space"]].concat(), parameters);
            for (name, spec) in &player.space {
                let key = format!("players.{}.space.{name}", player.name);
                keys.push_parameter(&key, &[&at[..], &["space", name]].concat(), spec);
            }
            keys.push(&[&at[..], &["grid"]].concat(), player.grid);
            let level = [&at[..], &["level"]].concat();
            match &player.plays {
                ActionSource::Reasoning(mind) => mind.push_keys(&at, &names, &mut keys),
                ActionSource::Program => keys.push(&level, "none, but command"),
                ActionSource::ByHand => keys.push(&level, "none, but by_hand"),
            }
        }
        keys
    }
}

impl MindSpec {
    /// Adds the settings key by key; `at` is the path of the table.
    fn push_keys(&self, at: &[&str], names: &[&str], keys: &mut Keys) {
        let at_key = |key: &[&'static str]| [at, key].concat();
        keys.push(&at_key(&["level"]), self.level());
        keys.push(&at_key(&["level0"]), self.level0.shown());
        keys.push(&at_key(&["ucb_multiplier"]), self.ucb_multiplier);
        keys.push(&at_key(&["surrogate", "kernel"]), &self.model.kernel);
        let standardize = self.model.standardize;
        keys.push(&at_key(&["surrogate", "standardize"]), standardize);
        keys.push(&at_key(&["surrogate"]), self.model.shown());
        let Reasoning::Response { samples, believes } = &self.reasoning else {
            return;
        };
        let expectation = match samples {
            0 => "exact".to_owned(),
            1 => "lite".to_owned(),
            n => n.to_string(),
        };
        keys.push(&at_key(&["expectation"]), expectation);
        for (other, mind) in believes {
            let name = names.get(*other).copied().unwrap_or_default();
            mind.push_keys(&[at, &["believes", name]].concat(), names, keys);
        }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Definition {
        let model =
            || ModelSpec { kernel: "matern-5/2".to_owned(), standardize: true, given: None };
        let level0 = || MindSpec {
            level0: Level0Spec::Random,
            model: model(),
            ucb_multiplier: 2.0,
            reasoning: Reasoning::Level0,
        };
        let player = |name: &str, plays| PlayerSpec {
            name: name.to_owned(),
            space: vec![("x".to_owned(), ParameterSpec::float(0.0, 1.0))],
            grid: None,
            plays,
        };
        let mut level1 = level0();
        level1.reasoning = Reasoning::Response { samples: 500, believes: vec![(1, level0())] };
        Definition {
            name: "duel".to_owned(),
            seed: 0,
            n_initial: 5,
            players: vec![
                player("shop", ActionSource::Reasoning(level1)),
                player("rival", ActionSource::ByHand),
            ],
        }
    }

    /// Each change is reported by its key in a file, with the stored and the given value.
    #[test]
    fn a_difference_is_named_by_its_key() {
        type Change = fn(&mut Definition);
        fn mind(definition: &mut Definition) -> &mut MindSpec {
            match &mut definition.players[0].plays {
                ActionSource::Reasoning(mind) => mind,
                _ => unreachable!(),
            }
        }
        fn belief(definition: &mut Definition) -> &mut MindSpec {
            match &mut mind(definition).reasoning {
                Reasoning::Response { believes, .. } => &mut believes[0].1,
                Reasoning::Level0 => unreachable!(),
            }
        }
        let changes: [(Change, [&str; 3]); 12] = [
            (|d| d.seed = 1, ["game.seed", "0", "1"]),
            (|d| d.n_initial = 0, ["game.initial", "5", "0"]),
            (
                |d| d.players[1].name = "market".into(),
                ["players", "\"shop\",\"rival\"", "\"shop\",\"market\""],
            ),
            (|d| d.players.truncate(1), ["players", "[\"shop\",\"rival\"]", "[\"shop\"]"]),
            (|d| d.players[0].grid = Some(9), ["players.shop.grid", "none", "9"]),
            (|d| d.players[0].space[0].0 = "y".into(), ["players.shop.space", "x", "y"]),
            (
                |d| d.players[0].space[0].1 = ParameterSpec::float(0.0, 2.0),
                ["players.shop.space.x.high", "1.0", "2.0"],
            ),
            (|d| mind(d).reasoning = Reasoning::Level0, ["players.shop.level", "1", "0"]),
            (
                |d| belief(d).level0 = Level0Spec::GpMw { range: (0.0, 2.0) },
                ["players.shop.believes.rival.level0", "random", "gp-mw"],
            ),
            (
                |d| belief(d).ucb_multiplier = 1.0,
                ["players.shop.believes.rival.ucb_multiplier", "2", "1"],
            ),
            (
                |d| mind(d).model.given = Some((vec![0.5, 0.5], 1.0, 0.01)),
                ["players.shop.surrogate", "learned", "0.01"],
            ),
            (
                |d| d.players[1].plays = ActionSource::Program,
                ["players.rival.level", "by_hand", "command"],
            ),
        ];
        let stored = definition();
        assert_eq!(stored.difference(&stored), None);
        for (change, [key, before, after]) in changes {
            let mut given = definition();
            change(&mut given);
            let changes = given.difference(&stored).unwrap();
            let found = changes.iter().next().unwrap();
            assert_eq!(found.key, key);
            let [said, says] = [&found.stored, &found.given]
                .map(|value| value.clone().unwrap_or_else(|| "none".to_owned()));
            assert!(said.contains(before) && says.contains(after), "{found:?}");
        }
    }
}
