//! INV-13, INV-15: there is only one writer at a time, and a rollback to an older state is
//! detected.
use crate::common;

use std::time::{Duration, Instant};

use common::{assert_stopped, charter, contains, event, files, quick_folder};
use fedbo_ledger::{Head, Ledger, LedgerError, read, verify};
use fedbo_testkit::again::{given_folder, said, say, start};

/// The process that holds a ledger. Does nothing when run as a test.
#[test]
#[ignore = "started by another test"]
fn holds_a_ledger() {
    let Some(folder) = given_folder() else { return };
    let _ledger = Ledger::open(&folder.join("ledger.db"), &charter()).unwrap();
    say("held");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn one_process_at_a_time_and_the_next_at_once() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    drop(Ledger::create(&path, &charter()).unwrap());
    for _ in 0..3 {
        let mut child = start("holds_a_ledger", folder.path().to_str().unwrap());
        assert!(said(&mut child, "held").next().is_some());
        let error = Ledger::open(&path, &charter()).unwrap_err();
        assert_eq!(
            error,
            LedgerError::Held { path: path.clone(), by: format!("process {}", child.id()) }
        );
        // Reading needs no lock.
        assert_eq!(verify(&path, None).unwrap().problems, []);
        assert_eq!(read(&path).unwrap().n_releases(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        let since = Instant::now();
        let ledger = Ledger::open(&path, &charter()).unwrap();
        assert!(since.elapsed() < Duration::from_secs(5));
        let error = Ledger::open(&path, &charter()).unwrap_err();
        assert!(matches!(error, LedgerError::Held { .. }), "in one process too");
        drop(ledger);
    }
}

/// Without the lock, the token check inside the transaction refuses an older writer.
#[test]
fn an_older_writer_is_fenced_out() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let mut old = Ledger::create(&path, &charter()).unwrap();
    old.commit(0, &event(2.0), b"zero").unwrap();
    std::fs::remove_file(folder.path().join("ledger.db-lock")).unwrap();
    let mut new = Ledger::open(&path, &charter()).unwrap();
    let error = old.commit(1, &event(2.0), b"from-the-old-one").unwrap_err();
    assert_eq!(error, LedgerError::Superseded { path: path.clone() });
    assert_stopped(&mut old);
    new.commit(1, &event(2.0), b"one").unwrap();
    assert_eq!(new.releases(), 2);
    assert!(files(folder.path()).iter().all(|(_, bytes)| !contains(bytes, b"from-the-old-one")));
}

/// A saved head reveals a sound but older copy, and a different history.
#[test]
fn an_older_copy_is_found_by_a_known_head() {
    let folder = quick_folder();
    let at = |name: &str| folder.path().join(name);
    let mut ledger = Ledger::create(&at("a.db"), &charter()).unwrap();
    ledger.commit(0, &event(2.0), b"zero").unwrap();
    drop(ledger);
    std::fs::copy(at("a.db"), at("b.db")).unwrap();
    let mut ledger = Ledger::open(&at("a.db"), &charter()).unwrap();
    let head = ledger.commit(1, &event(2.0), b"one").unwrap();
    let mut older = Ledger::open(&at("b.db"), &charter()).unwrap();
    assert_eq!(older.contains(&head), Ok(false));
    let problems = |known: &Head| verify(&at("b.db"), Some(known)).unwrap().problems;
    let text = problems(&head)[0].to_string();
    assert!(text.contains("ends at entry 1, before the known head 2:"), "{text}");
    // Without the head, verification finds no problem in the copy.
    assert_eq!(verify(&at("b.db"), None).unwrap().problems, []);
    older.commit(1, &event(2.0), b"another one").unwrap();
    older.commit(2, &event(2.0), b"two").unwrap();
    assert_eq!(older.contains(&head), Ok(false));
    assert!(problems(&head)[0].to_string().contains("another history"));
    assert_eq!(problems(&older.head()), []);
    let genesis = Head { seq: 0, hash: [0; 32] };
    assert_eq!(problems(&genesis).len(), 1);
}
