//! A whole federation in one process: a run of its arms, and the results folder that it leaves.
//!
//! What a `federation.toml` means is decided by `fedbo-federation`, rounds are played by [`crate::run_session`], results written
//! by `fedbo-report`. Start at [`run_federation`].

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
