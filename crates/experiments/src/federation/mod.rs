//! `federation.toml`: a whole federation in one file, and its run in one process.
//!
//! Decides what a file may say and what a run of it leaves behind. Rounds are played by [`crate::run_session`], results
//! written by `fedbo-report`. Start at [`Federation::load`], then [`run_federation`].

mod check;
mod checked;
mod file;
mod replay;
mod run;
mod settings_record;

pub use checked::{AgentObjective, Algorithm, Arm, Federation, FederationAgent};
pub use file::{AgentTable, FeaturesTable, FederationFile, FederationTable, FtsTable, TsTable};
pub use run::{
    AgentFailures, ArmStart, Existing, Quiet, RunError, RunOptions, RunProgress, RunReport,
    run_federation,
};
