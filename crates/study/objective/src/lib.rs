//! Evaluation of trials: the [`Objective`] trait, the ways in which a trial can fail, and
//! objectives that run commands.
//!
//! This crate turns a point into a number or a recorded failure. It does not depend on how points
//! are proposed. Unix only: [`CommandObjective`] terminates processes by process group. Start at
//! [`evaluate_guarded`]. For trials that report during training, see [`train_guarded`] and
//! [`Monitor`].

mod command;
mod failure;
mod failure_counter;
mod guarded;
mod monitor;
mod numbers;
mod problem;

pub use command::{
    CommandError, CommandObjective, CommandSpec, Placeholder, Program, ProgramOutput, is_secret,
};
pub use failure::Failure;
pub use failure_counter::{FailureCounter, FailuresMax};
pub use guarded::{evaluate_guarded, numbers_guarded, train_guarded};
pub use monitor::{Monitor, Signal, TrainingEnd, Unusable};
pub use numbers::{NumberEntries, NumberNames, NumbersError};
pub use problem::{NoProblems, Problem, ProblemSpec, Problems};

pub use fedbo_space::Direction;
use fedbo_space::Point;

/// Identity of the trial under evaluation. The objective can use it to name files or to seed its
/// own noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialId {
    /// Index of the agent, from 0.
    pub agent: u64,
    /// Index of the trial within the agent's study, from 0.
    pub trial: u64,
}

/// An expensive black-box function, in the user's own units and sign.
pub trait Objective: Send + Sync {
    /// Evaluates one point. Blocks until the result is available. Must not panic for a bad point,
    /// but return [`Outcome::Failed`].
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome;

    /// Evaluates one point by training. Reports to `monitor` and ends early if the monitor asks for
    /// it.
    ///
    /// The default implementation evaluates the point without reports.
    fn train(&self, point: &Point, trial: TrialId, _monitor: &dyn Monitor) -> TrainingEnd {
        TrainingEnd::Ended(self.evaluate(point, trial))
    }
}

/// A closure as an objective. An error is the reason why the trial failed.
pub struct Closure<F>(pub F);

impl<F: Fn(&Point) -> Result<f64, String> + Send + Sync> Objective for Closure<F> {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        match (self.0)(point) {
            Ok(value) => Outcome::Value(value),
            Err(message) => Outcome::Failed(Failure::Reported { message }),
        }
    }
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A finite value.
    Value(f64),
    /// Several finite numbers in the order of the study's names, for a study with constraints or
    /// multiple objectives.
    Numbers(Vec<f64>),
    /// Same as [`Outcome::Numbers`], if some of them were not measured. At least one is there.
    Measured(Vec<Option<f64>>),
    /// No usable value. The failure is recorded and displayed, but never passed to a surrogate.
    Failed(Failure),
    /// The run is being stopped. The trial counts as if it had never run.
    Interrupted,
}
