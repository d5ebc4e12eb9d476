//! Ledgers in a PostgreSQL database. Processes on several machines can open them in turn.

mod backend;
mod layout;
mod rows;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fedbo_postgres::{Ended, Operation as Act, Patience, Pool, PoolError, PostgresAddress};
use postgres::types::Type;

use crate::record::Findings;
use crate::{Committed, Head, History, LedgerError, Releases, Report, Statement};
use layout::LAYOUT;
use rows::{Rows, entry, id, in_words, signed};

pub(crate) use backend::PostgresBackend;

/// The ledgers of a database, by the names of their studies.
///
/// Calls block and must not be made on a thread that drives asynchronous tasks.
#[derive(Clone)]
pub struct Ledgers {
    pool: Arc<Pool>,
    patience: Patience,
}

impl fmt::Debug for Ledgers {
    /// Formats the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ledgers").field(&self.pool.place()).finish()
    }
}

type Outcome<R> = Result<R, Ended<LedgerError>>;

impl Ledgers {
    /// Connects to a database that holds ledgers.
    ///
    /// # Errors
    /// [`LedgerError::Absent`] if the database holds no ledgers; [`LedgerError::Read`] if the
    /// server cannot be used, or may lose acknowledged commits.
    pub fn open(address: &PostgresAddress) -> Result<Self, LedgerError> {
        let place = PathBuf::from(address.to_string());
        let pool = Pool::open(address, 1).map_err(|fault| in_words(fault, place, Act::Connect))?;
        Self::in_pool(Arc::new(pool), false)
    }

    /// Uses an existing pool. Creates the tables if they are missing and `creates` is true.
    ///
    /// # Errors
    /// Same as for [`Ledgers::open`].
    pub fn in_pool(pool: Arc<Pool>, creates: bool) -> Result<Self, LedgerError> {
        let path = PathBuf::from(pool.place());
        match pool.prepare(&LAYOUT, creates) {
            Ok(()) => Ok(Self { pool, patience: Patience::default() }),
            Err(PoolError::Absent) => Err(LedgerError::Absent { path }),
            Err(PoolError::NotOurs(names)) => Err(LedgerError::NotALedger {
                path,
                message: format!(
                    "its schema fedbo_ledger was not created by fedbo: it contains {names}; name another database"
                ),
            }),
            Err(PoolError::Version { found, expected }) => {
                Err(LedgerError::Version { path, found, expected })
            }
            Err(PoolError::Problem(fault)) => Err(in_words(fault, path, Act::Connect)),
        }
    }

