//! Contract of a storage for trials that report intermediate values.
#![expect(
    clippy::unwrap_used,
    reason = "a storage that fails here violates its contract, and the message describes the violation"
)]

use fedbo_storage::{
    Report, ReportOutcome, Storage, StorageError, StudyKey, TellAuthority, TellOutcome, Told,
    Trial, TrialState, Worker,
};

use super::{LONG, SHORT, add, finish, gone, held, new_trial, study};

fn at(epoch: u32, value: f64) -> Report {
    Report { epoch, value }
}

fn report(
    storage: &dyn Storage,
    study: StudyKey,
    number: u64,
    worker: &Worker,
    report: Report,
) -> Result<ReportOutcome, StorageError> {
    storage.report(study, number, TellAuthority::Worker(&worker.id), report)
}

fn trial(storage: &dyn Storage, study: StudyKey, number: u64) -> Trial {
    let mut trials = storage.trials(study).unwrap();
    trials.swap_remove(usize::try_from(number).unwrap())
}

fn stopped(epoch: u32, value: f64, because: &str) -> Told {
    Told::Stopped { epoch, value, because: because.to_owned() }
}

pub(super) fn reports_ascend(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    add(storage, study, &held(0.0, &worker, LONG));
    add(storage, study, &held(1.0, &worker, LONG));
    let report = |new| report(storage, study, 1, &worker, new);
    assert_eq!(report(at(2, 0.5)).unwrap(), ReportOutcome::New);
    assert_eq!(report(at(5, 0.0)).unwrap(), ReportOutcome::New, "gaps are fine");
    for again in [at(5, 0.0), at(2, 0.5)] {
        assert_eq!(report(again).unwrap(), ReportOutcome::Already);
    }
    // Refused are a reported epoch with a different value, even −0.0 instead of 0.0, and unreported
    // epochs that are not later.
    for (refused, beside) in [
        (at(5, -0.0), at(5, 0.0)),
        (at(2, 0.25), at(2, 0.5)),
        (at(3, 0.5), at(5, 0.0)),
        (at(1, 0.5), at(5, 0.0)),
    ] {
        match report(refused) {
            Err(StorageError::ReportOrder { number: 1, report, before }) => {
                assert_eq!((report, before), (refused, beside))
            }
            other => panic!("{refused:?}: {other:?}"),
        }
    }
    assert!(matches!(report(at(0, 0.5)), Err(StorageError::EpochZero { number: 1 })));
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(report(at(6, value)), Err(StorageError::NotFinite { .. })));
    }
    assert_eq!(report(at(u32::MAX, 1.0)).unwrap(), ReportOutcome::New);
    let expected = [at(2, 0.5), at(5, 0.0), at(u32::MAX, 1.0)];
    assert_eq!(trial(storage, study, 1).reports, expected);
    assert_eq!(trial(storage, study, 0).reports, []);
    let open = storage.snapshot(study, 0).unwrap().open;
    assert_eq!(open[1].reports, expected, "a snapshot has them too");
}

pub(super) fn who_may_report(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &held(0.0, &worker, LONG));
    add(storage, study, &held(1.0, &Worker::by_hand(), None));
    add(storage, study, &new_trial(2.0));
    let by = |number, teller| storage.report(study, number, teller, at(1, 0.5));
    let not_held = |result| matches!(result, Err(StorageError::NotHeld { .. }));
    assert!(not_held(by(0, TellAuthority::Worker(&other.id))));
    assert!(not_held(by(0, TellAuthority::Hand)), "a worker has it");
    assert!(not_held(by(1, TellAuthority::Worker(&worker.id))));
    assert!(not_held(by(2, TellAuthority::Hand)), "nobody trains it");
    assert!(not_held(by(2, TellAuthority::Worker(&worker.id))));
    assert!(matches!(by(3, TellAuthority::Hand), Err(StorageError::NoTrial { .. })));
    assert!(matches!(
        storage.report(StudyKey(4711), 0, TellAuthority::Hand, at(1, 0.5)),
        Err(StorageError::NoStudy { .. })
    ));
    assert_eq!(by(0, TellAuthority::Worker(&worker.id)).unwrap(), ReportOutcome::New);
    assert_eq!(by(1, TellAuthority::Hand).unwrap(), ReportOutcome::New);
    // A report is too late if the lease has expired and another worker has claimed the trial.
    add(storage, study, &held(3.0, &worker, Some(SHORT)));
    std::thread::sleep(2 * SHORT);
    assert_eq!(storage.claim(study, &other, LONG).unwrap().unwrap().number, 2);
    assert_eq!(storage.claim(study, &other, LONG).unwrap().unwrap().number, 3);
    assert!(not_held(by(3, TellAuthority::Worker(&worker.id))));
    finish(storage, study, 0, &worker, 1.0).unwrap();
    assert!(matches!(
        by(0, TellAuthority::Worker(&worker.id)),
        Err(StorageError::ToldOtherwise { .. })
    ));
    let complete = trial(storage, study, 0);
    assert_eq!((complete.value(), complete.reports), (Some(1.0), vec![at(1, 0.5)]));
}

