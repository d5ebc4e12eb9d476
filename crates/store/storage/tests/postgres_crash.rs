//! On PostgreSQL, acknowledged changes also survive, and are made exactly once. The server is
//! killed and restarted while trials are told, processes are killed at any time, connections are
//! cut around a commit, and the server is unreachable.
//!
//! The worker process that is killed is this test binary, started again with a single test.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;
#[path = "postgres_crash/proxy.rs"]
mod proxy;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{acknowledged, batch, new_trial, reports, start, value, work};
use fedbo_storage::{
    AddOutcome, Address, Mode, PostgresStorage, ReportOutcome, Storage, StorageError, StudyKey,
    TellAuthority, TellOutcome, Told, Trial, TrialState, Worker,
};
use fedbo_testkit::postgres::Server;
use fedbo_testkit::test_stream;

use proxy::{Cut, Proxy};

fn open(url: &str, mode: Mode) -> PostgresStorage {
    let Address::Postgres(address) = url.parse().unwrap() else {
        panic!("{url} is no PostgreSQL address");
    };
    PostgresStorage::open(&address, mode).unwrap()
}

/// The process that is killed. Does nothing when run as a test.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    common::child(|url| open(url, Mode::Create));
}

fn check(url: &str, acknowledged: &[u64]) -> Vec<Trial> {
    common::check(&open(url, Mode::Existing), acknowledged)
}

