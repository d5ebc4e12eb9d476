//! Tests of studies through their public interface: asking, telling, interruptions and sharing.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fedbo_objective::{Failure, FailuresMax, Objective, Outcome, TrialId};
use fedbo_space::{ParameterSpec, Point, Value};
use fedbo_storage::{MemoryStorage, Storage, TellAuthority, Told, Trial, Worker};
use fedbo_strategies::{Observation, Points, Proposal, Source, Strategy, StrategyError};
use fedbo_streams::Stream;
use fedbo_study::{
    AskOutcome, Definition, Ended, NullObserver, Observer, Patience, RunOptions, StrategySpec,
    Study, StudyError,
};

fn mixed(strategy: StrategySpec) -> Definition {
    Definition::new("mixed")
        .parameter("x", ParameterSpec::float(-1.0, 1.0))
        .parameter("rate", ParameterSpec::log_float(1e-4, 1.0))
        .parameter("n", ParameterSpec::int(1, 9))
        .parameter("kind", ParameterSpec::categorical(["a", "b", "c"]))
        .strategy(strategy)
        .seed(5)
        .minimize()
}

fn loss(point: &Point) -> f64 {
    let kind = if point.choice("kind") == "b" { 0.0 } else { 0.3 };
    (point.number("x") - 0.25).powi(2)
        + (point.number("rate").log10() + 2.0).powi(2) / 4.0
        + (point.number("n") - 4.0).powi(2) / 30.0
        + kind
}

const STRATEGIES: [fn() -> StrategySpec; 5] = [
    StrategySpec::ts,
    StrategySpec::gp_ucb,
    StrategySpec::log_ei,
    StrategySpec::random,
    StrategySpec::sobol,
];

/// Returns the course of a study: numbers, points (bit for bit), sources and values of its trials.
fn course(study: &Study) -> Vec<(u64, String, String, Option<u64>)> {
    let text = |trial: &Trial| serde_json::to_string(&trial.point).unwrap();
    study
        .trials()
        .unwrap()
        .iter()
        .map(|t| (t.number, text(t), t.source.clone(), t.value().map(f64::to_bits)))
        .collect()
}

#[test]
fn a_study_that_is_reopened_after_every_trial_takes_the_same_course() {
    for strategy in STRATEGIES {
        let definition = mixed(strategy());
        let whole = Study::in_memory(&definition).unwrap();
        whole.optimize(22, |point| Ok(loss(point))).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        for n_trials in (1..=22).step_by(3).chain([22]) {
            let study = Study::open(Arc::clone(&storage), &definition).unwrap();
            study.optimize(n_trials, |point| Ok(loss(point))).unwrap();
        }
        let parts = Study::load(storage, None).unwrap();
        assert_eq!(course(&whole), course(&parts), "{strategy:?}");
    }
}

#[test]
fn an_evaluation_that_was_interrupted_is_taken_up_again() {
    let definition = mixed(StrategySpec::ts());
    let whole = Study::in_memory(&definition).unwrap();
    whole.optimize(15, |point| Ok(loss(point))).unwrap();

    struct Interrupted;
    impl Objective for Interrupted {
        fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
            match trial.trial {
                11 => Outcome::Interrupted,
                _ => Outcome::Value(loss(point)),
            }
        }
    }
    let study = Study::in_memory(&definition).unwrap();
    let (options, go) = (RunOptions::sequential(15), AtomicBool::new(false));
    study.run(&Interrupted, &options, &NullObserver, &go).unwrap();
    let open: Vec<Trial> = study.trials().unwrap();
    assert_eq!(open.len(), 12, "the trial that was given back waits");
    assert_eq!((open[11].state.word(), open[11].attempts), ("waiting", 0));
    study.optimize(15, |point| Ok(loss(point))).unwrap();
    assert_eq!(course(&whole), course(&study));
}

