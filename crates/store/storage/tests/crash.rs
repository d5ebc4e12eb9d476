//! Acknowledged changes survive if processes are killed at any time, if logs are cut at any byte,
//! and with two concurrent processes.
//!
//! The worker process that is killed is this test binary, started again with a single test.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::path::Path;
use std::process::Child;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{acknowledged, batch, value, work};
use fedbo_storage::{Mode, SqliteStorage, Storage, StudyKey, verify};
use fedbo_testkit::{again, test_stream};

/// The process that is killed. Does nothing when run as a test.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    common::child(|file| SqliteStorage::open(Path::new(file), Mode::Create).unwrap());
}

/// The process that is killed while it adds batches of finished trials. Does nothing when run as a
/// test.
#[test]
#[ignore = "started by the other tests"]
fn importer() {
    let Some(file) = again::given_folder() else { return };
    let storage = SqliteStorage::open(&file, Mode::Create).unwrap();
    let study = storage.create("study", "{}").unwrap().key;
    let mut n_trials = storage.trials(study).unwrap().len() as u64;
    loop {
        storage.add_told(study, &batch(n_trials, BATCH)).unwrap();
        n_trials += BATCH;
        again::say(&format!("imported {n_trials}"));
    }
}

/// Number of trials in a batch.
const BATCH: u64 = 100;

#[test]
fn a_batch_of_a_killed_import_is_there_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.db");
    let mut stream = test_stream(23);
    let (mut n_trials, mut n_said) = (0, 0);
    for _ in 0..10 {
        let mut child = again::start("importer", file.to_str().unwrap());
        std::thread::sleep(Duration::from_secs_f64(0.02 + 0.1 * stream.uniform()));
        child.kill().unwrap();
        let said: Vec<u64> =
            again::said(&mut child, "imported ").map(|number| number.parse().unwrap()).collect();
        child.wait().unwrap();
        n_said += said.len() as u64;
        let before = n_trials;
        // The first process may leave only an incomplete file.
        let storage = SqliteStorage::open(&file, Mode::Create).unwrap();
        let study = storage.create("study", "{}").unwrap().key;
        assert_eq!(verify(&file).unwrap().problems, []);
        let trials = storage.trials(study).unwrap();
        n_trials = trials.len() as u64;
        assert_eq!(n_trials % BATCH, 0, "{n_trials} trials");
        let acknowledged = said.last().copied().unwrap_or(before);
        // A kill can fall between a commit and its acknowledgement.
        assert!((acknowledged..=acknowledged + BATCH).contains(&n_trials), "{n_trials}");
        for trial in &trials {
            assert_eq!(trial.value(), Some(value(trial.number)));
        }
    }
    assert!(n_said > 0);
}

fn start(file: &Path, limit: u64) -> Child {
    common::start(file.to_str().unwrap(), limit)
}

/// Checks that the file is sound and contains every acknowledged trial. Returns the number of
/// finished trials.
fn check(file: &Path, acknowledged: &[u64]) -> usize {
    assert_eq!(verify(file).unwrap().problems, []);
    let storage = SqliteStorage::open(file, Mode::Existing).unwrap();
    let trials = common::check(&storage, acknowledged);
    trials.iter().filter(|trial| trial.told().is_some()).count()
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    const N_KILLS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.db");
    let mut stream = test_stream(20);
    let mut known = Vec::new();
    for _ in 0..N_KILLS {
        let mut child = start(&file, u64::MAX);
        std::thread::sleep(Duration::from_secs_f64(0.02 + 0.15 * stream.uniform()));
        child.kill().unwrap();
        known.extend(acknowledged(&mut child));
        let n_told = check(&file, &known);
        // A kill can fall between a commit and its acknowledgement. Such a trial counts as
        // finished.
        assert!(n_told <= known.len() + N_KILLS);
    }
    assert!(known.len() > N_KILLS, "{} trials", known.len());
    let storage = SqliteStorage::open(&file, Mode::Existing).unwrap();
    let study = storage.create("study", "{}").unwrap().key;
    let open = storage.snapshot(study, 0).unwrap().open;
    assert!(open.len() <= 1, "each process takes over what the last one left: {open:?}");
}

#[test]
fn a_process_killed_while_it_creates_the_file_leaves_one_that_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let mut stream = test_stream(21);
    for round in 0..20 {
        let file = folder.path().join(format!("{round}.db"));
        let mut child = start(&file, 3);
        std::thread::sleep(Duration::from_secs_f64(0.02 * stream.uniform()));
        child.kill().unwrap();
        let known = acknowledged(&mut child);
        let storage = SqliteStorage::open(&file, Mode::Create).unwrap();
        storage.create("study", "{}").unwrap();
        check(&file, &known);
    }
}

/// After a power loss, any part of an unfinished log may remain, except parts already copied into
/// the file. Parts are copied only after they are durable in the log. Here, a reader prevents
/// copying.
#[test]
fn a_log_that_was_cut_is_a_beginning_of_what_happened() {
    const N_TRIALS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let storage = SqliteStorage::open(&at("study.db"), Mode::Create).unwrap();
    let reader = rusqlite::Connection::open(at("study.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM studies;").unwrap();
    work(&storage, N_TRIALS, &AtomicBool::new(false), |_| {});
    let file = std::fs::read(at("study.db")).unwrap();
    let log = std::fs::read(at("study.db-wal")).unwrap();
    let mut stream = test_stream(22);
    let mut seen = Vec::new();
    for round in 0..40 {
        let part = stream.below(log.len());
        let mut torn = log[..part].to_vec();
        if round % 2 == 0 {
            // A sector was not written, but the following sectors were.
            torn.resize(log.len().min(part + 512), 0);
            torn.extend_from_slice(&log[torn.len()..]);
        }
        let copy = at(&format!("{round}.db"));
        std::fs::write(&copy, &file).unwrap();
        std::fs::write(at(&format!("{round}.db-wal")), torn).unwrap();
        assert_eq!(verify(&copy).unwrap().problems, []);
        let storage = SqliteStorage::open(&copy, Mode::Existing).unwrap();
        let told = match storage.studies().unwrap().first() {
            Some(study) => storage.snapshot(study.key, 0).unwrap().told,
            None => Vec::new(),
        };
        let numbers: Vec<_> = told.iter().map(|trial| trial.number).collect();
        assert_eq!(numbers, (0..told.len() as u64).collect::<Vec<_>>());
        seen.push(told.len());
    }
    assert!(seen.iter().any(|n| *n > 0) && seen.iter().any(|n| *n < 30), "{seen:?}");
}

#[test]
fn two_processes_share_one_file() {
    const N_TRIALS: u64 = 300;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.db");
    // The processes also race to create the file.
    let mut children = [start(&file, N_TRIALS), start(&file, N_TRIALS)];
    let known = children.each_mut().map(acknowledged);
    for part in &known {
        assert!(!part.is_empty(), "both had their turn");
    }
    let all = known.concat();
    assert_eq!(check(&file, &all), all.len());
    assert_eq!(all.len() as u64, N_TRIALS);
    let storage = SqliteStorage::open(&file, Mode::Existing).unwrap();
    let studies = storage.studies().unwrap();
    assert_eq!(studies.len(), 1);
    let key: StudyKey = studies[0].key;
    let trials = storage.trials(key).unwrap();
    assert!(trials.iter().all(|trial| trial.attempts == 1));
}
