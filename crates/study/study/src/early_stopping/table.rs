//! `[early_stopping]` in `study.toml`.

use std::time::Duration;

use fedbo_config::{Check, FileError, TomlFile, nearest};
use serde::{Deserialize, Deserializer};

use super::spec::KEYS;
use super::{EarlyStoppingError, EarlyStoppingSpec, StoppingRuleSpec};

/// The table: plain data, not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EarlyStoppingTable {
    rule: Option<String>,
    #[serde(deserialize_with = "whole::<2, _>")]
    epochs: Option<u32>,
    grace_s: Option<f64>,
    bounds: Option<Vec<f64>>,
    #[serde(deserialize_with = "whole::<1, _>")]
    first_epochs: Option<u32>,
    stop_std_ratio: Option<f64>,
    wrong_stop_loss: Option<f64>,
    wrong_stop_growth: Option<f64>,
    wrong_continue_loss: Option<f64>,
    epoch_cost: Option<f64>,
    #[serde(deserialize_with = "whole::<0, _>")]
    warmup_epochs: Option<u32>,
    #[serde(deserialize_with = "whole::<0, _>")]
    trials_min: Option<u32>,
    #[serde(deserialize_with = "whole::<2, _>")]
    reduction: Option<u32>,
    #[serde(deserialize_with = "whole::<1, _>")]
    first_rung: Option<u32>,
}

/// Reads a whole number from `LEAST` to the most epochs of a training.
fn whole<'de, const LEAST: u32, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    struct Whole<const LEAST: u32>;

    impl<const LEAST: u32> serde::de::Visitor<'_> for Whole<LEAST> {
        type Value = Option<u32>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let max = EarlyStoppingSpec::EPOCHS_MAX;
            write!(f, "a whole number from {LEAST} to {max}")
        }

        fn visit_i64<E: serde::de::Error>(self, found: i64) -> Result<Self::Value, E> {
            match u32::try_from(found) {
                Ok(number) if (LEAST..=EarlyStoppingSpec::EPOCHS_MAX).contains(&number) => {
                    Ok(Some(number))
                }
                _ => Err(E::invalid_value(
                    serde::de::Unexpected::Signed(found),
                    &self,
                )),
            }
        }
    }

    deserializer.deserialize_any(Whole::<LEAST>)
}

/// The rule alone, of whatever else is in a file.
#[derive(Deserialize)]
struct RuleOnly {
    early_stopping: NamedRule,
}

#[derive(Deserialize)]
struct NamedRule {
    rule: String,
}

/// An unknown key of the table is answered with those of the chosen rule.
pub(crate) fn keys_of_rule(error: FileError, file: &TomlFile) -> FileError {
    let (
        FileError::UnknownKey {
            place, key, known, ..
        },
        Ok(only),
    ) = (&error, file.parse::<RuleOnly>())
    else {
        return error;
    };
    let Some(word) = key.strip_prefix("early_stopping.") else {
        return error;
    };
    let rule = only.early_stopping.rule.as_str();
    let is_of_rule = |each: &&String| {
        let owners = KEYS.iter().find(|(key, _)| key == *each);
        owners.is_none_or(|(_, owners)| owners.contains(&rule))
    };
    let known: Vec<String> = known.iter().filter(is_of_rule).cloned().collect();
    FileError::UnknownKey {
        nearest: nearest(word, known.iter().map(String::as_str)).map(Box::from),
        place: place.clone(),
        key: key.clone(),
        known,
    }
}

/// The grace of a study whose file names none.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// Most seconds of a grace: a day.
const GRACE_S_MAX: f64 = 86_400.0;

