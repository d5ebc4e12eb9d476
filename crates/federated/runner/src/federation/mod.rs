//! A whole federation in one process: a run of its arms, and the results folder that it leaves.
//!
//! What a `federation.toml` means is decided by `fedbo-federation`, rounds are played by [`crate::run_session`], results written
//! by `fedbo-report`. Start at [`run_federation`].

mod arm;
mod book;
mod in_memory;
mod outcome;
mod replay;
mod run;
mod run_error;
mod settings_record;
mod study_ledger;
mod tallies;

pub use in_memory::run_arm;
pub use run::{
    AgentFailures, ArmStart, Existing, FailingAgent, Quiet, RunOptions, RunProgress, RunReport,
    run_federation,
};
pub use run_error::RunError;
pub use study_ledger::{HEAD_FILE, LEDGER_FILE};
