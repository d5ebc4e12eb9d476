//! Contract of a storage for studies and their workers.
#![expect(
    clippy::unwrap_used,
    reason = "a storage that fails here violates its contract, and the message describes the violation"
)]

mod corrections;
mod training;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use fedbo_space::{Point, Value};
use fedbo_storage::{
    ATTEMPTS_MAX, AddOutcome, NewTrial, Process, Storage, StorageError, StudyKey, TellAuthority,
    TellOutcome, Told, Trial, TrialState, Worker,
};

const LONG: Option<Duration> = Some(Duration::from_secs(3600));
const SHORT: Duration = Duration::from_millis(40);

type Check = fn(&dyn Storage);

/// Checks the contract of a storage. `make` must return a new, empty storage for each check.
///
/// - Trial numbers have no gaps.
/// - A trial is evaluated by one worker at a time, and its outcome is told once.
/// - Leases expire and can be renewed.
/// - Trials of dead processes are claimed again, and abandoned after too many attempts.
/// - Reports are kept in order and belong to one attempt.
/// - A correction replaces an outcome, which stays stored.
/// - A stop applies to workers that started before it.
/// - Studies are independent.
/// - Every stored bit is preserved.
///
/// # Panics
/// If the storage violates the contract. The message describes the violation.
pub fn storage_contract(make: impl Fn() -> Arc<dyn Storage>) {
    let checks: [(&str, Check); 28] = [
        ("studies are found by name", studies_are_found_by_name),
        ("numbers have no gaps", numbers_have_no_gaps),
        ("what keeps a trial out", what_keeps_a_trial_out),
        ("what has ended elsewhere is there at once", what_has_ended_elsewhere),
        ("claims follow the order of asking", claims_follow_asking),
        ("leases end", leases_end),
        ("leases are renewed", leases_are_renewed),
        ("trials of the gone are free", trials_of_the_gone_are_free),
        ("a trial is given up", a_trial_is_given_up),
        ("what is given back waits", what_is_given_back_waits),
        ("telling twice", telling_twice),
        ("who may tell", who_may_tell),
        ("what a person may tell", what_a_person_may_tell),
        ("what is not there", what_is_not_there),
        ("snapshots go on", snapshots_go_on),
        ("studies are apart", studies_are_apart),
        ("every bit is kept", every_bit_is_kept),
        ("further numbers are kept", further_numbers_are_kept),
        ("missing numbers are kept", missing_numbers_are_kept),
        ("a correction replaces an outcome", corrections::a_correction_replaces_an_outcome),
        ("what is discarded is free", corrections::what_is_discarded_is_free),
        ("only finite numbers", only_finite_numbers),
        ("stops are heeded", stops_are_heeded),
        ("reports ascend", training::reports_ascend),
        ("who may report", training::who_may_report),
        ("reports go with their attempt", training::reports_go_with_their_attempt),
        ("what is stopped has no value", training::what_is_stopped_has_no_value),
        ("every bit of a report is kept", training::every_bit_of_a_report_is_kept),
    ];
    for (name, check) in checks {
        let storage = make();
        // The captured output of a failed test ends with the name of the failed check.
        eprintln!("storage contract: {name}");
        check(&*storage);
    }
    many_threads(make());
}

fn study(storage: &dyn Storage) -> StudyKey {
    storage.create("study", "{}").unwrap().key
}

fn point(x: f64) -> Point {
    Point::new(vec![("x".to_owned(), Value::Float(x))])
}

/// Creates a waiting trial at x without conditions.
fn new_trial(x: f64) -> NewTrial {
    NewTrial {
        ask_seconds: 0.25,
        ..NewTrial::new(x.to_bits().to_le_bytes().to_vec(), point(x), "own")
    }
}

fn held(x: f64, worker: &Worker, lease: Option<Duration>) -> NewTrial {
    NewTrial { holder: Some((worker.clone(), lease)), ..new_trial(x) }
}

fn add(storage: &dyn Storage, study: StudyKey, new: &NewTrial) -> Trial {
    match storage.add(study, new).unwrap() {
        AddOutcome::Trial(trial) => trial,
        other => panic!("not added: {other:?}"),
    }
}

fn finish(
    storage: &dyn Storage,
    study: StudyKey,
    number: u64,
    worker: &Worker,
    value: f64,
) -> Result<TellOutcome, StorageError> {
    let teller = TellAuthority::Worker(&worker.id);
    storage.finish(study, number, teller, &Told::Value(value))
}

fn holder(trial: &Trial) -> Option<&Worker> {
    match &trial.state {
        TrialState::Running(holding) => Some(&holding.worker),
        _ => None,
    }
}

/// Returns a worker of a process that has exited, or `None` on systems without process identities.
fn gone() -> Option<Worker> {
    let process = Process::current()?;
    let mut child = std::process::Command::new("true").spawn().ok()?;
    let pid = child.id();
    child.wait().ok()?;
    let process = Some(Process { pid, ..process });
    let id = format!("gone {pid}");
    let worker = Worker { id, process };
    assert!(worker.is_gone());
    Some(worker)
}

