//! A ledger in a SQLite file on a local disk.

use std::path::Path;

use fedbo_database::{Failure, File, Lock, Mode, NotLocked, beside, integrity_problems};
use fedbo_failpoints::pass;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::backend::{Backend, Key, Source, StoredCharter, StoredEntry};
use crate::chain::{Entry, Hash};
use crate::creation::{create_layout, refuse_existing};
use crate::error::Operation;
use crate::record::{Findings, Record};
use crate::schema::FORMAT;
use crate::{Charter, Head, LedgerError};

/// A ledger file that only this process has open for writing.
pub(crate) struct FileBackend {
    file: File,
    connection: Connection,
    /// Released when the backend is dropped or this process ends.
    _lock: Lock,
}

impl FileBackend {
    /// Creates a new ledger file, which appears at its path atomically.
    pub(crate) fn create(path: &Path, charter: &Charter) -> Result<(Self, Record), LedgerError> {
        refuse_existing(path)?;
        let refused = |fault| LedgerError::of(fault, path, Operation::Write);
        let (file, _) = File::locate(path, Mode::Create, &FORMAT).map_err(refused)?;
        let lock = lock(&file)?;
        refuse_existing(path)?;
        create_layout(&file, charter)?;
        Self::open_locked(file, charter, lock)
    }

    /// Opens the file after verifying all of it (INV-15), and raises its fencing token.
    pub(crate) fn open(path: &Path, charter: &Charter) -> Result<(Self, Record), LedgerError> {
        let refused = |fault| LedgerError::of(fault, path, Operation::Read);
        let (file, _) = File::locate(path, Mode::Existing, &FORMAT).map_err(refused)?;
        let lock = lock(&file)?;
        Self::open_locked(file, charter, lock)
    }

    fn open_locked(
        file: File,
        charter: &Charter,
        lock: Lock,
    ) -> Result<(Self, Record), LedgerError> {
        let path = file.path().to_owned();
        let refused = |failure: Failure| {
            LedgerError::of(failure.into_fault(&FORMAT), &path, Operation::Write)
        };
        let connection = file.open_for_writing(Mode::Existing).map_err(refused)?;
        let record = {
            let tx = file.begin(&connection, TransactionBehavior::Immediate).map_err(refused)?;
            let mut record = Findings::of(&mut &*tx).map_err(refused)?.into_record(&path)?;
            let differences = charter.differences(&record.charter);
            if !differences.is_empty() {
                return Err(LedgerError::OtherCharter { path, differences });
            }
            let no_more =
                || Failure::Contradiction("its fencing token has reached its maximum".to_owned());
            let token = record.token.checked_add(1).ok_or_else(no_more);
            record.token = token.map_err(refused)?;
            tx.execute("UPDATE writer SET token = ?", [record.token])
                .and_then(|_| tx.commit())
                .map_err(|error| refused(error.into()))?;
            record
        };
        pass("ledger: its fencing token is raised");
        File::copy_log(&connection);
        let backend = Self { file, connection, _lock: lock };
        Ok((backend, record))
    }
}

