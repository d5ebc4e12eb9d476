//! A connection to the server that is reopened after a loss, and its transactions.

use fedbo_postgres::{Connector, Patience, PostgresAddress, Problem, check_settings, close};
use postgres::types::Type;
use postgres::{Client, IsolationLevel, Transaction};

use super::failure::Failure;
use super::schema::Additions;
use super::{rows, schema};
use crate::{Mode, StorageError, StudyKey, Trial};

/// The lock that a change takes first. It serializes changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lock {
    /// The list of studies.
    Studies,
    /// One study.
    Study(StudyKey),
}

/// The result of a change for the caller, and the trace of the change in the tables.
pub(super) struct Change<R> {
    pub(super) result: R,
    pub(super) trace: ChangeMarker,
}

/// The server's state when a change has taken its lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Milliseconds since 1970.
    pub(super) now_ms: i64,
    /// True if the table of stops exists.
    pub(super) has_stops: bool,
    /// True if the table of further numbers exists.
    pub(super) has_outcomes: bool,
}

/// A trace from which a later attempt can detect that a change has taken effect.
pub(super) enum ChangeMarker {
    /// There is no trace, because the change is idempotent.
    Repeatable,
    /// This trial exists.
    Added(Trial),
    /// This trial exists in exactly this state.
    Changed(Trial),
    /// This trial exists in exactly this state, with exactly these reports from an epoch on.
    Reported { trial: Trial, from_epoch: u32 },
}

/// A connection that is opened on demand.
pub(super) struct Link {
    connector: Connector,
    client: Option<Client>,
}

impl Drop for Link {
    fn drop(&mut self) {
        close(self.client.take().into_iter().collect());
    }
}

impl Link {
    /// Connects, checks the server's settings, and creates missing tables if `mode` allows.
    pub(super) fn open(address: &PostgresAddress, mode: Mode) -> Result<Self, Failure> {
        let mut link = Self { connector: Connector::new(address)?, client: None };
        let mut patience = Patience::default();
        loop {
            match link.prepare(mode) {
                Err(failure) if failure.is_starting() => patience.spend(failure)?,
                prepared => return prepared.map(|()| link),
            }
        }
    }

    fn prepare(&mut self, mode: Mode) -> Result<(), Failure> {
        schema::prepare(self.client()?, mode)
    }

