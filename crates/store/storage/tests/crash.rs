//! Acknowledged changes survive: processes killed at any moment, logs cut at any byte, two processes at once.
//!
//! The test binary starts itself again as the process that works and is killed.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    AddOutcome, Mode, NewTrial, Report, ReportOutcome, SqliteStorage, Storage, StudyKey,
    TellAuthority, TellOutcome, Told, Worker, verify,
};
use fedbo_testkit::test_stream;

const FILE: &str = "FEDBO_TEST_FILE";
const LIMIT: &str = "FEDBO_TEST_LIMIT";

/// A value that no other trial has, with all its bits in use.
fn value(number: u64) -> f64 {
    (f64::from(u32::try_from(number).unwrap()) + 0.1).sin()
}

/// The reports of every trial before it is told.
fn reports(number: u64) -> [Report; 2] {
    [1, 2].map(|epoch| Report { epoch, value: value(number) / f64::from(epoch) })
}

fn new_trial(limit: u64, worker: &Worker) -> NewTrial {
    NewTrial {
        holder: Some((worker.clone(), None)),
        limit: Some(limit),
        ..NewTrial::new(vec![0], Point::new(vec![("x".to_owned(), Value::Float(1.0 / 3.0))]), "own")
    }
}

/// Works as a study's worker does, and says each trial that was acknowledged.
fn work(storage: &SqliteStorage, limit: u64, mut acknowledged: impl FnMut(u64)) {
    let worker = Worker::of_this_process();
    let study = storage.create("study", "{}").unwrap().key;
    loop {
        let trial = match storage.claim(study, &worker, None).unwrap() {
            Some(trial) => trial,
            None => match storage.add(study, &new_trial(limit, &worker)).unwrap() {
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

/// The process that is killed; does nothing when run as a test.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    let limit = std::env::var(LIMIT).unwrap().parse().unwrap();
    let storage = SqliteStorage::open(Path::new(&file), Mode::Create).unwrap();
    work(&storage, limit, |number| {
        writeln!(std::io::stdout(), "told {number}").unwrap();
    });
}

fn start(file: &Path, limit: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(FILE, file)
        .env(LIMIT, limit.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Trials that a process has acknowledged, once it has ended.
fn acknowledged(child: &mut Child) -> Vec<u64> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A killed process leaves whole lines: each is one write.
    let numbers = lines.filter_map(|line| line.unwrap().split_once("told ")?.1.parse().ok());
    let numbers = numbers.collect();
    child.wait().unwrap();
    numbers
}

/// Every acknowledged trial is there, with its bits.
fn check(file: &Path, acknowledged: &[u64]) -> usize {
    assert_eq!(verify(file).unwrap().problems, []);
    let storage = SqliteStorage::open(file, Mode::Existing).unwrap();
    let study = storage.create("study", "{}").unwrap().key;
    let told = storage.snapshot(study, 0).unwrap().told;
    let values: BTreeMap<_, _> = told.iter().map(|t| (t.number, t.value())).collect();
    assert_eq!(values.len(), told.len(), "no trial is there twice");
    for trial in &told {
        assert_eq!(trial.reports, reports(trial.number));
    }
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
    told.len()
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
        // A kill may fall between a commit and its acknowledgement; that trial counts as told from then on.
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

/// After a loss of power, any part of a log that was being written may be left, as far as it was not yet copied into
/// the file. It is only copied once that part of the log has reached the disk. A reader keeps the whole log from being
/// copied here.
#[test]
fn a_log_that_was_cut_is_a_beginning_of_what_happened() {
    const N_TRIALS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let storage = SqliteStorage::open(&at("study.db"), Mode::Create).unwrap();
    let reader = rusqlite::Connection::open(at("study.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM studies;").unwrap();
    work(&storage, N_TRIALS, |_| {});
    let file = std::fs::read(at("study.db")).unwrap();
    let log = std::fs::read(at("study.db-wal")).unwrap();
    let mut stream = test_stream(22);
    let mut seen = Vec::new();
    for round in 0..40 {
        let part = stream.below(log.len());
        let mut torn = log[..part].to_vec();
        if round % 2 == 0 {
            // A sector that never arrived, and others behind it that did.
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
    // They also race for the creation of the file.
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
