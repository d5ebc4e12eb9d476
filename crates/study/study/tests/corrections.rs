//! Tests of corrected and discarded trials through the public Rust interface.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_space::{ParameterSpec, Point, Value};
use fedbo_storage::{MemoryStorage, Mode, SqliteStorage, Storage, TellAuthority, Told, Worker};
use fedbo_study::{
    AskOutcome, Definition, EarlyStoppingSpec, Ended, NullObserver, Patience, RunOptions,
    StrategySpec, Study, StudyError,
};

fn definition() -> Definition {
    Definition::new("bench")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("y", ParameterSpec::float(0.0, 1.0))
        .initial(4)
        .minimize()
}

fn at(point: &Point) -> f64 {
    (point.number("x") - 0.3).powi(2) + (point.number("y") - 0.6).powi(2)
}

/// Asks for and tells `n` trials. Trial 3 gets a typo.
fn with_typo(study: &Study, n: usize) {
    for _ in 0..n {
        let trial = study.ask().unwrap();
        let value = if trial.number == 3 { -1e6 } else { at(&trial.point) };
        study.tell(trial.number, value).unwrap();
    }
}

/// The next point of a study that has asked and told with the typo, and of a study that never had
/// it, are the same, bit for bit.
#[test]
fn a_running_model_and_a_new_one_follow_the_corrected_value() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let of_typo = storage.clone();
    let study = Study::open(storage, &definition()).unwrap();
    with_typo(&study, 7);
    assert_eq!(study.best().unwrap().unwrap().number, 3);
    let typed = study.trials().unwrap()[3].clone();
    assert!(study.correct(3, at(&typed.point)).unwrap());
    assert!(!study.correct(3, at(&typed.point)).unwrap(), "nothing changes any more");
    assert_ne!(study.best().unwrap().unwrap().value(), Some(-1e6));
    let corrections = study.corrections().unwrap();
    assert_eq!((corrections.len(), &corrections[0].before), (1, &Told::Value(-1e6)));

    // A study that has the right value from the start.
    let trials = study.trials().unwrap();
    let points = trials.iter().map(|trial| (trial.point.clone(), trial.numbers().to_vec()));
    let points: Vec<(Point, Vec<f64>)> = points.collect();
    let storage = Arc::new(MemoryStorage::new());
    let (right, _) = Study::import(storage, &definition(), &points).unwrap();
    // An import of the table with the typo keeps the correction.
    let mut typos = points;
    typos[3].1 = vec![-1e6];
    assert_eq!(Study::import(of_typo, &definition(), &typos).unwrap().1, 0);
    let next = study.ask().unwrap();
    assert_eq!(right.ask().unwrap().point, next.point);
}

/// A restored backup does not have the first correction, so the second has the same sequence number.
#[test]
fn a_running_model_follows_another_correction_after_a_restored_backup() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fedbo.db");
    let open = || {
        let storage = SqliteStorage::open(&file, Mode::Create).unwrap();
        Study::open(Arc::new(storage), &definition()).unwrap()
    };
    let study = open();
    with_typo(&study, 7);
    let right = at(&study.trials().unwrap()[3].point);
    assert!(study.correct(3, 5.0).unwrap());
    let waiting = study.ask().unwrap();
    study.tell(waiting.number, at(&waiting.point)).unwrap();
    let first = study.corrections().unwrap();

    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute("DELETE FROM corrections", []).unwrap();
    // Corrections are told apart by their milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(open().correct(3, right).unwrap());
    let second = study.corrections().unwrap();
    assert_eq!((second.len(), second[0].seq), (1, first[0].seq));
    let next = study.ask().unwrap();
    let trials = open().trials().unwrap();
    let points = trials[..8].iter().map(|trial| (trial.point.clone(), trial.numbers().to_vec()));
    let points: Vec<(Point, Vec<f64>)> = points.collect();
    let storage = Arc::new(MemoryStorage::new());
    let (new, _) = Study::import(storage, &definition(), &points).unwrap();
    assert_eq!(next.point, new.ask().unwrap().point);
}

#[test]
fn a_discarded_trial_leaves_no_trace_in_the_model_and_frees_its_place() {
    let study = Study::in_memory(&definition()).unwrap();
    let ask = |limit| study.ask_as(&Worker::by_hand(), None, Some(limit)).unwrap();
    let mut points = Vec::new();
    for _ in 0..4 {
        let AskOutcome::Trial(trial) = ask(4) else { panic!("the study is not full yet") };
        points.push(trial.point.clone());
        study.tell(trial.number, at(&trial.point)).unwrap();
    }
    assert!(matches!(ask(4), AskOutcome::Full { .. }));
    assert!(study.discard(1).unwrap());
    assert!(!study.discard(1).unwrap());
    // The initial point of the discarded trial is proposed again.
    let AskOutcome::Trial(again) = ask(4) else { panic!("one place is free") };
    assert_eq!((again.number, &again.point, again.source.as_str()), (4, &points[1], "initial"));
    assert!(matches!(ask(4), AskOutcome::Full { .. }));
    study.tell(4, 7.0).unwrap();
    let insight = study.insight().unwrap().unwrap();
    assert_eq!(insight.n_values, 4);
    // A discarded trial gets a value again.
    assert!(study.correct(1, -1.0).unwrap());
    assert_eq!(study.best().unwrap().unwrap().number, 1);
    let before: Vec<Told> = study.corrections().unwrap().into_iter().map(|c| c.before).collect();
    assert_eq!(before, [Told::Value(at(&points[1])), Told::Discarded]);
    assert_eq!(study.check().unwrap(), [""; 0]);
}

