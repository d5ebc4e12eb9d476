//! A party of a federation on its own machine: its folder, key, databases and trials, and how it
//! evaluates a trial.
//!
//! Agents and peers are parties. Raw data never leaves the folder (INV-12). `fedbo-agent` and
//! `fedbo-peer` decide which data is shared, and with whom.

mod database;
mod error;
mod evaluation;
mod folder;
mod identity;
mod objective_table;
mod trials;

pub use database::{Database, fixed};
pub use error::{HomeError, TrialsError};
pub use evaluation::{Evaluated, EvaluationError, begin_trial, end_trial, evaluate_trial};
pub use folder::{hold, keep_private, make_folder};
pub use identity::Identity;
pub use objective_table::ObjectiveTable;
pub use trials::{TRIALS_FILE, Trials, TrialsSummary, look};
