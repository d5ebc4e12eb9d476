//! A coordinator's store in a PostgreSQL database, shared by replicas on many machines.

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

/// Maximum number of connections per process.
const CONNECTIONS: usize = 8;
/// Maximum time that a call waits for an unreachable server. Rounds retry, and agents are told to
/// retry.
const PATIENCE: Duration = Duration::from_secs(2);

/// Store in a database, with its own schema `fedbo_coordinator`.
///
/// Any number of processes can share the store; one of them leads each study. Calls block, and must
/// not be made on a thread that runs async tasks.
pub struct PostgresStore {
    pool: Arc<Pool>,
    ledgers: Ledgers,
}

impl fmt::Debug for PostgresStore {
    /// Shows the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.pool.place()).finish()
    }
}

impl PostgresStore {
    /// Connects to a database, which must exist. With [`Mode::Create`], creates missing schemas,
    /// including that of the ledgers.
    ///
    /// # Errors
    /// If the store is missing or was not created by fedbo, or the server cannot be used or may
    /// lose acknowledged data.
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
                    "its schema fedbo_coordinator was not created by fedbo: it contains {names}; name another database"
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

    /// Returns the address without a password.
    #[must_use]
    pub fn place(&self) -> &str {
        self.pool.place()
    }

    /// Returns the coordinator's public key, as known to agents. Returns `None` until the first
    /// replica has recorded it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn identity(&self) -> Result<Option<PublicKey>, StoreError> {
        self.read(identity)
    }

    /// Records the coordinator's public key permanently, unless a key is already recorded. Returns
    /// the recorded key, which differs from `key` if another replica was first.
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

    /// Runs an idempotent write. If it is unknown whether the write was committed, it is retried.
    fn write<R>(&self, act: impl Fn(&mut Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        self.write_once(|tx, _| act(tx))
    }

    /// Runs a write that is not idempotent. The flag is true if an earlier attempt may have been
    /// committed.
    fn write_once<R>(
        &self,
        act: impl Fn(&mut Transaction<'_>, bool) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        let written = self.pool.write(Patience::of(PATIENCE), act);
        written.map_err(|ended| self.refusal(ended, Operation::Write))
    }

    /// Runs a transaction if `lead` is still current.
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
