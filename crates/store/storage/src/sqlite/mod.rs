//! Trials in a SQLite file, which several processes on one machine can share.
//!
//! Every change is one transaction that first takes the file's write lock. It is therefore never
//! aborted partway, and other processes wait. A commit returns when the log is durable.

mod backup;
mod corrections;
mod failure;
mod outcomes;
mod rows;
mod schema;
mod stops;
mod upgrade;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fedbo_database::{Content, File};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use self::failure::{Failure, Operation};
use self::schema::FORMAT;
use crate::rules::{self, Claim};
use crate::{
    AddOutcome, Correction, Mode, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage,
    StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};

pub use backup::backup;
pub use upgrade::{UpgradeReport, upgrade};
pub use verify::{Problem, VerifyReport, verify};

/// Trials in a SQLite file.
///
/// Uses one connection behind a mutex. Any number of handles, threads and processes can share the
/// file. The file must be on a local disk, because network file systems do not lock and sync as
/// SQLite requires. A process that uses this storage must not open the file by other means, because
/// closing the file would release SQLite's locks.
pub struct SqliteStorage {
    file: File,
    access: Mutex<Access>,
}

/// The access with which the file was opened.
enum Access {
    /// Reading and writing.
    Write(Connection),
    /// Reading only. Each read reopens the file, and each write tries again to open it for writing.
    Read,
}

impl fmt::Debug for SqliteStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStorage").field(&self.path()).finish()
    }
}

impl SqliteStorage {
    /// Opens a file. [`Mode::Create`] creates a missing file. A file that cannot be written is
    /// opened for reading.
    ///
    /// # Errors
    /// Same as for [`crate::open`].
    pub fn open(path: &Path, mode: Mode) -> Result<Self, StorageError> {
        let (file, is_there) = locate(path, mode)?;
        let access = match file.open_for_writing(mode).map_err(Failure::from) {
            Ok(connection) => Access::Write(connection),
            // The system may refuse a writer but allow a reader.
            Err(failure) if is_there && failure.is_denied_by_system() => {
                let looked = file.open_for_inspection();
                if mode == Mode::Create && matches!(looked, Ok((_, Content::Empty))) {
                    return Err(failure.into_error(path, Operation::Write));
                }
                looked
                    .and_then(|(_, content)| FORMAT.check_content(content))
                    .map_err(|failure| Failure::from(failure).into_error(path, Operation::Read))?;
                Access::Read
            }
            Err(failure) if is_there => return Err(failure.into_error(path, Operation::Read)),
            Err(failure) => return Err(failure.into_error(path, Operation::Write)),
        };
        Ok(Self { file, access: Mutex::new(access) })
    }

    /// Returns the file's path as given by the caller.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn access(&self) -> MutexGuard<'_, Access> {
        // A poisoned lock is safe to use, because a transaction left open by a panic is rolled back
        // before the next one.
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a read-only transaction. `act` sees a single snapshot.
    fn read<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, StorageError> {
        let result = match &*self.access() {
            Access::Write(connection) => self.transaction(connection, Operation::Read, act),
            Access::Read => self
                .file
                .open_for_reading()
                .map_err(Failure::from)
                .and_then(|connection| self.transaction(&connection, Operation::Read, act)),
        };
        result.map_err(|failure| failure.into_error(self.path(), Operation::Read))
    }

    /// Runs an atomic transaction, which is durable when this returns.
    fn write<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, StorageError> {
        let mut access = self.access();
        let result = (|| {
            if let Access::Read = *access {
                *access = Access::Write(self.file.open_for_writing(Mode::Existing)?);
            }
            match &*access {
                Access::Write(connection) => self.transaction(connection, Operation::Write, act),
                Access::Read => unreachable!("it was opened for writing above"),
            }
        })();
        result.map_err(|failure| failure.into_error(self.path(), Operation::Write))
    }

    /// Checkpoints the write-ahead log into the database file.
    fn copy_log(&self) {
        if let Access::Write(connection) = &*self.access() {
            File::copy_log(connection);
        }
    }

