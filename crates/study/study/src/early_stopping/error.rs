//! The reasons why trials of a study cannot be stopped early, or a report cannot be used.

use fedbo_strategies::StrategySpec;
use fedbo_strategies::early_stopping::{EPOCHS_MAX, OptionError};

/// The reason why trials of a study cannot be stopped early, or a report cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EarlyStoppingError {
    /// The strategy cannot do with trials that have no final value.
    #[error(
        "strategy {strategy:?} does not go with [early_stopping]; choose {}, or remove [early_stopping]",
        StrategySpec::names("or", StrategySpec::goes_with_stopped_trials)
    )]
    Strategy {
        /// Its name.
        strategy: &'static str,
    },
    /// The rule needs a model over points and epochs, which the strategy does not have.
    #[error(
        "rule {rule:?} needs the strategy {}, which it is made of, not {strategy:?}; choose it, or another rule",
        StrategySpec::names("or", |each| each.epoch_bound().is_some())
    )]
    RuleStrategy {
        /// The rule's name.
        rule: &'static str,
        /// The strategy's name.
        strategy: &'static str,
    },
    /// The data that the study begins with have final values only.
    #[error("{table} does not go with [early_stopping]; remove one of them")]
    Beside {
        /// `[meta]` or `[archive]`.
        table: &'static str,
    },
    /// A whole training has no, or too many, epochs.
    #[error(
        "[early_stopping] epochs = {epochs}, expected a whole number from {least} to {}",
        EPOCHS_MAX
    )]
    Epochs {
        /// The number.
        epochs: u32,
        /// The fewest that the rule can do with.
        least: u32,
    },
    /// A setting of the rule is out of its range.
    #[error("[early_stopping] {key} = {value}, expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The value that stands there.
        value: String,
        /// The values that are accepted, in words.
        expected: String,
    },
    /// The study's trials do not report.
    #[error(
        "study {name:?} has no [early_stopping], so its trials report nothing; tell their values with fedbo tell"
    )]
    NoRule {
        /// The study.
        name: String,
    },
    /// A report names an epoch that a training does not have.
    #[error(
        "trial {number} has reported epoch {epoch}, expected a whole number from 1 to {epochs}"
    )]
    Epoch {
        /// The trial.
        number: u64,
        /// The epoch.
        epoch: u32,
        /// The last epoch of a whole training.
        epochs: u32,
    },
}

impl From<OptionError> for EarlyStoppingError {
    fn from(OptionError { key, value, expected }: OptionError) -> Self {
        Self::Setting { key, value, expected }
    }
}
