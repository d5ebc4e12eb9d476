//! A coordinator's store in a PostgreSQL database, which replicas on many machines share.

mod inbox;
mod layout;
mod rows;
mod shards;
mod studies;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fedbo_database::Mode;
use fedbo_ledger::Ledgers;
use fedbo_postgres::{Ended, Operation, Patience, Pool, PoolError, PostgresAddress};
use fedbo_wire::PublicKey;
use postgres::Transaction;

use super::{Lead, StoreError};
use layout::LAYOUT;
use rows::{Outcome, bytes, identity, in_words, int};

/// Connections of a process at most.
const CONNECTIONS: usize = 8;
/// The time for which a call waits for a server that is away: rounds try again, and agents are told to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A store in a database, in a schema `fedbo_coordinator` of its own. Any number of processes may share it; one of them plays a
/// study's rounds. Calls block, and must not be made on a thread that drives asynchronous tasks.
pub struct PostgresStore {
    pool: Arc<Pool>,
    ledgers: Ledgers,
}

impl fmt::Debug for PostgresStore {
    /// The address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.pool.place()).finish()
    }
}

impl PostgresStore {
    /// Connects; with [`Mode::Create`] schemas that are missing are laid out, also that of the ledgers. The database itself must be
    /// there.
    ///
    /// # Errors
    /// If there is no store, it is none of ours, or the server cannot be used or may lose what it acknowledged.
    pub fn open(address: &PostgresAddress, mode: Mode) -> Result<Self, StoreError> {
        let path = PathBuf::from(address.to_string());
        let refused = |problem| in_words(problem, path.clone(), Operation::Connect);
        let pool = Arc::new(Pool::open(address, CONNECTIONS).map_err(refused)?);
        let creates = mode == Mode::Create;
        match pool.prepare(&LAYOUT, creates) {
            Ok(()) => {}
            Err(PoolError::Absent) => return Err(StoreError::Absent { path }),
            Err(PoolError::NotOurs(names)) => {
                let message = format!(
                    "its schema fedbo_coordinator is not one of ours: it holds {names}; name another database"
                );
                return Err(StoreError::NotAStore { path, message });
            }
            Err(PoolError::Version { found, expected }) => {
                return Err(StoreError::Version { path, found, expected });
            }
            Err(PoolError::Problem(problem)) => {
                return Err(in_words(problem, path, Operation::Connect));
            }
        }
        let ledgers = Ledgers::in_pool(Arc::clone(&pool), true).map_err(|error| {
            StoreError::Refused { path: path.clone(), message: error.to_string() }
        })?;
        Ok(Self { pool, ledgers })
    }

    /// The address, without a password.
    #[must_use]
    pub fn place(&self) -> &str {
        self.pool.place()
    }

    /// The public key by which agents know this coordinator; none before the first replica has said so.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn identity(&self) -> Result<Option<PublicKey>, StoreError> {
        self.read(identity)
    }

    /// Says by which key agents know this coordinator, once and for ever. Returns the key that counts: another one, if somebody else
    /// was faster.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn identify(&self, key: &PublicKey) -> Result<PublicKey, StoreError> {
        self.write(|tx| {
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.identity (key) VALUES ($1) ON CONFLICT DO NOTHING",
                &[bytes(&&key.0[..])],
            )?;
            Ok(identity(tx)?.unwrap_or(*key))
        })
    }

    fn refusal(&self, ended: Ended<StoreError>, doing: Operation) -> StoreError {
        match ended {
            Ended::Caller(error) => error,
            Ended::Problem(problem) => in_words(problem, self.pool.place().into(), doing),
        }
    }

    fn read<R>(&self, act: impl Fn(&mut Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        let read = self.pool.read(Patience::of(PATIENCE), act);
        read.map_err(|ended| self.refusal(ended, Operation::Read))
    }

    /// Changes that lead to the same when they are made once more: who does not know whether one happened makes it again.
    fn write<R>(&self, act: impl Fn(&mut Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        self.write_once(|tx, _| act(tx))
    }

    /// The flag says whether the change may have happened already.
    fn write_once<R>(
        &self,
        act: impl Fn(&mut Transaction<'_>, bool) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        let written = self.pool.write(Patience::of(PATIENCE), act);
        written.map_err(|ended| self.refusal(ended, Operation::Write))
    }

    /// A transaction of whoever leads the study.
    fn lead_on<R>(
        &self,
        lead: &Lead,
        act: impl Fn(&mut Transaction<'_>, bool) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        self.write_once(|tx, is_again| {
            let sql = "SELECT token FROM fedbo_coordinator.studies WHERE id = $1 FOR NO KEY UPDATE";
            let row = tx.query_typed_opt(sql, &[int(&lead.study.0)])?;
            let token: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
            if token != Some(lead.token) {
                return Err(StoreError::Superseded.into_ended());
            }
            act(tx, is_again)
        })
    }
}
