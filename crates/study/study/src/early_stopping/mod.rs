//! Trials that report during training, and the decisions to stop or continue them.
//!
//! A verdict is a function of the definition and all stored reports. A study that resumes after an
//! interruption therefore reaches the same verdicts as an uninterrupted study.

mod bo_bos;
mod error;
mod monitor;
mod rule_evaluator;
mod running_trial;
mod spec;
mod table;
mod told_trials;
mod warnings;

pub use error::EarlyStoppingError;
pub use running_trial::RunningTrial;
pub use spec::EarlyStoppingSpec;

pub(crate) use monitor::{TrainingOutcome, TrialMonitor};
pub(crate) use rule_evaluator::RuleEvaluator;
pub(crate) use table::{DEFAULT_GRACE, EarlyStoppingTable};
pub(crate) use told_trials::ToldTrials;
pub(crate) use warnings::RunWarnings;
