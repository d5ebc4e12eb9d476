//! INV-1, INV-15: if the system refuses a write, nothing is released, and a failed commit stops the
//! ledger.
//!
//! A test that needs another user, a small disk or a limit starts a second test under this
//! condition. See [`fedbo_testkit::again`].
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use crate::common;

use std::fs;
use std::path::PathBuf;

use common::{assert_stopped, charter, event};
use fedbo_ledger::{Ledger, LedgerError, read, verify};
use fedbo_testkit::again::{
    allow, given_folder, run_on_a_small_disk, run_under_a_limit, run_without_privileges,
};
use tempfile::TempDir;

/// Creates a ledger with one release and closes it.
fn fixture() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    allow(folder.path(), 0o777);
    let path = folder.path().join("ledger.db");
    let mut ledger = Ledger::create(&path, &charter()).unwrap();
    ledger.commit(0, &event(1.5), b"zero").unwrap();
    (folder, path)
}

/// Commits until the system refuses. Returns the refused round and the error.
fn fill(ledger: &mut Ledger, size: usize) -> (u64, LedgerError) {
    loop {
        let round = ledger.last_round().map_or(0, |last| last + 1);
        if let Err(error) = ledger.commit(round, &event(1.5), &vec![7; size]) {
            return (round, error);
        }
    }
}

#[test]
fn a_full_disk_stops_the_ledger_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run_on_a_small_disk("works_on_a_small_disk", folder.path());
}

#[test]
#[ignore = "started by another test"]
fn works_on_a_small_disk() {
    let Some(folder) = given_folder() else { return };
    let (path, ballast) = (folder.join("ledger.db"), folder.join("ballast"));
    // The disk is full at the first byte of a commit, or in the middle of a large one. Each
    // iteration leaves more space.
    let mut sizes = Vec::new();
    for (free, size) in (0..).zip([2000, 300, 40_000, 1]) {
        fs::write(&ballast, vec![1; (4 - free) << 18]).unwrap();
        let mut ledger = match path.exists() {
            true => Ledger::open(&path, &charter()).unwrap(),
            false => Ledger::create(&path, &charter()).unwrap(),
        };
        assert_eq!(ledger.releases(), sizes.len() as u64);
        let (round, error) = fill(&mut ledger, size);
        assert!(matches!(error, LedgerError::Write { .. }), "{error:?}");
        assert!(error.to_string().contains("disk is full"), "{error}");
        let n_known = ledger.releases();
        assert_eq!(n_known, round);
        assert!(n_known > sizes.len() as u64);
        while (sizes.len() as u64) < n_known {
            sizes.push(size);
        }
        let statement = read(&path).unwrap();
        assert_eq!(statement.n_releases(), n_known, "a full disk can be read");
        // Space returns, but the ledger stays stopped until it is verified again.
        fs::remove_file(&ballast).unwrap();
        assert_stopped(&mut ledger);
        drop(ledger);
        assert_eq!(verify(&path, None).unwrap().problems, []);
        let ledger = Ledger::open(&path, &charter()).unwrap();
        for (round, size) in (0..).zip(&sizes) {
            assert_eq!(ledger.stored(round).unwrap().unwrap().len(), *size);
        }
        assert_eq!(ledger.releases(), n_known);
    }
    // If there is not enough disk space to create a ledger, no file with its name is left.
    fs::remove_file(&path).unwrap();
    let new = folder.join("new.db");
    let mut rest = fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut rest, &[1; 512]).is_ok() {}
    for _ in 0..2 {
        let error = Ledger::create(&new, &charter()).unwrap_err();
        assert!(matches!(error, LedgerError::Write { .. }), "{error:?}");
        assert!(!new.exists() && !folder.join("new.db.part").exists());
    }
    drop(rest);
    fs::remove_file(&ballast).unwrap();
    Ledger::create(&new, &charter()).unwrap();
}

/// Uses a file size limit, which every Unix system supports.
#[test]
fn a_limit_of_file_sizes_stops_the_ledger_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    run_under_a_limit("works_under_a_limit", folder.path());
    let path = folder.path().join("ledger.db");
    assert_eq!(verify(&path, None).unwrap().problems, []);
    let mut ledger = Ledger::open(&path, &charter()).unwrap();
    let next = ledger.releases();
    ledger.commit(next, &event(1.5), &[7; 20_000]).unwrap();
}

#[test]
#[ignore = "started by another test"]
fn works_under_a_limit() {
    let Some(folder) = given_folder() else { return };
    let mut ledger = Ledger::create(&folder.join("ledger.db"), &charter()).unwrap();
    let (round, error) = fill(&mut ledger, 2000);
    assert!(matches!(error, LedgerError::Write { .. }), "{error:?}");
    assert!(round > 10, "{error}");
    assert_stopped(&mut ledger);
}

#[test]
fn a_ledger_that_is_gone_releases_nothing() {
    let (folder, path) = fixture();
    let elsewhere = folder.path().join("moved.db");
    for takes_its_place in [false, true] {
        let mut ledger = Ledger::open(&path, &charter()).unwrap();
        fs::rename(&path, &elsewhere).unwrap();
        if takes_its_place {
            fs::copy(&elsewhere, &path).unwrap();
        }
        let error = ledger.stored(0).unwrap_err();
        assert!(matches!(error, LedgerError::Gone { .. }), "{error:?}");
        let error = ledger.commit(1, &event(1.5), b"one").unwrap_err();
        assert!(matches!(error, LedgerError::Gone { .. }), "{error:?}");
        assert!(error.to_string().contains("moved, deleted or replaced"));
        fs::rename(&elsewhere, &path).unwrap();
        assert_stopped(&mut ledger);
        drop(ledger);
        assert_eq!(read(&path).unwrap().n_releases(), 1);
    }
    let mut ledger = Ledger::open(&path, &charter()).unwrap();
    ledger.commit(1, &event(1.5), b"one").unwrap();
}

#[test]
fn what_may_only_be_read_is_read_and_not_opened() {
    for (file_mode, folder_mode) in [(0o444, 0o777), (0o644, 0o555), (0o444, 0o555)] {
        let (folder, path) = fixture();
        fs::remove_file(folder.path().join("ledger.db-lock")).unwrap();
        allow(&path, file_mode);
        allow(folder.path(), folder_mode);
        run_without_privileges("reads_what_it_may_not_write", folder.path());
        allow(folder.path(), 0o777);
        assert!(!folder.path().join("ledger.db-wal").exists());
    }
}

#[test]
#[ignore = "started by another test"]
fn reads_what_it_may_not_write() {
    let Some(folder) = given_folder() else { return };
    let path = folder.join("ledger.db");
    let error = Ledger::open(&path, &charter()).unwrap_err();
    assert!(matches!(error, LedgerError::Write { .. }), "{error:?}");
    assert_eq!(verify(&path, None).unwrap().problems, []);
    assert_eq!(read(&path).unwrap().n_releases(), 1);
    let error = Ledger::create(&folder.join("none/new.db"), &charter()).unwrap_err();
    assert!(error.to_string().contains("create it first"), "{error}");
}