fn studies_are_found_by_name(storage: &dyn Storage) {
    assert_eq!(storage.studies().unwrap(), []);
    let names = ["b", "a", "", "Größe 🜛 \"'; --", "a\0b", "A"];
    let records: Vec<_> =
        names.iter().map(|name| storage.create(name, "{\"first\": 1}").unwrap()).collect();
    assert_eq!(storage.studies().unwrap(), records, "in the order of creation");
    for (name, record) in names.iter().zip(&records) {
        assert_eq!((record.name.as_str(), record.definition.as_str()), (*name, "{\"first\": 1}"));
        let again = storage.create(name, "{\"second\": 2}").unwrap();
        assert_eq!(&again, record, "the first definition stays");
    }
    let keys: BTreeSet<_> = records.iter().map(|record| record.key.0).collect();
    assert_eq!(keys.len(), names.len());
}

fn numbers_have_no_gaps(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for number in 0..5 {
        let new = match number % 2 {
            0 => new_trial(f64::from(number)),
            _ => held(f64::from(number), &worker, None),
        };
        let trial = add(storage, study, &new);
        assert_eq!(trial.number, u64::try_from(number).unwrap());
        assert_eq!((trial.point.clone(), trial.source.as_str()), (new.point, "own"));
        assert_eq!(trial.ask_seconds.to_bits(), 0.25_f64.to_bits());
        assert_eq!((trial.told_at_ms, trial.told_seq), (None, None));
        match number % 2 {
            0 => {
                assert_eq!(trial.state, TrialState::Waiting);
                assert_eq!((trial.attempts, trial.started_at_ms), (0, None));
            }
            _ => {
                assert_eq!(holder(&trial), Some(&worker));
                assert_eq!(trial.attempts, 1);
                assert_eq!(trial.started_at_ms, Some(trial.asked_at_ms));
            }
        }
        assert!(trial.asked_at_ms > 1_600_000_000_000, "milliseconds since 1970");
        assert_eq!(
            storage.trials(study).unwrap().last(),
            Some(&trial),
            "it reads back as it was returned"
        );
    }
}

fn what_keeps_a_trial_out(storage: &dyn Storage) {
    let study = study(storage);
    let numbered = |number, x| NewTrial { number: Some(number), ..new_trial(x) };
    assert_eq!(
        storage.add(study, &numbered(1, 0.0)).unwrap(),
        AddOutcome::Overtaken,
        "not yet due"
    );
    assert_eq!(add(storage, study, &numbered(0, 0.0)).number, 0);
    assert_eq!(storage.add(study, &numbered(0, 1.0)).unwrap(), AddOutcome::Overtaken);
    let unique = |x| NewTrial { unique: true, ..new_trial(x) };
    assert_eq!(add(storage, study, &new_trial(0.0)).number, 1);
    assert_eq!(
        storage.add(study, &unique(0.0)).unwrap(),
        AddOutcome::Duplicate { number: 0 },
        "the first trial with this encoding"
    );
    assert_eq!(add(storage, study, &unique(1.0)).number, 2);
    let limited = |limit| NewTrial { limit: Some(limit), ..unique(0.0) };
    assert_eq!(storage.add(study, &limited(3)).unwrap(), AddOutcome::Full);
    assert_eq!(storage.add(study, &limited(0)).unwrap(), AddOutcome::Full);
    assert_eq!(storage.add(study, &limited(4)).unwrap(), AddOutcome::Duplicate { number: 0 });
    assert_eq!(storage.trials(study).unwrap().len(), 3, "what is refused leaves nothing");
}

