//! A pool of connections shared between threads, and transactions on them.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postgres::types::{ToSql, Type};
use postgres::{Client, IsolationLevel, Row, Transaction};

use crate::schema::Found;
use crate::{Connector, Layout, Patience, PostgresAddress, Problem, check_settings};

/// Longest wait for a free connection.
const TURN: Duration = Duration::from_secs(10);

/// The reason why a transaction ended early.
#[derive(Debug)]
pub enum Ended<E> {
    /// A problem with the server.
    Problem(Problem),
    /// An error from the caller's closure. The transaction changed nothing.
    Caller(E),
}

impl<E> From<postgres::Error> for Ended<E> {
    fn from(error: postgres::Error) -> Self {
        Self::Problem(error.into())
    }
}

impl<E> From<Problem> for Ended<E> {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// The reason why a database cannot be used for a layout.
#[derive(Debug)]
pub enum PoolError {
    /// A problem with the server.
    Problem(Problem),
    /// The schema is absent or empty.
    Absent,
    /// The schema contains another program's tables, listed by name.
    NotOurs(String),
    /// The layout has a different version.
    Version {
        /// The database's version.
        found: i64,
        /// This program's version.
        expected: i64,
    },
}

/// Connections to one database, opened on demand and reopened after a loss.
///
/// Calls block and must not be made on a thread that drives asynchronous tasks.
pub struct Pool {
    connector: Connector,
    place: String,
    idle: Mutex<Idle>,
    freed: Condvar,
}

struct Idle {
    clients: Vec<Client>,
    /// Number of connections that can still be opened, in addition to idle connections and
    /// connections in use.
    n_left: usize,
}

impl fmt::Debug for Pool {
    /// Formats the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.place).finish()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        close(std::mem::take(&mut self.lock().clients));
    }
}

/// Closes connections on a separate thread. Each connection drives its own runtime, which must not
/// be dropped on a thread of another runtime.
pub fn close(clients: Vec<Client>) {
    if clients.is_empty() {
        return;
    }
    let ended = std::thread::Builder::new().spawn(move || drop(clients));
    if let Ok(thread) = ended {
        let _ = thread.join(); // dropping a connection does not panic
    }
}

impl Pool {
    /// Opens a pool of at most `n` connections. One connection is opened immediately.
    ///
    /// # Errors
    /// If the server cannot be used.
    pub fn open(address: &PostgresAddress, n: usize) -> Result<Self, Problem> {
        let pool = Self {
            connector: Connector::new(address)?,
            place: address.to_string(),
            idle: Mutex::new(Idle { clients: Vec::new(), n_left: n.max(1) }),
            freed: Condvar::new(),
        };
        let mut patience = Patience::default();
        loop {
            match pool.take(None).map(|client| pool.give_back(Some(client))) {
                Err(problem) if problem.is_starting() => patience.spend(problem)?,
                done => return done.map(|()| pool),
            }
        }
    }

    /// Returns the database's address without a password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Checks a layout. Creates it if it is missing and `creates` is true.
    ///
    /// # Errors
    /// If the layout is missing or has a different version, if the schema belongs to another
    /// program, or if the server cannot be used.
    pub fn prepare(&self, layout: &Layout, creates: bool) -> Result<(), PoolError> {
        let mut client = self.take(None).map_err(PoolError::Problem)?;
        let found = layout.prepare(&mut client, creates);
        self.give_back(Some(client));
        match found.map_err(PoolError::Problem)? {
            Found::Version(found) if found == layout.version => Ok(()),
            Found::Version(found) => Err(PoolError::Version { found, expected: layout.version }),
            Found::Nothing { .. } => Err(PoolError::Absent),
            Found::Other(names) => Err(PoolError::NotOurs(names)),
        }
    }

