//! Trials that report as they train, and whether they go on.
//!
//! A verdict is a function of the definition and of what is stored: of the trial's reports and of the other trials'. So a study
//! that goes on after an interruption judges as an uninterrupted one would.

mod bo_bos;
mod error;
mod judge;
mod monitor;
mod running_trial;
mod spec;
mod table;
mod tellings;
mod warnings;

pub use error::EarlyStoppingError;
pub use running_trial::RunningTrial;
pub use spec::EarlyStoppingSpec;

pub(crate) use judge::Judge;
pub(crate) use monitor::{Conclusion, TrialMonitor};
pub(crate) use table::{DEFAULT_GRACE, EarlyStoppingTable};
pub(crate) use tellings::Tellings;
pub(crate) use warnings::RunWarnings;
