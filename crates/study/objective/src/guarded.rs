//! The one way in which a run should call an objective: nothing that it does escapes as a panic or as a NaN.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fedbo_space::Point;

use crate::{Failure, Monitor, Objective, Outcome, TrainingEnd, TrialId};

/// Evaluates a point; a panic becomes [`Failure::Panicked`], NaN and infinities become [`Failure::NotFinite`].
///
/// An objective that panics while it holds a lock may poison it for later trials; those then fail on their own.
pub fn evaluate_guarded(objective: &dyn Objective, point: &Point, trial: TrialId) -> Outcome {
    match guarded(|| TrainingEnd::Ended(objective.evaluate(point, trial))) {
        TrainingEnd::Ended(outcome) => outcome,
        TrainingEnd::Stopped => unreachable!("an evaluation ends by itself"),
    }
}

/// The same for a point that is evaluated by training that reports to `monitor`.
pub fn train_guarded(
    objective: &dyn Objective,
    point: &Point,
    trial: TrialId,
    monitor: &dyn Monitor,
) -> TrainingEnd {
    guarded(|| objective.train(point, trial, monitor))
}

fn guarded(act: impl FnOnce() -> TrainingEnd) -> TrainingEnd {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(TrainingEnd::Ended(Outcome::Value(value))) if !value.is_finite() => {
            TrainingEnd::Ended(Outcome::Failed(Failure::NotFinite(value)))
        }
        Ok(trained) => trained,
        Err(payload) => TrainingEnd::Ended(Outcome::Failed(Failure::Panicked {
            message: message(payload.as_ref()),
        })),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answer(fn() -> f64);

    impl Objective for Answer {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            Outcome::Value((self.0)())
        }
    }

    fn guarded(answer: fn() -> f64) -> Outcome {
        let trial = TrialId { agent: 0, trial: 0 };
        evaluate_guarded(&Answer(answer), &Point::new(Vec::new()), trial)
    }

    #[test]
    fn panics_and_non_finite_values_become_failures() {
        assert_eq!(guarded(|| 1.5), Outcome::Value(1.5));
        let panicked =
            |message: &str| Outcome::Failed(Failure::Panicked { message: message.to_owned() });
        assert_eq!(guarded(|| panic!("boom")), panicked("boom"));
        let words = || panic!("boom {}", std::hint::black_box(7));
        assert_eq!(guarded(words), panicked("boom 7"));
        assert_eq!(guarded(|| std::panic::panic_any(3_u8)), panicked("no message"));
        assert_eq!(
            guarded(|| f64::NEG_INFINITY),
            Outcome::Failed(Failure::NotFinite(f64::NEG_INFINITY))
        );
        assert!(
            matches!(guarded(|| f64::NAN), Outcome::Failed(Failure::NotFinite(v)) if v.is_nan())
        );
    }
}
