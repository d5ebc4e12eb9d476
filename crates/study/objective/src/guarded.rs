//! Guarded evaluation of objectives: panics are caught, and NaN is rejected. All runs should use
//! these functions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fedbo_space::Point;

use crate::{Failure, Monitor, Objective, Outcome, TrainingEnd, TrialId};

/// Evaluates a point. A panic becomes [`Failure::Panicked`]. NaN and infinities become
/// [`Failure::NotFinite`].
///
/// An objective that panics while it holds a lock can poison the lock for later trials, which then
/// fail too.
pub fn evaluate_guarded(objective: &dyn Objective, point: &Point, trial: TrialId) -> Outcome {
    numbers_guarded(objective, point, trial, 1)
}

/// Same as [`evaluate_guarded`], for an objective with `n_numbers` numbers. Any other count fails
/// the trial.
pub fn numbers_guarded(
    objective: &dyn Objective,
    point: &Point,
    trial: TrialId,
    n_numbers: usize,
) -> Outcome {
    let evaluated = guarded(|| TrainingEnd::Ended(objective.evaluate(point, trial)), n_numbers);
    match evaluated {
        TrainingEnd::Ended(outcome) => outcome,
        TrainingEnd::Stopped => unreachable!("a plain evaluation is never stopped"),
    }
}

/// Same as [`evaluate_guarded`], for an objective that trains and reports to `monitor`.
pub fn train_guarded(
    objective: &dyn Objective,
    point: &Point,
    trial: TrialId,
    monitor: &dyn Monitor,
) -> TrainingEnd {
    guarded(|| objective.train(point, trial, monitor), 1)
}

fn guarded(act: impl FnOnce() -> TrainingEnd, expected: usize) -> TrainingEnd {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(TrainingEnd::Ended(Outcome::Value(value))) => {
            TrainingEnd::Ended(checked(vec![value], expected))
        }
        Ok(TrainingEnd::Ended(Outcome::Numbers(numbers))) => {
            TrainingEnd::Ended(checked(numbers, expected))
        }
        Ok(TrainingEnd::Ended(Outcome::Measured(numbers))) => {
            TrainingEnd::Ended(checked_measured(numbers, expected))
        }
        Ok(trained) => trained,
        Err(payload) => TrainingEnd::Ended(Outcome::Failed(Failure::Panicked {
            message: message(payload.as_ref()),
        })),
    }
}

/// Checks that there are `expected` numbers and that all of them are finite.
fn checked(numbers: Vec<f64>, expected: usize) -> Outcome {
    if numbers.len() != expected {
        return Outcome::Failed(Failure::WrongNumbers { found: numbers.len(), expected });
    }
    match (numbers.iter().find(|number| !number.is_finite()), numbers.as_slice()) {
        (Some(number), _) => Outcome::Failed(Failure::NotFinite(*number)),
        (None, [value]) => Outcome::Value(*value),
        (None, _) => Outcome::Numbers(numbers),
    }
}

/// Checks numbers of which some were not measured. A single number cannot be missing.
fn checked_measured(numbers: Vec<Option<f64>>, expected: usize) -> Outcome {
    let n_numbers = numbers.len();
    if n_numbers != expected {
        return Outcome::Failed(Failure::WrongNumbers { found: n_numbers, expected });
    }
    let found: Vec<f64> = numbers.iter().flatten().copied().collect();
    match found.iter().find(|number| !number.is_finite()) {
        Some(number) => Outcome::Failed(Failure::NotFinite(*number)),
        None if found.len() == n_numbers => checked(found, expected),
        None if found.is_empty() => Outcome::Failed(Failure::NotFinite(f64::NAN)),
        None => Outcome::Measured(numbers),
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
    fn some_of_several_numbers_may_be_missing() {
        struct Partial(Vec<Option<f64>>);
        impl Objective for Partial {
            fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
                Outcome::Measured(self.0.clone())
            }
        }
        let guarded = |numbers: &[Option<f64>]| {
            let trial = TrialId { agent: 0, trial: 0 };
            let objective = Partial(numbers.to_vec());
            numbers_guarded(&objective, &Point::new(Vec::new()), trial, numbers.len())
        };
        let one = vec![Some(1.0), None];
        assert_eq!(guarded(&one), Outcome::Measured(one));
        assert_eq!(guarded(&[Some(1.0), Some(2.0)]), Outcome::Numbers(vec![1.0, 2.0]));
        let infinite = Failure::NotFinite(f64::INFINITY);
        assert_eq!(guarded(&[Some(f64::INFINITY), None]), Outcome::Failed(infinite));
        for nothing in [&[None, None][..], &[None]] {
            let found = guarded(nothing);
            assert!(matches!(found, Outcome::Failed(Failure::NotFinite(_))), "{found:?}");
        }
    }

    #[test]
    fn numbers_are_as_many_as_the_study_has() {
        struct Several(Vec<f64>);
        impl Objective for Several {
            fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
                Outcome::Numbers(self.0.clone())
            }
        }
        let (point, trial) = (Point::new(Vec::new()), TrialId { agent: 0, trial: 0 });
        let guarded =
            |numbers: &[f64], n| numbers_guarded(&Several(numbers.to_vec()), &point, trial, n);
        assert_eq!(guarded(&[1.0, 2.0], 2), Outcome::Numbers(vec![1.0, 2.0]));
        assert_eq!(guarded(&[1.0], 1), Outcome::Value(1.0));
        for (numbers, expected) in [(&[1.0, 2.0][..], 1), (&[1.0], 2), (&[], 1)] {
            let failure = Failure::WrongNumbers { found: numbers.len(), expected };
            assert_eq!(guarded(numbers, expected), Outcome::Failed(failure));
        }
        let infinite = Failure::NotFinite(f64::INFINITY);
        assert_eq!(guarded(&[1.0, f64::INFINITY], 2), Outcome::Failed(infinite));
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
