//! Tests that penalty values reported for crashes do not spoil a model, regardless of their size,
//! and that a run warns about them once.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use fedbo_objective::{Monitor, Objective, Outcome, Signal, TrainingEnd, TrialId};
use fedbo_space::{Direction, ParameterSpec, Point};
use fedbo_strategies::early_stopping::MedianOptions;
use fedbo_study::{
    Definition, EarlyStoppingSpec, Observer, OldStudy, RunOptions, StoppingRuleSpec, StrategySpec,
    Study,
};

const N_EPOCHS: u32 = 5;

fn definition() -> Definition {
    Definition::new("crashes")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("y", ParameterSpec::float(0.0, 1.0))
        .minimize()
        .seed(7)
}

/// Returns the squared distance to (0.3, 0.7). The objective crashes where x + y > 1.2, close to
/// this optimum.
fn distance(point: &Point) -> Option<f64> {
    let (x, y) = (point.number("x"), point.number("y"));
    (x + y <= 1.2).then(|| (x - 0.3).powi(2) + (y - 0.7).powi(2))
}

/// Reports crashes as a penalty value.
struct Crashing {
    penalty: f64,
}

impl Objective for Crashing {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        Outcome::Value(distance(point).unwrap_or(self.penalty))
    }

    fn train(&self, point: &Point, _: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        let end = distance(point).unwrap_or(self.penalty);
        for epoch in 1..=N_EPOCHS {
            if monitor.report(epoch, end + 0.01 / f64::from(epoch)) == Signal::Stop {
                return TrainingEnd::Stopped;
            }
        }
        TrainingEnd::Ended(Outcome::Value(end))
    }
}

#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn warning(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

/// Runs 30 trials and returns the best value and the warnings.
fn run(definition: &Definition, penalty: f64) -> (f64, Vec<String>) {
    let study = Study::in_memory(definition).unwrap();
    let warnings = Warnings::default();
    let options = RunOptions::sequential(30);
    study.run(&Crashing { penalty }, &options, &warnings, &AtomicBool::new(false)).unwrap();
    let best = study.best().unwrap().unwrap().value().unwrap();
    (best, warnings.0.into_inner().unwrap())
}

/// For comparison, the best of 30 random trials is about .007.
#[test]
fn a_penalty_of_any_size_leaves_the_optimum_in_sight() {
    let strategies = [StrategySpec::log_ei(), StrategySpec::ts(), StrategySpec::gp_ucb()];
    for strategy in strategies {
        for penalty in [10.0, 1e3, 1e12, 1e300] {
            let (best, warnings) = run(&definition().strategy(strategy), penalty);
            assert!(best < 1e-4, "{strategy:?} with {penalty}: {best}");
            // Ten is less than a hundred times the typical distance from the best value.
            match &warnings[..] {
                [] => assert!(penalty < 1e3),
                [one] => assert!(one.contains("looks like a penalty for a crash"), "{one}"),
                more => panic!("{more:?}"),
            }
        }
    }
}

#[test]
fn a_penalty_blinds_no_study_that_stops_early() {
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 1, trials_min: 3 });
    let definition = definition().early_stopping(EarlyStoppingSpec::new(rule, N_EPOCHS));
    for penalty in [10.0, 1e3, 1e12] {
        let best = run(&definition, penalty).0;
        assert!(best < 1e-3, "{penalty}: {best}");
    }
}

/// An old study of 30 points reports crashes in the same way.
#[test]
fn a_penalty_in_an_old_study_misleads_nobody() {
    for strategy in [StrategySpec::rgpe(), StrategySpec::taf(), StrategySpec::shared_prior()] {
        for penalty in [10.0, 1e3, 1e12] {
            let old = (0..30).map(|i| {
                let at = |step: f64| (0.5 + step * f64::from(i)).fract();
                let entry = |name: &str, value| (name.to_owned(), fedbo_space::Value::Float(value));
                let point = Point::new(vec![entry("x", at(0.755)), entry("y", at(0.57))]);
                let value = distance(&point).unwrap_or(penalty);
                (point, value)
            });
            let old = OldStudy::new("old", old).unwrap();
            let definition = definition().strategy(strategy).learn_from(old);
            let best = run(&definition, penalty).0;
            assert!(best < 2e-3, "{strategy:?} with {penalty}: {best}");
        }
    }
}

/// Returns the warnings of a study with this objective over the unit square.
fn warnings_of(value: fn(f64, f64) -> f64, seed: u64) -> Vec<String> {
    struct Ordinary(fn(f64, f64) -> f64);
    impl Objective for Ordinary {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            Outcome::Value((self.0)(point.number("x"), point.number("y")))
        }
    }
    let warnings = Warnings::default();
    let study = Study::in_memory(&definition().seed(seed)).unwrap();
    let options = RunOptions::sequential(30);
    study.run(&Ordinary(value), &options, &warnings, &AtomicBool::new(false)).unwrap();
    warnings.0.into_inner().unwrap()
}

/// Neither values that span decades as a search converges nor an accuracy at chance level are
/// penalties.
#[test]
fn ordinary_values_are_not_warned_of() {
    let bowls: [fn(f64, f64) -> f64; 4] = [
        |x, y| (x - 0.3).powi(2) + (y - 0.7).powi(2),
        |x, y| 1e4 * ((x - 0.3).powi(2) + 100.0 * (y - 0.7).powi(2)),
        |x, y| (0.5_f64).min(3.0 * ((x - 0.3).powi(2) + (y - 0.7).powi(2))),
        |x, y| if x > 0.75 { 0.9 } else { 0.03 + 0.1 * (x - 0.3).powi(2) + 0.05 * y },
    ];
    for (place, bowl) in bowls.into_iter().enumerate() {
        for seed in 0..6 {
            assert_eq!(warnings_of(bowl, seed), Vec::<String>::new(), "{place} {seed}");
        }
    }
}

/// A study with multiple objectives warns about each of them. A run also warns about trials of
/// earlier runs.
#[test]
fn penalties_of_several_objectives_and_earlier_runs_are_warned_of() {
    struct Both;
    impl Objective for Both {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            let second = if point.number("x") > 0.8 { 1e9 } else { point.number("x") };
            Outcome::Numbers(vec![point.number("y"), second])
        }
    }
    let definition = definition()
        .objective("first", Direction::Minimize)
        .objective("second", Direction::Minimize);
    let study = Study::in_memory(&definition.strategy(StrategySpec::random())).unwrap();
    let mut n_warnings = 0;
    for n in 1..=30 {
        let warnings = Warnings::default();
        study.run(&Both, &RunOptions::sequential(n), &warnings, &AtomicBool::new(false)).unwrap();
        n_warnings += warnings.0.into_inner().unwrap().len();
    }
    assert!(n_warnings > 0);
}
