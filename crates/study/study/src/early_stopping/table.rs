//! The `[early_stopping]` table of `study.toml`.

use std::collections::BTreeMap;
use std::time::Duration;

use fedbo_config::{Check, FileError, TableOptions, TomlFile};
use fedbo_strategies::early_stopping::{EPOCHS_MAX, whole};
use fedbo_strategies::{StoppingRuleSpec, in_words};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::{EarlyStoppingError, EarlyStoppingSpec};

/// The raw table, before validation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct EarlyStoppingTable {
    rule: Option<String>,
    #[serde(deserialize_with = "given")]
    epochs: Option<u32>,
    grace_s: Option<f64>,
    /// The rule's options. [`TableOptions`] reads them once the rule is known.
    #[serde(flatten)]
    _options: BTreeMap<String, IgnoredAny>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    whole::<2, _>(deserializer).map(Some)
}

fn options(file: &TomlFile) -> TableOptions<'_> {
    TableOptions { file, table: "early_stopping", keys: &["rule", "epochs", "grace_s"] }
}

/// Default grace period.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// Maximum grace period in seconds: one day.
const GRACE_S_MAX: f64 = 86_400.0;

impl EarlyStoppingTable {
    /// Checks that the table has no unknown keys.
    pub(crate) fn check_keys(&self, file: &TomlFile) -> Result<(), FileError> {
        let rules = StoppingRuleSpec::all(EPOCHS_MAX);
        let named = |rule: &&StoppingRuleSpec| Some(rule.name()) == self.rule.as_deref();
        options(file).check_keys(&rules, rules.iter().find(named).copied())
    }

    pub(crate) fn validate(&self, check: Check<'_>) -> Result<EarlyStoppingSpec, FileError> {
        let file = check.file;
        let at = |key: &'static str| ["early_stopping", key];
        let rules = StoppingRuleSpec::all(self.epochs.unwrap_or(EPOCHS_MAX));
        let names = rules.iter().map(StoppingRuleSpec::name);
        let words: Vec<_> = rules.iter().map(|rule| (rule.name(), *rule)).collect();
        let Some(rule) = check.word(&at("rule"), self.rule.as_deref(), &words)? else {
            let remedy = format!(
                "add rule = {}: it decides which trials are stopped",
                in_words(names, "or")
            );
            return Err(file.missing_error(&at("rule"), remedy));
        };
        let Some(epochs) = self.epochs else {
            let remedy = "add epochs = .., the number of epochs of a complete training";
            return Err(file.missing_error(&at("epochs"), remedy));
        };
        let rule = options(file).read(&rules, rule)?;
        let spec = EarlyStoppingSpec { rule, epochs };
        match spec.method() {
            Ok(_) => Ok(spec),
            Err(EarlyStoppingError::Setting { key, expected, .. }) => {
                Err(file.value_error(&at(key), expected))
            }
            Err(EarlyStoppingError::Epochs { least, .. }) => {
                let expected = format!("a whole number from {least} to {EPOCHS_MAX} for this rule");
                Err(file.value_error(&at("epochs"), expected))
            }
            Err(other) => Err(file.error(&at("rule"), other.to_string())),
        }
    }

    /// Returns how long a stopped trial has to exit.
    pub(crate) fn grace(&self, check: Check<'_>) -> Result<Duration, FileError> {
        let Some(seconds) = self.grace_s else {
            return Ok(DEFAULT_GRACE);
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(grace) if seconds <= GRACE_S_MAX => Ok(grace),
            _ => {
                let expected = format!("a number of seconds from 0 to {GRACE_S_MAX}");
                Err(check.file.value_error(&["early_stopping", "grace_s"], expected))
            }
        }
    }
}
