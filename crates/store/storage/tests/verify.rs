//! For each invariant of a file, verification finds and names a violation.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::path::PathBuf;
use std::time::Duration;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    Mode, NewTrial, Report, SqliteStorage, Storage, StorageError, TellAuthority, Told, Worker,
    verify,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// Creates a file with a study "s" and an empty study "t". The trials of "s" are 0 (with a value),
/// 1 (failed), 2 (running, with reports), 3 (waiting), 4 (with a value) and 5 (stopped).
fn fixture() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let storage = SqliteStorage::open(&path, Mode::Create).unwrap();
    let study = storage.create("s", "{\"seed\": 7}").unwrap().key;
    storage.create("t", "[]").unwrap();
    let worker = Worker::of_this_process();
    for number in 0..6_u8 {
        let new = NewTrial {
            ask_seconds: 0.5,
            holder: (number != 3).then(|| (worker.clone(), Some(Duration::from_secs(60)))),
            unique: true,
            ..NewTrial::new(
                vec![number],
                Point::new(vec![("x".to_owned(), Value::Int(i64::from(number)))]),
                "own",
            )
        };
        storage.add(study, &new).unwrap();
    }
    let teller = TellAuthority::Worker(&worker.id);
    let failed = Told::Failed { kind: "exit".to_owned(), message: "exit code 3".to_owned() };
    storage.finish(study, 4, teller, &Told::Value(1.5)).unwrap();
    storage.finish(study, 1, teller, &failed).unwrap();
    storage.finish(study, 0, teller, &Told::Value(-0.0)).unwrap();
    for number in [2, 5] {
        for epoch in [1, 2] {
            let value = f64::from(epoch);
            let report = Report { epoch, value };
            storage.report(study, number, teller, report).unwrap();
        }
    }
    let stopped = Told::Stopped { epoch: 2, value: 2.0, because: "worse".to_owned() };
    storage.finish(study, 5, teller, &stopped).unwrap();
    (folder, path)
}

fn damage(path: &PathBuf, sql: &str) {
    let connection = Connection::open(path).unwrap();
    let batch = format!("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; {sql}");
    connection.execute_batch(&batch).unwrap();
}

#[test]
fn a_sound_file_has_no_problems() {
    let (_folder, path) = fixture();
    let report = verify(&path).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.version, report.n_studies, report.n_trials), (2, 2, 6));
}