/// Checks that a list is added completely and in order, after the existing trials, or not at all.
fn what_has_ended_elsewhere(storage: &dyn Storage) {
    let (study, by_hand) = (study(storage), Worker::by_hand());
    let asked = add(storage, study, &new_trial(0.0));
    let ended = |x: f64, told: Told| (held(x, &by_hand, None), told);
    let failed = Told::Failed { kind: "reported".to_owned(), message: "cold".to_owned() };
    storage
        .add_told(
            study,
            &[
                ended(0.25, Told::Value(3.0)),
                ended(0.25, Told::Numbers(vec![1.0, -2.0])),
                ended(0.75, failed.clone()),
            ],
        )
        .unwrap();
    let snapshot = storage.snapshot(study, 0).unwrap();
    assert_eq!((snapshot.n_trials, snapshot.open.len()), (4, 1));
    let found: Vec<_> =
        snapshot.told.iter().map(|trial| (trial.number, trial.told_seq, trial.told())).collect();
    let numbers = Told::Numbers(vec![1.0, -2.0]);
    assert_eq!(
        found,
        [
            (1, Some(1), Some(&Told::Value(3.0))),
            (2, Some(2), Some(&numbers)),
            (3, Some(3), Some(&failed))
        ]
    );
    // The result is the same as if each trial had been asked for and told separately.
    let alone = add(storage, study, &held(0.25, &by_hand, None)).number;
    storage.finish(study, alone, TellAuthority::Hand, &Told::Value(3.0)).unwrap();
    let trials = storage.trials(study).unwrap();
    let (one, of_list) = (&trials[4], &trials[1]);
    assert_eq!(
        (&one.state, one.attempts, &one.source, &one.point),
        (&of_list.state, of_list.attempts, &of_list.source, &of_list.point)
    );
    let other = Worker::of_this_process();
    let refused = |bad: (NewTrial, Told)| {
        storage.add_told(study, &[ended(0.5, Told::Value(1.0)), bad]).unwrap_err()
    };
    for bad in [ended(f64::NAN, Told::Value(1.0)), ended(0.5, Told::Value(f64::INFINITY))] {
        assert!(matches!(refused(bad), StorageError::NotFinite { .. }));
    }
    let somebodys = refused((held(0.5, &other, None), Told::Value(1.0)));
    assert!(matches!(somebodys, StorageError::NotHeld { .. }), "{somebodys:?}");
    let stopped = Told::Stopped { epoch: 1, value: 1.0, because: String::new() };
    let stopped = refused((new_trial(0.5), stopped));
    assert!(matches!(stopped, StorageError::NotReported { .. }), "{stopped:?}");
    storage.add_told(study, &[]).unwrap();
    assert_eq!(storage.trials(study).unwrap().len(), 5, "what is refused leaves nothing");
    assert_eq!(
        storage.claim(study, &other, None).unwrap().map(|trial| trial.number),
        Some(asked.number)
    );
}

fn claims_follow_asking(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    assert_eq!(storage.claim(study, &worker, LONG).unwrap(), None);
    add(storage, study, &new_trial(0.0));
    add(storage, study, &held(1.0, &other, None));
    add(storage, study, &new_trial(2.0));
    let first = storage.claim(study, &worker, LONG).unwrap().unwrap();
    assert_eq!((first.number, first.attempts), (0, 1));
    assert_eq!(holder(&first), Some(&worker));
    assert!(first.started_at_ms.unwrap() >= first.asked_at_ms);
    assert_eq!(storage.trials(study).unwrap()[0], first);
    let second = storage.claim(study, &worker, None).unwrap().unwrap();
    assert_eq!(second.number, 2, "trial 1 is somebody's");
    assert_eq!(storage.claim(study, &worker, LONG).unwrap(), None);
}

fn leases_end(storage: &dyn Storage) {
    let (study, late) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &held(0.0, &late, Some(SHORT)));
    add(storage, study, &held(1.0, &late, Some(SHORT)));
    add(storage, study, &held(2.0, &late, LONG));
    std::thread::sleep(2 * SHORT);
    let taken = storage.claim(study, &other, LONG).unwrap().unwrap();
    assert_eq!((taken.number, taken.attempts), (0, 2));
    assert!(matches!(
        finish(storage, study, 0, &late, 1.0),
        Err(StorageError::NotHeld { number: 0, .. })
    ));
    finish(storage, study, 0, &other, 2.0).unwrap();
    // No other worker claimed trial 1, so the late value is accepted.
    finish(storage, study, 1, &late, 3.0).unwrap();
    assert_eq!(storage.claim(study, &other, LONG).unwrap(), None, "the lease of trial 2 lasts");
    let trials = storage.trials(study).unwrap();
    let values: Vec<_> = trials.iter().map(Trial::value).collect();
    assert_eq!(values, [Some(2.0), Some(3.0), None]);
}

fn leases_are_renewed(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &held(0.0, &worker, Some(SHORT)));
    add(storage, study, &held(1.0, &other, Some(SHORT)));
    add(storage, study, &held(2.0, &worker, None));
    storage.renew(study, &worker.id, LONG.unwrap()).unwrap();
    storage.renew(study, "nobody", LONG.unwrap()).unwrap();
    storage.renew(study, &worker.id, SHORT).unwrap();
    std::thread::sleep(2 * SHORT);
    let taken = storage.claim(study, &other, LONG).unwrap().unwrap();
    assert_eq!(taken.number, 1, "trial 0 was renewed, and a shorter renewal takes nothing away");
    let trials = storage.trials(study).unwrap();
    let TrialState::Running(holding) = &trials[2].state else {
        panic!("trial 2 runs");
    };
    assert_eq!(holding.until_ms, None, "without a lease there is no end");
    assert_eq!(trials[0].attempts, 1);
}

