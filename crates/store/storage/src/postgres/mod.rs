//! Trials in a PostgreSQL database, which processes on several machines can share.
//!
//! Every change is one transaction that first locks its study's row. It is therefore never aborted
//! partway, and other processes wait. A commit returns when the server's log is durable.

mod connection;
mod corrections;
mod failure;
mod outcomes;
mod rows;
mod schema;
mod stops;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fedbo_postgres::Connector;
use postgres::Transaction;
use postgres::types::Type;

use self::connection::{Change, ChangeMarker, Link, Lock, Moment};
use self::failure::{Failure, Operation};
use self::schema::Additions;
use crate::rules::{self, Claim};
use crate::{
    AddOutcome, Correction, Mode, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage,
    StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, UpgradeReport,
    Worker,
};

pub use fedbo_postgres::PostgresAddress;

/// Trials in a PostgreSQL database, in a separate schema `fedbo`.
///
/// Uses one connection behind a mutex. Any number of handles, threads, processes and machines can
/// share the database. If the connection is lost, the next call reopens it and waits up to ten
/// seconds for the server. Calls block and must not be made on a thread that drives asynchronous
/// tasks.
pub struct PostgresStorage {
    place: String,
    link: Mutex<Link>,
}

impl fmt::Debug for PostgresStorage {
    /// Prints only the address, without the password, to keep secrets and observations out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStorage").field(&self.place).finish()
    }
}

impl PostgresStorage {
    /// Connects to a database, which must exist. [`Mode::Create`] creates a missing schema.
    ///
    /// # Errors
    /// Same as for [`crate::open`].
    pub fn open(address: &PostgresAddress, mode: Mode) -> Result<Self, StorageError> {
        let place = address.to_string();
        match Link::open(address, mode) {
            Ok(link) => Ok(Self { place, link: Mutex::new(link) }),
            Err(failure) => Err(failure.into_error(&place, Operation::Connect)),
        }
    }