#[test]
fn every_strategy_finds_a_better_point_than_it_began_with() {
    for strategy in [StrategySpec::ts(), StrategySpec::gp_ucb(), StrategySpec::log_ei()] {
        let study = Study::in_memory(&mixed(strategy)).unwrap();
        study.optimize(40, |point| Ok(loss(point))).unwrap();
        let best = study.best().unwrap().unwrap();
        assert!(best.value().unwrap() < 0.05, "{strategy:?}: {best:?}");
        assert_eq!(best.point.choice("kind"), "b");
    }
}

#[test]
fn a_batch_is_of_different_points_and_later_tells_may_come_in_any_order() {
    for strategy in STRATEGIES {
        let study = Study::in_memory(&mixed(strategy())).unwrap();
        for round in 0..4 {
            let batch = study.ask_many(6).unwrap();
            for trial in batch.iter().rev() {
                study.tell(trial.number, loss(&trial.point)).unwrap();
            }
            let seen: BTreeSet<String> =
                course(&study).into_iter().map(|(_, point, ..)| point).collect();
            assert_eq!(seen.len(), 6 * (round + 1), "{strategy:?} repeats a point");
        }
        let order: Vec<u64> = study.trials().unwrap().iter().map(|t| t.told_seq.unwrap()).collect();
        assert_eq!(order[..6], [6, 5, 4, 3, 2, 1]);
    }
}

#[test]
fn a_small_space_is_tried_once_and_then_the_run_ends() {
    for strategy in STRATEGIES {
        let definition = Definition::new("small")
            .parameter("a", ParameterSpec::categorical(["x", "y", "z"]))
            .parameter("n", ParameterSpec::int(1, 4))
            .strategy(strategy());
        let study = Study::in_memory(&definition).unwrap();
        let report = study.optimize(100, |point| Ok(point.number("n"))).unwrap();
        assert_eq!((report.ended, report.n_told), (Ended::Exhausted, 12), "{strategy:?}");
        let points: BTreeSet<String> = course(&study).into_iter().map(|t| t.1).collect();
        assert_eq!(points.len(), 12);
    }
}

#[test]
fn a_range_of_few_floats_is_used_up_too() {
    for strategy in [StrategySpec::log_ei(), StrategySpec::sobol()] {
        let definition = Definition::new("narrow")
            .parameter("x", ParameterSpec::float(1.0, 1.0 + 3.0 * f64::EPSILON))
            .strategy(strategy);
        let study = Study::in_memory(&definition).unwrap();
        let report = study.optimize(20, |point| Ok(point.number("x"))).unwrap();
        assert_eq!((report.ended, report.n_told), (Ended::Exhausted, 4), "{strategy:?}");
    }
}

/// The space has two points. Another worker holds one of them, with a lease that will expire.
#[test]
fn a_space_is_used_up_only_when_the_trials_of_others_have_ended() {
    let definition = Definition::new("pair").parameter("n", ParameterSpec::int(0, 1));
    let study = Study::in_memory(&definition).unwrap();
    let elsewhere = Worker { id: "elsewhere".into(), process: None };
    let lease = Some(Duration::from_millis(300));
    study.ask_as(&elsewhere, lease, None).unwrap();
    let report = study.optimize(9, |point| Ok(point.number("n"))).unwrap();
    assert_eq!((report.ended, report.n_told, report.n_open), (Ended::Exhausted, 2, 0));
}

#[test]
fn an_objective_that_cannot_be_started_uses_up_no_trial() {
    struct VanishedStorage;
    impl Objective for VanishedStorage {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            Outcome::Failed(Failure::Spawn {
                program: "gone".into(),
                message: "no such file".into(),
            })
        }
    }
    let study = Study::in_memory(&mixed(StrategySpec::ts())).unwrap();
    let (options, go) = (RunOptions::sequential(9), AtomicBool::new(false));
    let ended = study.run(&VanishedStorage, &options, &NullObserver, &go).unwrap_err();
    assert!(matches!(ended, StudyError::Objective { .. }), "{ended}");
    let trials = study.trials().unwrap();
    assert_eq!((trials.len(), trials[0].state.word(), trials[0].attempts), (1, "waiting", 0));
}

