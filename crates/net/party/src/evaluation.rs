//! Evaluates single trials.

use fedbo_failpoints::pass;
use fedbo_objective::{Failure, Objective, Outcome, TrialId, evaluate_guarded};
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;

use crate::TrialsError;
use crate::trials::{TrialStatus, Trials, told};

/// Result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluated {
    /// The trial already had a result.
    Before(Told),
    /// The trial has a new result, which is durable.
    Now(Told),
    /// The evaluation was interrupted. The trial will be evaluated again.
    Interrupted,
}

/// Error when evaluating a trial.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// Trials cannot be read or written.
    #[error(transparent)]
    Trials(#[from] TrialsError),
    /// The objective fails for every point.
    #[error("{message}; the trial was released; fix the command and start again")]
    Objective {
        /// The problem with the objective.
        message: String,
    },
}

/// Evaluates a trial unless it already has a result. Calls `started` before the evaluation.
///
/// # Errors
/// If the trial cannot be stored, or the objective fails for every point.
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

/// Stores the start of a trial, or returns the trial's result if it already has one.
///
/// # Errors
/// If the trial cannot be stored.
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

/// Stores the outcome of a started trial. An interrupted trial is released and will be evaluated
/// again.
///
/// # Errors
/// If the trial cannot be stored, or the objective fails for every point.
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
        // The failure does not depend on the point, so all other trials would fail too.
        trials.release_trial(index)?;
        let message = failure.to_string();
        return Err(EvaluationError::Objective { message });
    }
    pass("agent: a trial is evaluated");
    trials.tell(index, &told)?;
    pass("agent: a trial is told");
    Ok(Evaluated::Now(told))
}
