//! INV-1, INV-15: what the system refuses is no release, and a commit that failed stops the ledger.
//!
//! Where a test needs another user, a small disk or a limit, the test binary starts itself again under it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{FOLDER, assert_stopped, charter, event, given_folder, run};
use fedbo_ledger::{Ledger, LedgerError, read, verify};
use tempfile::TempDir;

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A ledger with one release, closed.
fn fixture() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    allow(folder.path(), 0o777);
    let path = folder.path().join("ledger.db");
    let mut ledger = Ledger::create(&path, &charter()).unwrap();
    ledger.commit(0, &event(1.5), b"zero").unwrap();
    (folder, path)
}

/// Commits until the system refuses; what was acknowledged, and the refusal.
fn fill(ledger: &mut Ledger, size: usize) -> (u64, LedgerError) {
    loop {
        let round = ledger.last_round().map_or(0, |last| last + 1);
        if let Err(error) = ledger.commit(round, &event(1.5), &vec![7; size]) {
            return (round, error);
        }
    }
}

/// In a namespace with a file system of two megabytes, where the system allows that without privileges.
#[test]
fn a_full_disk_stops_the_ledger_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=2m tmpfs \"$FEDBO_TEST_FOLDER\" && exec \"$0\" \"$@\"";
    let small_disk = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(program).env(FOLDER, folder.path());
        command
    };
    if !small_disk(Path::new("true")).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system has no small disk for us");
        return;
    }
    let mut command = small_disk(&std::env::current_exe().unwrap());
    command.args(["--exact", "works_on_a_small_disk", "--ignored"]);
    run(&mut command, folder.path());
}

#[test]
#[ignore = "started by another test"]
fn works_on_a_small_disk() {
    let Some(folder) = given_folder() else { return };
    let (path, ballast) = (folder.join("ledger.db"), folder.join("ballast"));
    // The disk is full on the first byte of a commit, or in the middle of a large one; each time there is more room.
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
        // Space returns: what failed stays failed until the ledger is verified anew.
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
    // A ledger that finds no room leaves nothing of its name.
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

/// Under a limit of file sizes, which every system has.
#[test]
fn a_limit_of_file_sizes_stops_the_ledger_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 1200; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "works_under_a_limit", "--ignored"]);
    run(&mut command, folder.path());
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

/// A copy of this test binary that every user may run, about to run one test as another user, if this one may do everything.
fn without_privileges(name: &str, folder: &Path) -> Command {
    let binary = folder.join("tests");
    // By a process of its own: a file that this one has open for writing cannot be run while others are being started.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&binary).status();
    assert!(copied.unwrap().success());
    allow(&binary, 0o755);
    let mut command = Command::new(binary);
    command.args(["--exact", name, "--ignored"]);
    command.current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}

#[test]
fn what_may_only_be_read_is_read_and_not_opened() {
    for (file_mode, folder_mode) in [(0o444, 0o777), (0o644, 0o555), (0o444, 0o555)] {
        let (folder, path) = fixture();
        let bin = tempfile::tempdir().unwrap();
        allow(bin.path(), 0o755);
        fs::remove_file(folder.path().join("ledger.db-lock")).unwrap();
        allow(&path, file_mode);
        allow(folder.path(), folder_mode);
        let mut command = without_privileges("reads_what_it_may_not_write", bin.path());
        run(&mut command, folder.path());
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
