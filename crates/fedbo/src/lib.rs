//! Bayesian optimization of functions that are expensive to evaluate. This is the only crate that
//! you need to depend on.
//!
//! A [`Study`] proposes points, receives their values, and finds the best point within few
//! evaluations. It survives crashes ([`storage`]) and can be shared by many threads and processes.
//! Runs with the same seed are reproducible.
//!
//! ```
//! use fedbo::prelude::*;
//!
//! let definition = Definition::new("cup of tea")
//!     .parameter("minutes", ParameterSpec::float(1.0, 10.0))
//!     .parameter("leaves_g", ParameterSpec::float(0.5, 8.0))
//!     .parameter("milk", ParameterSpec::categorical(["before", "after", "none"]))
//!     .minimize();
//! let study = Study::in_memory(&definition)?;
//! study.optimize(30, |point| {
//!     let milk = if point.choice("milk") == "none" { 0.0 } else { 0.2 };
//!     Ok((point.number("minutes") - 3.5).powi(2) + (point.number("leaves_g") - 2.0).powi(2) + milk)
//! })?;
//! let best = study.best()?.expect("a trial with a value");
//! assert_eq!(best.point.choice("milk"), "none");
//! # Ok::<(), StudyError>(())
//! ```
//!
//! | task | see |
//! | --- | --- |
//! | tune a closure | [`Study::optimize`] |
//! | ask for points, evaluate them elsewhere, and tell the values | [`Study::ask`], [`Study::tell`] |
//! | store a study in a file or a database | [`storage::open`], [`Study::open`] |
//! | evaluate on several threads, with limits on time and failures | [`Study::run`], [`RunOptions`] |
//! | stop training runs early | [`Study::optimize_training`] |
//! | set constraints, or optimize several objectives at once | [`Definition::at_most`], [`Definition::objective`], [`Study::optimize_numbers`] |
//! | learn from earlier studies | [`Definition::learn_from`] |
//! | use your own strategy or acquisition function | [`strategy`], [`Study::with_strategy`] |
//! | let several parties tune together in one process | the feature `federated`, `federated::Federation` |

pub use fedbo_study::{
    AskOutcome, Constraint, Definition, EarlyStoppingSpec, Ended, Insight, NamedObjective,
    NullObserver, Observer, OldStudy, Patience, RunOptions, RunReport, StrategySpec, Study,
    StudyError, StudyFile,
};

/// Strategies: rules that propose the next query, and their components.
///
/// A custom rule implements [`Strategy`](strategy::Strategy). A rule with a Gaussian process passes
/// its observations to a [`Proposer`](strategy::Proposer), which maximizes an
/// [`Acquisition`](strategy::Acquisition):
///
/// ```
/// use fedbo::prelude::*;
/// use fedbo::strategy::{Acquisition, Observation, Points, Proposal, Proposer, Score, StrategyError};
///
/// /// Queries where the model is least certain: for a map of the function rather than for its best point.
/// #[derive(Clone)]
/// struct Explorer(Proposer);
///
/// impl Strategy for Explorer {
///     fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
///         let predictor = self.0.surrogate().posterior().predictor();
///         let uncertainty = Acquisition::new(&predictor, |_mean, std| Score {
///             value: std,
///             d_mean: 0.0,
///             d_std: 1.0,
///         });
///         self.0.propose_acquisition(&uncertainty, pending, stream)
///     }
///
///     fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
///         self.0.tell(observed)
///     }
/// }
///
/// let definition = Definition::new("map")
///     .parameter("x", ParameterSpec::float(0.0, 1.0))
///     .strategy(StrategySpec::own());
/// let explorer = Explorer(Proposer::for_study(&definition.space()?, false, Seed::new(1))?);
/// let study = Study::in_memory(&definition)?.with_strategy(explorer)?;
/// study.optimize(12, |point| Ok((9.0 * point.number("x")).sin()))?;
/// # Ok::<(), StudyError>(())
/// ```
pub mod strategy {
    pub use fedbo_gp::{Posterior, Prediction, Predictor};
    pub use fedbo_optim::Function;
    pub use fedbo_strategies::{
        Acquisition, Domain, GpUcb, GpUcbOptions, GpUcbSettings, Incumbent, LogEi, LogEiOptions,
        LogEiSettings, Maximizer, Observation, Outcomes, OutputOption, Points, Proposal, Proposer,
        RandomOptions, RandomSearch, Repeats, SampleSearch, Score, SobolOptions, SobolSearch,
        Source, Strategy, StrategyError, Surrogate, SurrogateSettings, ThompsonSampling,
        ThompsonSettings, TsOptions, UcbMultiplier, expected_improvement, log_expected_improvement,
        non_dominated,
    };
    pub use fedbo_streams::{Seed, Stream};
}

