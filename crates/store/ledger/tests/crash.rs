//! INV-1, INV-2, INV-17: releases of a killed process are charged and keep their bytes.
//!
//! The process that commits and is killed is this test binary, started again with a single test.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{charter, event};
use fedbo_ledger::{Ledger, LedgerError, read, verify};
use fedbo_streams::{Purpose, Seed};
use fedbo_testkit::again::{self, given_folder};

/// Returns bytes that no other process would generate for this round, like a release with fresh
/// noise.
fn fresh_release(round: u64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = u64::try_from(now.as_nanos() % u128::from(u64::MAX)).unwrap();
    let mut stream = Seed::new(seed).stream(Purpose::TEST, u64::from(std::process::id()), round);
    let n_bytes = 100 + stream.below(9000);
    (0..n_bytes).map(|_| u8::try_from(stream.below(256)).unwrap()).collect()
}

/// Returns a short fingerprint of some bytes.
fn print(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{sum:016x}")
}

/// The process that is killed. Does nothing when run as a test.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let Some(folder) = given_folder() else { return };
    let path = folder.join("ledger.db");
    let mut ledger = match path.exists() {
        true => Ledger::open(&path, &charter()).unwrap(),
        false => Ledger::create(&path, &charter()).unwrap(),
    };
    for round in ledger.last_round().map_or(0, |last| last + 1).. {
        let release = fresh_release(round);
        ledger.admits(&event(1.5), 1).unwrap();
        ledger.commit(round, &event(1.5), &release).unwrap();
        // This represents sending the first byte.
        again::say(&format!("released {round} {}", print(&release)));
    }
}

fn start(folder: &Path) -> Child {
    again::start("child", folder.to_str().unwrap())
}

/// Returns the releases that a child reports until it exits.
fn released(child: &mut Child) -> impl Iterator<Item = (u64, String)> + use<> {
    again::said(child, "released ").map(|line| {
        let (round, print) = line.split_once(' ').unwrap();
        (round.parse().unwrap(), print.to_owned())
    })
}

/// Runs a child for a while and kills it. Returns its releases.
fn run_and_kill(folder: &Path, after: Duration) -> Vec<(u64, String)> {
    let mut child = start(folder);
    std::thread::sleep(after);
    child.kill().unwrap();
    let released = released(&mut child).collect();
    child.wait().unwrap();
    released
}

#[test]
fn what_a_killed_process_released_is_charged_and_stays_the_same() {
    const N_KILLS: usize = 25;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut stream = Seed::new(7).stream(Purpose::TEST, 30, 0);
    let mut known: BTreeMap<u64, String> = BTreeMap::new();
    let (mut n_kills, mut n_released, mut n_unheard) = (0, 0, 0);
    // On a busy machine, a child makes less progress, so more children are started and killed.
    while n_kills < N_KILLS || (n_released <= N_KILLS && n_kills < 20 * N_KILLS) {
        n_kills += 1;
        let after = Duration::from_secs_f64(0.01 + 0.12 * stream.uniform());
        let released = run_and_kill(folder.path(), after);
        n_released += released.len();
        for (round, print) in released {
            let before = known.insert(round, print);
            assert_eq!(before, None, "round {round} is released once");
        }
        if !path.exists() {
            assert!(known.is_empty());
            continue;
        }
        let report = verify(&path, None).unwrap();
        assert_eq!(report.problems, []);
        let statement = read(&path).unwrap();
        let ledger = Ledger::open(&path, &charter()).unwrap();
        assert_eq!(Some(ledger.head()), report.head);
        // A kill can fall between a commit and the release's first byte. The release is then
        // charged, and is sent after the restart.
        let n_charged: u64 = statement.charges.iter().map(|charge| charge.count).sum();
        assert!(n_charged >= known.len() as u64 && n_charged <= known.len() as u64 + 1);
        for round in 0..n_charged {
            let stored = print(&ledger.stored(round).unwrap().unwrap());
            match known.get(&round) {
                Some(print) => assert_eq!(&stored, print, "round {round}"),
                None => {
                    n_unheard += 1;
                    known.insert(round, stored);
                }
            }
        }
        assert_eq!(ledger.stored(n_charged).unwrap(), None);
        assert_eq!(ledger.releases(), n_charged);
    }
    assert!(n_released > N_KILLS, "{n_released} releases, {n_unheard} of them unheard");
}

#[test]
fn a_process_killed_while_it_begins_a_ledger_leaves_all_of_it_or_none() {
    let mut stream = Seed::new(7).stream(Purpose::TEST, 31, 0);
    let (mut n_whole, mut n_none) = (0, 0);
    let mut longest = 0.03;
    while n_whole + n_none < 25 || (n_whole == 0 && longest < 30.0) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let after = match n_none {
            0 => Duration::ZERO,
            _ => Duration::from_secs_f64(longest * stream.uniform()),
        };
        if n_whole == 0 {
            longest *= 1.1;
        }
        let released = run_and_kill(folder.path(), after);
        if path.exists() {
            n_whole += 1;
            let ledger = Ledger::open(&path, &charter()).unwrap();
            assert!(ledger.releases() >= released.len() as u64);
        } else {
            n_none += 1;
            assert_eq!(released, []);
            Ledger::create(&path, &charter()).unwrap();
        }
        assert_eq!(verify(&path, None).unwrap().problems, []);
    }
    assert!(n_whole > 0 && n_none > 0, "{n_whole} whole, {n_none} none");
}

/// While one process runs the study, a second process is refused at its start. After the first is
/// killed, the next process continues immediately.
#[test]
fn two_processes_do_not_run_one_study() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut first = start(folder.path());
    let mut heard = released(&mut first);
    let mut known = vec![heard.next().unwrap()];
    let mut second = start(folder.path());
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = loop {
        match second.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    second.kill().unwrap();
    assert!(status.is_some_and(|status| !status.success()), "refused");
    assert_eq!(released(&mut second).count(), 0);
    first.kill().unwrap();
    known.extend(heard);
    first.wait().unwrap();
    let ledger = Ledger::open(&path, &charter()).unwrap();
    for (round, name) in &known {
        assert_eq!(&print(&ledger.stored(*round).unwrap().unwrap()), name);
    }
    let error = Ledger::open(&path, &charter()).unwrap_err();
    assert!(matches!(error, LedgerError::Held { .. }), "{error}");
}