    /// Runs a read-only transaction. `act` sees a single snapshot.
    ///
    /// # Errors
    /// Returns the error of `act`, or a problem that lasts longer than `patience`.
    pub fn read<R, E>(
        &self,
        mut patience: Patience,
        act: impl Fn(&mut Transaction<'_>) -> Result<R, Ended<E>>,
    ) -> Result<R, Ended<E>> {
        loop {
            let mut client = self.take(Some(&mut patience))?;
            let mut attempt = || {
                let mut tx = client
                    .build_transaction()
                    .isolation_level(IsolationLevel::RepeatableRead)
                    .read_only(true)
                    .start()?;
                let result = act(&mut tx)?;
                tx.commit()?;
                Ok(result)
            };
            let result = attempt();
            match self.settle(client, result) {
                Err(Ended::Problem(problem)) if problem.is_lost() => patience.spend(problem)?,
                result => return result,
            }
        }
    }

    /// Runs an idempotent statement as its own transaction. The statement is repeated if the
    /// server's response was lost.
    ///
    /// # Errors
    /// Returns the server's error, or a problem that lasts longer than `patience`.
    pub fn statement(
        &self,
        mut patience: Patience,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Problem> {
        loop {
            let mut client = self.take(Some(&mut patience))?;
            let result = client.query_typed(sql, values).map_err(Problem::from);
            let is_lost = matches!(&result, Err(problem) if problem.is_lost());
            self.give_back((!is_lost).then_some(client));
            match result {
                Err(problem) if is_lost => patience.spend(problem)?,
                result => return result,
            }
        }
    }

    /// Runs an atomic transaction, which is durable when this returns. `act` must first take the
    /// lock that all writers of the same data share.
    ///
    /// If the connection is lost before the commit, the transaction has not taken effect and is
    /// restarted. If the response to the commit is lost, `act` is called with `true`. While holding
    /// its lock, it must then check that the change does not exist yet before it repeats the
    /// change. The lock ensures that the earlier transaction has ended.
    ///
    /// # Errors
    /// Returns the error of `act`; [`Problem::Unsettled`] if it is unknown whether the change has
    /// taken effect; any other problem if it has not.
    pub fn write<R, E>(
        &self,
        mut patience: Patience,
        act: impl Fn(&mut Transaction<'_>, bool) -> Result<R, Ended<E>>,
    ) -> Result<R, Ended<E>> {
        let mut is_unsettled = false;
        loop {
            let attempted = match self.take(Some(&mut patience)) {
                Ok(client) => self.attempt_write(client, &mut is_unsettled, &act),
                Err(problem) => Err(problem.into()),
            };
            let over = match attempted {
                Err(Ended::Problem(problem)) if problem.is_lost() => patience.spend(problem),
                Err(Ended::Problem(problem)) => Err(problem),
                result => return result,
            };
            match over {
                Err(_) if is_unsettled => return Err(Problem::Unsettled.into()),
                over => over?,
            }
        }
    }

    fn attempt_write<R, E>(
        &self,
        mut client: Client,
        is_unsettled: &mut bool,
        act: impl Fn(&mut Transaction<'_>, bool) -> Result<R, Ended<E>>,
    ) -> Result<R, Ended<E>> {
        let mut attempt = || {
            let mut tx = client
                .build_transaction()
                .isolation_level(IsolationLevel::ReadCommitted)
                .start()?;
            // The settings may have changed since the connection was opened.
            let row = tx.query_typed_one(
                "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')",
                &[],
            )?;
            check_settings(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
            let result = act(&mut tx, *is_unsettled)?;
            // `act` has resolved any unsettled commit while holding the lock.
            *is_unsettled = false;
            match tx.commit().map_err(Problem::from) {
                Ok(()) => Ok(result),
                Err(problem) => {
                    *is_unsettled = problem.is_lost();
                    Err(problem.into())
                }
            }
        };
        let result = attempt();
        self.settle(client, result)
    }

    /// Returns a connection to the pool, or drops a lost one.
    fn settle<R, E>(&self, client: Client, result: Result<R, Ended<E>>) -> Result<R, Ended<E>> {
        let is_lost = matches!(&result, Err(Ended::Problem(problem)) if problem.is_lost());
        self.give_back((!is_lost).then_some(client));
        result
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an idle connection or opens a new one. With `patience`, retries while the server is
    /// unreachable.
    fn take(&self, mut patience: Option<&mut Patience>) -> Result<Client, Problem> {
        let until = Instant::now() + TURN;
        let mut idle = self.lock();
        loop {
            while let Some(client) = idle.clients.pop() {
                if !client.is_closed() {
                    return Ok(client);
                }
                idle.n_left += 1;
            }
            if idle.n_left > 0 {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let words =
                    "all connections to the server are in use; the server responds too slowly";
                return Err(Problem::Refused(words.to_owned()));
            }
            let waited = self.freed.wait_timeout(idle, left);
            idle = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        idle.n_left -= 1;
        drop(idle);
        loop {
            let problem = match self.connector.connect() {
                Ok(client) => return Ok(client),
                Err(problem) => problem,
            };
            let continues = match &mut patience {
                Some(patience) if problem.is_lost() => patience.spend(problem),
                _ => Err(problem),
            };
            if let Err(problem) = continues {
                self.give_back(None);
                return Err(problem);
            }
        }
    }

    fn give_back(&self, client: Option<Client>) {
        let mut idle = self.lock();
        match client {
            Some(client) => idle.clients.push(client),
            None => idle.n_left += 1,
        }
        drop(idle);
        self.freed.notify_one();
    }
}