    /// Upgrades the layout of an older version in one transaction. Running programs of the old
    /// version get an error from their next call.
    ///
    /// # Errors
    /// [`StorageError::Absent`], [`StorageError::NotAStorage`]; [`StorageError::Version`] if the
    /// layout is newer than this program; or an error if the server refuses the upgrade.
    pub fn upgrade(address: &PostgresAddress) -> Result<UpgradeReport, StorageError> {
        let upgraded = Connector::new(address)
            .and_then(|connector| connector.connect())
            .map_err(Failure::from)
            .and_then(|mut client| schema::upgrade(&mut client));
        let from = upgraded
            .map_err(|failure| failure.into_error(&address.to_string(), Operation::Write))?;
        Ok(UpgradeReport { from, to: schema::VERSION, backup: None })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        // A poisoned lock is safe to use, because a panic drops the transaction, which rolls it
        // back.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<R>(
        &self,
        act: impl Fn(&mut Transaction<'_>, Additions) -> Result<R, Failure>,
    ) -> Result<R, StorageError> {
        let result = self.link().read(act);
        result.map_err(|failure| failure.into_error(&self.place, Operation::Read))
    }

    fn write<R>(
        &self,
        lock: Lock,
        act: impl Fn(&mut Transaction<'_>, Moment) -> Result<Change<R>, Failure>,
    ) -> Result<R, StorageError> {
        let result = self.link().write(lock, act);
        result.map_err(|failure| failure.into_error(&self.place, Operation::Write))
    }
}

impl Storage for PostgresStorage {
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
        let (stored_name, definition) = (text::store(name), text::store(definition));
        self.write(Lock::Studies, |tx, _| {
            let known = tx.query_typed_opt(
                "SELECT id, name, definition FROM fedbo.studies WHERE name = $1",
                &[(&stored_name, Type::TEXT)],
            )?;
            let row = match known {
                Some(row) => row,
                None => tx.query_typed_one(
                    "INSERT INTO fedbo.studies (name, definition) VALUES ($1, $2) RETURNING id, name, definition",
                    &[(&stored_name, Type::TEXT), (&definition, Type::TEXT)],
                )?,
            };
            Ok(repeatable(rows::study(&row)?))
        })
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
        self.read(|tx, _| {
            let sql = "SELECT id, name, definition FROM fedbo.studies ORDER BY id";
            tx.query_typed(sql, &[])?.iter().map(rows::study).collect()
        })
    }

    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
        self.read(|tx, Additions { has_outcomes, .. }| {
            check_study(tx, study)?;
            rows::trials(tx, has_outcomes, rows::ALL, &[(&study.0, Type::INT8)])
        })
    }

    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        let after = rows::signed(after);
        self.read(|tx, Additions { has_outcomes, has_corrections }| {
            check_study(tx, study)?;
            let key = (&study.0 as _, Type::INT8);
            Ok(Snapshot {
                told: rows::trials(
                    tx,
                    has_outcomes,
                    rows::TOLD_AFTER,
                    &[key, (&after, Type::INT8)],
                )?,
                open: rows::open_from(tx, has_outcomes, study, from_epochs)?,
                n_trials: n_trials(tx, study)?,
                last_correction: match has_corrections {
                    true => corrections::last(tx, study)?,
                    false => None,
                },
            })
        })
    }

    fn add_unless_stopped(
        &self,
        study: StudyKey,
        new: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let heeded =
                rules::check_stops(known_stops, || stops::last(tx, study, moment.has_stops))?;
            if let ControlFlow::Break(stop) = heeded {
                return Ok(repeatable(ControlFlow::Break(stop)));
            }
            let number = n_trials(tx, study)?;
            let twin = || {
                let key = [(&study.0 as _, Type::INT8), (&new.encoding as _, Type::BYTEA)];
                rows::number(tx, "number", rows::FIRST_LIKE, &key)
            };
            if let Some(refusal) = rules::refusal(new, number, twin)? {
                return Ok(repeatable(ControlFlow::Continue(refusal)));
            }
            let trial = rules::begin(new, number, moment.now_ms);
            rows::insert(tx, study, &trial, &new.encoding)?;
            Ok(Change {
                trace: ChangeMarker::Added(trial.clone()),
                result: ControlFlow::Continue(AddOutcome::Trial(trial)),
            })
        })
    }

    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let mut last = None;
            for (number, new) in (n_trials(tx, study)?..).zip(trials) {
                let mut trial = rules::begin_told(new, number, moment.now_ms)?;
                rows::insert(tx, study, &trial, &new.0.encoding)?;
                end(tx, study, &mut trial, new.1.clone(), moment)?;
                last = Some(trial);
            }
            let trace = last.map_or(ChangeMarker::Repeatable, ChangeMarker::Changed);
            Ok(Change { trace, result: () })
        })
    }

    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let Moment { now_ms, has_stops, .. } = moment;
            let heeded = rules::check_stops(known_stops, || stops::last(tx, study, has_stops))?;
            if let ControlFlow::Break(stop) = heeded {
                return Ok(repeatable(ControlFlow::Break(stop)));
            }
            let mut seen = -1_i64;
            loop {
                let key = [(&study.0 as _, Type::INT8), (&seen as _, Type::INT8)];
                let Some(mut trial) = rows::first(tx, moment.has_outcomes, rows::OPEN_AFTER, &key)?
                else {
                    return Ok(repeatable(ControlFlow::Continue(None)));
                };
                match rules::claim(&trial, now_ms) {
                    Claim::Leave => {}
                    Claim::Take => {
                        if !trial.reports.is_empty() {
                            rows::delete_reports(tx, study, trial.number)?;
                        }
                        rules::take(&mut trial, worker, lease, now_ms);
                        rows::update(tx, study, &trial)?;
                        return Ok(Change {
                            trace: ChangeMarker::Changed(trial.clone()),
                            result: ControlFlow::Continue(Some(trial)),
                        });
                    }
                    Claim::GiveUp => {
                        end(tx, study, &mut trial, rules::abandoned(), moment)?;
                    }
                }
                seen = rows::signed(trial.number);
            }
        })
    }

    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError> {
        let holder = text::store(worker);
        self.write(Lock::Study(study), |tx, Moment { now_ms, has_outcomes, .. }| {
            let key = [(&study.0 as _, Type::INT8), (&holder as _, Type::TEXT)];
            for mut trial in rows::trials(tx, has_outcomes, rows::HELD_BY, &key)? {
                if rules::renew(&mut trial, worker, lease, now_ms) {
                    rows::update(tx, study, &trial)?;
                }
            }
            Ok(repeatable(()))
        })
    }

    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.write(Lock::Study(study), |tx, Moment { has_outcomes, .. }| {
            // The decision does not depend on earlier reports.
            let from_epoch = report.epoch;
            let mut trial = found(tx, study, number, |tx| {
                rows::one_from(tx, has_outcomes, study, number, from_epoch)
            })?;
            if !rules::may_report(&trial, teller, report)? {
                return Ok(repeatable(ReportOutcome::Already));
            }
            rows::insert_report(tx, study, number, report)?;
            trial.reports.push(report);
            Ok(Change {
                trace: ChangeMarker::Reported { trial, from_epoch },
                result: ReportOutcome::New,
            })
        })
    }

    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let now_ms = moment.now_ms;
            let mut trial = trial(tx, moment.has_outcomes, study, number)?;
            if !rules::may_finish(&trial, teller, told, now_ms)? {
                return Ok(repeatable(TellOutcome::Already));
            }
            let seq = end(tx, study, &mut trial, told.clone(), moment)?;
            Ok(Change { trace: ChangeMarker::Changed(trial), result: TellOutcome::New { seq } })
        })
    }

    fn correct(&self, study: StudyKey, number: u64, told: &Told) -> Result<bool, StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let mut trial = trial(tx, moment.has_outcomes, study, number)?;
            let Some(before) = rules::correct(&mut trial, told)? else {
                return Ok(repeatable(false));
            };
            corrections::insert(tx, study, number, &before, moment)?;
            rows::update(tx, study, &trial)?;
            outcomes::replace(tx, study, number, told.numbers(), moment)?;
            Ok(Change { trace: ChangeMarker::Changed(trial), result: true })
        })
    }

    fn corrections(&self, study: StudyKey) -> Result<Vec<Correction>, StorageError> {
        self.read(|tx, Additions { has_corrections, .. }| {
            check_study(tx, study)?;
            if has_corrections { corrections::all(tx, study) } else { Ok(Vec::new()) }
        })
    }

    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError> {
        self.write(Lock::Study(study), |tx, moment| {
            let now_ms = moment.now_ms;
            let mut trial = trial(tx, moment.has_outcomes, study, number)?;
            rules::may_change(&trial, teller, now_ms)?;
            if !trial.reports.is_empty() {
                rows::delete_reports(tx, study, number)?;
            }
            rules::release(&mut trial);
            rows::update(tx, study, &trial)?;
            Ok(Change { trace: ChangeMarker::Changed(trial), result: () })
        })
    }

    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
        // Stops are stored one at a time, because the first one creates the table. The study is
        // locked as well, so that no trial starts after this returns.
        self.write(Lock::Studies, |tx, moment| {
            stops::lock(tx, study)?;
            // If the response to a commit is lost, the study is stopped twice, which has the same
            // effect.
            Ok(repeatable(stops::insert(tx, study, by, moment)?))
        })
    }

    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
        self.read(|tx, _| {
            check_study(tx, study)?;
            let is_there = stops::is_there(tx)?;
            stops::last(tx, study, is_there)
        })
    }
}

