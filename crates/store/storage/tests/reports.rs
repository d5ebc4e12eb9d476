//! A reader that follows trials during training reads each report only once.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::collections::BTreeMap;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    MemoryStorage, Mode, NewTrial, Report, ReportOutcome, SqliteStorage, Storage, StorageError,
    StudyKey, TellAuthority, Told, Trial, Worker,
};

#[test]
fn in_memory() {
    new_reports_alone(&MemoryStorage::new());
}

#[test]
fn in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let storage = SqliteStorage::open(&folder.path().join("study.db"), Mode::Create).unwrap();
    new_reports_alone(&storage);
}

#[cfg(unix)]
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn in_postgres() {
    let server = fedbo_testkit::postgres::Server::start();
    let address = server.url("postgres").parse().unwrap();
    let storage = fedbo_storage::open(&address, Mode::Create).unwrap();
    new_reports_alone(&*storage);
}

fn held_by_hand(storage: &dyn Storage, study: StudyKey, x: f64) {
    let new = NewTrial {
        holder: Some((Worker::by_hand(), None)),
        ..NewTrial::new(
            x.to_le_bytes().to_vec(),
            Point::new(vec![("x".to_owned(), Value::Float(x))]),
            "own",
        )
    };
    storage.add(study, &new).unwrap();
}

fn at(epoch: u32) -> Report {
    let value = 1.0 / f64::from(epoch);
    Report { epoch, value }
}

fn epochs(trials: &[Trial]) -> Vec<(u64, Vec<u32>)> {
    let epochs = |trial: &Trial| trial.reports.iter().map(|report| report.epoch).collect();
    trials.iter().map(|trial| (trial.number, epochs(trial))).collect()
}

/// A snapshot contains the requested reports of each open trial, regardless of other trials, and
/// all reports of finished trials.
fn new_reports_alone(storage: &dyn Storage) {
    let study = storage.create("study", "{}").unwrap().key;
    let other = storage.create("other", "{}").unwrap().key;
    for number in 0..5 {
        held_by_hand(storage, study, f64::from(number));
        held_by_hand(storage, other, f64::from(number));
    }
    let report = |number, epoch| storage.report(study, number, TellAuthority::Hand, at(epoch));
    for number in [0, 1, 3, 4] {
        for epoch in [1, 2, 5, 9] {
            assert_eq!(report(number, epoch).unwrap(), ReportOutcome::New);
        }
    }
    storage
        .report(other, 2, TellAuthority::Hand, at(7))
        .expect("another study's trial of the same number");
    storage.finish(study, 4, TellAuthority::Hand, &Told::Value(0.5)).unwrap();

    let from = |pairs: &[(u64, u32)]| {
        let from_epochs: BTreeMap<u64, u32> = pairs.iter().copied().collect();
        storage.snapshot_from(study, 0, &from_epochs).unwrap()
    };
    let all = vec![1, 2, 5, 9];
    // The requested epoch is that of a report (trial 0), between two reports (1) or after the last
    // report (3). Trial 2 has no reports, trial 4 has ended, and trial 17 does not exist.
    let snapshot = from(&[(0, 5), (1, 3), (2, 1), (3, 10), (4, 6), (17, 1)]);
    assert_eq!(
        epochs(&snapshot.open),
        [(0, vec![5, 9]), (1, vec![5, 9]), (2, vec![]), (3, vec![])]
    );
    assert_eq!(snapshot.open[0].reports, [at(5), at(9)]);
    assert_eq!(epochs(&snapshot.told), [(4, all.clone())]);
    let snapshot = from(&[(3, 9)]);
    assert_eq!(
        epochs(&snapshot.open),
        [(0, all.clone()), (1, all.clone()), (2, vec![]), (3, vec![9])]
    );
    assert_eq!(from(&[]), storage.snapshot(study, 0).unwrap());

    // Checking a report requires only the reports from its epoch on.
    for (epoch, expected) in [(1, 1), (5, 5), (9, 9), (3, 9), (8, 9)] {
        let again = report(0, epoch);
        if epoch == expected {
            assert_eq!(again.unwrap(), ReportOutcome::Already);
        } else {
            let Err(StorageError::ReportOrder { before, .. }) = again else {
                panic!("{epoch}: {again:?}");
            };
            assert_eq!(before, at(expected), "the last report");
        }
    }
    assert_eq!(report(0, 10).unwrap(), ReportOutcome::New);
}
