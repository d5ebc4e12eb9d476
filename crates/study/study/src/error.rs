//! The errors of a study.

use fedbo_config::Changes;
use fedbo_space::SpaceError;
use fedbo_storage::{StorageError, Told};
use fedbo_strategies::{StrategyError, StrategySpec};

use crate::{ArchiveMisfit, EarlyStoppingError, MetaError};

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
    /// It cannot begin with its archive.
    #[error(transparent)]
    Archive(#[from] ArchiveMisfit),
    /// It cannot learn from old studies as it is to.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// Its trials cannot be stopped early, or a report cannot be used.
    #[error(transparent)]
    EarlyStopping(#[from] EarlyStoppingError),
    /// The storage holds a study of this name that is another one.
    #[error(
        "study {name:?} is stored with other settings: {changes}; give the new study another name, or take back the change"
    )]
    Differs {
        /// The study.
        name: String,
        /// The keys that differ.
        changes: Box<Changes>,
    },
    /// The strategy is the caller's own, and was not given.
    #[error(
        "study {name:?} leaves its queries to a strategy of the program that began it; go on with that program \
         (Study::with_strategy): fedbo itself can show the study, but not ask for it"
    )]
    OwnStrategy {
        /// The study.
        name: String,
    },
    /// A strategy of the caller's own was given to a study that has another one.
    #[error(
        "study {name:?} has the strategy {strategy:?}; define it with StrategySpec::Own to give it one of your own"
    )]
    NotOwnStrategy {
        /// The study.
        name: String,
        /// Its strategy.
        strategy: &'static str,
    },
    /// A strategy asked for what is no point of the unit cube.
    #[error("strategy {strategy:?} asked for {unit:?}; a query has {dim} coordinates from 0 to 1")]
    NoPoint {
        /// The strategy.
        strategy: &'static str,
        /// The coordinates that it asked for.
        unit: Vec<f64>,
        /// The dimension of the unit cube.
        dim: usize,
    },
    /// A study into which trials are to be imported has another one in the place of one of them.
    #[error(
        "study {name:?} is stored there already, with another trial {number}; import under another name"
    )]
    OtherTrial {
        /// The study.
        name: String,
        /// Number of the stored trial.
        number: u64,
    },
    /// There is no study of this name.
    #[error("there is no study {name:?} in this storage; it has {known}")]
    NoStudy {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The storage has several studies, or none, and none was named.
    #[error("which study? this storage has {known}")]
    WhichStudy {
        /// The names that there are.
        known: String,
    },
    /// A stored definition cannot be read.
    #[error("the stored definition of study {name:?} cannot be read: {message}")]
    Definition {
        /// The study.
        name: String,
        /// The reason.
        message: String,
    },
    /// A point is a trial already.
    #[error(
        "this point is trial {number} already; only a study with noisy = true evaluates a point twice"
    )]
    Duplicate {
        /// The earlier trial.
        number: u64,
    },
    /// A trial did not fail, so there is nothing to try again.
    #[error("trial {number} is {state}; only a failed trial can be tried again")]
    NotFailed {
        /// The trial.
        number: u64,
        /// The state of the trial, in one word.
        state: &'static str,
    },
    /// A failed trial is tried again already.
    #[error("trial {number} is tried again already, as trial {by}")]
    TriedAgain {
        /// The trial.
        number: u64,
        /// The later trial.
        by: u64,
    },
    /// An objective or a constraint cannot be used.
    #[error("{message}")]
    Outcomes {
        /// The problem, with key, value and way out.
        message: String,
    },
    /// Constraints or several objectives stand beside what does not know them.
    #[error("{table} cannot be combined with {other}; remove one of them")]
    OutcomesBeside {
        /// The table.
        table: &'static str,
        /// The other table.
        other: &'static str,
    },
    /// A strategy knows no constraints and one objective.
    #[error(
        "strategy {strategy:?} does not go with {table}; choose {}, or remove {table}",
        StrategySpec::names("or", StrategySpec::takes_outcomes)
    )]
    OutcomesStrategy {
        /// The table.
        table: &'static str,
        /// The strategy.
        strategy: &'static str,
    },
    /// A trial was told other numbers than the study has.
    #[error("a trial of this study has the numbers {expected}; it was told {found} of them")]
    WrongNumbers {
        /// The numbers of the study by name.
        expected: String,
        /// Number of those that were told.
        found: usize,
    },
    /// There is no single best trial.
    #[error(
        "study {name:?} has several objectives, so no single best trial; best_trials has those that no other one dominates"
    )]
    SeveralObjectives {
        /// The study.
        name: String,
    },
    /// A value is NaN or infinite.
    #[error("the value {value} is not a finite number; tell a failure instead")]
    NotFinite {
        /// The value.
        value: f64,
    },
    /// A trial ended, but that could not be stored.
    #[error("trial {number} ended with {told}, which could not be stored: {cause}")]
    Unstored {
        /// The trial.
        number: u64,
        /// The outcome of the trial.
        told: Told,
        /// The reason why it could not be stored.
        cause: StorageError,
    },
    /// The objective could not be evaluated at all, whatever the point.
    #[error("{message}; the trial was given back, and the run ended")]
    Objective {
        /// The problem with the objective.
        message: String,
    },
    /// Other processes were always faster.
    #[error("other processes asked so often that no trial could be added in {attempts} attempts")]
    Overtaken {
        /// Number of attempts.
        attempts: u32,
    },
}
