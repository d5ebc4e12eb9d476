//! Tests of studies that are interrupted, are shared between workers, or lose a trial to another
//! worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fedbo_objective::{Monitor, Objective, Outcome, Signal, TrainingEnd, TrialId};
use fedbo_space::Point;
use fedbo_storage::{MemoryStorage, Storage, TellAuthority, Told, Trial, TrialState, Worker};
use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::{AskOutcome, NullObserver, RunOptions, Study};

use crate::early_stopping::fixtures::{
    N_EPOCHS, Network, Warnings, course, curve, definition, run,
};

/// A study that is dropped during any trial and reopened continues like an uninterrupted one.
#[test]
fn an_interrupted_study_judges_as_an_uninterrupted_one() {
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {});
    let whole = Study::in_memory(&definition()).unwrap();
    run(&whole, &network, &NullObserver, 24);
    let stopped = course(&whole);
    assert!(
        stopped.iter().filter(|each| matches!(each.told(), Some(Told::Stopped { .. }))).count() > 3
    );

    let storage = Arc::new(MemoryStorage::new());
    for n_trials in 1..=24 {
        // A worker starts the trial, reports a few epochs, and disappears.
        let study = Study::open(storage.clone(), &definition()).unwrap();
        let worker = Worker::of_this_process();
        let lease = Some(Duration::from_millis(1));
        let asked = study.ask_as(&worker, lease, Some(n_trials)).unwrap();
        let AskOutcome::Trial(trial) = asked else {
            panic!("there is one to begin");
        };
        let teller = TellAuthority::Worker(&worker.id);
        for epoch in 1..=2 {
            let value = curve(trial.point.number("x"), epoch);
            let verdict = study.report_as(teller, trial.number, epoch, value).unwrap();
            assert_eq!(verdict, Verdict::Continue);
        }
        drop(study);
        std::thread::sleep(Duration::from_millis(5));
        let study = Study::open(storage.clone(), &definition()).unwrap();
        run(&study, &network, &NullObserver, n_trials);
    }
    let study = Study::open(storage, &definition()).unwrap();
    assert_eq!(course(&study), stopped);
}

/// An interrupted run releases its trial. The trial's reports are discarded, and the next run
/// trains it from the start.
#[test]
fn an_interrupted_trial_begins_anew() {
    let study = Study::in_memory(&definition()).unwrap();
    let stop = AtomicBool::new(false);
    struct Interrupted<'a>(&'a AtomicBool);
    impl Objective for Interrupted<'_> {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            Outcome::Interrupted
        }
        fn train(&self, _: &Point, _: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
            assert_eq!(monitor.report(1, 0.5), Signal::Continue);
            assert_eq!(monitor.report(2, 0.5), Signal::Continue);
            self.0.store(true, Ordering::Relaxed);
            TrainingEnd::Ended(Outcome::Interrupted)
        }
    }
    let options = RunOptions::sequential(3);
    study.run(&Interrupted(&stop), &options, &NullObserver, &stop).unwrap();
    let waiting = study.open_trials().unwrap();
    assert_eq!((waiting.len(), waiting[0].reports.len()), (1, 0));
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {});
    run(&study, &network, &NullObserver, 3);
    assert_eq!(study.trials().unwrap()[0].reports[0].epoch, 1);
}

#[test]
fn several_workers_stop_trials_side_by_side() {
    let study = Study::in_memory(&definition()).unwrap();
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {
        std::thread::sleep(Duration::from_micros(300));
    });
    let options = RunOptions { jobs: 3, ..RunOptions::sequential(40) };
    let stop = AtomicBool::new(false);
    let report = study.run(&network, &options, &NullObserver, &stop).unwrap();
    assert_eq!((report.n_told, report.n_failed, report.n_open), (40, 0, 0));
    let trials = study.trials().unwrap();
    let n_stopped =
        trials.iter().filter(|t| matches!(t.told(), Some(Told::Stopped { .. }))).count();
    assert_eq!(report.n_stopped, n_stopped);
    assert!(n_stopped > 3, "{n_stopped}");
    // A stopped trial was worse than the median of the complete trials at that time, so it is never
    // the best trial.
    let best = study.best().unwrap().unwrap();
    let x = |trial: &Trial| trial.point.number("x");
    assert!(trials.iter().all(|trial| x(trial) <= x(&best)));
    for trial in &trials {
        let epochs: Vec<u32> = trial.reports.iter().map(|report| report.epoch).collect();
        let expected: Vec<u32> = (1..=u32::try_from(epochs.len()).unwrap()).collect();
        assert_eq!(epochs, expected, "nobody else's reports");
    }
}

/// A worker that lost its lease is told to stop, and its reports are ignored.
#[test]
fn a_trial_that_was_taken_away_is_left_to_who_takes_it() {
    let storage = Arc::new(MemoryStorage::new());
    let study = Study::open(storage.clone(), &definition()).unwrap();
    let key = storage.studies().unwrap()[0].key;
    let warnings = Warnings::default();
    let is_first = AtomicBool::new(true);
    let network = Network(|_: &Point, trial: TrialId, _: &dyn Monitor, epoch| {
        if (trial.trial, epoch) == (0, 3) && is_first.swap(false, Ordering::Relaxed) {
            let trial = study.trials().unwrap().swap_remove(0);
            assert_eq!(trial.reports.len(), 2);
            let TrialState::Running(holding) = trial.state else {
                panic!("it runs");
            };
            let teller = TellAuthority::Worker(&holding.worker.id);
            storage.release_trial(key, 0, teller).unwrap();
        }
    });
    let report = run(&study, &network, &warnings, 2);
    assert_eq!((report.n_told, report.n_open), (2, 0));
    let warnings = warnings.0.into_inner().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("the reports of trial 0 are not used: trial 0 is held by nobody"),
        "{warnings:?}"
    );
    let first = study.trials().unwrap().swap_remove(0);
    assert_eq!(first.reports.len(), N_EPOCHS as usize, "trained anew");
}
