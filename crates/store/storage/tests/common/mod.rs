//! Utilities for tests that kill processes: a worker that prints acknowledged trials, and a check
//! that these are stored.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use fedbo_space::{Point, Value};
use fedbo_storage::{
    AddOutcome, NewTrial, Report, ReportOutcome, Storage, TellAuthority, TellOutcome, Told, Trial,
    Worker,
};
use fedbo_testkit::again;

/// Returns a value that is unique to a trial and has a full mantissa.
pub fn value(number: u64) -> f64 {
    (f64::from(u32::try_from(number).unwrap()) + 0.1).sin()
}

/// Returns the reports that a trial makes before it is told.
pub fn reports(number: u64) -> [Report; 2] {
    [1, 2].map(|epoch| Report { epoch, value: value(number) / f64::from(epoch) })
}

pub fn new_trial(limit: u64, holder: Option<&Worker>) -> NewTrial {
    NewTrial {
        ask_seconds: 0.25,
        holder: holder.map(|worker| (worker.clone(), None)),
        limit: Some(limit),
        ..NewTrial::new(vec![0], Point::new(vec![("x".to_owned(), Value::Float(1.0 / 3.0))]), "own")
    }
}

/// Acts like a study's worker until `stop`, and passes each acknowledged trial to `acknowledged`.
pub fn work(
    storage: &dyn Storage,
    limit: u64,
    stop: &AtomicBool,
    mut acknowledged: impl FnMut(u64),
) {
    let worker = Worker::of_this_process();
    let study = storage.create("study", "{}").unwrap().key;
    while !stop.load(Ordering::Relaxed) {
        let trial = match storage.claim(study, &worker, None).unwrap() {
            Some(trial) => trial,
            None => match storage.add(study, &new_trial(limit, Some(&worker))).unwrap() {
                AddOutcome::Trial(trial) => trial,
                AddOutcome::Full => return,
                other => panic!("{other:?}"),
            },
        };
        let teller = TellAuthority::Worker(&worker.id);
        for report in reports(trial.number) {
            let kept = storage.report(study, trial.number, teller, report);
            assert!(matches!(kept, Ok(ReportOutcome::New)), "{kept:?}");
        }
        let told = Told::Value(value(trial.number));
        let telling = storage.finish(study, trial.number, teller, &told);
        assert!(matches!(telling, Ok(TellOutcome::New { .. })), "{telling:?}");
        acknowledged(trial.number);
    }
}

/// Returns trials that were completed elsewhere, numbered from `first`.
pub fn batch(first: u64, n_trials: u64) -> Vec<(NewTrial, Told)> {
    let by_hand = Worker::by_hand();
    let numbers = first..first + n_trials;
    numbers.map(|n| (new_trial(u64::MAX, Some(&by_hand)), Told::Value(value(n)))).collect()
}

/// Runs the worker in the process that is killed, if an address was given to it.
pub fn child<S: Storage>(open: impl FnOnce(&str) -> S) {
    let Some(given) = again::given() else { return };
    let (limit, place) = given.split_once(' ').unwrap();
    work(&open(place), limit.parse().unwrap(), &AtomicBool::new(false), |number| {
        again::say(&format!("told {number}"));
    });
}

/// Starts a worker process, which exits when the study has `limit` trials.
pub fn start(place: &str, limit: u64) -> Child {
    again::start("child", &format!("{limit} {place}"))
}

/// Waits for a process to exit. Returns the trials that it has reported as acknowledged.
pub fn acknowledged(child: &mut Child) -> Vec<u64> {
    let numbers = again::said(child, "told ").map(|number| number.parse().unwrap()).collect();
    child.wait().unwrap();
    numbers
}

/// Checks that every acknowledged trial is stored exactly once and bit for bit, and that numbers
/// and positions in the order of telling have no gaps. Returns the trials.
pub fn check(storage: &dyn Storage, acknowledged: &[u64]) -> Vec<Trial> {
    let study = storage.create("study", "{}").unwrap().key;
    let trials = storage.trials(study).unwrap();
    let numbers: Vec<_> = trials.iter().map(|trial| trial.number).collect();
    assert_eq!(numbers, (0..trials.len() as u64).collect::<Vec<_>>());
    let told = storage.snapshot(study, 0).unwrap().told;
    for trial in &told {
        assert_eq!(trial.reports, reports(trial.number));
    }
    let seqs: Vec<_> = told.iter().filter_map(|trial| trial.told_seq).collect();
    assert_eq!(seqs, (1..=told.len() as u64).collect::<Vec<_>>());
    let values: BTreeMap<_, _> = told.iter().map(|t| (t.number, t.value())).collect();
    assert_eq!(values.len(), told.len(), "no trial is there twice");
    for number in acknowledged {
        let stored = values.get(number).copied().flatten();
        assert_eq!(
            stored.map(f64::to_bits),
            Some(value(*number).to_bits()),
            "trial {number} was acknowledged"
        );
    }
    let mut once = acknowledged.to_vec();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), acknowledged.len(), "none is acknowledged twice");
    trials
}