/// Returns a change that can be repeated.
fn repeatable<R>(result: R) -> Change<R> {
    Change { result, trace: ChangeMarker::Repeatable }
}

fn check_study(tx: &mut Transaction<'_>, key: StudyKey) -> Result<(), Failure> {
    let sql = "SELECT 1 FROM fedbo.studies WHERE id = $1";
    match tx.query_typed_opt(sql, &[(&key.0, Type::INT8)])? {
        Some(_) => Ok(()),
        None => Err(StorageError::NoStudy { key }.into()),
    }
}

fn n_trials(tx: &mut Transaction<'_>, study: StudyKey) -> Result<u64, Failure> {
    let key = [(&study.0 as _, Type::INT8)];
    Ok(rows::number(tx, "number + 1", rows::LAST, &key)?.unwrap_or(0))
}

fn trial(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    study: StudyKey,
    number: u64,
) -> Result<Trial, Failure> {
    found(tx, study, number, |tx| rows::one(tx, has_outcomes, study, number))
}

/// Returns the trial found by `find`, or [`StorageError::NoTrial`].
fn found(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    find: impl FnOnce(&mut Transaction<'_>) -> Result<Option<Trial>, Failure>,
) -> Result<Trial, Failure> {
    match find(tx)? {
        Some(trial) => Ok(trial),
        None => {
            let n_trials = n_trials(tx, study)?;
            Err(StorageError::NoTrial { number, n_trials }.into())
        }
    }
}

fn end(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    trial: &mut Trial,
    told: Told,
    moment: Moment,
) -> Result<u64, Failure> {
    let key = [(&study.0 as _, Type::INT8)];
    let next = rows::number(tx, "told_seq + 1", rows::LAST_TOLD, &key)?;
    let seq = next.unwrap_or(1);
    rules::end(trial, told, seq, moment.now_ms);
    rows::update(tx, study, trial)?;
    outcomes::insert(tx, study, trial.number, trial.told().map_or(&[], Told::numbers), moment)?;
    Ok(seq)
}
