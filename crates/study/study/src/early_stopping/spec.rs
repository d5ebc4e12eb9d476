//! The early stopping rule of a study's definition.

use fedbo_config::Keys;
use fedbo_strategies::early_stopping::{BosSettings, EPOCHS_MAX, OptionError, StoppingMethod};
use fedbo_strategies::{StoppingRuleSpec, StrategySpec};
use serde::{Deserialize, Serialize};

use super::EarlyStoppingError;
use crate::definition::push_options;

/// Early stopping of trials that report during training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStoppingSpec {
    /// The stopping rule.
    pub rule: StoppingRuleSpec,
    /// N: number of epochs in a complete training run.
    pub epochs: u32,
}

impl EarlyStoppingSpec {
    /// Creates a specification with a rule, for training runs of `epochs` epochs.
    pub fn new(rule: StoppingRuleSpec, epochs: u32) -> Self {
        Self { rule, epochs }
    }

    /// Uses Bayesian optimal stopping with the settings of the thesis. The strategy must be GP-UCB.
    pub fn bo_bos(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::bo_bos(epochs), epochs)
    }

    /// Uses the median rule with its default settings, for training runs of `epochs` epochs.
    ///
    /// No trial is stopped in its first five epochs, or in the first half of its training if that
    /// is shorter.
    pub fn median(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::median(epochs), epochs)
    }

    /// Uses asynchronous successive halving with its default settings.
    pub fn asha(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::asha(epochs), epochs)
    }

    /// Uses Hyperband's brackets with the default settings.
    pub fn hyperband(epochs: u32) -> Self {
        Self::new(StoppingRuleSpec::hyperband(epochs), epochs)
    }

    /// Returns the stopping method.
    ///
    /// # Errors
    /// Fails if an option is out of range.
    pub(crate) fn method(&self) -> Result<StoppingMethod, EarlyStoppingError> {
        let epochs = self.epochs;
        let options = self.rule.options();
        let least = options.epochs_min();
        match (least..=EPOCHS_MAX).contains(&epochs) {
            true => Ok(options.make(epochs)?),
            false => Err(EarlyStoppingError::Epochs { epochs, least }),
        }
    }

    /// Checks that options set by a program would also be accepted in a file, since stored options
    /// are read by the same rules.
    ///
    /// # Errors
    /// Fails if an option is out of range.
    pub(crate) fn check_storable(&self) -> Result<(), EarlyStoppingError> {
        let stored = serde_json::to_value(self.rule);
        let read = stored.and_then(serde_json::from_value::<StoppingRuleSpec>);
        match read {
            Ok(_) => Ok(()),
            Err(error) => Err(OptionError {
                key: "rule",
                value: format!("{:?}", self.rule),
                expected: format!("options that a file can have: {error}"),
            }
            .into()),
        }
    }

    /// Returns the settings of a rule that is solved for each trial; `None` if the rule uses only
    /// curves.
    pub(super) fn solved(&self) -> Option<BosSettings> {
        match self.method() {
            Ok(StoppingMethod::Solved(settings)) => Some(settings),
            _ => None,
        }
    }

    /// Checks that the rule is compatible with a strategy.
    ///
    /// # Errors
    /// Fails if the strategy lacks the model that the rule needs, or does not support trials that
    /// are stopped early.
    pub(crate) fn check_strategy(&self, strategy: &StrategySpec) -> Result<(), EarlyStoppingError> {
        let name = strategy.name();
        if self.rule.options().needs_epoch_model() {
            return match strategy.epoch_bound() {
                Some(_) => Ok(()),
                None => {
                    Err(EarlyStoppingError::RuleStrategy { rule: self.rule.name(), strategy: name })
                }
            };
        }
        match strategy.goes_with_stopped_trials() {
            true => Ok(()),
            false => Err(EarlyStoppingError::Strategy { strategy: name }),
        }
    }

    /// Adds the keys of the `[early_stopping]` table, as in a study file.
    pub(crate) fn push_keys(spec: Option<&Self>, keys: &mut Keys) {
        keys.push(&["early_stopping", "rule"], spec.map(|spec| spec.rule.name()));
        keys.push(&["early_stopping", "epochs"], spec.map(|spec| spec.epochs));
        let rules = StoppingRuleSpec::all(EPOCHS_MAX);
        push_options(keys, "early_stopping", &rules, spec.map(|spec| &spec.rule));
    }
}

#[cfg(test)]
mod tests {
    use fedbo_strategies::early_stopping::{AshaOptions, HyperbandOptions, MedianOptions};

    use super::*;

    #[test]
    fn settings_out_of_range_are_named() {
        let refused = |rule, epochs| {
            let spec = EarlyStoppingSpec { rule, epochs };
            spec.method().unwrap_err().to_string()
        };
        let median = |warmup_epochs| {
            StoppingRuleSpec::Median(MedianOptions { warmup_epochs, trials_min: 3 })
        };
        assert_eq!(
            refused(median(50), 50),
            "[early_stopping] warmup_epochs = 50, expected a whole number below epochs = 50"
        );
        assert!(refused(median(0), 1).contains("epochs = 1, expected a whole number from 2"));
        let hyperband = StoppingRuleSpec::Hyperband(HyperbandOptions { reduction: 1 });
        assert_eq!(refused(hyperband, 50), "[early_stopping] reduction = 1, expected at least 2");
        let asha = StoppingRuleSpec::Asha(AshaOptions { reduction: 3, first_rung: 0 });
        assert!(refused(asha, 9).contains("first_rung = 0, expected at least 1"));
        for (epochs, expected) in [(2, 0), (3, 1), (4, 2), (6, 3), (10, 5), (50, 5)] {
            let spec = EarlyStoppingSpec::median(epochs);
            assert!(spec.method().is_ok());
            let StoppingRuleSpec::Median(options) = spec.rule else {
                panic!("it is the median rule");
            };
            assert_eq!(options.warmup_epochs, expected, "{epochs}");
        }
    }
}