    /// Sets the retry time for an unreachable server. The default is ten seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: Patience::of(patience), ..self }
    }

    /// Returns the name of a study's ledger for messages.
    pub(crate) fn place_of(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}, ledger of {name:?}", self.pool.place()))
    }

    /// Returns the names of all studies that have a ledger.
    ///
    /// # Errors
    /// [`LedgerError::Read`].
    pub fn names(&self) -> Result<Vec<String>, LedgerError> {
        let read = self.pool.read(self.patience, |tx| -> Outcome<_> {
            let rows = tx.query_typed("SELECT name FROM fedbo_ledger.ledgers ORDER BY id", &[])?;
            Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
        });
        read.map_err(|ended| self.refusal(ended, PathBuf::from(self.pool.place()), Act::Read))
    }

    /// Lists all problems in the ledger of a study, like [`crate::verify`] for a file.
    ///
    /// # Errors
    /// [`LedgerError::Absent`], [`LedgerError::Read`]. Damage is reported, not returned as an
    /// error.
    pub fn verify(&self, name: &str, known: Option<&Head>) -> Result<Report, LedgerError> {
        self.look(name, known).map(Findings::into_report)
    }

    /// Returns the spending of a study, like [`crate::read`] for a file.
    ///
    /// # Errors
    /// Same as for [`Ledgers::verify`]; [`LedgerError::Corrupt`] if the ledger has a problem.
    pub fn read(&self, name: &str) -> Result<Statement, LedgerError> {
        let record = self.look(name, None)?.into_record(&self.place_of(name))?;
        Statement::of(&record)
    }

    /// Returns the spending and every release, like [`crate::releases`] for a file.
    ///
    /// # Errors
    /// Same as for [`Ledgers::read`].
    pub fn releases(&self, name: &str) -> Result<(Statement, Releases), LedgerError> {
        let findings = self.look_keeping(name, None, Findings::with_releases)?;
        findings.into_releases(&self.place_of(name))
    }

    /// Returns every entry without the bytes of its release, like [`crate::history`] for a file.
    ///
    /// # Errors
    /// Same as for [`Ledgers::read`].
    pub fn history(&self, name: &str) -> Result<History, LedgerError> {
        let findings = self.look_keeping(name, None, Findings::with_entries)?;
        findings.into_history(&self.place_of(name))
    }

    /// Returns the entries after `head` for rounds before `round`, for a reader that follows the
    /// ledger without writing to it. Checks that the first entry follows from `head`, and each
    /// other entry from the previous one.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] if an entry does not follow; [`LedgerError::Read`].
    pub fn follow(
        &self,
        name: &str,
        head: Head,
        round: u64,
    ) -> Result<Vec<Committed>, LedgerError> {
        let (after, before) = (signed(head.seq), signed(round));
        let read = self.pool.read(self.patience, |tx| -> Outcome<_> {
            let rows = tx.query_typed(
                "SELECT seq, previous, round, event, release, hash FROM fedbo_ledger.entries
                 WHERE ledger = (SELECT id FROM fedbo_ledger.ledgers WHERE name = $1) AND seq > $2 AND round < $3
                 ORDER BY seq",
                &[
                    (&name, Type::TEXT),
                    (&after, Type::INT8),
                    (&before, Type::INT8),
                ],
            )?;
            let mut head = head;
            let mut entries = Vec::new();
            for row in &rows {
                let stored = entry(row)?;
                let next = head.follow(stored.round, stored.event, stored.release);
                if (next.seq, next.hash) != (stored.seq, stored.hash) {
                    return Err(Ended::Caller(self.corrupt(
                        name,
                        &format!("entry {} does not follow from the previous one", stored.seq),
                    )));
                }
                head = next;
                entries.push(Committed {
                    seq: stored.seq,
                    round: stored.round,
                    event: stored.event.to_vec(),
                    release: stored.release.to_vec(),
                });
            }
            Ok(entries)
        });
        read.map_err(|ended| self.refusal(ended, self.place_of(name), Act::Read))
    }

    fn look(&self, name: &str, known: Option<&Head>) -> Result<Findings, LedgerError> {
        self.look_keeping(name, known, Findings::default)
    }

    fn look_keeping(
        &self,
        name: &str,
        known: Option<&Head>,
        begin: fn() -> Findings,
    ) -> Result<Findings, LedgerError> {
        let read = self.pool.read(self.patience, |tx| {
            let id = id(tx, name)?
                .ok_or_else(|| Ended::Caller(LedgerError::Absent { path: self.place_of(name) }))?;
            let mut rows = Rows { tx, id };
            Ok(begin().adding(&mut rows, known)?)
        });
        read.map_err(|ended| self.refusal(ended, self.place_of(name), Act::Read))
    }

    fn corrupt(&self, name: &str, what: &str) -> LedgerError {
        LedgerError::Corrupt {
            path: self.place_of(name),
            message: format!("{what}; `fedbo privacy verify` lists the problems"),
        }
    }

    fn refusal(&self, ended: Ended<LedgerError>, path: PathBuf, act: Act) -> LedgerError {
        match ended {
            Ended::Caller(error) => error,
            Ended::Problem(fault) => in_words(fault, path, act),
        }
    }
}