fn trials_of_the_gone_are_free(storage: &dyn Storage) {
    let Some(gone) = gone() else { return };
    let (study, worker) = (study(storage), Worker::of_this_process());
    add(storage, study, &held(0.0, &gone, None));
    add(storage, study, &held(1.0, &gone, LONG));
    let elsewhere = Worker {
        id: "elsewhere".to_owned(),
        process: gone
            .process
            .map(|process| Process { machine: "another boot".to_owned(), ..process }),
    };
    add(storage, study, &held(2.0, &elsewhere, None));
    for number in [0, 1] {
        let trial = storage.claim(study, &worker, LONG).unwrap().unwrap();
        assert_eq!((trial.number, trial.attempts), (number, 2));
    }
    assert_eq!(
        storage.claim(study, &worker, LONG).unwrap(),
        None,
        "nothing is known of other machines"
    );
}

fn a_trial_is_given_up(storage: &dyn Storage) {
    let Some(gone) = gone() else { return };
    let (study, worker) = (study(storage), Worker::of_this_process());
    add(storage, study, &new_trial(0.0));
    add(storage, study, &new_trial(1.0));
    for attempt in 1..=ATTEMPTS_MAX {
        let trial = storage.claim(study, &gone, None).unwrap().unwrap();
        assert_eq!((trial.number, trial.attempts), (0, attempt));
    }
    let next = storage.claim(study, &worker, None).unwrap().unwrap();
    assert_eq!(next.number, 1, "trial 0 was begun often enough");
    let trial = storage.trials(study).unwrap().swap_remove(0);
    let Some(Told::Failed { kind, .. }) = trial.told() else {
        panic!("{trial:?}");
    };
    assert_eq!((kind.as_str(), trial.told_seq), ("abandoned", Some(1)));
    assert!(trial.told_at_ms.is_some());
    assert!(matches!(
        finish(storage, study, 0, &gone, 1.0),
        Err(StorageError::ToldOtherwise { number: 0, .. })
    ));
    let telling = finish(storage, study, 1, &worker, 1.0).unwrap();
    assert_eq!(telling, TellOutcome::New { seq: 2 });
}

fn what_is_given_back_waits(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &held(0.0, &worker, LONG));
    let by = |worker: &Worker| storage.release_trial(study, 0, TellAuthority::Worker(&worker.id));
    assert!(matches!(by(&other), Err(StorageError::NotHeld { .. })));
    for _ in 0..2 * ATTEMPTS_MAX {
        by(&worker).unwrap();
        let trial = storage.trials(study).unwrap().swap_remove(0);
        assert_eq!(trial.state, TrialState::Waiting);
        assert_eq!((trial.attempts, trial.started_at_ms), (0, None));
        assert!(matches!(by(&worker), Err(StorageError::NotHeld { .. })));
        let again = storage.claim(study, &worker, LONG).unwrap().unwrap();
        assert_eq!(again.attempts, 1, "what is given back does not count as begun");
    }
    finish(storage, study, 0, &worker, 1.0).unwrap();
    assert!(matches!(by(&worker), Err(StorageError::ToldOtherwise { .. })));
}

fn telling_twice(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let failed =
        |message: &str| Told::Failed { kind: "exit".to_owned(), message: message.to_owned() };
    add(storage, study, &held(0.0, &worker, LONG));
    add(storage, study, &held(1.0, &worker, LONG));
    let tell = |number, told: &Told| {
        storage.finish(study, number, TellAuthority::Worker(&worker.id), told)
    };
    let long = "line\n".repeat(5000);
    assert_eq!(tell(1, &failed(&long)).unwrap(), TellOutcome::New { seq: 1 });
    assert_eq!(tell(1, &failed(&long)).unwrap(), TellOutcome::Already);
    assert_eq!(tell(0, &Told::Value(0.0)).unwrap(), TellOutcome::New { seq: 2 });
    let before = storage.trials(study).unwrap();
    assert_eq!(tell(0, &Told::Value(0.0)).unwrap(), TellOutcome::Already);
    let by_hand = storage.finish(study, 0, TellAuthority::Hand, &Told::Value(0.0));
    assert_eq!(by_hand.unwrap(), TellOutcome::Already, "whoever says it");
    for (number, other) in
        [(0, Told::Value(-0.0)), (0, failed("")), (1, failed("another")), (1, Told::Value(0.0))]
    {
        assert!(
            matches!(tell(number, &other), Err(StorageError::ToldOtherwise { .. })),
            "trial {number}: {other}"
        );
    }
    assert_eq!(storage.trials(study).unwrap(), before, "telling again changes nothing");
    assert_eq!(before[1].told(), Some(&failed(&long)));
    assert!(before.iter().all(|trial| holder(trial).is_none()));
    assert!(before.iter().all(|trial| trial.told_at_ms.is_some()));
    assert!(before.iter().all(|trial| trial.started_at_ms.is_some()));
}

fn who_may_tell(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let other = Worker::of_this_process();
    add(storage, study, &new_trial(0.0));
    add(storage, study, &held(1.0, &worker, LONG));
    for (number, by) in [(0, &worker), (1, &other)] {
        assert!(matches!(
            finish(storage, study, number, by, 1.0),
            Err(StorageError::NotHeld { .. })
        ));
    }
    let told = storage.trials(study).unwrap();
    assert!(told.iter().all(|trial| trial.told().is_none()));
}