impl EarlyStoppingTable {
    pub(crate) fn validate(&self, check: Check<'_>) -> Result<EarlyStoppingSpec, FileError> {
        let file = check.file;
        let at = |key: &'static str| ["early_stopping", key];
        let rules = [("bo-bos", 0), ("median", 1), ("asha", 2), ("hyperband", 3)];
        let Some(rule) = check.word(&at("rule"), self.rule.as_deref(), &rules)? else {
            let remedy = "add rule = \"bo-bos\", \"median\", \"asha\" or \"hyperband\": who decides which trials are stopped";
            return Err(file.missing_error(&at("rule"), remedy));
        };
        let Some(epochs) = self.epochs else {
            let remedy = "add epochs = .., how many epochs a whole training has";
            return Err(file.missing_error(&at("epochs"), remedy));
        };
        let max = EarlyStoppingSpec::EPOCHS_MAX;
        if !(2..=max).contains(&epochs) {
            let expected = format!("a whole number from 2 to {max}");
            return Err(file.value_error(&at("epochs"), expected));
        }
        self.refuse_others(check, rules[rule].0)?;
        let rule = match rules[rule].0 {
            "median" => self.median(epochs),
            "asha" => StoppingRuleSpec::Asha {
                reduction: self.reduction.unwrap_or(3),
                first_rung: self.first_rung.unwrap_or(1),
            },
            "hyperband" => StoppingRuleSpec::Hyperband {
                reduction: self.reduction.unwrap_or(3),
            },
            _ => self.bo_bos(check, epochs)?,
        };
        let spec = EarlyStoppingSpec { rule, epochs };
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(EarlyStoppingError::Setting { key, expected, .. }) => {
                Err(file.value_error(&at(key), expected))
            }
            Err(EarlyStoppingError::Epochs { least, .. }) => {
                let expected = format!("a whole number from {least} to {max} for this rule");
                Err(file.value_error(&at("epochs"), expected))
            }
            Err(other) => Err(file.error(&at("rule"), other.to_string())),
        }
    }

    /// Returns the time that a trial may take to end once it is stopped.
    pub(crate) fn grace(&self, check: Check<'_>) -> Result<Duration, FileError> {
        let Some(seconds) = self.grace_s else {
            return Ok(DEFAULT_GRACE);
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(grace) if seconds <= GRACE_S_MAX => Ok(grace),
            _ => {
                let expected = format!("a number of seconds from 0 to {GRACE_S_MAX}");
                Err(check
                    .file
                    .value_error(&["early_stopping", "grace_s"], expected))
            }
        }
    }

    fn median(&self, epochs: u32) -> StoppingRuleSpec {
        let mut rule = StoppingRuleSpec::median(epochs);
        if let StoppingRuleSpec::Median {
            warmup_epochs,
            trials_min,
        } = &mut rule
        {
            *warmup_epochs = self.warmup_epochs.unwrap_or(*warmup_epochs);
            *trials_min = self.trials_min.unwrap_or(*trials_min);
        }
        rule
    }

    fn bo_bos(&self, check: Check<'_>, epochs: u32) -> Result<StoppingRuleSpec, FileError> {
        let mut rule = StoppingRuleSpec::bo_bos(epochs);
        let StoppingRuleSpec::BoBos {
            bounds,
            first_epochs,
            stop_std_ratio,
            wrong_stop_loss,
            wrong_stop_growth,
            wrong_continue_loss,
            epoch_cost,
        } = &mut rule
        else {
            unreachable!("it was made as one")
        };
        *bounds = match self.bounds.as_deref() {
            None => None,
            Some([low, high]) if low < high && low.is_finite() && high.is_finite() => {
                Some([*low, *high])
            }
            Some(_) => {
                let expected = "[LOW, HIGH], two finite numbers, the lower one first";
                return Err(check
                    .file
                    .value_error(&["early_stopping", "bounds"], expected));
            }
        };
        *first_epochs = self.first_epochs.unwrap_or(*first_epochs);
        for (key, given, place) in [
            ("stop_std_ratio", self.stop_std_ratio, stop_std_ratio),
            ("wrong_stop_loss", self.wrong_stop_loss, wrong_stop_loss),
            (
                "wrong_stop_growth",
                self.wrong_stop_growth,
                wrong_stop_growth,
            ),
            (
                "wrong_continue_loss",
                self.wrong_continue_loss,
                wrong_continue_loss,
            ),
            ("epoch_cost", self.epoch_cost, epoch_cost),
        ] {
            if let Some(given) = given {
                *place = check.positive(&["early_stopping", key], given)?;
            }
        }
        Ok(rule)
    }

    /// Refuses a setting of another rule.
    fn refuse_others(&self, check: Check<'_>, rule: &str) -> Result<(), FileError> {
        for (key, owners) in KEYS {
            if owners.contains(&rule) || !self.has(key) {
                continue;
            }
            let words: Vec<String> = owners.iter().map(|owner| format!("{owner:?}")).collect();
            let message = format!(
                "early_stopping.{key} is for {}; remove it, or choose {} instead of {rule:?}",
                words.join(" and "),
                words.join(" or ")
            );
            return Err(check.file.error(&["early_stopping", key], message));
        }
        Ok(())
    }

    fn has(&self, key: &str) -> bool {
        match key {
            "bounds" => self.bounds.is_some(),
            "first_epochs" => self.first_epochs.is_some(),
            "stop_std_ratio" => self.stop_std_ratio.is_some(),
            "wrong_stop_loss" => self.wrong_stop_loss.is_some(),
            "wrong_stop_growth" => self.wrong_stop_growth.is_some(),
            "wrong_continue_loss" => self.wrong_continue_loss.is_some(),
            "epoch_cost" => self.epoch_cost.is_some(),
            "warmup_epochs" => self.warmup_epochs.is_some(),
            "trials_min" => self.trials_min.is_some(),
            "reduction" => self.reduction.is_some(),
            "first_rung" => self.first_rung.is_some(),
            other => unreachable!("{other} is no setting of a rule"),
        }
    }
}
