//! One party's study. One or more workers ask for its trials, evaluate them and tell the outcomes.
//!
//! This crate determines the next trial and the worker that evaluates it. `fedbo-storage` stores
//! the trials, and `fedbo-strategies` chooses the queries. Start at [`Study`].
//!
//! ```
//! use fedbo_study::{Definition, StrategySpec, Study};
//! use fedbo_space::ParameterSpec;
//!
//! let definition = Definition::new("parabola")
//!     .parameter("x", ParameterSpec::float(-2.0, 2.0))
//!     .strategy(StrategySpec::log_ei())
//!     .minimize();
//! let study = Study::in_memory(&definition)?;
//! study.optimize(15, |point| Ok(point.number("x").powi(2)))?;
//! let best = study.best()?.expect("a trial with a value");
//! assert!(best.value().is_some_and(|value| value < 0.05));
//! # Ok::<(), fedbo_study::StudyError>(())
//! ```

mod archive;
mod corrections;
mod definition;
mod early_stopping;
mod error;
mod file;
mod given;
mod import;
mod insight;
mod meta;
mod model;
mod numeric_choices;
mod opening;
mod outcomes;
mod pace;
mod patience;
mod run;
mod sampler;
mod separator;
mod study;
mod surface;
mod trial_table;

use fedbo_streams::Purpose;

pub use archive::{ArchiveFile, ArchiveMismatch, ArchiveSpec};
pub use definition::{Definition, NamedParameter};
pub use early_stopping::{EarlyStoppingError, EarlyStoppingSpec, RunningTrial};
pub use error::StudyError;
pub use fedbo_strategies::{StoppingRuleSpec, StrategySpec};
pub use file::{JOBS_MAX, StudyFile, time_limit};
pub use import::{ImportError, ImportedTrials, Outside, read_trials, trials_of_table};
pub use insight::{Insight, ParameterImportance};
pub use meta::{
    LeftOut, MetaError, MetaFile, MetaScale, MetaSettings, MetaSpec, Mismatch, OldSource, OldStudy,
    OldStudyTrust, TransferStep,
};
pub use outcomes::{Constraint, NamedObjective};
pub use patience::Patience;
pub use run::{Ended, NullObserver, Observer, RunOptions, RunReport};
pub use sampler::{EndedTrial, Sampler};
pub use study::{AskOutcome, Study};
pub use surface::Surface;
pub use trial_table::{EXPORT_COLUMNS, export_column};

/// Random streams for the points at which parameter effects on a model are measured.
pub const SENSITIVITY: Purpose = Purpose::new("sensitivity");