fn what_a_person_may_tell(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let by_hand = |number| storage.finish(study, number, TellAuthority::Hand, &Told::Value(1.0));
    add(storage, study, &new_trial(0.0));
    add(storage, study, &held(1.0, &Worker::by_hand(), None));
    add(storage, study, &held(2.0, &worker, Some(SHORT)));
    let leased = add(storage, study, &held(3.0, &worker, LONG)).number;
    by_hand(0).unwrap();
    by_hand(1).unwrap();
    std::thread::sleep(2 * SHORT);
    by_hand(2).unwrap();
    assert!(matches!(by_hand(leased), Err(StorageError::NotHeld { .. })));
    let Some(gone) = gone() else { return };
    // A process that is known to be alive keeps its trial with or without a lease. A process that
    // cannot be verified keeps it only with a lease.
    let lives = add(storage, study, &held(4.0, &worker, None)).number;
    assert!(matches!(by_hand(lives), Err(StorageError::NotHeld { .. })));
    let elsewhere = Worker {
        id: "elsewhere".to_owned(),
        process: gone
            .process
            .clone()
            .map(|process| Process { machine: "another boot".to_owned(), ..process }),
    };
    let unknown = add(storage, study, &held(5.0, &elsewhere, None)).number;
    by_hand(unknown).unwrap();
    let leased = add(storage, study, &held(6.0, &elsewhere, LONG)).number;
    assert!(matches!(by_hand(leased), Err(StorageError::NotHeld { .. })));
    let free = add(storage, study, &held(7.0, &gone, LONG)).number;
    storage.release_trial(study, free, TellAuthority::Hand).unwrap();
    by_hand(free).unwrap();
}

fn what_is_not_there(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let nowhere = StudyKey(study.0 + 1000);
    let no_study = StorageError::NoStudy { key: nowhere };
    let teller = TellAuthority::Worker(&worker.id);
    let told = Told::Value(1.0);
    assert_eq!(storage.trials(nowhere).unwrap_err(), no_study);
    assert_eq!(storage.snapshot(nowhere, 0).unwrap_err(), no_study);
    assert_eq!(storage.add(nowhere, &new_trial(0.0)).unwrap_err(), no_study);
    assert_eq!(storage.claim(nowhere, &worker, LONG).unwrap_err(), no_study);
    assert_eq!(storage.renew(nowhere, &worker.id, SHORT).unwrap_err(), no_study);
    assert_eq!(storage.finish(nowhere, 0, teller, &told).unwrap_err(), no_study);
    assert_eq!(storage.release_trial(nowhere, 0, teller).unwrap_err(), no_study);
    add(storage, study, &new_trial(0.0));
    for number in [1, u64::MAX] {
        let no_trial = StorageError::NoTrial { number, n_trials: 1 };
        assert_eq!(storage.finish(study, number, teller, &told).unwrap_err(), no_trial);
        assert_eq!(
            storage.release_trial(study, number, TellAuthority::Hand).unwrap_err(),
            no_trial
        );
    }
}

fn snapshots_go_on(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for x in 0..6 {
        add(storage, study, &held(f64::from(x), &worker, LONG));
    }
    add(storage, study, &new_trial(6.0));
    let numbers = |trials: &[Trial]| trials.iter().map(|t| t.number).collect::<Vec<_>>();
    for number in [4, 1, 3] {
        finish(storage, study, number, &worker, 0.5).unwrap();
    }
    let first = storage.snapshot(study, 0).unwrap();
    assert_eq!(numbers(&first.told), [4, 1, 3], "in the order of telling");
    let seqs: Vec<_> = first.told.iter().map(|trial| trial.told_seq).collect();
    assert_eq!(seqs, [Some(1), Some(2), Some(3)]);
    assert_eq!(numbers(&first.open), [0, 2, 5, 6], "in the order of asking");
    assert_eq!(first.n_trials, 7);
    finish(storage, study, 0, &worker, 0.5).unwrap();
    let next = storage.snapshot(study, 3).unwrap();
    assert_eq!(numbers(&next.told), [0], "from where the last one ended");
    assert_eq!(numbers(&next.open), [2, 5, 6]);
    for after in [4, 5, u64::MAX] {
        assert_eq!(storage.snapshot(study, after).unwrap().told, []);
    }
}

