//! Trials that report as they train, and whether they go on.
//!
//! A verdict is a function of the definition and of what is stored: of the trial's reports and of the other trials'. So a study
//! that goes on after an interruption judges as an uninterrupted one would.

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