    fn transaction<R>(
        &self,
        connection: &Connection,
        doing: Operation,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let behavior = match doing {
            Operation::Read => TransactionBehavior::Deferred,
            Operation::Write => TransactionBehavior::Immediate,
        };
        let transaction = self.file.begin(connection, behavior)?;
        let result = act(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl Storage for SqliteStorage {
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
        self.write(|tx| {
            tx.prepare_cached(
                "INSERT INTO studies (name, definition) VALUES (?, ?) ON CONFLICT DO NOTHING",
            )?
            .execute([name, definition])?;
            let mut statement =
                tx.prepare_cached("SELECT id, name, definition FROM studies WHERE name = ?")?;
            Ok(statement.query_row([name], rows::study)?)
        })
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
        self.read(|tx| {
            let mut statement =
                tx.prepare_cached("SELECT id, name, definition FROM studies ORDER BY id")?;
            let studies = statement.query_map([], rows::study)?;
            Ok(studies.collect::<Result<_, _>>()?)
        })
    }

    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
        self.read(|tx| {
            check_study(tx, study)?;
            rows::trials(tx, study, rows::ALL, [study.0])
        })
    }

    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(|tx| {
            check_study(tx, study)?;
            Ok(Snapshot {
                told: rows::trials(tx, study, rows::TOLD_AFTER, [study.0, after])?,
                open: rows::trials_from(tx, study, rows::OPEN, [study.0], from_epochs)?,
                n_trials: n_trials(tx, study)?,
                last_correction: corrections::last(tx, study)?,
            })
        })
    }

    fn add_unless_stopped(
        &self,
        study: StudyKey,
        new: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
        self.write(|tx| {
            check_study(tx, study)?;
            if let ControlFlow::Break(stop) =
                rules::check_stops(known_stops, || stops::last(tx, study))?
            {
                return Ok(ControlFlow::Break(stop));
            }
            let number = n_trials(tx, study)?;
            let twin = || {
                let key = params![study.0, new.encoding];
                rows::number(tx, "number", rows::FIRST_LIKE, key)
            };
            if let Some(refusal) = rules::refusal(new, number, twin)? {
                return Ok(ControlFlow::Continue(refusal));
            }
            let trial = rules::begin(new, number, now_ms(tx)?);
            rows::insert(tx, study, &trial, &new.encoding)?;
            Ok(ControlFlow::Continue(AddOutcome::Trial(trial)))
        })
    }

    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError> {
        self.write(|tx| {
            check_study(tx, study)?;
            let now_ms = now_ms(tx)?;
            for (number, new) in (n_trials(tx, study)?..).zip(trials) {
                let mut trial = rules::begin_told(new, number, now_ms)?;
                rows::insert(tx, study, &trial, &new.0.encoding)?;
                end(tx, study, &mut trial, new.1.clone(), now_ms)?;
            }
            Ok(())
        })
        .inspect(|()| self.copy_log())
    }

    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
        self.write(|tx| {
            check_study(tx, study)?;
            if let ControlFlow::Break(stop) =
                rules::check_stops(known_stops, || stops::last(tx, study))?
            {
                return Ok(ControlFlow::Break(stop));
            }
            let now_ms = now_ms(tx)?;
            let mut seen = -1;
            while let Some(mut trial) =
                rows::trial(tx, study, rows::OPEN_AFTER, [study.0, seen], 0)?
            {
                match rules::claim(&trial, now_ms) {
                    Claim::Leave => {}
                    Claim::Take => {
                        if !trial.reports.is_empty() {
                            rows::delete_reports(tx, study, trial.number)?;
                        }
                        rules::take(&mut trial, worker, lease, now_ms);
                        rows::update(tx, study, &trial)?;
                        return Ok(ControlFlow::Continue(Some(trial)));
                    }
                    Claim::GiveUp => {
                        end(tx, study, &mut trial, rules::abandoned(), now_ms)?;
                    }
                }
                seen = rows::signed(trial.number);
            }
            Ok(ControlFlow::Continue(None))
        })
    }

    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError> {
        self.write(|tx| {
            check_study(tx, study)?;
            let now_ms = now_ms(tx)?;
            let held = rows::trials(tx, study, rows::HELD_BY, params![study.0, worker])?;
            for mut trial in held {
                if rules::renew(&mut trial, worker, lease, now_ms) {
                    rows::update(tx, study, &trial)?;
                }
            }
            Ok(())
        })
    }

    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.write(|tx| {
            // The decision does not depend on earlier reports.
            let trial = trial_from(tx, study, number, report.epoch)?;
            if !rules::may_report(&trial, teller, report)? {
                return Ok(ReportOutcome::Already);
            }
            rows::insert_report(tx, study, number, report)?;
            Ok(ReportOutcome::New)
        })
    }

    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError> {
        self.write(|tx| {
            let mut trial = trial(tx, study, number)?;
            let now_ms = now_ms(tx)?;
            if !rules::may_finish(&trial, teller, told, now_ms)? {
                return Ok(TellOutcome::Already);
            }
            let seq = end(tx, study, &mut trial, told.clone(), now_ms)?;
            Ok(TellOutcome::New { seq })
        })
        .inspect(|_| self.copy_log())
    }

    fn correct(&self, study: StudyKey, number: u64, told: &Told) -> Result<bool, StorageError> {
        self.write(|tx| {
            let mut trial = trial(tx, study, number)?;
            let Some(before) = rules::correct(&mut trial, told)? else {
                return Ok(false);
            };
            corrections::insert(tx, study, number, &before, now_ms(tx)?)?;
            rows::update(tx, study, &trial)?;
            outcomes::replace(tx, study, number, told.numbers())?;
            Ok(true)
        })
        .inspect(|_| self.copy_log())
    }

    fn corrections(&self, study: StudyKey) -> Result<Vec<Correction>, StorageError> {
        self.read(|tx| {
            check_study(tx, study)?;
            corrections::all(tx, study)
        })
    }

    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError> {
        self.write(|tx| {
            let mut trial = trial(tx, study, number)?;
            rules::may_change(&trial, teller, now_ms(tx)?)?;
            if !trial.reports.is_empty() {
                rows::delete_reports(tx, study, number)?;
            }
            rules::release(&mut trial);
            rows::update(tx, study, &trial)
        })
    }

    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
        self.write(|tx| {
            check_study(tx, study)?;
            stops::insert(tx, study, by, now_ms(tx)?)
        })
    }

    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
        self.read(|tx| {
            check_study(tx, study)?;
            stops::last(tx, study)
        })
    }
}

