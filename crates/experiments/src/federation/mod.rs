//! `federation.toml`: a whole federation in one file, and its run in one process.
//!
//! Decides what a file may say and what a run of it leaves behind. Rounds are played by [`crate::run_fts`], results
//! written by `fedbo-report`. Start at [`Federation::load`], then [`run_federation`].

mod arm;
mod book;
mod check;
mod checked;
mod dp_fts_de;
mod exploration;
mod file;
mod outcome;
mod pricing;
mod privacy;
mod public_config;
mod release_mechanism;
mod replay;
mod run;
mod run_error;
mod settings_record;
mod study_ledger;

pub use checked::{AgentObjective, Algorithm, Arm, Federation, FederationAgent};
pub use file::{
    AgentTable, DpFtsDeTable, ExplorationTable, FeaturesTable, FederationFile, FederationTable,
    FtsTable, PrivacyTable, TsTable,
};
pub use privacy::PrivacyPlan;
pub use run::{
    AgentFailures, ArmStart, Existing, Quiet, RunOptions, RunProgress, RunReport, run_federation,
};
pub use run_error::RunError;
pub use study_ledger::{HEAD_FILE, LEDGER_FILE};
