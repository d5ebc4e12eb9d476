//! Checks of corrections.

use fedbo_storage::{
    AddOutcome, NewTrial, Report, Storage, StorageError, TellAuthority, Told, Worker,
};

use super::{LONG, add, finish, held, point, study};

pub(super) fn a_correction_replaces_an_outcome(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for x in [0.0, 1.0, 2.0, 3.0] {
        add(storage, study, &held(x, &worker, LONG));
    }
    let teller = TellAuthority::Worker(&worker.id);
    let failed = Told::Failed { kind: "exit".to_owned(), message: "status 3\0".to_owned() };
    storage.finish(study, 2, teller, &failed).unwrap();
    finish(storage, study, 0, &worker, 0.1 + 0.2).unwrap();
    storage.finish(study, 1, teller, &Told::Numbers(vec![1.0, -0.0, 3.0])).unwrap();
    assert_eq!(storage.snapshot(study, 0).unwrap().last_correction, None);
    assert_eq!(storage.corrections(study).unwrap(), []);
    let before = storage.trials(study).unwrap();

    // A trial without an outcome and a number that is not finite are refused.
    let refused = storage.correct(study, 3, &Told::Value(1.0));
    assert!(matches!(refused, Err(StorageError::NotEnded { number: 3, state: "running" })));
    let refused = storage.correct(study, 4, &Told::Value(1.0));
    assert!(matches!(refused, Err(StorageError::NoTrial { number: 4, n_trials: 4 })));
    let refused = storage.correct(study, 0, &Told::Value(f64::NAN));
    assert!(matches!(refused, Err(StorageError::NotFinite { .. })));
    assert!(!storage.correct(study, 0, &Told::Value(0.1 + 0.2)).unwrap());
    assert_eq!(storage.trials(study).unwrap(), before);
    assert_eq!(storage.corrections(study).unwrap(), []);

    let numbers = Told::Numbers(vec![-2.0, 5e-324, 4.0]);
    assert!(storage.correct(study, 1, &numbers).unwrap());
    assert!(storage.correct(study, 0, &Told::Value(-0.0)).unwrap());
    assert!(storage.correct(study, 2, &Told::Numbers(vec![7.0, 8.0, 9.0])).unwrap());
    assert!(storage.correct(study, 1, &Told::Discarded).unwrap());
    assert!(!storage.correct(study, 1, &Told::Discarded).unwrap());
    let trials = storage.trials(study).unwrap();
    assert_eq!(trials[0].value().map(f64::to_bits), Some((-0.0_f64).to_bits()));
    assert_eq!((trials[1].told(), trials[1].numbers()), (Some(&Told::Discarded), &[][..]));
    assert_eq!((trials[2].numbers(), trials[2].state.word()), (&[7.0, 8.0, 9.0][..], "complete"));
    // Only the outcome changes.
    for (now, before) in trials.iter().zip(before) {
        let now = now.clone();
        assert_eq!(fedbo_storage::Trial { state: before.state.clone(), ..now }, before);
    }
    let snapshot = storage.snapshot(study, 0).unwrap();
    assert_eq!(snapshot.told, [trials[2].clone(), trials[0].clone(), trials[1].clone()]);
    let corrections = storage.corrections(study).unwrap();
    let last = corrections.last().map(|c| (c.seq, c.number, c.at_ms));
    assert_eq!(snapshot.last_correction.map(|c| (c.seq, c.number, c.at_ms)), last);
    let found: Vec<_> = corrections.iter().map(|c| (c.seq, c.number, c.before.clone())).collect();
    let expected = [
        (1, 1, Told::Numbers(vec![1.0, -0.0, 3.0])),
        (2, 0, Told::Value(0.1 + 0.2)),
        (3, 2, failed),
        (4, 1, numbers),
    ];
    assert_eq!(found, expected);
    assert!(corrections[0].before.numbers()[1].is_sign_negative());
    // A discarded trial can get its numbers back, and cannot be told by its worker.
    let refused = storage.finish(study, 1, teller, &Told::Numbers(vec![1.0, -0.0, 3.0]));
    assert!(matches!(refused, Err(StorageError::ToldOtherwise { number: 1, .. })));
    assert!(storage.correct(study, 1, &Told::Numbers(vec![1.0, 2.0, 3.0])).unwrap());
    assert_eq!(storage.trials(study).unwrap()[1].numbers(), [1.0, 2.0, 3.0]);
    // Corrections of another study are not affected.
    let other = storage.create("other", "{}").unwrap().key;
    add(storage, other, &held(0.0, &worker, LONG));
    finish(storage, other, 0, &worker, 4.0).unwrap();
    assert_eq!(storage.snapshot(other, 0).unwrap().last_correction, None);
    assert!(storage.correct(other, 0, &Told::Value(5.0)).unwrap());
    assert_eq!(storage.corrections(other).unwrap()[0].seq, 1);
    assert_eq!(storage.corrections(study).unwrap().len(), 5);
}

pub(super) fn what_is_discarded_is_free(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let unique = |x: f64| NewTrial { unique: true, ..held(x, &worker, LONG) };
    add(storage, study, &unique(0.5));
    let teller = TellAuthority::Worker(&worker.id);
    storage.report(study, 0, teller, Report { epoch: 1, value: 2.0 }).unwrap();
    finish(storage, study, 0, &worker, 1.0).unwrap();
    let again = storage.add(study, &unique(0.5)).unwrap();
    assert_eq!(again, AddOutcome::Duplicate { number: 0 });
    assert!(storage.correct(study, 0, &Told::Discarded).unwrap());
    assert_eq!(add(storage, study, &unique(0.5)).number, 1);
    let again = storage.add(study, &unique(0.5)).unwrap();
    assert_eq!(again, AddOutcome::Duplicate { number: 1 });
    let trials = storage.trials(study).unwrap();
    assert_eq!((&trials[0].point, trials[0].reports.len()), (&point(0.5), 1));
    assert!(trials[0].is_discarded() && !trials[1].is_discarded());
}