/// Resolves the path and returns whether the file exists. Creates nothing.
fn locate(path: &Path, mode: Mode) -> Result<(File, bool), StorageError> {
    File::locate(path, mode, &FORMAT).map_err(|fault| failure::error(fault, path, Operation::Read))
}

fn check_study(tx: &Transaction<'_>, key: StudyKey) -> Result<(), Failure> {
    let mut statement = tx.prepare_cached("SELECT 1 FROM studies WHERE id = ?")?;
    if statement.exists([key.0])? { Ok(()) } else { Err(StorageError::NoStudy { key }.into()) }
}

fn n_trials(tx: &Transaction<'_>, study: StudyKey) -> Result<u64, Failure> {
    Ok(rows::number(tx, "number + 1", rows::LAST, [study.0])?.unwrap_or(0))
}

fn trial(tx: &Transaction<'_>, study: StudyKey, number: u64) -> Result<Trial, Failure> {
    trial_from(tx, study, number, 0)
}

/// Returns a trial with its reports from an epoch on.
fn trial_from(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    from_epoch: u32,
) -> Result<Trial, Failure> {
    check_study(tx, study)?;
    let key = [study.0, rows::signed(number)];
    match rows::trial(tx, study, rows::ONE, key, from_epoch)? {
        Some(trial) => Ok(trial),
        None => {
            let n_trials = n_trials(tx, study)?;
            Err(StorageError::NoTrial { number, n_trials }.into())
        }
    }
}

fn end(
    tx: &Transaction<'_>,
    study: StudyKey,
    trial: &mut Trial,
    told: Told,
    now_ms: i64,
) -> Result<u64, Failure> {
    let next = rows::number(tx, "told_seq + 1", rows::LAST_TOLD, [study.0])?;
    let seq = next.unwrap_or(1);
    rules::end(trial, told, seq, now_ms);
    rows::update(tx, study, trial)?;
    outcomes::insert(tx, study, trial.number, trial.told().map_or(&[], Told::numbers))?;
    Ok(seq)
}

/// Returns the database's clock, in milliseconds since 1970.
fn now_ms(tx: &Transaction<'_>) -> Result<i64, Failure> {
    let mut statement =
        tx.prepare_cached("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}
