//! Connections that threads share, and the transactions on them.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postgres::types::{ToSql, Type};
use postgres::{Client, IsolationLevel, Row, Transaction};

use crate::schema::Found;
use crate::{Connector, Layout, Patience, PostgresAddress, Problem, check_settings};

/// The time for which a call waits for one of the connections.
const TURN: Duration = Duration::from_secs(10);

/// The reason why a transaction ends early: a problem with the server, or what its caller found.
#[derive(Debug)]
pub enum Ended<E> {
    /// With the server.
    Problem(Problem),
    /// In words of the caller already; nothing was changed.
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
    /// The server.
    Problem(Problem),
    /// There is nothing of ours.
    Absent,
    /// Somebody else's tables have the schema's name: which.
    NotOurs(String),
    /// The layout is of another version.
    Version {
        /// The database's.
        found: i64,
        /// Ours.
        expected: i64,
    },
}

/// Connections to one database, opened when they are needed and anew when they were lost. Calls block, and must not be made on
/// a thread that drives asynchronous tasks.
pub struct Pool {
    connector: Connector,
    place: String,
    idle: Mutex<Idle>,
    freed: Condvar,
}

struct Idle {
    clients: Vec<Client>,
    /// Connections that may be opened besides those that are, or are being used.
    n_left: usize,
}

impl fmt::Debug for Pool {
    /// The address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.place).finish()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        close(std::mem::take(&mut self.lock().clients));
    }
}

/// Closes connections, on whatever thread: each drives a runtime of its own, which must not end on a thread of another.
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
    /// At most `n` connections, of which one is made now.
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

    /// The database's address, without a password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Checks a layout; with `creates` one that is missing is made.
    ///
    /// # Errors
    /// If it is not there, or not ours.
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

    /// One transaction that changes nothing: all that `act` reads is of one moment.
    ///
    /// # Errors
    /// What `act` returns, or a problem that lasts longer than `patience`.
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

    /// One statement that is a transaction by itself, and may be run once more when its answer was lost: it then leads to the same.
    ///
    /// # Errors
    /// What the server says; a problem that lasts longer than `patience`.
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

    /// One transaction that happens wholly or not at all, and is durable when this returns. `act` first takes the lock that
    /// others who change the same take too.
    ///
    /// A transaction whose connection is lost before its commit has not happened, and is begun anew. When the answer to the commit is
    /// lost, `act` is called with `true`: under its lock, so that what was under way has ended, it looks whether the change is there
    /// before it makes it.
    ///
    /// # Errors
    /// What `act` returns; [`Problem::Unsettled`] if it is not known whether the change has happened; other problems if it has not.
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
            // Settings may have been changed since the connection was made.
            let row = tx.query_typed_one(
                "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')",
                &[],
            )?;
            check_settings(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)?;
            let result = act(&mut tx, *is_unsettled)?;
            // Whatever was unsettled has been looked at under the lock.
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

    /// Gives a connection back, or forgets one that is gone.
    fn settle<R, E>(&self, client: Client, result: Result<R, Ended<E>>) -> Result<R, Ended<E>> {
        let is_lost = matches!(&result, Err(Ended::Problem(problem)) if problem.is_lost());
        self.give_back((!is_lost).then_some(client));
        result
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, new if none is idle. With `patience`, a server that is away is waited for.
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
                let words = "all connections to the server are in use; it answers too slowly";
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
            let goes_on = match &mut patience {
                Some(patience) if problem.is_lost() => patience.spend(problem),
                _ => Err(problem),
            };
            if let Err(problem) = goes_on {
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