fn stops_are_heeded(storage: &dyn Storage) {
    let (first, worker) = (study(storage), Worker::of_this_process());
    let other = storage.create("other", "{}").unwrap().key;
    let claim = |study, known| storage.claim_unless_stopped(study, &worker, LONG, known).unwrap();
    let tried = |study, known| storage.add_unless_stopped(study, &new_trial(0.5), known).unwrap();
    add(storage, first, &new_trial(0.0));
    assert_eq!(storage.last_stop(first).unwrap(), None, "nobody has stopped it");
    let begun = claim(first, Some(0)).continue_value().flatten().unwrap();
    let stop = storage.stop(first, "fedbo stop \u{1f6dc} '\0").unwrap();
    assert_eq!((stop.seq, stop.by.as_str()), (1, "fedbo stop \u{1f6dc} '\0"));
    assert!(stop.at_ms >= begun.started_at_ms.unwrap(), "by the storage's clock");
    assert_eq!(storage.last_stop(first).unwrap(), Some(stop.clone()));
    assert_eq!(claim(first, Some(0)), ControlFlow::Break(stop.clone()), "nothing is taken");
    assert_eq!(tried(first, Some(0)), ControlFlow::Break(stop), "nothing is added");
    assert_eq!(storage.trials(first).unwrap(), [begun], "no trial has changed");
    // A running trial can still be told. The stop does not affect later workers, workers that
    // ignore stops, or other studies.
    finish(storage, first, 0, &worker, 1.0).unwrap();
    add(storage, first, &new_trial(1.0));
    assert!(matches!(tried(first, Some(1)), ControlFlow::Continue(AddOutcome::Trial(_))));
    assert_eq!(claim(first, Some(1)).continue_value().flatten().unwrap().number, 1);
    assert_eq!(storage.claim(first, &worker, LONG).unwrap().unwrap().number, 2);
    assert_eq!(storage.last_stop(other).unwrap(), None);
    assert_eq!(claim(other, Some(0)), ControlFlow::Continue(None));
    let again = storage.stop(first, "again").unwrap();
    assert_eq!((again.seq, storage.stop(other, "other").unwrap().seq), (2, 1));
    assert_eq!(claim(first, Some(1)), ControlFlow::Break(again));
    let absent = StudyKey(i64::MAX);
    assert!(matches!(storage.stop(absent, ""), Err(StorageError::NoStudy { .. })));
    assert!(matches!(storage.last_stop(absent), Err(StorageError::NoStudy { .. })));
}

fn studies_are_apart(storage: &dyn Storage) {
    let worker = Worker::of_this_process();
    let keys: Vec<_> =
        ["a", "b", "c"].iter().map(|name| storage.create(name, "{}").unwrap().key).collect();
    for (round, &key) in keys.iter().enumerate() {
        for number in 0..=round as u64 {
            let new = NewTrial {
                unique: true,
                number: Some(number),
                limit: Some(number + 1),
                ..held(f64::from(u8::try_from(number).unwrap()), &worker, Some(SHORT))
            };
            assert_eq!(add(storage, key, &new).number, number);
        }
    }
    finish(storage, keys[1], 1, &worker, 1.0).unwrap();
    let told = finish(storage, keys[2], 0, &worker, 1.0).unwrap();
    assert_eq!(told, TellOutcome::New { seq: 1 });
    storage.renew(keys[0], &worker.id, LONG.unwrap()).unwrap();
    std::thread::sleep(2 * SHORT);
    let other = Worker::of_this_process();
    let claim = |key| storage.claim(key, &other, LONG).unwrap();
    assert_eq!(claim(keys[0]), None, "renewed");
    assert_eq!(claim(keys[1]).unwrap().number, 0);
    assert_eq!(claim(keys[2]).unwrap().number, 1);
    let counts: Vec<_> = keys
        .iter()
        .map(|key| {
            let snapshot = storage.snapshot(*key, 0).unwrap();
            (snapshot.n_trials, snapshot.told.len())
        })
        .collect();
    assert_eq!(counts, [(1, 0), (2, 1), (3, 1)]);
}

/// Checks that a number can be missing if another one is there, is NaN when it is read, and can be
/// corrected in both directions.
fn missing_numbers_are_kept(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for x in [0.0, 1.0, 2.0] {
        add(storage, study, &held(x, &worker, LONG));
    }
    let told = [
        Told::Numbers(vec![f64::NAN, 0.0, 1e300]),
        Told::Numbers(vec![-0.0, f64::NAN, f64::NAN]),
        Told::Numbers(vec![1.0, 2.0, 3.0]),
    ];
    let tell = |number: u64, told: &Told| {
        storage.finish(study, number, TellAuthority::Worker(&worker.id), told)
    };
    for (number, told) in (0..).zip(&told) {
        assert!(matches!(tell(number, told), Ok(TellOutcome::New { .. })));
        assert_eq!(tell(number, told).unwrap(), TellOutcome::Already);
    }
    let refused = tell(0, &Told::Numbers(vec![0.0, 0.0, 1e300]));
    assert!(matches!(refused, Err(StorageError::ToldOtherwise { number: 0, .. })));
    let trials = storage.trials(study).unwrap();
    let stored: Vec<_> = trials.iter().filter_map(|trial| trial.told().cloned()).collect();
    assert_eq!(stored, told);
    assert_eq!(storage.snapshot(study, 0).unwrap().told, trials);
    assert_eq!((trials[0].value(), trials[0].state.word()), (None, "complete"));
    assert_eq!(trials[1].value().map(f64::to_bits), Some((-0.0_f64).to_bits()));
    let now = [
        Told::Numbers(vec![4.0, 0.0, 1e300]),
        Told::Numbers(vec![f64::NAN, 5.0, f64::NAN]),
        Told::Numbers(vec![1.0, 2.0, f64::NAN]),
    ];
    for (number, told) in (0..).zip(&now) {
        assert!(storage.correct(study, number, told).unwrap());
        assert!(!storage.correct(study, number, told).unwrap());
    }
    let trials = storage.trials(study).unwrap();
    let stored: Vec<_> = trials.iter().filter_map(|trial| trial.told().cloned()).collect();
    assert_eq!(stored, now);
    let corrections = storage.corrections(study).unwrap();
    let before: Vec<_> = corrections.into_iter().map(|each| each.before).collect();
    assert_eq!(before, told);
}

