//! Durable storage of studies and their trials.
//!
//! This crate determines when a trial is durable, which worker may evaluate it, and who may tell
//! its outcome. It has no notion of strategies, surrogates or objectives. The definition of a study
//! is an opaque string. Start at [`open`] and [`Storage`], then [`Trial`].

mod address;
mod memory;
mod missing;
mod postgres;
mod rules;
mod sqlite;
mod storage;
mod trial;
mod worker;

pub use address::{Address, open, upgrade_at};
pub use fedbo_database::Mode;
pub use memory::MemoryStorage;
pub use postgres::{PostgresAddress, PostgresStorage};
pub use sqlite::{Problem, SqliteStorage, UpgradeReport, VerifyReport, backup, upgrade, verify};
pub use storage::{
    ATTEMPTS_MAX, AddOutcome, NewTrial, ReportOutcome, Snapshot, Stop, Storage, StorageError,
    StudyKey, StudyRecord, TellAuthority, TellOutcome,
};
pub use trial::{Correction, LastCorrection, Report, Told, Trial, TrialLease, TrialState};
pub use worker::{Process, Worker};
