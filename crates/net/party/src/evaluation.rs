//! The evaluation of one trial, from its beginning to its end.

use fedbo_failpoints::pass;
use fedbo_objective::{Failure, Objective, Outcome, TrialId, evaluate_guarded};
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;

use crate::TrialsError;
use crate::trials::{TrialStatus, Trials, told};

/// The outcome of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluated {
    /// It had ended before.
    Before(Told),
    /// It has ended now; durable.
    Now(Told),
    /// It was interrupted, and waits to be evaluated again.
    Interrupted,
}

/// An error in evaluating a trial.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// Trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// The objective cannot be evaluated at all, whatever the point.
    #[error("{message}; the trial was given back, mend the command and start again")]
    Objective {
        /// The defect of the objective.
        message: String,
    },
}

/// Evaluates a trial of a party, unless it has ended before; `started` is called in between where it is evaluated.
///
/// # Errors
/// If it cannot be stored, or the objective cannot be evaluated whatever the point.
pub fn evaluate_trial(
    trials: &Trials,
    objective: &dyn Objective,
    agent: u32,
    asked: (&Trial, &Point),
    ask_seconds: f64,
    started: impl FnOnce(),
) -> Result<Evaluated, EvaluationError> {
    let (trial, point) = asked;
    if let Some(told) = begin_trial(trials, asked, ask_seconds)? {
        return Ok(Evaluated::Before(told));
    }
    started();
    let id = TrialId { agent: u64::from(agent), trial: trial.index };
    let outcome = evaluate_guarded(objective, point, id);
    end_trial(trials, trial.index, &outcome)
}

/// Stores that a trial begins, and returns its result if it has ended before.
///
/// # Errors
/// If it cannot be stored.
pub fn begin_trial(
    trials: &Trials,
    (trial, point): (&Trial, &Point),
    ask_seconds: f64,
) -> Result<Option<Told>, EvaluationError> {
    match trials.begin(trial, point, ask_seconds)? {
        TrialStatus::Told(told) => Ok(Some(told)),
        TrialStatus::Begun => {
            pass("agent: a trial is begun");
            Ok(None)
        }
    }
}

/// Stores the outcome of a trial that was begun; one that was interrupted waits to be evaluated again.
///
/// # Errors
/// If it cannot be stored, or the objective cannot be evaluated whatever the point.
pub fn end_trial(
    trials: &Trials,
    index: u64,
    outcome: &Outcome,
) -> Result<Evaluated, EvaluationError> {
    let Some(told) = told(outcome) else {
        trials.release_trial(index)?;
        return Ok(Evaluated::Interrupted);
    };
    if let Outcome::Failed(failure @ Failure::Spawn { .. }) = outcome {
        // No property of the point: the same would happen to every other.
        trials.release_trial(index)?;
        let message = failure.to_string();
        return Err(EvaluationError::Objective { message });
    }
    pass("agent: a trial is evaluated");
    trials.tell(index, &told)?;
    pass("agent: a trial is told");
    Ok(Evaluated::Now(told))
}