#[test]
fn a_noisy_study_may_repeat_a_point() {
    let definition = Definition::new("small").parameter("n", ParameterSpec::int(1, 4)).noisy();
    let study = Study::in_memory(&definition).unwrap();
    let counter = AtomicUsize::new(0);
    let report = study.optimize(30, |point| {
        let noise = f64::from(u8::try_from(counter.fetch_add(7, Ordering::Relaxed) % 10).unwrap());
        Ok(point.number("n") + 0.1 * noise)
    });
    assert_eq!(report.unwrap().n_told, 30);
    let insight = study.insight().unwrap().unwrap();
    assert!(insight.best_by_mean.point.number("n") > 3.5);
    assert!(insight.noise_std > 0.05, "{}", insight.noise_std);
}

/// The objective is (x − 0.3)² + [kind = b], evaluated at 40 points.
#[test]
fn a_surface_is_the_surrogate_over_two_parameters() {
    let definition = Definition::new("bowl")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("other", ParameterSpec::log_float(0.01, 1.0))
        .parameter("kind", ParameterSpec::categorical(["a", "b", "c"]))
        .parameter("n", ParameterSpec::int(1, 4))
        .minimize();
    let study = Study::in_memory(&definition).unwrap();
    assert!(study.surface("x", "kind").unwrap().is_none());
    let bowl = |x: f64, kind: &str| (x - 0.3).powi(2) + f64::from(u8::from(kind == "b"));
    study.optimize(40, |point| Ok(bowl(point.number("x"), point.choice("kind")))).unwrap();
    let surface = study.surface("x", "kind").unwrap().unwrap();
    assert_eq!((surface.x.len(), surface.y.len(), surface.n_values), (25, 3, 40));
    assert_eq!((surface.mean.len(), surface.mean[0].len(), surface.std[2].len()), (3, 25, 25));
    assert_eq!((&surface.x[0], &surface.x[24]), (&Value::Float(0.0), &Value::Float(1.0)));
    for (kind, (means, stds)) in ["a", "b", "c"].iter().zip(surface.mean.iter().zip(&surface.std)) {
        for (x, (mean, std)) in surface.x.iter().zip(means.iter().zip(stds)) {
            let off = (mean - bowl(x.as_f64().unwrap(), kind)).abs();
            assert!(off < 0.05 + 5.0 * std, "{kind} {x:?}: {mean} ± {std}");
        }
    }
    // An integer has no more values than its range, and values on a logarithmic scale are evenly
    // spaced in their exponents.
    let surface = study.surface("n", "other").unwrap().unwrap();
    assert_eq!(surface.x, [1, 2, 3, 4].map(Value::Int));
    let middle = surface.y[12].as_f64().unwrap();
    assert!((middle - 0.1).abs() < 1e-12, "{middle}");
    assert!(study.surface("x", "none").is_err());
}

/// The objective is 1 − rate with kind b, and depth / 4 with kind a.
#[test]
fn a_surface_is_drawn_around_the_best_trial_that_has_both_parameters() {
    let definition = Definition::new("tree")
        .parameter("kind", ParameterSpec::categorical(["a", "b"]))
        .parameter("rate", ParameterSpec::float(0.0, 1.0).when("kind", "b"))
        .parameter("decay", ParameterSpec::float(0.0, 1.0).when("kind", "b"))
        .parameter("depth", ParameterSpec::int(1, 4).when("kind", "a"));
    let study = Study::in_memory(&definition).unwrap();
    let objective = |point: &Point| match point.choice("kind") {
        "a" => point.number("depth") / 4.0,
        _ => 0.9 - 0.5 * point.number("rate"),
    };
    study.optimize(30, |point| Ok(objective(point))).unwrap();
    let best = study.insight().unwrap().unwrap().best_by_mean;
    assert_eq!(best.point.choice("kind"), "a");
    let surface = study.surface("rate", "decay").unwrap().unwrap();
    assert_eq!(surface.at.point.choice("kind"), "b");
    assert!((surface.mean[0][0] - 0.9).abs() < 0.1, "{:?}", surface.mean[0]);
    // Over its parent, a parameter has no effect where it does not exist.
    let surface = study.surface("kind", "rate").unwrap().unwrap();
    assert!(surface.mean.iter().all(|row| row[0].to_bits() == surface.mean[0][0].to_bits()));
    assert!(surface.mean[0][1] - surface.mean[24][1] > 0.3, "{:?}", surface.mean);
    let refused = study.surface("rate", "depth").unwrap_err().to_string();
    assert!(refused.contains("no trial with a value has both rate and depth"), "{refused}");
}

