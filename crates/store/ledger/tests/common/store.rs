//! The files of a small ledger, for tests that damage them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fedbo_ledger::{Head, Ledger, LedgerError, read, verify};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{charter, event, quick_folder};

/// Returns the release of a round, which occurs nowhere else in the file.
pub fn release(round: u64) -> Vec<u8> {
    format!("<release of round {round}>").into_bytes()
}

/// A ledger's state after a commit.
#[derive(Debug)]
pub struct Moment {
    pub head: Head,
    /// Releases up to this head.
    pub releases: BTreeMap<u64, Vec<u8>>,
}

/// The files of a small ledger.
pub struct Store {
    pub file: Vec<u8>,
    pub log: Vec<u8>,
    /// The state of the ledger after each commit.
    pub moments: Vec<Moment>,
    scratch: TempDir,
}

/// The way in which a ledger's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The study ended normally.
    Closed,
    /// The process was killed.
    Killed,
    /// The process was killed while a reader prevented copying the log into the file.
    KilledWhileRead,
}

pub const ROUNDS: [u64; 4] = [0, 1, 2, 5];

impl Store {
    pub fn new(left: Left) -> Self {
        let folder = quick_folder();
        let path = folder.path().join("ledger.db");
        let mut ledger = Ledger::create(&path, &charter()).unwrap();
        let reader = Connection::open(&path).unwrap();
        if left == Left::KilledWhileRead {
            reader.execute_batch("BEGIN; SELECT count(*) FROM entries").unwrap();
        }
        let mut releases = BTreeMap::new();
        let mut moments = vec![Moment { head: ledger.head(), releases: releases.clone() }];
        for round in ROUNDS {
            let z = if round < 2 { 1.5 } else { 2.5 };
            let head = ledger.commit(round, &event(z), &release(round)).unwrap();
            releases.insert(round, release(round));
            moments.push(Moment { head, releases: releases.clone() });
        }
        let log = folder.path().join("ledger.db-wal");
        let (file, log) = match left {
            Left::Closed => {
                drop((reader, ledger));
                assert!(!log.exists());
                (std::fs::read(&path).unwrap(), Vec::new())
            }
            _ => (std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap()),
        };
        assert!(left == Left::Closed || !log.is_empty());
        Self { file, log, moments, scratch: quick_folder() }
    }

    pub fn last(&self) -> &Moment {
        self.moments.last().unwrap()
    }

    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("ledger.db")
    }

    /// Writes these files to the ledger's path.
    pub fn put(&self, file: &[u8], log: &[u8]) -> PathBuf {
        let path = self.path();
        for (suffix, bytes) in [("", file), ("-wal", log), ("-shm", &[]), ("-journal", &[])] {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            if bytes.is_empty() && !suffix.is_empty() {
                let _ = std::fs::remove_file(&name);
            } else {
                std::fs::write(&name, bytes).unwrap();
            }
        }
        path
    }

    /// Verifies and reads the files at the ledger's path. Returns `None` if they are refused,
    /// otherwise the index of their state in `moments`.
    pub fn judge(&self) -> Option<usize> {
        let path = self.path();
        let report = match verify(&path, None) {
            Ok(report) => report,
            Err(error) => {
                check_refusal(&error);
                assert!(read(&path).is_err());
                return None;
            }
        };
        if !report.problems.is_empty() {
            assert_eq!(report.head, None);
            assert!(report.problems.iter().all(|p| !p.message.is_empty()));
            check_refusal(&read(&path).unwrap_err());
            return None;
        }
        let at = self.moments.iter().position(|m| Some(m.head) == report.head);
        let at = at.expect("the head is one that there was");
        let moment = &self.moments[at];
        let statement = read(&path).unwrap();
        assert_eq!(statement.head, moment.head);
        assert_eq!(statement.n_releases(), moment.releases.len() as u64);
        let charged: u64 = statement.charges.iter().map(|charge| charge.count).sum();
        assert_eq!(charged, statement.n_releases(), "each release is charged");
        Some(at)
    }

    /// Like [`Store::judge`], but opens the ledger for writing, which replays the log into the
    /// file.
    pub fn judge_by_opening(&self) -> Option<usize> {
        let ledger = match Ledger::open(&self.path(), &charter()) {
            Ok(ledger) => ledger,
            Err(error) => {
                check_refusal(&error);
                return None;
            }
        };
        let at = self.moments.iter().position(|m| m.head == ledger.head());
        let at = at.expect("the head is one that there was");
        let moment = &self.moments[at];
        for round in 0..ROUNDS[3] + 2 {
            assert_eq!(ledger.stored(round).unwrap(), moment.releases.get(&round).cloned());
        }
        assert_eq!(ledger.releases(), moment.releases.len() as u64);
        Some(at)
    }
}

/// Asserts that a refusal refers to the file's content.
fn check_refusal(error: &LedgerError) {
    assert!(
        matches!(
            error,
            LedgerError::Corrupt { .. }
                | LedgerError::NotALedger { .. }
                | LedgerError::Version { .. }
                | LedgerError::OtherCharter { .. }
                | LedgerError::Read { .. }
                | LedgerError::Write { .. }
        ),
        "{error:?}"
    );
    assert!(error.to_string().len() > 40, "{error}");
}