impl Backend for FileBackend {
    fn find(&self, key: Key, take: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<bool, LedgerError> {
        const ENTRY: &str = "SELECT seq, previous, round, event, release, hash FROM entries";
        let (sql, key) = match key {
            Key::Seq(seq) => (format!("{ENTRY} WHERE seq = ?"), seq),
            Key::Round(round) => (format!("{ENTRY} WHERE round = ?"), round),
        };
        let look = || {
            let tx = self.file.begin(&self.connection, TransactionBehavior::Deferred)?;
            let mut statement = tx.prepare_cached(&sql)?;
            let mut rows = statement.query([key])?;
            let Some(row) = rows.next()? else {
                return Ok(false);
            };
            let stored = entry(row)?;
            if !stored.has_its_hash() {
                let what = format!("entry {} does not match its hash", stored.seq);
                return Err(Failure::Contradiction(what));
            }
            take(&stored);
            Ok(true)
        };
        let mut look = look;
        look().map_err(|failure: Failure| {
            LedgerError::of(failure.into_fault(&FORMAT), self.file.path(), Operation::Read)
        })
    }

    fn append(&mut self, fencing: i64, entry: &Entry<'_>, head: &Head) -> Result<(), LedgerError> {
        let append = || -> Result<bool, Failure> {
            let tx = self.file.begin(&self.connection, TransactionBehavior::Immediate)?;
            let token: i64 = tx.query_row("SELECT token FROM writer", [], |row| row.get(0))?;
            if token != fencing {
                return Ok(false);
            }
            let (seq, last): (u64, Option<Vec<u8>>) = tx.query_row(
                "SELECT coalesce(max(seq), 0), (SELECT hash FROM entries ORDER BY seq DESC LIMIT 1) FROM entries",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let is_ours = seq + 1 == entry.seq && last.is_none_or(|last| last == *entry.previous);
            if !is_ours {
                let what = format!("it ends at entry {seq}, expected entry {}", entry.seq - 1);
                return Err(Failure::Contradiction(what));
            }
            tx.execute(
                "INSERT INTO entries (seq, previous, round, event, release, hash) VALUES (?, ?, ?, ?, ?, ?)",
                params![
                    entry.seq,
                    entry.previous,
                    entry.round,
                    entry.event,
                    entry.release,
                    head.hash
                ],
            )?;
            pass("ledger: a charge is written and not committed");
            tx.commit()?;
            pass("ledger: a charge is committed");
            Ok(true)
        };
        let path = self.file.path();
        match append() {
            Ok(true) => Ok(()),
            Ok(false) => Err(LedgerError::Superseded { path: path.to_owned() }),
            Err(failure) => {
                Err(LedgerError::of(failure.into_fault(&FORMAT), path, Operation::Write))
            }
        }
    }

    fn tidy(&self) {
        File::copy_log(&self.connection);
    }
}

impl Source for &Connection {
    type Failure = Failure;

    fn is_damage(failure: &Failure) -> bool {
        failure.is_damage()
    }

    fn problems(&mut self) -> Result<Vec<String>, Failure> {
        let mut problems = integrity_problems(self)?;
        problems.extend(FORMAT.layout_problems(self)?);
        Ok(problems)
    }

    fn charters(&mut self) -> Result<Vec<StoredCharter>, Failure> {
        let mut statement = self.prepare(
            "SELECT name, config, epsilon, delta, mode, accountant, hash FROM charter ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        let mut charters = Vec::new();
        while let Some(row) = rows.next()? {
            charters.push(StoredCharter {
                name: row.get(0)?,
                config: row.get(1)?,
                epsilon: row.get(2)?,
                delta: row.get(3)?,
                mode: row.get(4)?,
                accountant: row.get(5)?,
                hash: hash_of(row, 6)?,
            });
        }
        Ok(charters)
    }

    fn token(&mut self) -> Result<i64, Failure> {
        let token = self.query_row("SELECT token FROM writer", [], |row| row.get(0)).optional()?;
        token.ok_or_else(|| Failure::Contradiction("it has no fencing token".to_owned()))
    }

    fn entries(&mut self, each: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<(), Failure> {
        let mut statement = self.prepare(
            "SELECT seq, previous, round, event, release, hash FROM entries ORDER BY seq",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(&entry(row)?);
        }
        Ok(())
    }
}

/// Converts a row of `seq, previous, round, event, release, hash`.
fn entry<'r>(row: &'r Row<'_>) -> Result<StoredEntry<'r>, Failure> {
    Ok(StoredEntry {
        seq: row.get(0)?,
        previous: hash_of(row, 1)?,
        round: row.get(2)?,
        event: bytes_of(row, 3)?,
        release: bytes_of(row, 4)?,
        hash: hash_of(row, 5)?,
    })
}

fn bytes_of<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], Failure> {
    let value = row.get_ref(column)?;
    value.as_blob().map_err(|_| {
        Failure::Contradiction(format!("column {column} of a row does not contain bytes"))
    })
}

fn hash_of(row: &Row<'_>, column: usize) -> Result<Hash, Failure> {
    let bytes = bytes_of(row, column)?;
    bytes
        .try_into()
        .map_err(|_| Failure::Contradiction(format!("a hash has {} bytes", bytes.len())))
}

/// Takes the lock on the file next to the ledger. The lock prevents two processes from running the
/// same study. Even if the lock file is deleted, the fencing token in the ledger ensures that only
/// one of them can commit.
fn lock(file: &File) -> Result<Lock, LedgerError> {
    Lock::take(&beside(file.absolute(), "-lock")).map_err(|error| match error {
        NotLocked::Held(by) => LedgerError::Held { path: file.path().to_owned(), by },
        NotLocked::Refused(path, error) => LedgerError::Write {
            path,
            message: format!("{error}; the lock of the ledger must be writable beside it"),
        },
    })
}
