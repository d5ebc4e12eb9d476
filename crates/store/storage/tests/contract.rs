//! The storages keep what the trait promises; SQLite and PostgreSQL also through several handles, and SQLite when its
//! file is closed and opened again between any two calls.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fedbo_storage::{
    AddOutcome, Address, MemoryStorage, Mode, NewTrial, Report, ReportOutcome, Snapshot,
    SqliteStorage, Stop, Storage, StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome,
    Told, Trial, Worker, open, verify,
};
use fedbo_testkit::storage_contract;

#[test]
fn memory() {
    storage_contract(|| Arc::new(MemoryStorage::new()));
    storage_contract(|| open(&Address::Memory, Mode::Create).unwrap());
}

#[test]
fn sqlite() {
    let files = Files::new();
    storage_contract(|| open(&Address::Sqlite(files.next()), Mode::Create).unwrap());
    files.verify();
}

#[test]
fn sqlite_through_two_handles() {
    let files = Files::new();
    storage_contract(|| {
        let path = files.next();
        Arc::new(AlternatingHandles::new(&Address::Sqlite(path)))
    });
    files.verify();
}

#[test]
fn sqlite_opened_for_each_call() {
    let files = Files::new();
    storage_contract(|| {
        let path = files.next();
        SqliteStorage::open(&path, Mode::Create).unwrap();
        Arc::new(Reopened { path })
    });
    files.verify();
}

#[cfg(unix)]
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn postgres() {
    let server = fedbo_testkit::postgres::Server::start();
    let address = || -> Address {
        server.run("postgres", "DROP SCHEMA IF EXISTS fedbo CASCADE");
        server.url("postgres").parse().unwrap()
    };
    storage_contract(|| open(&address(), Mode::Create).unwrap());
    storage_contract(|| Arc::new(AlternatingHandles::new(&address())));
}

/// New files in a folder that goes with it.
struct Files {
    folder: tempfile::TempDir,
    n_files: AtomicUsize,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), n_files: AtomicUsize::new(0) }
    }

    fn path(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("study {n}.db"))
    }

    fn next(&self) -> PathBuf {
        self.path(self.n_files.fetch_add(1, Ordering::Relaxed))
    }

    fn verify(&self) {
        for n in 0..self.n_files.load(Ordering::Relaxed) {
            assert_eq!(verify(&self.path(n)).unwrap().problems, []);
        }
    }
}

/// Two handles on one storage, each call by the other one.
#[derive(Debug)]
struct AlternatingHandles {
    handles: [Arc<dyn Storage>; 2],
    calls: AtomicUsize,
}

impl AlternatingHandles {
    fn new(address: &Address) -> Self {
        let handle = || open(address, Mode::Create).unwrap();
        Self { handles: [handle(), handle()], calls: AtomicUsize::new(0) }
    }

    fn get(&self) -> Result<&dyn Storage, StorageError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(&*self.handles[n % 2])
    }
}

/// A file that is open only while a call lasts.
#[derive(Debug)]
struct Reopened {
    path: PathBuf,
}

impl Reopened {
    fn get(&self) -> Result<SqliteStorage, StorageError> {
        let path: &Path = &self.path;
        SqliteStorage::open(path, Mode::Existing)
    }
}

macro_rules! delegate {
    ($type:ty) => {
        impl Storage for $type {
            fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
                self.get()?.create(name, definition)
            }
            fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
                self.get()?.studies()
            }
            fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
                self.get()?.trials(study)
            }
            fn snapshot_from(
                &self,
                study: StudyKey,
                after: u64,
                from_epochs: &BTreeMap<u64, u32>,
            ) -> Result<Snapshot, StorageError> {
                self.get()?.snapshot_from(study, after, from_epochs)
            }
            fn add_unless_stopped(
                &self,
                study: StudyKey,
                trial: &NewTrial,
                known_stops: Option<u64>,
            ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
                self.get()?.add_unless_stopped(study, trial, known_stops)
            }
            fn add_told(
                &self,
                study: StudyKey,
                trials: &[(NewTrial, Told)],
            ) -> Result<(), StorageError> {
                self.get()?.add_told(study, trials)
            }
            fn claim_unless_stopped(
                &self,
                study: StudyKey,
                worker: &Worker,
                lease: Option<Duration>,
                known_stops: Option<u64>,
            ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
                self.get()?.claim_unless_stopped(study, worker, lease, known_stops)
            }
            fn renew(
                &self,
                study: StudyKey,
                worker: &str,
                lease: Duration,
            ) -> Result<(), StorageError> {
                self.get()?.renew(study, worker, lease)
            }
            fn report(
                &self,
                study: StudyKey,
                number: u64,
                teller: TellAuthority<'_>,
                report: Report,
            ) -> Result<ReportOutcome, StorageError> {
                self.get()?.report(study, number, teller, report)
            }
            fn finish(
                &self,
                study: StudyKey,
                number: u64,
                teller: TellAuthority<'_>,
                told: &Told,
            ) -> Result<TellOutcome, StorageError> {
                self.get()?.finish(study, number, teller, told)
            }
            fn release_trial(
                &self,
                study: StudyKey,
                number: u64,
                teller: TellAuthority<'_>,
            ) -> Result<(), StorageError> {
                self.get()?.release_trial(study, number, teller)
            }
            fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
                self.get()?.stop(study, by)
            }
            fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
                self.get()?.last_stop(study)
            }
        }
    };
}

delegate!(AlternatingHandles);
delegate!(Reopened);