#[test]
fn enqueued_points_come_first_and_only_once() {
    let study = Study::in_memory(&mixed(StrategySpec::log_ei())).unwrap();
    let given = |x: Value| {
        Point::new(vec![
            ("kind".into(), Value::Choice("b".into())),
            ("n".into(), Value::Float(4.0)),
            ("x".into(), x),
            ("rate".into(), Value::Float(0.01)),
        ])
    };
    let waiting = study.enqueue(&given(Value::Float(0.1))).unwrap();
    assert_eq!(waiting.point.get("n"), Some(&Value::Int(4)), "typed like the space");
    let again = study.enqueue(&given(Value::Float(0.1)));
    assert_eq!(again, Err(StudyError::Duplicate { number: 0 }));
    assert!(matches!(study.enqueue(&given(Value::Float(3.0))), Err(StudyError::Space(_))));
    study.enqueue(&given(Value::Int(1))).unwrap();
    let first = study.ask().unwrap();
    assert_eq!((first.number, first.source.as_str()), (0, "enqueued"));
    assert!((first.point.number("x") - 0.1).abs() < 1e-300, "the value is as given");
    assert_eq!(study.ask().unwrap().number, 1);
    assert_eq!(study.ask().unwrap().source, "initial");
}

#[test]
fn failures_are_recorded_and_the_run_goes_on() {
    let study = Study::in_memory(&mixed(StrategySpec::log_ei())).unwrap();
    let report = study.optimize(25, |point| match point.choice("kind") {
        "a" => Err("no convergence".to_owned()),
        "c" => Ok(f64::NAN),
        _ => Ok(loss(point)),
    });
    let report = report.unwrap();
    let trials = study.trials().unwrap();
    let kinds: Vec<(&str, &str)> = trials
        .iter()
        .filter_map(|trial| match trial.told() {
            Some(Told::Failed { kind, .. }) => Some((trial.point.choice("kind"), kind.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!((report.n_told, report.n_failed), (25, kinds.len()));
    assert!(kinds.contains(&("a", "reported")) && kinds.contains(&("c", "not-finite")));
    assert!(kinds.iter().all(|(choice, _)| *choice != "b"));
    assert!(study.best().unwrap().is_some());
}

/// Branin's function fails everywhere left of x = 2.5. Without a model of failures, about 18 of 30
/// trials would fail.
#[test]
fn a_region_that_fails_is_left_alone() {
    let branin = |a: f64, b: f64| {
        let pi = std::f64::consts::PI;
        let square = b - 5.1 / (4.0 * pi * pi) * a * a + 5.0 / pi * a - 6.0;
        square * square + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * a.cos() + 10.0
    };
    for strategy in [StrategySpec::ts(), StrategySpec::gp_ucb(), StrategySpec::log_ei()] {
        let definition = Definition::new("half")
            .parameter("a", ParameterSpec::float(-5.0, 10.0))
            .parameter("b", ParameterSpec::float(0.0, 15.0))
            .strategy(strategy)
            .minimize();
        let study = Study::in_memory(&definition).unwrap();
        let report = study.optimize(30, |point| match point.number("a") {
            a if a < 2.5 => Err("does not converge here".to_owned()),
            a => Ok(branin(a, point.number("b"))),
        });
        let n_failed = report.unwrap().n_failed;
        assert!(n_failed <= 15, "{strategy:?}: {n_failed} of 30 failed");
        let best = study.best().unwrap().unwrap().value().unwrap();
        assert!(best < 2.0, "{strategy:?}: {best}");
    }
}

#[test]
fn values_must_be_finite_and_are_told_once() {
    let study = Study::in_memory(&mixed(StrategySpec::ts())).unwrap();
    let trial = study.ask().unwrap();
    let refused = study.tell(trial.number, f64::INFINITY);
    assert!(matches!(refused, Err(StudyError::NotFinite { .. })));
    study.tell(trial.number, 1.5).unwrap();
    study.tell(trial.number, 1.5).unwrap();
    let other = study.tell(trial.number, 1.6).unwrap_err().to_string();
    assert_eq!(other, "trial 0 has already ended with the value 1.5");
    assert!(study.tell(7, 1.0).unwrap_err().to_string().contains("no trial 7"));
}

/// An objective with scripted outcomes in call order, each after the given number of milliseconds.
/// The last outcome repeats.
struct Scripted(Mutex<usize>, &'static [(u64, Option<f64>)]);

impl Objective for Scripted {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        let (wait_ms, value) = {
            let mut call = self.0.lock().unwrap();
            let found = self.1[(*call).min(self.1.len() - 1)];
            *call += 1;
            found
        };
        std::thread::sleep(Duration::from_millis(wait_ms));
        match value {
            Some(value) => Outcome::Value(value),
            None => Outcome::Failed(Failure::Reported { message: "as told".to_owned() }),
        }
    }
}

fn scripted(
    outcomes: &'static [(u64, Option<f64>)],
    options: &RunOptions,
) -> fedbo_study::RunReport {
    let study = Study::in_memory(&mixed(StrategySpec::sobol())).unwrap();
    let objective = Scripted(Mutex::new(0), outcomes);
    let go = AtomicBool::new(false);
    study.run(&objective, options, &NullObserver, &go).unwrap()
}

/// A value that another worker stores afterwards does not change the number of failures that ended
/// the run.
#[test]
fn the_failures_that_ended_a_run_are_counted_when_it_ends() {
    let options =
        RunOptions { jobs: 2, failures_max: FailuresMax::Always(2), ..RunOptions::sequential(50) };
    let report = scripted(&[(400, Some(1.0)), (0, None)], &options);
    assert_eq!(report.ended, Ended::Failing);
    assert_eq!((report.n_failed_in_a_row, report.n_told), (2, 3));
}

/// If patience runs out while another worker evaluates the future best trial, the study continues.
#[test]
fn a_study_waits_for_its_workers_before_it_is_out_of_patience() {
    let options = RunOptions {
        jobs: 2,
        patience: Some(Patience { n_trials: 2, improvement_min: 0.0 }),
        ..RunOptions::sequential(50)
    };
    // `mixed` minimizes: the second call is the best.
    let outcomes: &[(u64, Option<f64>)] = &[(0, Some(5.0)), (400, Some(1.0)), (0, Some(9.0))];
    let report = scripted(outcomes, &options);
    assert_eq!(report.ended, Ended::OutOfPatience);
    assert!(report.n_told >= 6, "{report:?}");
}

#[test]
fn many_workers_of_two_processes_share_a_study() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let definition = mixed(StrategySpec::sobol());
    let evaluated = AtomicUsize::new(0);
    struct Counted<'a>(&'a AtomicUsize);
    impl Objective for Counted<'_> {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            self.0.fetch_add(1, Ordering::Relaxed);
            Outcome::Value(loss(point))
        }
    }
    let options = RunOptions { jobs: 4, ..RunOptions::sequential(400) };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let study = Study::open(Arc::clone(&storage), &definition).unwrap();
                let (objective, go) = (Counted(&evaluated), AtomicBool::new(false));
                study.run(&objective, &options, &NullObserver, &go).unwrap();
            });
        }
    });
    let study = Study::load(storage, Some("mixed")).unwrap();
    let trials = study.trials().unwrap();
    assert_eq!((trials.len(), evaluated.into_inner()), (400, 400));
    let order: BTreeSet<u64> = trials.iter().map(|t| t.told_seq.unwrap()).collect();
    assert_eq!(order, (1..=400).collect());
}