/// Federations in one process: several parties, each with its own objective. Requires the feature
/// `federated`.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
///
/// use fedbo::federated::{ALGORITHMS, Federation, run_arm};
/// use fedbo::objective::Closure;
///
/// let text = r#"
///     [federation]
///     name = "labs"
///     algorithm = "fts"
///     rounds = 6
///     [space.x]
///     type = "float"
///     low = 0.0
///     high = 1.0
///     [[agents]]
///     name = "a"
///     [[agents]]
///     name = "b"
/// "#;
/// let mut federation = Federation::from_text(text, ALGORITHMS)?;
/// for (agent, best) in [("a", 0.3), ("b", 0.4)] {
///     let objective = Closure(move |point: &fedbo::space::Point| Ok(-(point.number("x") - best).powi(2)));
///     federation = federation.with_objective(agent, Arc::new(objective))?;
/// }
/// for arm in federation.arms() {
///     let (rows, _) = run_arm(&federation, arm, "labs", &AtomicBool::new(false))?;
///     assert_eq!(rows.len(), 2 * (3 + 6)); // initial points and queries of both
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A custom algorithm is an [`Algorithm`](federated::Algorithm); see `examples/own_federated.rs`
/// for a complete one.
#[cfg(feature = "federated")]
pub mod federated {
    pub use fedbo_federated::{
        ALGORITHMS, AgentSetup, Algorithm, Alone, Arm, Exchange, Neighbours, Read, Reading,
        Relayed, Released, Role, Settings,
    };
    pub use fedbo_federation::{Federation, ObservationsRefused, UnknownAgent};
    pub use fedbo_gp::{FeatureMap, WeightSpaceSample};
    pub use fedbo_protocol::{Broadcast, UpdateRejected, UsesHandouts};
    pub use fedbo_report::Row;
    pub use fedbo_runner::federation::{RunError, run_arm};
    pub use fedbo_strategies::{Collaborator, LocalProb, MessageContent, MessageSettings};
}

/// Search spaces: parameters, points, and the unit cube that strategies work in.
pub mod space {
    pub use fedbo_space::{
        Branch, Direction, Kind, Numbers, OneOf, Parameter, ParameterSpec, Point, Space,
        SpaceError, Value, WhenSpec,
    };
}

/// Storage of studies: process memory, SQLite files and PostgreSQL databases.
///
/// ```
/// use fedbo::prelude::*;
/// use fedbo::storage::{self, Mode};
///
/// let folder = std::env::temp_dir().join(format!("fedbo-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let address = format!("sqlite:{}", folder.join("study.db").display()).parse()?;
/// let definition = Definition::new("kept").parameter("x", ParameterSpec::float(0.0, 1.0));
/// for n_trials in [3, 6] {
///     // The second iteration resumes the stored study.
///     let study = Study::open(storage::open(&address, Mode::Create)?, &definition)?;
///     study.optimize(n_trials, |point| Ok(point.number("x")))?;
///     assert_eq!(study.trials()?.len() as u64, n_trials);
/// }
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod storage {
    pub use fedbo_storage::{
        Address, MemoryStorage, Mode, PostgresStorage, SqliteStorage, Storage, StorageError, Told,
        Trial, TrialState, open,
    };
}

/// Objectives: functions and commands that evaluate a point or fail.
pub mod objective {
    pub use fedbo_objective::{
        Closure, CommandObjective, Failure, FailuresMax, NumberNames, Objective, Outcome, TrialId,
    };
}

/// The examples in docs/extending.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
mod extending {}

/// The names that most programs need.
pub mod prelude {
    pub use crate::space::{Direction, ParameterSpec, Point, Space};
    pub use crate::storage::Trial;
    pub use crate::strategy::{Seed, Strategy, Stream};
    pub use crate::{Definition, RunOptions, StrategySpec, Study, StudyError};
}
