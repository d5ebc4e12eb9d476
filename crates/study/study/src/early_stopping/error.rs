//! Errors of early stopping.

use fedbo_strategies::StrategySpec;
use fedbo_strategies::early_stopping::{EPOCHS_MAX, OptionError};

/// Error returned if a study's trials cannot be stopped early, or if a report is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EarlyStoppingError {
    /// The strategy does not support trials without a final value.
    #[error(
        "strategy {strategy:?} cannot be combined with [early_stopping]; choose {}, or remove [early_stopping]",
        StrategySpec::names("or", StrategySpec::goes_with_stopped_trials)
    )]
    Strategy {
        /// The strategy's name.
        strategy: &'static str,
    },
    /// The rule needs a model over points and epochs, which the strategy does not have.
    #[error(
        "rule {rule:?} needs the strategy {}, on which it is based, not {strategy:?}; choose that strategy, or another rule",
        StrategySpec::names("or", |each| each.epoch_bound().is_some())
    )]
    RuleStrategy {
        /// The rule's name.
        rule: &'static str,
        /// The strategy's name.
        strategy: &'static str,
    },
    /// The data that the study starts from has only final values.
    #[error("{table} cannot be combined with [early_stopping]; remove one of them")]
    Beside {
        /// `[meta]` or `[archive]`.
        table: &'static str,
    },
    /// The number of epochs in a complete training run is out of range.
    #[error(
        "[early_stopping] epochs = {epochs}, expected a whole number from {least} to {}",
        EPOCHS_MAX
    )]
    Epochs {
        /// The given number of epochs.
        epochs: u32,
        /// The minimum for the rule.
        least: u32,
    },
    /// An option of the rule is out of range.
    #[error("[early_stopping] {key} = {value}, expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The given value.
        value: String,
        /// Description of the accepted values.
        expected: String,
    },
    /// The study's trials do not report values.
    #[error(
        "study {name:?} has no [early_stopping], so its trials report nothing; tell their values with fedbo tell"
    )]
    NoRule {
        /// Name of the study.
        name: String,
    },
    /// A reported epoch is out of range.
    #[error(
        "trial {number} has reported epoch {epoch}, expected a whole number from 1 to {epochs}"
    )]
    Epoch {
        /// Number of the trial.
        number: u64,
        /// The reported epoch.
        epoch: u32,
        /// The last epoch of a complete training run.
        epochs: u32,
    },
}

impl From<OptionError> for EarlyStoppingError {
    fn from(OptionError { key, value, expected }: OptionError) -> Self {
        Self::Setting { key, value, expected }
    }
}
