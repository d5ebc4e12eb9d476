//! The rule that stops trials early, as a study's definition keeps it.

use fedbo_algorithms::StrategyError;
use fedbo_algorithms::early_stopping::{
    AshaRule, AshaSettings, Brackets, HyperbandRule, MedianRule, MedianSettings, StoppingRule,
};
use fedbo_config::Keys;
use serde::{Deserialize, Serialize};

use super::EarlyStoppingError;
use super::bo_bos::settings;
use crate::{Definition, StrategySpec};

/// The early stopping of trials that report as they train.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStoppingSpec {
    /// The rule that decides.
    pub rule: StoppingRuleSpec,
    /// N: epochs of a whole training.
    pub epochs: u32,
}

/// A rule and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum StoppingRuleSpec {
    /// Bayesian optimal stopping within GP-UCB.
    BoBos {
        /// The lowest and the highest possible value; without it, a range somewhat wider than that of the values seen.
        bounds: Option<[f64; 2]>,
        /// N_0: epochs before the first decision.
        first_epochs: u32,
        /// κ: a trial is stopped only if σ(x, N) ≤ κ σ(x, n).
        stop_std_ratio: f64,
        /// K_1: what it costs to stop a trial that would have been better.
        wrong_stop_loss: f64,
        /// By what K_1 is multiplied with each trial.
        wrong_stop_growth: f64,
        /// K_2: what it costs to train a trial to the end that is worse.
        wrong_continue_loss: f64,
        /// c: what an epoch costs.
        epoch_cost: f64,
    },
    /// The median rule: [`MedianRule`].
    Median {
        /// In the first so many epochs nobody is stopped.
        warmup_epochs: u32,
        /// Complete trials before anybody is stopped.
        trials_min: u32,
    },
    /// Asynchronous successive halving: [`AshaRule`].
    Asha {
        /// η: one trial of so many goes on at a rung.
        reduction: u32,
        /// The epoch of the first rung.
        first_rung: u32,
    },
    /// Successive halving in several brackets: [`HyperbandRule`].
    Hyperband {
        /// η.
        reduction: u32,
    },
}

/// The settings of all rules with the rule that each is for, as a file names them.
pub(super) const KEYS: [(&str, &[&str]); 11] = [
    ("bounds", &["bo-bos"]),
    ("first_epochs", &["bo-bos"]),
    ("stop_std_ratio", &["bo-bos"]),
    ("wrong_stop_loss", &["bo-bos"]),
    ("wrong_stop_growth", &["bo-bos"]),
    ("wrong_continue_loss", &["bo-bos"]),
    ("epoch_cost", &["bo-bos"]),
    ("warmup_epochs", &["median"]),
    ("trials_min", &["median"]),
    ("reduction", &["asha", "hyperband"]),
    ("first_rung", &["asha"]),
];

impl EarlyStoppingSpec {
    /// Most epochs of a training.
    pub const EPOCHS_MAX: u32 = 1_000_000;

    /// By this rule, for trainings of so many epochs.
    pub fn new(rule: StoppingRuleSpec, epochs: u32) -> Self {
        Self { rule, epochs }
    }

