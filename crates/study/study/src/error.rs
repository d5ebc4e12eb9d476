//! Errors of studies.

use fedbo_config::Changes;
use fedbo_error_class::{Class, Classified};
use fedbo_space::SpaceError;
use fedbo_storage::{StorageError, Told};
use fedbo_strategies::{StrategyError, StrategySpec};

use crate::{ArchiveMismatch, EarlyStoppingError, MetaError};

/// An error of a study.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No query could be proposed.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The space or a point is not valid.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The study cannot start from its archive.
    #[error(transparent)]
    Archive(#[from] ArchiveMismatch),
    /// The study cannot learn from old studies as defined.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// Trials cannot be stopped early, or a report is unusable.
    #[error(transparent)]
    EarlyStopping(#[from] EarlyStoppingError),
    /// A different study is stored under this name.
    #[error(
        "study {name:?} is stored with different settings: {changes}; give the new study another name, or revert the change"
    )]
    Differs {
        /// Name of the study.
        name: String,
        /// The keys that differ.
        changes: Box<Changes>,
    },
    /// The strategy is user-defined but was not supplied.
    #[error(
        "study {name:?} uses a strategy defined by the program that created it; continue with that program \
         (Study::with_strategy): fedbo itself can show the study, but cannot ask for trials"
    )]
    OwnStrategy {
        /// Name of the study.
        name: String,
    },
    /// A user-defined strategy was supplied to a study that has a different strategy.
    #[error(
        "study {name:?} has the strategy {strategy:?}; define it with StrategySpec::Own to use your own strategy"
    )]
    NotOwnStrategy {
        /// Name of the study.
        name: String,
        /// The study's strategy.
        strategy: &'static str,
    },
    /// A strategy returned a query outside the unit cube.
    #[error("strategy {strategy:?} asked for {unit:?}; a query has {dim} coordinates from 0 to 1")]
    NoPoint {
        /// Name of the strategy.
        strategy: &'static str,
        /// The coordinates of the query.
        unit: Vec<f64>,
        /// The dimension of the unit cube.
        dim: usize,
    },
    /// A study that trials are imported into already has a different trial with the same number.
    #[error(
        "study {name:?} is already stored there, with a different trial {number}; import under another name"
    )]
    OtherTrial {
        /// Name of the study.
        name: String,
        /// Number of the stored trial.
        number: u64,
    },
    /// The strategy cannot propose trials with given values.
    #[error(
        "strategy {strategy:?} cannot propose trials with given values; use another strategy, such as log-ei, or enqueue a \
         whole point"
    )]
    NoGivenValues {
        /// The study's strategy.
        strategy: &'static str,
    },
    /// No study has this name.
    #[error("there is no study {name:?} in this storage; it has {known}")]
    NoStudy {
        /// The name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// No study was named, and the storage has no study or more than one.
    #[error("which study? this storage has {known}")]
    AmbiguousStudy {
        /// The existing names.
        known: String,
    },
    /// A stored definition cannot be read.
    #[error("the stored definition of study {name:?} cannot be read: {message}")]
    Definition {
        /// Name of the study.
        name: String,
        /// The reason.
        message: String,
    },
    /// The point is already a trial.
    #[error(
        "this point is already trial {number}; only a study with noisy = true evaluates a point twice"
    )]
    Duplicate {
        /// Number of the earlier trial.
        number: u64,
    },
    /// The trial cannot be retried because it did not fail.
    #[error("trial {number} is {state}; only a failed trial can be retried")]
    NotFailed {
        /// Number of the trial.
        number: u64,
        /// The state of the trial, in one word.
        state: &'static str,
    },
    /// The failed trial has already been retried.
    #[error("trial {number} is already being retried, as trial {by}")]
    AlreadyRetried {
        /// Number of the trial.
        number: u64,
        /// Number of the trial that retries it.
        by: u64,
    },
    /// A trial that was stopped early has no final value that could be corrected.
    #[error(
        "trial {number} was stopped early, so it has no final value to correct; discard it instead"
    )]
    WasStopped {
        /// Number of the trial.
        number: u64,
    },
    /// A failed trial that was retried no longer counts.
    #[error(
        "trial {number} failed and was retried as trial {by}, which counts instead; correct or discard trial {by}"
    )]
    WasRetried {
        /// Number of the trial.
        number: u64,
        /// Number of the trial that retries it.
        by: u64,
    },
    /// An objective or a constraint is invalid.
    #[error("{message}")]
    Outcomes {
        /// The problem, with key, value and remedy.
        message: String,
    },
    /// Constraints or multiple objectives are combined with a feature that does not support them.
    #[error("{table} cannot be combined with {other}; remove one of them")]
    IncompatibleOutcomes {
        /// Name of the table.
        table: &'static str,
        /// The incompatible table or feature.
        other: &'static str,
    },
    /// The strategy supports neither constraints nor multiple objectives.
    #[error(
        "strategy {strategy:?} cannot be combined with {table}; choose {}, or remove {table}",
        StrategySpec::names("or", StrategySpec::takes_outcomes)
    )]
    OutcomesStrategy {
        /// Name of the table.
        table: &'static str,
        /// Name of the strategy.
        strategy: &'static str,
    },
    /// The number of values given for a trial differs from the study's.
    #[error("a trial of this study has the numbers {expected}; it was given {found} numbers")]
    WrongNumbers {
        /// The names of the study's numbers.
        expected: String,
        /// Number of values given.
        found: usize,
    },
    /// A study with multiple objectives has no single best trial.
    #[error(
        "study {name:?} has several objectives, so it has no single best trial; best_trials returns the non-dominated ones"
    )]
    SeveralObjectives {
        /// Name of the study.
        name: String,
    },
    /// No trial has both parameters of a surface, because at least one is conditional.
    #[error(
        "no trial with a value has both {x} and {y}, so there is no point to draw the model around; choose other parameters"
    )]
    NoCommonTrial {
        /// The first parameter.
        x: String,
        /// The second parameter.
        y: String,
    },
    /// A value is NaN or infinite.
    #[error("the value {value} is not a finite number; tell a failure instead")]
    NotFinite {
        /// The value.
        value: f64,
    },
    /// All numbers of a trial are missing.
    #[error("none of the numbers {names} was measured; tell a failure instead")]
    NothingMeasured {
        /// The names of the numbers.
        names: String,
    },
    /// A trial ended, but its outcome could not be stored.
    #[error("trial {number} ended with {told}, which could not be stored: {cause}")]
    Unstored {
        /// Number of the trial.
        number: u64,
        /// The outcome of the trial.
        told: Told,
        /// The reason why it could not be stored.
        cause: StorageError,
    },
    /// The objective cannot be evaluated at any point.
    #[error("{message}; the trial was released, and the run ended")]
    Objective {
        /// The problem with the objective.
        message: String,
    },
    /// Every attempt to add a trial was overtaken by another process.
    #[error("other processes asked so often that no trial could be added in {attempts} attempts")]
    Overtaken {
        /// Number of attempts.
        attempts: u32,
    },
}

impl Classified for StudyError {
    fn class(&self) -> Class {
        match self {
            Self::Storage(error) => error.class(),
            Self::Unstored { .. } => Class::Output,
            Self::Overtaken { .. } => Class::Internal,
            Self::Strategy(error) => error.class(),
            _ => Class::Input,
        }
    }
}