pub(super) fn reports_go_with_their_attempt(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &held(0.0, &worker, LONG));
    add(storage, study, &held(1.0, &worker, LONG));
    for number in [0, 1] {
        report(storage, study, number, &worker, at(1, 0.5)).unwrap();
        report(storage, study, number, &worker, at(2, 0.25)).unwrap();
    }
    storage.release_trial(study, 0, TellAuthority::Worker(&worker.id)).unwrap();
    assert_eq!(trial(storage, study, 0).reports, []);
    let again = storage.claim(study, &other, Some(SHORT)).unwrap().unwrap();
    assert_eq!((again.number, again.reports), (0, Vec::new()));
    report(storage, study, 0, &other, at(1, 0.75)).unwrap();
    // A claim after an expired lease discards earlier reports as well.
    std::thread::sleep(2 * SHORT);
    let taken = storage.claim(study, &worker, LONG).unwrap().unwrap();
    assert_eq!((taken.number, &taken.reports), (0, &Vec::new()));
    assert_eq!(trial(storage, study, 0), taken);
    report(storage, study, 0, &worker, at(1, 0.5)).unwrap();
    assert_eq!(trial(storage, study, 1).reports.len(), 2, "another trial keeps its own");
    let Some(gone) = gone() else { return };
    add(storage, study, &held(2.0, &gone, None));
    report(storage, study, 2, &gone, at(7, 0.5)).unwrap();
    let taken = storage.claim(study, &worker, LONG).unwrap().unwrap();
    assert_eq!((taken.number, taken.reports), (2, Vec::new()));
}

pub(super) fn what_is_stopped_has_no_value(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for x in [0.0, 1.0, 2.0] {
        add(storage, study, &held(x, &worker, LONG));
    }
    let teller = TellAuthority::Worker(&worker.id);
    let tell = |number, told: &Told| storage.finish(study, number, teller, told);
    let not_reported = |result| matches!(result, Err(StorageError::NotReported { .. }));
    assert!(not_reported(tell(0, &stopped(1, 0.5, "none"))));
    report(storage, study, 0, &worker, at(1, 0.5)).unwrap();
    report(storage, study, 0, &worker, at(4, -0.0)).unwrap();
    assert!(not_reported(tell(0, &stopped(1, 0.5, "no longer"))));
    assert!(not_reported(tell(0, &stopped(4, 0.0, "another zero"))));
    assert!(matches!(tell(0, &stopped(4, f64::NAN, "")), Err(StorageError::NotFinite { .. })));
    let told = stopped(4, -0.0, "worse than the \"Größe\"\n\0 of others");
    assert_eq!(tell(0, &told).unwrap(), TellOutcome::New { seq: 1 });
    assert_eq!(tell(0, &told).unwrap(), TellOutcome::Already);
    for other in [
        stopped(4, -0.0, "other grounds"),
        Told::Value(-0.0),
        Told::Failed { kind: "exit".to_owned(), message: String::new() },
    ] {
        assert!(matches!(tell(0, &other), Err(StorageError::ToldOtherwise { .. })));
    }
    assert!(matches!(
        report(storage, study, 0, &worker, at(5, 0.5)),
        Err(StorageError::ToldOtherwise { .. })
    ));
    assert_eq!(finish(storage, study, 1, &worker, 3.0).unwrap(), TellOutcome::New { seq: 2 });
    let snapshot = storage.snapshot(study, 0).unwrap();
    let first = &snapshot.told[0];
    assert_eq!((first.told(), first.value()), (Some(&told), None));
    assert_eq!(first.state.word(), "stopped");
    assert_eq!(first.state, TrialState::Told(told));
    assert_eq!(first.reports, [at(1, 0.5), at(4, -0.0)], "they are kept");
    let zero = first.reports[1].value;
    assert!(zero.is_sign_negative(), "to the bit");
    assert_eq!(snapshot.told[1].value(), Some(3.0));
    assert_eq!(storage.claim(study, &Worker::of_this_process(), LONG).unwrap(), None);
}

pub(super) fn every_bit_of_a_report_is_kept(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    add(storage, study, &held(0.0, &worker, LONG));
    let mut stream = crate::test_stream(9);
    let random = (0..64).map(|_| {
        let (high, low) = (u64::from(stream.bits()), u64::from(stream.bits()));
        f64::from_bits((high << 32) | low)
    });
    let values: Vec<f64> = [0.0, -0.0, 1.0, 5e-324, f64::MAX, f64::MIN, 0.1, 1e22]
        .into_iter()
        .chain(random.filter(|value| value.is_finite()))
        .collect();
    for (epoch, value) in (1..).zip(&values) {
        let new = report(storage, study, 0, &worker, at(epoch, *value));
        assert_eq!(new.unwrap(), ReportOutcome::New);
        let again = report(storage, study, 0, &worker, at(epoch, *value));
        assert_eq!(again.unwrap(), ReportOutcome::Already);
    }
    let stored = trial(storage, study, 0).reports;
    assert_eq!(stored.len(), values.len());
    for ((epoch, value), report) in (1..).zip(&values).zip(&stored) {
        assert_eq!(report.epoch, epoch);
        assert_eq!(report.value.to_bits(), value.to_bits(), "epoch {epoch}");
    }
}