/// Checks that additional numbers are stored bit by bit and in order, and are part of the told
/// result.
fn further_numbers_are_kept(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    for x in [0.0, 1.0, 2.0, 3.0] {
        add(storage, study, &held(x, &worker, LONG));
    }
    let tell = |number, told: &Told| {
        storage.finish(study, number, TellAuthority::Worker(&worker.id), told)
    };
    let numbers = Told::Numbers(vec![0.1, -0.0, 5e-324, 1e300, 0.1]);
    assert_eq!(tell(2, &Told::Value(9.0)).unwrap(), TellOutcome::New { seq: 1 });
    assert_eq!(tell(1, &numbers).unwrap(), TellOutcome::New { seq: 2 });
    let two = Told::Numbers(vec![-3.0, 0.0]);
    assert_eq!(tell(0, &two).unwrap(), TellOutcome::New { seq: 3 });
    assert_eq!(tell(0, &two).unwrap(), TellOutcome::Already);
    for other in [vec![-3.0, -0.0], vec![-3.0], vec![-3.0, 0.0, 0.0], vec![3.0, 0.0]] {
        let refused = tell(0, &Told::with_numbers(other));
        assert!(matches!(refused, Err(StorageError::ToldOtherwise { number: 0, .. })));
    }
    for numbers in [vec![1.0, 2.0, f64::INFINITY], vec![f64::NAN, f64::NAN]] {
        let refused = tell(3, &Told::Numbers(numbers));
        assert!(matches!(refused, Err(StorageError::NotFinite { .. })), "{refused:?}");
    }
    let trials = storage.trials(study).unwrap();
    let bits = |numbers: &[f64]| numbers.iter().map(|each| each.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(trials[1].numbers()), bits(&[0.1, -0.0, 5e-324, 1e300, 0.1]));
    assert_eq!((trials[1].value(), trials[1].state.word()), (Some(0.1), "complete"));
    assert_eq!((trials[2].numbers(), trials[0].numbers()), (&[9.0][..], &[-3.0, 0.0][..]));
    assert_eq!(trials[3].numbers(), [0.0; 0]);
    let told = storage.snapshot(study, 1).unwrap().told;
    assert_eq!(told, [trials[1].clone(), trials[0].clone()]);
    // Trials with the same numbers in another study are not affected.
    let other = storage.create("other", "{}").unwrap().key;
    add(storage, other, &held(0.0, &worker, LONG));
    finish(storage, other, 0, &worker, 4.0).unwrap();
    assert_eq!(storage.trials(other).unwrap()[0].numbers(), [4.0]);
}

fn every_bit_is_kept(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    let values = [
        0.0,
        -0.0,
        1.0,
        -3.0,
        0.1,
        1e308,
        f64::MAX,
        f64::MIN,
        5e-324,
        -5e-324,
        f64::MIN_POSITIVE,
        1.0 / 3.0,
        9_007_199_254_740_993.0,
        1e22,
        1e300 / 7.0,
        2.225_073_858_507_201e-308,
        123_456_789.012_345_67,
    ];
    let mut stream = crate::test_stream(8);
    let random = (0..64).map(|_| {
        let (high, low) = (u64::from(stream.bits()), u64::from(stream.bits()));
        f64::from_bits((high << 32) | low)
    });
    let values: Vec<f64> =
        values.into_iter().chain(random.filter(|value| value.is_finite())).collect();
    for (index, &value) in values.iter().enumerate() {
        let point = Point::new(vec![
            ("Größe \"x\"\n🜛".to_owned(), Value::Float(value)),
            ("n".to_owned(), Value::Int(i64::MIN + index as i64)),
            ("m".to_owned(), Value::Int(i64::MAX)),
            ("kernel".to_owned(), Value::Choice("matérn '5/2'\0".to_owned())),
            ("number".to_owned(), Value::Choice("1.5".to_owned())),
            ("".to_owned(), Value::Choice(String::new())),
        ]);
        let new = NewTrial {
            point: point.clone(),
            encoding: vec![0, 255, u8::try_from(index).unwrap()],
            source: "quelle 🜛".to_owned(),
            ..held(value, &worker, LONG)
        };
        let number = add(storage, study, &new).number;
        finish(storage, study, number, &worker, value).unwrap();
        assert_eq!(finish(storage, study, number, &worker, value).unwrap(), TellOutcome::Already);
        let stored = storage.snapshot(study, number).unwrap().told.swap_remove(0);
        assert_eq!(stored.source, "quelle 🜛");
        assert_eq!(stored.value().unwrap().to_bits(), value.to_bits(), "value {value:?}");
        // Equal as debug text, which distinguishes −0.0 from 0.0 and 1 from 1.0, and equal bit by
        // bit.
        let text = |point: &Point| format!("{point:?}");
        assert_eq!(text(&stored.point), text(&point));
        let Some((_, Value::Float(x))) = stored.point.iter().next() else {
            panic!("the first parameter is a float");
        };
        assert_eq!(x.to_bits(), value.to_bits(), "parameter {value:?}");
    }
}