    /// Runs a read-only transaction. `act` sees a single snapshot, and the tables that exist beside
    /// the layout.
    pub(super) fn read<R>(
        &mut self,
        act: impl Fn(&mut Transaction<'_>, Additions) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut patience = Patience::default();
        loop {
            match self.attempt_read(&act) {
                Err(failure) if failure.is_lost() => {
                    self.client = None;
                    patience.spend(failure)?;
                }
                result => return result,
            }
        }
    }

    fn attempt_read<R>(
        &mut self,
        act: impl Fn(&mut Transaction<'_>, Additions) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut tx = self
            .client()?
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()?;
        let (version, additions) = schema::additions(&mut tx)?;
        schema::check(version)?;
        let result = act(&mut tx, additions)?;
        tx.commit()?;
        Ok(result)
    }

    /// Runs an atomic transaction exactly once. The transaction is durable when this returns. `act`
    /// receives the [`Moment`] after `lock` was taken, with the time by the server's clock.
    ///
    /// If the connection is lost before the commit, the transaction has not taken effect and is
    /// restarted. If the response to the commit is lost, the next attempt looks for the change's
    /// trace before it acts. It holds the lock meanwhile, so the earlier transaction has ended.
    pub(super) fn write<R>(
        &mut self,
        lock: Lock,
        act: impl Fn(&mut Transaction<'_>, Moment) -> Result<Change<R>, Failure>,
    ) -> Result<R, Failure> {
        let mut patience = Patience::default();
        let mut unsettled = None;
        loop {
            let failure = match self.attempt_write(lock, &mut unsettled, &act) {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            if failure.is_lost() {
                self.client = None;
            }
            let over = match failure.is_lost() {
                true => patience.spend(failure),
                false => Err(failure),
            };
            match over {
                Err(_) if unsettled.is_some() => return Err(Problem::Unsettled.into()),
                over => over?,
            }
        }
    }

    fn attempt_write<R>(
        &mut self,
        lock: Lock,
        unsettled: &mut Option<Change<R>>,
        act: impl Fn(&mut Transaction<'_>, Moment) -> Result<Change<R>, Failure>,
    ) -> Result<R, Failure> {
        let mut tx = self
            .client()?
            .build_transaction()
            .isolation_level(IsolationLevel::ReadCommitted)
            .start()?;
        let moment = begin(&mut tx, lock)?;
        if let Some(change) = unsettled {
            let is_there = is_there(&mut tx, lock, &change.trace, moment.has_outcomes)?;
            if let Some(change) = unsettled.take_if(|_| is_there) {
                return Ok(change.result);
            }
            *unsettled = None;
        }
        let change = act(&mut tx, moment)?;
        match tx.commit().map_err(Failure::from) {
            Ok(()) => Ok(change.result),
            Err(failure) => {
                if failure.is_lost() {
                    *unsettled = Some(change);
                }
                Err(failure)
            }
        }
    }

    fn client(&mut self) -> Result<&mut Client, Failure> {
        if self.client.as_ref().is_some_and(Client::is_closed) {
            self.client = None;
        }
        match &mut self.client {
            Some(client) => Ok(client),
            client => Ok(client.insert(self.connector.connect()?)),
        }
    }
}

/// Takes the lock for a change, then checks everything that may have changed since the connection
/// was opened.
fn begin(tx: &mut Transaction<'_>, lock: Lock) -> Result<Moment, Failure> {
    let key = match lock {
        Lock::Studies => None,
        Lock::Study(key) => Some(key.0),
    };
    let locked = match lock {
        Lock::Studies => "SELECT FROM fedbo.layout WHERE $1::bigint IS NULL FOR NO KEY UPDATE",
        Lock::Study(_) => "SELECT FROM fedbo.studies WHERE id = $1 FOR NO KEY UPDATE",
    };
    // The clock is read for each row of `locked`, that is, after the row is locked.
    let sql = format!(
        "WITH locked AS MATERIALIZED ({locked})
         SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (SELECT version FROM fedbo.layout),
                current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
                to_regclass('fedbo.stops') IS NOT NULL, to_regclass('fedbo.outcomes') IS NOT NULL
         FROM locked"
    );
    let row = tx.query_typed_opt(&sql, &[(&key, Type::INT8)])?;
    let row = row.ok_or_else(|| match lock {
        Lock::Study(key) => Failure::Storage(StorageError::NoStudy { key }),
        Lock::Studies => Failure::Contradiction("its layout has no version".to_owned()),
    })?;
    let version: Option<i64> = row.try_get(1)?;
    schema::check(version.unwrap_or_default())?;
    check_settings(row.try_get(2)?, row.try_get(3)?, row.try_get(4)?)?;
    Ok(Moment {
        now_ms: row.try_get(0)?,
        has_stops: row.try_get(5)?,
        has_outcomes: row.try_get(6)?,
    })
}

/// Returns true if a change has taken effect even though the response to its commit was lost.
fn is_there(
    tx: &mut Transaction<'_>,
    lock: Lock,
    trace: &ChangeMarker,
    has_outcomes: bool,
) -> Result<bool, Failure> {
    let Lock::Study(study) = lock else {
        return Ok(false);
    };
    let (ours, stored) = match trace {
        ChangeMarker::Repeatable => return Ok(false),
        ChangeMarker::Added(ours) | ChangeMarker::Changed(ours) => {
            (ours, rows::one(tx, has_outcomes, study, ours.number)?)
        }
        ChangeMarker::Reported { trial, from_epoch } => {
            let stored = rows::one_from(tx, has_outcomes, study, trial.number, *from_epoch)?;
            (trial, stored)
        }
    };
    let Some(stored) = stored else {
        return Ok(false);
    };
    Ok(match trace {
        // The trial may have been claimed in the meantime.
        ChangeMarker::Added(_) => {
            (&stored.point, &stored.source, stored.asked_at_ms)
                == (&ours.point, &ours.source, ours.asked_at_ms)
                && stored.ask_seconds.to_bits() == ours.ask_seconds.to_bits()
        }
        _ => stored == *ours,
    })
}
