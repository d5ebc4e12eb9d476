//! Trials that report during training, and decisions whether they continue.
//!
//! A verdict is a function of the definition and of the stored reports of all trials. So a study
//! that resumes after an interruption reaches the same verdicts as an uninterrupted one.

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