fn only_finite_numbers(storage: &dyn Storage) {
    let (study, worker) = (study(storage), Worker::of_this_process());
    add(storage, study, &held(0.0, &worker, LONG));
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(
            finish(storage, study, 0, &worker, value),
            Err(StorageError::NotFinite { .. })
        ));
        assert!(matches!(
            storage.add(study, &new_trial(value)),
            Err(StorageError::NotFinite { .. })
        ));
    }
    let trial = NewTrial { ask_seconds: f64::NAN, ..new_trial(1.0) };
    assert_eq!(
        add(storage, study, &trial).ask_seconds.to_bits(),
        0,
        "a time that is no number is none"
    );
    assert_eq!(storage.snapshot(study, 0).unwrap().open.len(), 2);
}

/// Lets eight threads add, claim and finish trials until there are 400. No trial may be lost or
/// evaluated twice.
fn many_threads(storage: Arc<dyn Storage>) {
    const N_TRIALS: u64 = 400;
    let study = study(&*storage);
    let value = |number: u64| f64::from(u32::try_from(number).unwrap()) / 7.0;
    let work = |thread: u64| {
        let (storage, worker) = (Arc::clone(&storage), Worker::of_this_process());
        let mut told = Vec::new();
        let tell = |number: u64| {
            let telling = finish(&*storage, study, number, &worker, value(number));
            assert!(matches!(telling, Ok(TellOutcome::New { .. })), "{telling:?}");
            number
        };
        let mut known = 0;
        for round in thread.. {
            // Alternate between a trial that this worker holds, a trial for any worker, and a trial
            // that must get the next number.
            let new = NewTrial {
                holder: (round % 3 != 1).then(|| (worker.clone(), LONG)),
                number: (round % 3 == 2).then_some(known),
                limit: Some(N_TRIALS),
                unique: true,
                encoding: [thread, round].map(u64::to_le_bytes).concat(),
                ..new_trial(f64::from(u32::try_from(round).unwrap()))
            };
            match storage.add(study, &new).unwrap() {
                AddOutcome::Trial(trial) if holder(&trial).is_some() => {
                    told.push(tell(trial.number))
                }
                AddOutcome::Trial(_) => {}
                AddOutcome::Overtaken => {
                    known = storage.snapshot(study, N_TRIALS).unwrap().n_trials
                }
                AddOutcome::Full => break,
                AddOutcome::Duplicate { number } => panic!("there is no trial like {number}"),
            }
            if round % 3 == 0
                && let Some(trial) = storage.claim(study, &worker, LONG).unwrap()
            {
                told.push(tell(trial.number));
            }
        }
        while let Some(trial) = storage.claim(study, &worker, LONG).unwrap() {
            told.push(tell(trial.number));
        }
        told
    };
    eprintln!("storage contract: many threads");
    let told: Vec<u64> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || work(n))).collect();
        let results = threads.into_iter().map(|thread| thread.join());
        results.flat_map(|told| told.unwrap()).collect()
    });
    let trials = storage.trials(study).unwrap();
    let numbers: Vec<_> = trials.iter().map(|trial| trial.number).collect();
    let expected: Vec<_> = (0..N_TRIALS).collect();
    assert_eq!(numbers, expected, "numbers");
    let mut once = told;
    once.sort_unstable();
    assert_eq!(once, expected, "each trial is told once");
    let mut seqs: Vec<_> = trials.iter().filter_map(|trial| trial.told_seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=N_TRIALS).collect::<Vec<_>>(), "places in telling");
    for trial in &trials {
        let expected = value(trial.number).to_bits();
        assert_eq!(trial.value().map(f64::to_bits), Some(expected));
        assert_eq!(trial.attempts, 1, "trial {} was taken twice", trial.number);
    }
    let snapshot = storage.snapshot(study, 0).unwrap();
    assert!(snapshot.open.is_empty());
    assert!(snapshot.told.is_sorted_by_key(|trial| trial.told_seq));
}