/// The table of stops is not part of the layout. A file is sound with or without it, but not with a
/// different table of the same name.
#[test]
fn stops_are_checked_where_there_are_any() {
    let (_folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let studies = storage.studies().unwrap();
    for (study, by) in [(0, "a"), (0, "b"), (1, "c")] {
        storage.stop(studies[study].key, by).unwrap();
    }
    assert_eq!(verify(&path).unwrap().problems, []);
    for (sql, expected) in [
        (
            "DELETE FROM stops WHERE seq = 1 AND study = 1",
            "the stops of the study with key 1 are not 1, 2, …",
        ),
        (
            "UPDATE stops SET study = 77 WHERE study = 2",
            "a row of stops refers to a missing row of studies",
        ),
        (
            "DROP TABLE stops; CREATE TABLE stops (x)",
            "table stops differs from the addition of this program",
        ),
    ] {
        damage(&path, sql);
        let problems = verify(&path).unwrap().problems;
        assert!(problems.iter().any(|each| each.to_string() == expected), "{sql}: {problems:?}");
    }
}

/// The table of corrections is optional as well, like the table of stops.
#[test]
fn corrections_are_checked_where_there_are_any() {
    let (_folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let study = storage.studies().unwrap()[0].key;
    for (number, told) in [(0, Told::Value(3.0)), (1, Told::Discarded), (5, Told::Discarded)] {
        assert!(storage.correct(study, number, &told).unwrap());
    }
    assert_eq!(verify(&path).unwrap().problems, []);
    let of = |seq| format!("correction {seq} of the study with key 1");
    for (sql, expected) in [
        (
            "UPDATE corrections SET before = '{\"value\": \"high\"}' WHERE seq = 1",
            format!("{}: the earlier outcome of trial 0 cannot be read", of(1)),
        ),
        ("DELETE FROM corrections WHERE seq = 2", format!("{} comes after correction 1", of(3))),
        (
            "UPDATE corrections SET number = 77 WHERE seq = 3",
            "a row of corrections refers to a missing row of trials".to_owned(),
        ),
        (
            "DROP TABLE corrections; CREATE TABLE corrections (x)",
            "table corrections differs from the addition of this program".to_owned(),
        ),
    ] {
        damage(&path, sql);
        let problems = verify(&path).unwrap().problems;
        assert!(problems.iter().any(|each| each.to_string() == expected), "{sql}: {problems:?}");
    }
}

/// The table of further numbers is optional as well, like the table of stops.
#[test]
fn further_numbers_are_checked_where_there_are_any() {
    let (_folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    let study = storage.studies().unwrap()[0].key;
    let told = Told::Numbers(vec![1.0, 2.0, 3.0]);
    storage.finish(study, 3, TellAuthority::Hand, &told).unwrap();
    assert_eq!(verify(&path).unwrap().problems, []);
    let missing = Told::Numbers(vec![f64::NAN, 2.0, f64::NAN]);
    storage.correct(study, 3, &missing).unwrap();
    assert_eq!(verify(&path).unwrap().problems, []);
    let of = "the further numbers of trial 3 of the study with key 1";
    for (sql, expected) in [
        (
            "DELETE FROM outcomes WHERE place = 1",
            format!("{of} are not finite numbers at the places 1, 2, …"),
        ),
        (
            "UPDATE outcomes SET value = 9e999 WHERE place = 2",
            format!("{of} are not finite numbers at the places 1, 2, …"),
        ),
        (
            "UPDATE trials SET value = NULL, failure_kind = 'exit', failure_message = '' WHERE number = 3",
            format!("{of} are stored without a final value"),
        ),
        (
            "UPDATE outcomes SET number = 77",
            "a row of outcomes refers to a missing row of trials".to_owned(),
        ),
        (
            "DROP TABLE outcomes; CREATE TABLE outcomes (x)",
            "table outcomes differs from the addition of this program".to_owned(),
        ),
    ] {
        damage(&path, sql);
        let problems = verify(&path).unwrap().problems;
        assert!(problems.iter().any(|each| each.to_string() == expected), "{sql}: {problems:?}");
    }
}

#[test]
fn each_kind_of_damage_is_named() {
    for (sql, expected) in [
        ("DELETE FROM trials WHERE number = 3", "study \"s\": trial 3 is missing"),
        ("DELETE FROM trials WHERE number IN (2, 3)", "study \"s\": trials 2 to 3 are missing"),
        (
            "DELETE FROM trials WHERE number = 1",
            "study \"s\", trial 0: its place in the order of telling is 3, expected 2",
        ),
        (
            "DROP INDEX trials_by_telling; UPDATE trials SET told_seq = 1 WHERE number = 0",
            "study \"s\", trial 4: its place 1 in the order of telling is also another trial's",
        ),
        ("DROP INDEX trials_open", "index trials_open is missing"),
        (
            "DROP INDEX trials_open; CREATE INDEX trials_open ON trials (study)",
            "index trials_open differs from the layout of this version",
        ),
        ("CREATE TABLE more (x)", "table more does not belong here"),
        (
            "UPDATE studies SET definition = '{' WHERE name = 't'",
            "study \"t\": its definition is not JSON",
        ),
        ("DELETE FROM studies WHERE name = 's'", "there are trials of a missing study (key 1)"),
        (
            "UPDATE trials SET point = '{\"x\": ' WHERE number = 2",
            "study \"s\", trial 2: its point cannot be read",
        ),
        (
            "UPDATE trials SET encoding = x'' WHERE number = 2",
            "study \"s\", trial 2: it has no encoding",
        ),
        (
            "UPDATE trials SET value = NULL WHERE number = 0",
            "study \"s\", trial 0: it has ended without exactly one outcome",
        ),
        (
            "UPDATE trials SET value = 1.5 WHERE number = 1",
            "study \"s\", trial 1: it has ended without exactly one outcome",
        ),
        (
            "UPDATE trials SET value = 9e999 WHERE number = 0",
            "study \"s\", trial 0: its value is not a finite number",
        ),
        (
            "UPDATE trials SET value = 'much' WHERE number = 0",
            "study \"s\", trial 0: its value is not a finite number",
        ),
        (
            "UPDATE trials SET value = 1.5 WHERE number = 3",
            "study \"s\", trial 3: it has an outcome or a time of telling, but no place in the order of telling",
        ),
        (
            "UPDATE trials SET told_at_ms = NULL WHERE number = 0",
            "study \"s\", trial 0: it lacks the time when it was told",
        ),
        (
            "UPDATE trials SET failure_message = NULL WHERE number = 1",
            "study \"s\", trial 1: its failure lacks a kind or a message",
        ),
        (
            "UPDATE trials SET holder = 'w' WHERE number = 0",
            "study \"s\", trial 0: it has ended but has a holder",
        ),
        (
            "UPDATE trials SET holder = NULL WHERE number = 2",
            "study \"s\", trial 2: it was started, but has no holder",
        ),
        (
            "UPDATE trials SET holder = '' WHERE number = 2",
            "study \"s\", trial 2: its holder cannot be read",
        ),
        (
            "UPDATE trials SET holder_process = '7' WHERE number = 2",
            "study \"s\", trial 2: its holder's process cannot be read",
        ),
        (
            "UPDATE trials SET started_at_ms = NULL WHERE number = 2",
            "study \"s\", trial 2: it is running, but was never started",
        ),
        (
            "UPDATE trials SET until_ms = 1 WHERE number = 3",
            "study \"s\", trial 3: it has a lease, but no holder",
        ),
        (
            "UPDATE trials SET attempts = -1 WHERE number = 3",
            "study \"s\", trial 3: its number of attempts is invalid",
        ),
        (
            "UPDATE trials SET ask_seconds = 9e999 WHERE number = 3",
            "study \"s\", trial 3: the time of its proposal is not a number",
        ),
        (
            "ALTER TABLE trials RENAME COLUMN attempts TO tries",
            "table trials differs from the layout of this version",
        ),
        ("DROP TABLE trials", "table trials is missing"),
        ("DROP TABLE reports", "table reports is missing"),
        (
            "UPDATE reports SET value = 9e999 WHERE number = 2",
            "study \"s\", trial 2: it has a report without an epoch or a finite value",
        ),
        (
            "UPDATE reports SET number = 3 WHERE number = 2",
            "study \"s\", trial 3: it has reports, but no holder",
        ),
        (
            "UPDATE reports SET number = 9 WHERE number = 2",
            "there are reports of trial 9 of the study with key 1, which is missing",
        ),
        (
            "DELETE FROM reports WHERE number = 5 AND epoch = 2",
            "study \"s\", trial 5: it was not stopped at its last report",
        ),
        (
            "UPDATE trials SET value = 3.0 WHERE number = 5",
            "study \"s\", trial 5: it was not stopped at its last report",
        ),
        (
            "UPDATE trials SET stopped_because = NULL WHERE number = 5",
            "study \"s\", trial 5: its stop lacks an epoch or a reason",
        ),
        (
            "UPDATE trials SET value = NULL WHERE number = 5",
            "study \"s\", trial 5: it was stopped without a value",
        ),
    ] {
        let (_folder, path) = fixture();
        damage(&path, sql);
        let before = std::fs::read(&path).unwrap();
        let problems = verify(&path).unwrap().problems;
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|p| p == expected), "{sql}: {problems:#?}");
        assert!(before == std::fs::read(&path).unwrap(), "it only reads");
    }
}

/// All problems are listed, not only the first one.
#[test]
fn problems_do_not_hide_each_other() {
    let (_folder, path) = fixture();
    damage(
        &path,
        "UPDATE trials SET point = '' WHERE number < 2; UPDATE studies SET definition = ''",
    );
    let problems = verify(&path).unwrap().problems;
    assert_eq!(problems.len(), 4, "{problems:?}");
}

/// A damaged trial is not mistaken for another trial, and unreadable content is not shown.
#[test]
fn a_damaged_trial_is_an_error_to_who_reads_it() {
    for (sql, expected) in [
        (
            "UPDATE trials SET point = '{\"secret\": [4711]}' WHERE number = 2",
            "trial 2 is damaged: its point cannot be read",
        ),
        (
            "UPDATE trials SET value = NULL WHERE number = 0",
            "trial 0 is damaged: it has ended without exactly one outcome",
        ),
        ("DROP TABLE trials", "its tables are not as expected"),
        ("UPDATE trials SET attempts = -1 WHERE number = 0", "its rows are not as expected"),
    ] {
        let (_folder, path) = fixture();
        damage(&path, sql);
        let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
        let study = storage.studies().unwrap()[0].key;
        let error = storage.trials(study).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }));
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("4711"), "{text}");
    }
}

/// Verification sees a consistent snapshot of a file in use, and leaves no files next to it.
#[test]
fn a_file_at_work_can_be_verified() {
    let (folder, path) = fixture();
    let storage = SqliteStorage::open(&path, Mode::Existing).unwrap();
    storage.create("u", "{}").unwrap();
    let report = verify(&path).unwrap();
    assert_eq!((report.problems, report.n_studies), (Vec::new(), 3));
    storage.create("v", "{}").unwrap();
    drop(storage);
    assert_eq!(verify(&path).unwrap().n_studies, 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