#[test]
fn a_worker_waits_for_others_and_takes_over_what_they_leave() {
    let definition = mixed(StrategySpec::random());
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let study = Study::open(Arc::clone(&storage), &definition).unwrap();
    // Another worker holds a trial with a lease that will expire.
    let elsewhere = Worker { id: "elsewhere".into(), process: None };
    let lease = Some(Duration::from_millis(1500));
    let AskOutcome::Trial(held) = study.ask_as(&elsewhere, lease, None).unwrap() else {
        panic!("an empty study has a trial to give");
    };
    #[derive(Default)]
    struct SlowObserver(AtomicUsize);
    impl Observer for SlowObserver {
        fn waiting(&self, open: &[Trial]) {
            assert_eq!(open.len(), 1);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let waits = SlowObserver::default();
    struct Loss;
    impl Objective for Loss {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            Outcome::Value(loss(point))
        }
    }
    let (options, go) = (RunOptions::sequential(3), AtomicBool::new(false));
    let report = study.run(&Loss, &options, &waits, &go).unwrap();
    assert_eq!((report.n_told, report.n_open), (3, 0));
    assert!(waits.0.into_inner() >= 1);
    // The worker that lost its lease tells its value too late.
    let told = Told::Value(9.0);
    let late = study.tell_as(TellAuthority::Worker("elsewhere"), held.number, &told);
    assert!(late.is_err());
    assert_eq!(study.trials().unwrap()[0].attempts, 2);
}

#[test]
fn a_trial_held_by_hand_is_not_waited_for() {
    let study = Study::in_memory(&mixed(StrategySpec::random())).unwrap();
    let mine = study.ask().unwrap();
    let report = study.optimize(5, |point| Ok(loss(point))).unwrap();
    assert_eq!((report.n_told, report.n_open), (4, 1));
    study.release_trial(mine.number).unwrap();
    let report = study.optimize(5, |point| Ok(loss(point))).unwrap();
    assert_eq!((report.n_told, report.n_open), (1, 0));
}

#[test]
fn an_observer_hears_of_each_trial_and_may_end_the_run() {
    struct StopAtValue(AtomicUsize);
    impl Observer for StopAtValue {
        fn told(&self, trial: &Trial) -> ControlFlow<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match trial.number {
                6.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    struct Loss;
    impl Objective for Loss {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            Outcome::Value(loss(point))
        }
    }
    let study = Study::in_memory(&mixed(StrategySpec::sobol())).unwrap();
    let observer = StopAtValue(AtomicUsize::new(0));
    let (options, go) = (RunOptions::sequential(50), AtomicBool::new(false));
    let report = study.run(&Loss, &options, &observer, &go).unwrap();
    assert_eq!((report.ended, report.n_told), (Ended::Stopped, 7));
    assert_eq!(observer.0.into_inner(), 7);
}

/// Both workers finish the trials that they are evaluating when the study is stopped, and start no
/// further trials. A later run is not affected.
#[test]
fn a_stop_ends_a_run_after_the_trials_that_it_evaluates() {
    struct StopsAtFirst(Arc<Study>, Mutex<Vec<u64>>);
    impl Objective for StopsAtFirst {
        fn evaluate(&self, point: &Point, id: TrialId) -> Outcome {
            let n_begun = {
                let mut begun = self.1.lock().unwrap();
                begun.push(id.trial);
                begun.len()
            };
            // Stops the study once both workers are evaluating.
            match n_begun {
                2 => drop(self.0.stop("the test").unwrap()),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
            Outcome::Value(loss(point))
        }
    }
    let study = Arc::new(Study::in_memory(&mixed(StrategySpec::sobol())).unwrap());
    let objective = StopsAtFirst(Arc::clone(&study), Mutex::new(Vec::new()));
    study.stop("before the run").unwrap();
    let options = RunOptions { jobs: 2, ..RunOptions::sequential(20) };
    let go = AtomicBool::new(false);
    let report = study.run(&objective, &options, &NullObserver, &go).unwrap();
    assert_eq!((report.ended, report.n_told, report.n_open), (Ended::StudyStopped, 2, 0));
    let stop = report.stop.unwrap();
    assert_eq!((stop.seq, stop.by.as_str()), (2, "the test"));
    // Neither an ask outside a run nor the next run is affected.
    study.ask().unwrap();
    let report = study.run(&objective, &options, &NullObserver, &go).unwrap();
    assert_eq!((report.ended, report.n_told, report.stop), (Ended::Complete, 17, None));
}

#[test]
fn another_definition_under_the_same_name_is_refused() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let definition = mixed(StrategySpec::ts());
    Study::open(Arc::clone(&storage), &definition).unwrap();
    let refusal = |other: &Definition| {
        let refused = Study::open(Arc::clone(&storage), other).unwrap_err();
        assert!(matches!(refused, StudyError::Differs { .. }), "{refused}");
        refused.to_string()
    };
    let seed = refusal(&mixed(StrategySpec::ts()).seed(6));
    assert!(
        seed.contains("study.seed is 6 in the given settings, the stored study has 5"),
        "{seed}"
    );
    let strategy = refusal(&mixed(StrategySpec::gp_ucb()));
    assert!(strategy.contains("strategy.name is \"gp-ucb\""), "{strategy}");
    let mut wider = definition.clone();
    wider.space[0].spec.high = Some(2.0);
    let space = refusal(&wider);
    assert!(
        space.contains("space.x.high is 2.0 in the given settings, the stored study has 1.0;"),
        "{space}"
    );
    assert!(Study::open(Arc::clone(&storage), &definition).is_ok());
    let unknown = Study::load(storage, Some("other")).unwrap_err().to_string();
    assert!(unknown.contains("\"other\"") && unknown.contains("\"mixed\""), "{unknown}");
}

/// Uses more trials than an insight's surrogate is fitted to.
#[test]
fn importance_is_known_of_any_number_of_trials() {
    let definition = Definition::new("many")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("y", ParameterSpec::float(0.0, 1.0))
        .strategy(StrategySpec::random());
    let study = Study::in_memory(&definition).unwrap();
    study.optimize(2100, |point| Ok(point.number("x"))).unwrap();
    let insight = study.insight().unwrap().unwrap();
    assert_eq!(insight.n_values, 2000);
    assert!(insight.importance[0].variance_share > 0.95, "{:?}", insight.importance);
    assert!(insight.mean > 0.99, "{}", insight.mean);
    assert!(study.check().unwrap().is_empty());
}

#[test]
fn importance_finds_the_parameter_that_matters() {
    let definition = Definition::new("plane")
        .parameter("strong", ParameterSpec::float(0.0, 1.0))
        .parameter("weak", ParameterSpec::float(0.0, 1.0))
        .parameter("none", ParameterSpec::categorical(["a", "b", "c"]))
        .strategy(StrategySpec::sobol());
    let study = Study::in_memory(&definition).unwrap();
    assert!(study.insight().unwrap().is_none());
    let wave = |point: &Point| (6.0 * point.number("strong")).sin() + 0.2 * point.number("weak");
    study.optimize(40, |point| Ok(wave(point))).unwrap();
    let importance = study.insight().unwrap().unwrap().importance;
    let share = |name: &str| importance.iter().find(|p| p.name == name).unwrap().clone();
    assert!(share("strong").variance_share > 0.9, "{importance:?}");
    assert!(share("weak").variance_share < 0.1, "{importance:?}");
    assert!(share("none").variance_share < 0.02, "{importance:?}");
    assert!(share("strong").relevance > share("none").relevance, "{importance:?}");
}

/// Queries the centre of the cube, perturbed by a random number, or returns an invalid point.
#[derive(Clone, Default)]
struct Own {
    n_told: usize,
    goes_wrong: bool,
}

impl Strategy for Own {
    fn ask(&self, _: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let shift = 1e-3 * self.n_told as f64;
        let unit = vec![0.5 + shift, 0.4 + 0.1 * stream.uniform(), 0.5, 1.0, 0.0, 0.0];
        let source = Source::Own;
        Ok(match self.goes_wrong {
            true => Proposal { unit: vec![f64::NAN], source },
            false => Proposal { unit, source },
        })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.n_told += observed.len();
        Ok(())
    }
}

#[test]
fn a_strategy_of_ones_own_goes_on_after_an_interruption_and_is_asked_by_nobody_else() {
    let definition = mixed(StrategySpec::own());
    let whole = Study::in_memory(&definition).unwrap();
    let whole = whole.with_strategy(Own::default()).unwrap();
    whole.optimize(14, |point| Ok(loss(point))).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    for n_trials in [11, 14] {
        let study = Study::open(Arc::clone(&storage), &definition).unwrap();
        let study = study.with_strategy(Own::default()).unwrap();
        study.optimize(n_trials, |point| Ok(loss(point))).unwrap();
    }
    let study = Study::load(storage, None).unwrap();
    let points = |study: &Study| -> Vec<Point> {
        let trials = study.trials().unwrap();
        trials.into_iter().map(|trial| trial.point).collect()
    };
    assert_eq!(points(&study), points(&whole));
    let error = study.ask().unwrap_err();
    assert!(matches!(&error, StudyError::OwnStrategy { name } if name == "mixed"));
    let wrong = Own { goes_wrong: true, ..Own::default() };
    let error = study.with_strategy(wrong).unwrap().ask().unwrap_err();
    assert!(matches!(error, StudyError::NoPoint { dim: 6, .. }), "{error}");
    let other = Study::in_memory(&mixed(StrategySpec::log_ei())).unwrap();
    let error = other.with_strategy(Own::default()).unwrap_err();
    assert!(matches!(error, StudyError::NotOwnStrategy { strategy: "log-ei", .. }));
}

/// A strategy that is too slow: while it proposes, another process adds a trial. This happens
/// `n_overtaking` times.
#[derive(Clone)]
struct Slow {
    own: Own,
    others: Arc<Study>,
    n_overtaking: Arc<AtomicUsize>,
}

impl Strategy for Slow {
    fn ask(&self, points: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        if self.n_overtaking.load(Ordering::Relaxed) > 0 {
            self.n_overtaking.fetch_sub(1, Ordering::Relaxed);
            self.others.ask().unwrap();
        }
        self.own.ask(points, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.own.tell(observed)
    }
}

/// An ask that is overtaken more than a hundred times in a row still returns a trial.
#[test]
fn an_ask_that_is_overtaken_a_hundred_times_returns_a_trial() {
    let definition = mixed(StrategySpec::own());
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let open = || Study::open(Arc::clone(&storage), &definition).unwrap();
    let others = Arc::new(open().with_strategy(Own::default()).unwrap());
    others.optimize(12, |point| Ok(loss(point))).unwrap();
    let n_overtaking = Arc::new(AtomicUsize::new(110));
    let slow = Slow { own: Own::default(), others, n_overtaking: Arc::clone(&n_overtaking) };
    let study = open().with_strategy(slow).unwrap();
    let trial = study.ask().unwrap();
    assert_eq!((n_overtaking.load(Ordering::Relaxed), trial.number), (0, 122));
}