    /// By Bayesian optimal stopping with the settings of the thesis; the strategy must be GP-UCB.
    pub fn bo_bos(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::bo_bos(epochs), epochs)
    }

    /// By the median rule with its default settings, for trainings of so many epochs; nobody is stopped in the
    /// first five of them, or the first half if that is less.
    pub fn median(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::median(epochs), epochs)
    }

    /// By asynchronous successive halving with its default settings.
    pub fn asha(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::asha(), epochs)
    }

    /// By Hyperband's brackets with its default setting.
    pub fn hyperband(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::hyperband(), epochs)
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub(super) fn validate(&self) -> Result<(), EarlyStoppingError> {
        match settings(self) {
            Some(settings) => {
                self.check_epochs(3)?;
                settings.validate().map(|_| ()).map_err(setting)
            }
            None => self.curve_rule().map(|_| ()),
        }
    }

    fn check_epochs(&self, least: u32) -> Result<(), EarlyStoppingError> {
        let epochs = self.epochs;
        match (least..=Self::EPOCHS_MAX).contains(&epochs) {
            true => Ok(()),
            false => Err(EarlyStoppingError::Epochs { epochs, least }),
        }
    }

    /// The rule, where it looks at curves alone; `None` for BO-BOS.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub(super) fn curve_rule(&self) -> Result<Option<Box<dyn StoppingRule>>, EarlyStoppingError> {
        self.check_epochs(2)?;
        let n_epochs = self.epochs as usize;
        Ok(match self.rule {
            StoppingRuleSpec::BoBos { .. } => None,
            StoppingRuleSpec::Median {
                warmup_epochs,
                trials_min,
            } => {
                below("warmup_epochs", warmup_epochs, self.epochs)?;
                Some(Box::new(MedianRule::new(MedianSettings {
                    warmup_epochs: warmup_epochs as usize,
                    trials_min: trials_min as usize,
                })))
            }
            StoppingRuleSpec::Asha {
                reduction,
                first_rung,
            } => {
                below("first_rung", first_rung, self.epochs)?;
                let settings = AshaSettings {
                    reduction: reduction as usize,
                    first_rung: first_rung as usize,
                    n_epochs,
                };
                Some(Box::new(AshaRule::new(settings).map_err(setting)?))
            }
            StoppingRuleSpec::Hyperband { reduction } => {
                let schedule = Brackets::new(n_epochs, reduction as usize).map_err(setting)?;
                Some(Box::new(HyperbandRule::new(schedule)))
            }
        })
    }

    /// Checks that it goes with the rest of a definition.
    ///
    /// # Errors
    /// The part that does not.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), EarlyStoppingError> {
        self.check_strategy(&definition.strategy)?;
        if definition.meta.is_some() {
            return Err(EarlyStoppingError::Beside { table: "[meta]" });
        }
        if definition.archive.is_some() {
            return Err(EarlyStoppingError::Beside { table: "[archive]" });
        }
        self.validate()
    }

    pub(crate) fn check_strategy(&self, strategy: &StrategySpec) -> Result<(), EarlyStoppingError> {
        let is_bo_bos = matches!(self.rule, StoppingRuleSpec::BoBos { .. });
        match strategy {
            StrategySpec::GpUcb { .. } => Ok(()),
            StrategySpec::Random {} | StrategySpec::Sobol {} if !is_bo_bos => Ok(()),
            other if is_bo_bos => Err(EarlyStoppingError::BoBosStrategy {
                strategy: other.name(),
            }),
            other => Err(EarlyStoppingError::Strategy {
                strategy: other.name(),
            }),
        }
    }

    /// Adds what it says, key by key as they stand in a study's file.
    pub(crate) fn push_keys(spec: Option<&Self>, keys: &mut Keys) {
        let mut push = |key: &str, value: Option<serde_json::Value>| {
            keys.push(&["early_stopping", key], value);
        };
        push("rule", spec.map(|spec| spec.rule.name().into()));
        push("epochs", spec.map(|spec| spec.epochs.into()));
        let settings = spec.and_then(|spec| serde_json::to_value(spec.rule).ok());
        for (key, _) in KEYS {
            push(
                key,
                settings.as_ref().and_then(|rule| rule.get(key).cloned()),
            );
        }
    }
}

impl StoppingRuleSpec {
    /// BO-BOS with the settings of the thesis (Dai 2021), whose first 8 of 50 epochs are as large a share of `epochs`.
    pub fn bo_bos(epochs: u32) -> Self {
        Self::BoBos {
            bounds: None,
            first_epochs: (epochs.saturating_mul(4) / 25).max(2),
            stop_std_ratio: 2.0,
            wrong_stop_loss: 100.0,
            wrong_stop_growth: 1.0 / 0.95,
            wrong_continue_loss: 99.0,
            epoch_cost: 1.0,
        }
    }

