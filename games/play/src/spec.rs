//! A player's reasoning in a file: level, level-0 strategy, model, and beliefs about the others.

use std::collections::BTreeMap;

use fedbo_config::{Check, FileError, SurrogateTable, WordOrNumbers, nearest};
use fedbo_games::Reasoner;
use fedbo_strategies::HyperparameterPolicy;
use serde::Deserialize;

use crate::{Actions, Level0Spec, MindSpec, ModelSpec, Reasoning};

/// Maximum level in a file. People rarely exceed level 2, and the nesting depth of parsed JSON is
/// limited.
const LEVEL_MAX: usize = 16;
/// Default number of draws for an expectation that is too large to be exact (500 and 1,000 in
/// appendix E.6.2.1).
const SAMPLES: usize = 500;
/// Maximum number of draws for an expectation.
const SAMPLES_MAX: usize = 1_000_000;
/// Maximum number of the others' joint actions for an exact expectation by default.
const EXACT_MAX: usize = 10_000;
/// Maximum number of joint actions of all players, including the player itself, for an exact
/// expectation by default.
const EXACT_CELLS_MAX: usize = 1 << 20;
/// Maximum number of the others' joint actions for an exact expectation. Equals the limit of a
/// reasoning player.
const EXACT_MOST: usize = 1 << 18;
/// Default number of standard deviations between the mean and the bound.
const UCB_MULTIPLIER: f64 = 2.0;

/// The table of a player's reasoning. All keys are optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MindTable {
    pub(crate) level: Option<usize>,
    pub(crate) level0: Option<WordOrNumbers>,
    pub(crate) expectation: Option<WordOrNumbers>,
    pub(crate) ucb_multiplier: Option<f64>,
    pub(crate) surrogate: Option<SurrogateTable>,
    pub(crate) believes: BTreeMap<String, MindTable>,
}

impl MindTable {
    /// Returns the first key that is present.
    pub(crate) fn first_key(&self) -> Option<&'static str> {
        [
            ("level", self.level.is_some()),
            ("level0", self.level0.is_some()),
            ("expectation", self.expectation.is_some()),
            ("ucb_multiplier", self.ucb_multiplier.is_some()),
            ("surrogate", self.surrogate.is_some()),
            ("believes", !self.believes.is_empty()),
        ]
        .into_iter()
        .find_map(|(key, is_given)| is_given.then_some(key))
    }
}

/// The settings of a player from which minds are built.
pub(crate) struct Known<'a> {
    pub(crate) name: &'a str,
    pub(crate) actions: &'a Actions,
    /// Smallest and largest payoff, if given in the file.
    pub(crate) range: Option<(f64, f64)>,
    /// The player's reasoning table; `None` if the player does not reason.
    pub(crate) mind: Option<&'a MindTable>,
}

/// Builds minds from tables.
pub(crate) struct Minds<'a> {
    pub(crate) check: Check<'a>,
    pub(crate) players: Vec<Known<'a>>,
    /// Number of coordinates of joint actions.
    pub(crate) dim: usize,
    /// Number of nested minds built so far.
    pub(crate) n_minds: usize,
}

