//! Tests of the warning about BO-BOS bounds in a different unit than the values, which is given
//! once per run.

use std::sync::atomic::AtomicBool;

use fedbo_objective::{Monitor, Objective, Outcome, TrainingEnd, TrialId};
use fedbo_space::{ParameterSpec, Point};
use fedbo_strategies::early_stopping::{BoBosOptions, ValueBounds};
use fedbo_study::{Definition, EarlyStoppingSpec, RunOptions, StoppingRuleSpec, Study};

use crate::early_stopping::fixtures::Warnings;

const N_EPOCHS: u32 = 25;

/// An objective that rises from `from` to `to` over the epochs.
struct Rising {
    from: f64,
    to: f64,
}

impl Objective for Rising {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        panic!("a study with a rule trains");
    }

    fn train(&self, _: &Point, _: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        for epoch in 1..=N_EPOCHS {
            let share = f64::from(epoch) / f64::from(N_EPOCHS);
            let value = self.from + share * (self.to - self.from);
            if monitor.report(epoch, value).stops() {
                return TrainingEnd::Stopped;
            }
        }
        TrainingEnd::Ended(Outcome::Value(self.to))
    }
}

fn warnings(bounds: Option<[f64; 2]>, minimizes: bool, curve: &Rising) -> Vec<String> {
    let rule = StoppingRuleSpec::BoBos(BoBosOptions {
        bounds: bounds.map(|[low, high]| ValueBounds { low, high }),
        ..BoBosOptions::for_epochs(N_EPOCHS)
    });
    let definition = Definition::new("bounds")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .early_stopping(EarlyStoppingSpec::new(rule, N_EPOCHS));
    let definition = match minimizes {
        true => definition.minimize(),
        false => definition,
    };
    let study = Study::in_memory(&definition).unwrap();
    let said = Warnings::default();
    let (options, stop) = (RunOptions::sequential(3), AtomicBool::new(false));
    study.run(curve, &options, &said, &stop).unwrap();
    said.0.into_inner().unwrap()
}

#[test]
fn values_outside_of_the_bounds_are_named_once() {
    let percent = Rising { from: 50.0, to: 90.0 };
    // An accuracy in per cent, with bounds for an accuracy between 0 and 1.
    let said = warnings(Some([0.0, 1.0]), false, &percent);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(
        said[0]
            .starts_with("trial 0 has reported 51.6 at epoch 1, better than bounds = [0, 1] allow"),
        "{said:#?}"
    );
    // A loss far above its bounds.
    let said = warnings(Some([0.0, 1.0]), true, &percent);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(
        said[0].starts_with(
            "all values of trial 0 are outside of bounds = [0, 1], for instance 51.6 at epoch 1"
        ),
        "{said:#?}"
    );
    // A loss below its bounds.
    let negative = Rising { from: -5.0, to: -4.0 };
    let said = warnings(Some([0.0, 1.0]), true, &negative);
    assert!(said.len() == 1 && said[0].contains("-4.96 at epoch 1, better than"), "{said:#?}");
}

#[test]
fn values_within_the_bounds_and_a_bad_beginning_are_no_reason() {
    let curve = |from, to| Rising { from, to };
    for (bounds, minimizes, curve) in [
        (Some([0.0, 1.0]), false, curve(0.1, 0.9)),
        (Some([0.0, 1.0]), true, curve(0.9, 0.1)),
        // Worse than the bounds at first, or better than expected at the end.
        (Some([0.0, 1.0]), true, curve(3.0, 0.5)),
        (Some([0.0, 1.0]), false, curve(0.5, 1.1)),
        (None, false, curve(50.0, 90.0)),
    ] {
        assert_eq!(warnings(bounds, minimizes, &curve), Vec::<String>::new());
    }
}