    /// The median rule; nobody is stopped in the first five of `epochs`, in fewer where a training has fewer than ten, so that an
    /// epoch is left to stop at.
    pub fn median(epochs: u32) -> Self {
        let default = MedianSettings::default();
        let whole = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self::Median {
            warmup_epochs: whole(default.warmup_epochs)
                .min(epochs / 2)
                .min(epochs.saturating_sub(2)),
            trials_min: whole(default.trials_min),
        }
    }

    /// ASHA with η = 3 and the first rung after one epoch.
    pub fn asha() -> Self {
        Self::Asha {
            reduction: 3,
            first_rung: 1,
        }
    }

    /// Hyperband with η = 3.
    pub fn hyperband() -> Self {
        Self::Hyperband { reduction: 3 }
    }

    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BoBos { .. } => "bo-bos",
            Self::Median { .. } => "median",
            Self::Asha { .. } => "asha",
            Self::Hyperband { .. } => "hyperband",
        }
    }
}

/// An epoch that is not the last one.
fn below(key: &'static str, value: u32, epochs: u32) -> Result<(), EarlyStoppingError> {
    if value < epochs {
        return Ok(());
    }
    Err(EarlyStoppingError::Setting {
        key,
        value: value.to_string(),
        expected: format!("a whole number below epochs = {epochs}"),
    })
}

fn setting(error: StrategyError) -> EarlyStoppingError {
    match error {
        StrategyError::Setting {
            name,
            value,
            expected,
        } => EarlyStoppingError::Setting {
            key: name,
            value,
            expected: expected.to_owned(),
        },
        other => unreachable!("only settings are checked here: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_key_of_its_rule() {
        let rules = [
            StoppingRuleSpec::bo_bos(50),
            StoppingRuleSpec::median(50),
            StoppingRuleSpec::asha(),
            StoppingRuleSpec::hyperband(),
        ];
        for rule in rules {
            let serde_json::Value::Object(object) = serde_json::to_value(rule).unwrap() else {
                panic!("a rule is a table");
            };
            assert_eq!(object["name"], rule.name());
            for key in object.keys().filter(|key| *key != "name") {
                let known = KEYS.iter().find(|(known, _)| known == key);
                let (_, owners) = known.unwrap();
                assert!(owners.contains(&rule.name()), "{key}");
            }
            let n_owned = KEYS
                .iter()
                .filter(|(_, owners)| owners.contains(&rule.name()));
            assert_eq!(n_owned.count(), object.len() - 1);
        }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let refused = |rule, epochs| {
            let spec = EarlyStoppingSpec { rule, epochs };
            spec.validate().unwrap_err().to_string()
        };
        let median = |warmup_epochs| StoppingRuleSpec::Median {
            warmup_epochs,
            trials_min: 3,
        };
        assert_eq!(
            refused(median(50), 50),
            "[early_stopping] warmup_epochs = 50, expected a whole number below epochs = 50"
        );
        assert!(refused(median(0), 1).contains("epochs = 1, expected a whole number from 2"));
        let hyperband = StoppingRuleSpec::Hyperband { reduction: 1 };
        assert_eq!(
            refused(hyperband, 50),
            "[early_stopping] reduction = 1, expected at least 2"
        );
        let asha = StoppingRuleSpec::Asha {
            reduction: 3,
            first_rung: 0,
        };
        assert!(refused(asha, 9).contains("first_rung = 0, expected at least 1"));
        for (epochs, expected) in [(2, 0), (3, 1), (4, 2), (6, 3), (10, 5), (50, 5)] {
            let spec = EarlyStoppingSpec::median(epochs);
            assert!(spec.validate().is_ok());
            let StoppingRuleSpec::Median { warmup_epochs, .. } = spec.rule else {
                panic!("it is the median rule");
            };
            assert_eq!(warmup_epochs, expected, "{epochs}");
        }
    }
}
