//! All storages fulfill the trait's contract. SQLite and PostgreSQL are also tested through two
//! handles, and SQLite also with a file that is closed and reopened between any two calls.
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fedbo_storage::{
    Address, MemoryStorage, Mode, SqliteStorage, Storage, StorageError, open, verify,
};
use fedbo_testkit::{Forward, Forwarded, storage_contract};

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
        Arc::new(Forwarded(AlternatingHandles::new(&Address::Sqlite(path))))
    });
    files.verify();
}

#[test]
fn sqlite_opened_for_each_call() {
    let files = Files::new();
    storage_contract(|| {
        let path = files.next();
        SqliteStorage::open(&path, Mode::Create).unwrap();
        Arc::new(Forwarded(Reopened { path }))
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
    storage_contract(|| Arc::new(Forwarded(AlternatingHandles::new(&address()))));
}

/// Creates files in a temporary folder.
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

/// Two handles on one storage, used alternately.
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
}

impl Forward for AlternatingHandles {
    fn storage(&self) -> Result<Arc<dyn Storage>, StorageError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&self.handles[n % 2]))
    }
}

/// A file that is open only during a call.
#[derive(Debug)]
struct Reopened {
    path: PathBuf,
}

impl Forward for Reopened {
    fn storage(&self) -> Result<Arc<dyn Storage>, StorageError> {
        Ok(Arc::new(SqliteStorage::open(&self.path, Mode::Existing)?))
    }
}