/// Two workers tell trials while the server is killed repeatedly, and notice only a pause. All
/// acknowledged trials are stored. Each call takes effect exactly once, even if interrupted, so
/// there are no other trials.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_server_that_is_killed_amid_tellings_loses_and_doubles_nothing() {
    const N_KILLS: usize = 4;
    let mut server = Server::start();
    let url = server.new_database();
    open(&url, Mode::Create);
    let mut stream = test_stream(30);
    let stop = AtomicBool::new(false);
    let tell = || {
        let storage = open(&url, Mode::Existing);
        let mut told = Vec::new();
        work(&storage, u64::MAX, &stop, |number| told.push(number));
        told
    };
    let known: Vec<_> = std::thread::scope(|scope| {
        let workers = [scope.spawn(tell), scope.spawn(tell)];
        for _ in 0..N_KILLS {
            std::thread::sleep(Duration::from_secs_f64(0.1 + 0.2 * stream.uniform()));
            server.kill_all();
            server.restart();
        }
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert!(known.iter().all(|told| told.len() > N_KILLS), "{known:?}");
    let known = known.concat();
    let trials = check(&url, &known);
    assert_eq!(trials.len(), known.len(), "nothing happened twice");
    assert!(trials.iter().all(|trial| trial.attempts == 1));
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn two_processes_share_one_database_and_one_is_killed() {
    const N_TRIALS: u64 = 150;
    let server = Server::start();
    let url = server.new_database();
    // The processes also race to create the layout.
    let mut children = [0; 3].map(|_| start(&url, N_TRIALS));
    std::thread::sleep(Duration::from_millis(300));
    children[0].kill().unwrap();
    let known = children.each_mut().map(acknowledged);
    assert!(known[1..].iter().all(|part| !part.is_empty()), "{known:?}");
    let known = known.concat();
    let trials = check(&url, &known);
    assert_eq!(trials.len() as u64, N_TRIALS);
    // The kill may have happened between a commit and its acknowledgement, or during an evaluation.
    assert!(known.len() as u64 >= N_TRIALS - 1, "{}", known.len());
    let again = trials.iter().filter(|trial| trial.attempts > 1).count();
    assert!(again <= 1, "{again} trials were evaluated again");
}

/// The connection is cut before the server receives the commit, together with the commit, and
/// before the client receives the response. Each call takes effect exactly once, and its result is
/// the same as without a cut.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_call_whose_connection_is_cut_at_its_commit_happens_once() {
    let server = Server::start();
    for cut in [Cut::BeforeCommit, Cut::WithCommit, Cut::BeforeAnswer] {
        let url = server.new_database();
        let plain = open(&url, Mode::Create);
        let proxy = Proxy::start(server.socket());
        let storage = open(&proxy.url_of(&url), Mode::Existing);
        let worker = Worker::of_this_process();
        let cut_once = || proxy.cut_next(cut);
        let trials = |study: StudyKey| plain.trials(study).unwrap();

        cut_once();
        let study = storage.create("study", "{}").unwrap();
        assert_eq!(plain.studies().unwrap().len(), 1);
        let study = study.key;
        for (number, holder) in [(0, None), (1, Some(&worker))] {
            cut_once();
            let added = storage.add(study, &new_trial(9, holder)).unwrap();
            let AddOutcome::Trial(trial) = added else {
                panic!("{cut:?}: {added:?}");
            };
            assert_eq!(trial.number, number);
            assert_eq!(trials(study).last(), Some(&trial));
            assert_eq!(trials(study).len() as u64, number + 1, "{cut:?}: it is there once");
        }
        cut_once();
        let lease = Some(Duration::from_secs(100));
        let claimed = storage.claim(study, &worker, lease).unwrap().unwrap();
        assert_eq!((claimed.number, claimed.attempts), (0, 1), "{cut:?}");
        assert_eq!(trials(study)[0], claimed);
        cut_once();
        let long = Duration::from_secs(1000);
        storage.renew(study, &worker.id, long).unwrap();
        let TrialState::Running(holding) = &trials(study)[0].state else {
            panic!("trial 0 runs");
        };
        let left = holding.until_ms.unwrap() - claimed.started_at_ms.unwrap();
        assert!(left >= 1_000_000, "{cut:?}: {left} ms");
        let teller = TellAuthority::Worker(&worker.id);
        cut_once();
        let [first, second] = reports(0);
        let reporting = storage.report(study, 0, teller, first).unwrap();
        assert_eq!(reporting, ReportOutcome::New, "{cut:?}");
        assert_eq!(trials(study)[0].reports, [first]);
        cut_once();
        let again = storage.report(study, 0, teller, first).unwrap();
        assert_eq!(again, ReportOutcome::Already, "{cut:?}");
        storage.report(study, 0, teller, second).unwrap();
        cut_once();
        storage.release_trial(study, 0, teller).unwrap();
        assert_eq!(trials(study)[0].state, TrialState::Waiting);
        assert_eq!(trials(study)[0].reports, []);
        cut_once();
        let telling = storage.finish(study, 1, teller, &Told::Value(-0.0)).unwrap();
        assert_eq!(telling, TellOutcome::New { seq: 1 }, "{cut:?}");
        assert_eq!(trials(study)[1].told_seq, Some(1));
        cut_once();
        let again = storage.finish(study, 1, teller, &Told::Value(-0.0)).unwrap();
        assert_eq!(again, TellOutcome::Already);
        cut_once();
        storage.add_told(study, &batch(2, 3)).unwrap();
        let values: Vec<_> = trials(study).iter().skip(2).map(Trial::value).collect();
        assert_eq!(values, [2, 3, 4].map(|number| Some(value(number))), "{cut:?}");
        // Reads are repeated.
        cut_once();
        assert_eq!(storage.trials(study).unwrap(), trials(study));
        assert_eq!(proxy.n_cuts(), 12, "each call was cut");
    }
}

/// The wait for an unreachable server is bounded, and the error states that the change may have
/// taken effect.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_server_that_stays_away_is_an_error_that_says_what_may_have_happened() {
    let mut server = Server::start();
    let url = server.new_database();
    let storage = open(&url, Mode::Create);
    let study = storage.create("study", "{}").unwrap().key;
    let proxy = Proxy::start(server.socket());
    let cut = open(&proxy.url_of(&url), Mode::Existing);
    proxy.cut_next(Cut::BeforeAnswer);
    proxy.refuse_after_cut();
    let begun = Instant::now();
    let wait = |error: StorageError, words: &str| {
        assert!(matches!(error, StorageError::Write { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        let waited = begun.elapsed();
        assert!(waited > Duration::from_secs(5), "{waited:?}");
        assert!(waited < Duration::from_secs(25), "{waited:?}");
    };
    std::thread::scope(|scope| {
        let unsettled = scope.spawn(|| cut.add(study, &new_trial(9, None)).unwrap_err());
        while storage.trials(study).unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill_all();
        wait(storage.add(study, &new_trial(9, None)).unwrap_err(), "the server cannot be reached");
        wait(unsettled.join().unwrap(), "it may or may not have been stored");
    });
    server.restart();
    // The same handle continues to work.
    assert_eq!(storage.trials(study).unwrap().len(), 1);
    storage.add(study, &new_trial(9, None)).unwrap();
}