#[test]
fn a_failure_that_is_discarded_repels_nothing_and_its_point_may_be_enqueued() {
    let study = Study::in_memory(&definition()).unwrap();
    let point =
        Point::new(vec![("x".to_owned(), Value::Float(0.25)), ("y".to_owned(), Value::Float(0.5))]);
    let first = study.enqueue(&point).unwrap();
    let open = study.discard(first.number).unwrap_err().to_string();
    assert!(open.contains("trial 0 is waiting") && open.contains("fedbo tell"), "{open}");
    study.tell_failed(0, "broken").unwrap();
    assert!(matches!(study.enqueue(&point), Err(StudyError::Duplicate { number: 0 })));
    study.discard(0).unwrap();
    assert_eq!(study.enqueue(&point).unwrap().number, 1);
    let refused = study.retry(0).unwrap_err().to_string();
    assert!(refused.contains("trial 0 is discarded"), "{refused}");
}

#[test]
fn a_retried_failure_is_changed_through_its_retry() {
    let study = Study::in_memory(&definition()).unwrap();
    let trial = study.ask().unwrap();
    study.tell_failed(trial.number, "broken").unwrap();
    study.retry(0).unwrap();
    for refused in [study.discard(0).unwrap_err(), study.correct(0, 1.0).unwrap_err()] {
        assert!(matches!(refused, StudyError::WasRetried { number: 0, by: 1 }), "{refused}");
    }
    let retry = study.ask().unwrap();
    study.tell(retry.number, 5.0).unwrap();
    study.discard(1).unwrap();
    // The failure counts again, and can be retried again.
    assert_eq!(study.retry(0).unwrap().number, 2);
}

#[test]
fn numbers_are_checked_and_a_stopped_trial_has_none_to_correct() {
    let spec = EarlyStoppingSpec::median(4);
    let definition = Definition { early_stopping: Some(spec), ..definition() };
    let study = Study::in_memory(&definition.strategy(StrategySpec::random())).unwrap();
    for told in [
        Told::Value(2.0),
        Told::Stopped { epoch: 1, value: 1.0, because: "worse than the others".to_owned() },
    ] {
        let number = study.ask().unwrap().number;
        study.report(number, 1, 1.0).unwrap();
        study.tell_as(TellAuthority::Hand, number, &told).unwrap();
    }
    let refused = study.correct(1, 2.0).unwrap_err().to_string();
    assert!(
        refused.contains("trial 1 was stopped early") && refused.contains("discard"),
        "{refused}"
    );
    study.discard(1).unwrap();
    // A discarded trial that was stopped has no complete value to restore.
    assert!(matches!(study.correct(1, 3.0), Err(StudyError::WasStopped { number: 1 })));
    assert!(matches!(study.correct(0, f64::NAN), Err(StudyError::NotFinite { .. })));
    assert!(matches!(
        study.correct_numbers(0, vec![1.0, 2.0]),
        Err(StudyError::WrongNumbers { found: 2, .. })
    ));
    assert!(study.correct(9, 1.0).is_err());
}

/// Evaluates trials of a study whose first value is a typo. Another process discards it when three
/// trials have ended.
#[derive(Debug)]
struct Discarding(Study);

impl Objective for Discarding {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        let trials = self.0.trials().unwrap();
        let n_told = trials.iter().filter(|trial| trial.told().is_some()).count();
        if n_told == 3 {
            self.0.discard(0).unwrap();
        }
        Outcome::Value(match u32::try_from(n_told).unwrap() {
            0 => -1e6,
            n => at(point) - f64::from(n),
        })
    }
}

#[test]
fn patience_follows_a_correction_of_another_process() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let study = Study::open(storage.clone(), &definition()).unwrap();
    let objective = Discarding(Study::open(storage, &definition()).unwrap());
    let patience = Patience { n_trials: 4, improvement_min: 0.0 };
    let options = RunOptions { patience: Some(patience), ..RunOptions::sequential(12) };
    let report = study.run(&objective, &options, &NullObserver, &AtomicBool::new(false)).unwrap();
    // Each value is better than the one before, except that the first one was the best.
    assert_eq!((report.ended, report.n_told), (Ended::Complete, 13));
}