impl Minds<'_> {
    /// Builds the mind of a player at the level in its table, which is at `path`.
    pub(crate) fn of(&mut self, player: usize, path: &[&str]) -> Result<MindSpec, FileError> {
        let table = self.players[player].mind.cloned().unwrap_or_default();
        let level = table.level.unwrap_or(0);
        self.n_minds = 0;
        self.mind(player, level, &table, path)
    }

    fn mind(
        &mut self,
        player: usize,
        level: usize,
        table: &MindTable,
        path: &[&str],
    ) -> Result<MindSpec, FileError> {
        self.n_minds += 1;
        let at = |key| [path, &[key]].concat();
        if level > LEVEL_MAX {
            let expected = format!("a whole number from 0 to {LEVEL_MAX}");
            return Err(self.check.file.value_error(&at("level"), expected));
        }
        if self.n_minds > Reasoner::MOST {
            let message = format!(
                "{}: more than {} beliefs within beliefs; among {} players level {level} is too high",
                path.join("."),
                Reasoner::MOST,
                self.players.len()
            );
            return Err(self.check.file.error(&at("level"), message));
        }
        let reasoning = match level {
            0 => self.level0_only(table, path)?,
            _ => self.response(player, level, table, path)?,
        };
        // Missing settings of a believed mind default to that player's own table, which is checked
        // separately.
        let own = self.players[player].mind;
        let ucb_multiplier = match (table.ucb_multiplier, own) {
            (Some(given), _) => {
                let path = at("ucb_multiplier");
                match given == 0.0 {
                    true => given,
                    false => self.check.positive(&path, given)?,
                }
            }
            (None, Some(own)) => own.ucb_multiplier.unwrap_or(UCB_MULTIPLIER),
            (None, None) => UCB_MULTIPLIER,
        };
        let surrogate = table.surrogate.as_ref();
        let model = match (surrogate, own.and_then(|own| own.surrogate.as_ref())) {
            (Some(given), _) => self.model(&at("surrogate"), given)?,
            (None, Some(own)) => {
                let name = self.players[player].name;
                self.model(&["players", name, "surrogate"], own)?
            }
            (None, None) => self.model(&at("surrogate"), &SurrogateTable::default())?,
        };
        Ok(MindSpec { level0: self.level0(player, table, path)?, model, ucb_multiplier, reasoning })
    }

    /// Returns level 0. Refuses settings of higher levels.
    fn level0_only(&self, table: &MindTable, path: &[&str]) -> Result<Reasoning, FileError> {
        let misplaced = [
            ("believes", !table.believes.is_empty()),
            ("expectation", table.expectation.is_some()),
        ];
        for (key, is_given) in misplaced {
            if is_given {
                let at = [path, &[key]].concat();
                let message = format!(
                    "{}: a player at level 0 ignores the others; remove {key}, or choose level = 1 or higher",
                    path.join(".")
                );
                return Err(self.check.file.error(&at, message));
            }
        }
        Ok(Reasoning::Level0)
    }

    fn response(
        &mut self,
        player: usize,
        level: usize,
        table: &MindTable,
        path: &[&str],
    ) -> Result<Reasoning, FileError> {
        self.check_names(player, table, path)?;
        let nobody = MindTable::default();
        let mut believes = Vec::new();
        for other in 0..self.players.len() {
            if other == player {
                continue;
            }
            let name = self.players[other].name;
            let belief = table.believes.get(name);
            let of_other = belief.unwrap_or(&nobody);
            let other_level = of_other.level.unwrap_or(level - 1);
            let at = match belief {
                Some(_) => [path, &["believes", name]].concat(),
                None => path.to_vec(),
            };
            let mind = self.mind(other, other_level, of_other, &at)?;
            believes.push((other, mind));
        }
        let highest = believes.iter().map(|(_, mind)| mind.level()).max();
        let highest = highest.unwrap_or(0);
        if highest + 1 != level {
            let at = [path, &["level"]].concat();
            let message = format!(
                "{}: it believes that the others reason at level {highest} at most, and level {} responds to that, not \
                 {level}; set level = {}, or believe level = {} of one of them",
                path.join("."),
                highest + 1,
                highest + 1,
                level - 1
            );
            return Err(self.check.file.error(&at, message));
        }
        let samples = self.samples(player, table, &believes, path)?;
        Ok(Reasoning::Response { samples, believes })
    }

    /// Checks that beliefs refer to other players of the game.
    fn check_names(
        &self,
        player: usize,
        table: &MindTable,
        path: &[&str],
    ) -> Result<(), FileError> {
        for name in table.believes.keys() {
            let at = [path, &["believes", name]].concat();
            let known = self.players.iter().position(|known| known.name == name);
            let message = match known {
                Some(known) if known != player => continue,
                Some(_) => {
                    format!("{}: {name} has no beliefs about itself; remove it", at.join("."))
                }
                None => {
                    let names = self.players.iter().map(|known| known.name);
                    let near = nearest(name, names.clone());
                    let way = match near {
                        Some(near) => format!("did you mean {near}?"),
                        None => format!("known are {}", names.collect::<Vec<_>>().join(", ")),
                    };
                    format!("{}: there is no player {name:?}; {way}", at.join("."))
                }
            };
            return Err(self.check.file.error(&at, message));
        }
        Ok(())
    }

    /// Returns the number of draws for the expectation over the others; 0 for the exact
    /// expectation.
    fn samples(
        &self,
        player: usize,
        table: &MindTable,
        believes: &[(usize, MindSpec)],
        path: &[&str],
    ) -> Result<usize, FileError> {
        let others = || self.players.iter().enumerate().filter(|(i, _)| *i != player);
        let mut n_actions = others().map(|(_, other)| other.actions.n_actions());
        let n_joint = n_actions.try_fold(1_usize, |n, k| Some(n.saturating_mul(k?)));
        // Others at higher levels have a single predicted action.
        let mixing = believes.iter().filter(|(_, mind)| mind.level() == 0);
        let n_of_mixing = mixing
            .filter_map(|(other, _)| self.players[*other].actions.n_actions())
            .fold(1_usize, usize::saturating_mul);
        let own = self.players[player].mind;
        let (given, at) = match (&table.expectation, own) {
            (Some(given), _) => (Some(given), [path, &["expectation"]].concat()),
            (None, Some(own)) => {
                let at = vec!["players", self.players[player].name, "expectation"];
                (own.expectation.as_ref(), at)
            }
            (None, None) => (None, Vec::new()),
        };
        let Some(given) = given else {
            let n_own = self.players[player].actions.n_actions().unwrap_or(1);
            let is_exact = n_joint
                .is_some_and(|n| n <= EXACT_MAX && n.saturating_mul(n_own) <= EXACT_CELLS_MAX);
            return Ok(if is_exact { 0 } else { SAMPLES });
        };
        let expected =
            format!("\"exact\", \"lite\" (one draw), or a number of draws up to {SAMPLES_MAX}");
        match given {
            WordOrNumbers::Word(word) if word == "lite" => Ok(1),
            WordOrNumbers::Word(word) if word == "exact" => match n_joint {
                Some(_) if n_of_mixing <= EXACT_MOST => Ok(0),
                Some(_) => {
                    let message = format!(
                        "{} = \"exact\" is for up to {EXACT_MOST} joint actions of the others, but there are {n_of_mixing}; \
                         set coarser grids, or expectation = {SAMPLES} draws",
                        at.join(".")
                    );
                    Err(self.check.file.error(&at, message))
                }
                None => {
                    let other = others().find(|(_, other)| other.actions.n_actions().is_none());
                    let name = other.map_or("", |(_, other)| other.name);
                    let message = format!(
                        "{} = \"exact\" needs finitely many actions of the others, but those of {name} are continuous; set \
                         players.{name}.grid, or expectation = {SAMPLES} draws",
                        at.join(".")
                    );
                    Err(self.check.file.error(&at, message))
                }
            },
            WordOrNumbers::Number(number) => {
                let draws = whole(*number).filter(|n| (1..=SAMPLES_MAX).contains(n));
                draws.ok_or_else(|| self.check.file.value_error(&at, expected))
            }
            _ => Err(self.check.file.value_error(&at, expected)),
        }
    }

    fn level0(
        &self,
        player: usize,
        table: &MindTable,
        path: &[&str],
    ) -> Result<Level0Spec, FileError> {
        let known = &self.players[player];
        let own = known.mind;
        let (given, at) = match (&table.level0, own) {
            (Some(given), _) => (Some(given), [path, &["level0"]].concat()),
            (None, Some(own)) => (own.level0.as_ref(), vec!["players", known.name, "level0"]),
            (None, None) => (None, Vec::new()),
        };
        let n_actions = known.actions.n_actions();
        let Some(given) = given else {
            return Ok(match (n_actions, known.range) {
                (Some(_), Some(range)) => Level0Spec::GpMw { range },
                _ => Level0Spec::Random,
            });
        };
        let word = match given {
            WordOrNumbers::Word(word) => word.as_str(),
            WordOrNumbers::Number(_) => {
                let expected = "\"random\", \"gp-mw\", \"exp3\", or a list of probabilities";
                return Err(self.check.file.value_error(&at, expected));
            }
            WordOrNumbers::List(weights) => return self.fixed(known, weights, &at),
        };
        let words = [("random", 0), ("gp-mw", 1), ("exp3", 2)];
        let which = self.check.word(&at, Some(word), &words)?;
        if which == Some(0) {
            return Ok(Level0Spec::Random);
        }
        if n_actions.is_none() {
            let message = format!(
                "{} = {word:?} needs finitely many actions, but those of {} are continuous; set players.{}.grid = .. (values of \
                 each float), or choose \"random\"",
                at.join("."),
                known.name,
                known.name
            );
            return Err(self.check.file.error(&at, message));
        }
        let Some(range) = known.range else {
            let message = format!(
                "{} = {word:?} needs the range of the payoffs; add range = [LEAST, LARGEST] to [payoffs], or payoff_range to \
                 [players.{}]",
                at.join("."),
                known.name
            );
            return Err(self.check.file.error(&at, message));
        };
        Ok(match which {
            Some(1) => Level0Spec::GpMw { range },
            _ => Level0Spec::Exp3 { range },
        })
    }

    /// Checks fixed probabilities, one per action.
    fn fixed(
        &self,
        known: &Known<'_>,
        weights: &[f64],
        at: &[&str],
    ) -> Result<Level0Spec, FileError> {
        let n = known.actions.n_actions();
        let usable = n == Some(weights.len())
            && weights.iter().all(|w| w.is_finite() && *w >= 0.0)
            && weights.iter().sum::<f64>() > 0.0;
        if usable {
            return Ok(Level0Spec::Fixed(weights.to_vec()));
        }
        let expected = match n {
            Some(n) => format!(
                "{n} weights of at least 0, one for each action of {} (the last parameter runs fastest), not all 0",
                known.name
            ),
            None => format!(
                "\"random\": the actions of {} are continuous (players.{}.grid makes them finitely many)",
                known.name, known.name
            ),
        };
        Err(self.check.file.value_error(at, expected))
    }

    fn model(&self, at: &[&str], given: &SurrogateTable) -> Result<ModelSpec, FileError> {
        let settings = self.check.surrogate(at, given, self.dim)?;
        let (hyperparameters, is_given) = match settings.hyperparameters {
            HyperparameterPolicy::Fixed(hyperparameters) => (hyperparameters, true),
            HyperparameterPolicy::Fitted { initial, .. }
            | HyperparameterPolicy::Scheduled { initial, .. } => (initial, false),
        };
        let kernel = hyperparameters.kernel;
        Ok(ModelSpec {
            kernel: ModelSpec::word(kernel.family()).to_owned(),
            standardize: settings.standardize,
            given: is_given.then(|| {
                let lengthscales = kernel.lengthscales().to_vec();
                (lengthscales, kernel.outputscale(), hyperparameters.noise_variance)
            }),
        })
    }
}

/// Converts a nonnegative whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, and between 0 and 2^53"
)]
fn whole(number: f64) -> Option<usize> {
    let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    is_whole.then_some(number as usize)
}
