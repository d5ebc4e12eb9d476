//! Runs of a whole federation in one process, which write a results folder.
//!
//! `fedbo-federation` parses a `federation.toml`, [`crate::run_session`] runs the rounds, and
//! `fedbo-report` writes the results. Start at [`run_federation`].

mod arm;
mod arm_rows;
mod in_memory;
mod outcome;
mod replay;
mod results_file;
mod run;
mod run_error;
mod settings_record;
mod study_ledger;

pub use in_memory::run_arm;
pub use run::{
    AgentFailures, ArmStarted, ExistingResults, FailingAgent, Quiet, RunOptions, RunProgress,
    RunReport, default_arms, run_federation,
};
pub use run_error::RunError;
pub use settings_record::recorded_tables;
pub use study_ledger::{HEAD_FILE, LEDGER_FILE};
