//! Ledgers in a PostgreSQL database, which processes of many machines may open one after the other.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fedbo_failpoints::pass;
use fedbo_postgres::{
    Doing as Act, Ended, Patience, Pool, PoolError, PostgresAddress, Problem as Fault,
};
use postgres::types::Type;
use postgres::{Row, Transaction};

use crate::backend::{Backend, Key, Source, StoredCharter, StoredEntry};
use crate::chain::{Entry, Hash};
use crate::charter::mode_name;
use crate::postgres_layout::{LAYOUT, TRIGGERS};
use crate::record::{Findings, Record};
use crate::{Charter, Committed, Head, LedgerError, Report, Statement};

const ENTRY: &str =
    "SELECT seq, previous, round, event, release, hash FROM fedbo_ledger.entries WHERE ledger = $1";

/// Entries that are read at once when many are.
const BATCH: i64 = 16;

/// The ledgers of a database, by the names of their studies. Calls block, and must not be made on a thread that drives
/// asynchronous tasks.
#[derive(Clone)]
pub struct Ledgers {
    pool: Arc<Pool>,
    patience: Patience,
}

impl fmt::Debug for Ledgers {
    /// The address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ledgers").field(&self.pool.place()).finish()
    }
}

type Outcome<R> = Result<R, Ended<LedgerError>>;

impl Ledgers {
    /// Connects to a database that holds ledgers.
    ///
    /// # Errors
    /// [`LedgerError::Absent`] if it holds none; [`LedgerError::Read`] if the server cannot be used, or may lose what it
    /// acknowledged.
    pub fn open(address: &PostgresAddress) -> Result<Self, LedgerError> {
        let place = PathBuf::from(address.to_string());
        let pool = Pool::open(address, 1).map_err(|fault| in_words(fault, place, Act::Connect))?;
        Self::in_pool(Arc::new(pool), false)
    }

    /// On connections that are there; with `creates` the tables are made if they are not.
    ///
    /// # Errors
    /// As for [`Ledgers::open`].
    pub fn in_pool(pool: Arc<Pool>, creates: bool) -> Result<Self, LedgerError> {
        let path = PathBuf::from(pool.place());
        match pool.prepare(&LAYOUT, creates) {
            Ok(()) => Ok(Self {
                pool,
                patience: Patience::default(),
            }),
            Err(PoolError::Absent) => Err(LedgerError::Absent { path }),
            Err(PoolError::NotOurs(names)) => Err(LedgerError::NotALedger {
                path,
                message: format!(
                    "its schema fedbo_ledger is not one of ours: it holds {names}; name another database"
                ),
            }),
            Err(PoolError::Version { found, expected }) => Err(LedgerError::Version {
                path,
                found,
                expected,
            }),
            Err(PoolError::Problem(fault)) => Err(in_words(fault, path, Act::Connect)),
        }
    }

    /// Goes on trying for so long, instead of ten seconds, when the server is away.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self {
            patience: Patience::of(patience),
            ..self
        }
    }

    /// How messages call the ledger of a study.
    pub(crate) fn place_of(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}, ledger of {name:?}", self.pool.place()))
    }

    /// The names of all studies that have a ledger.
    ///
    /// # Errors
    /// [`LedgerError::Read`].
    pub fn names(&self) -> Result<Vec<String>, LedgerError> {
        let read = self.pool.read(self.patience, |tx| -> Outcome<_> {
            let rows = tx.query_typed("SELECT name FROM fedbo_ledger.ledgers ORDER BY id", &[])?;
            Ok(rows
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<_, _>>()?)
        });
        read.map_err(|ended| self.refusal(ended, PathBuf::from(self.pool.place()), Act::Read))
    }

    /// Lists all that is wrong in the ledger of a study, as [`crate::verify`] does for a file.
    ///
    /// # Errors
    /// [`LedgerError::Absent`], [`LedgerError::Read`]. Damage is no error, it stands in the report.
    pub fn verify(&self, name: &str, known: Option<&Head>) -> Result<Report, LedgerError> {
        self.look(name, known).map(Findings::into_report)
    }

    /// What the study has spent, as [`crate::read`] says of a file.
    ///
    /// # Errors
    /// As for [`Ledgers::verify`]; [`LedgerError::Corrupt`] if anything is wrong with it.
    pub fn read(&self, name: &str) -> Result<Statement, LedgerError> {
        let record = self.look(name, None)?.into_record(&self.place_of(name))?;
        Statement::of(&record)
    }

    /// What was committed after `head` for rounds before `round`, for somebody who follows the ledger and does not write it.
    /// Each entry is checked to follow from the one before it, the first from `head`.
    ///
    /// # Errors
    /// [`LedgerError::Corrupt`] if one does not; [`LedgerError::Read`].
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
                        &format!("entry {} does not follow from the one before", stored.seq),
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
        let read = self.pool.read(self.patience, |tx| {
            let id = id(tx, name)?.ok_or_else(|| {
                Ended::Caller(LedgerError::Absent {
                    path: self.place_of(name),
                })
            })?;
            Ok(Findings::with_known(&mut Rows { tx, id }, known)?)
        });
        read.map_err(|ended| self.refusal(ended, self.place_of(name), Act::Read))
    }

    fn corrupt(&self, name: &str, what: &str) -> LedgerError {
        LedgerError::Corrupt {
            path: self.place_of(name),
            message: format!("{what}; `fedbo privacy verify` lists what is wrong"),
        }
    }

    fn refusal(&self, ended: Ended<LedgerError>, path: PathBuf, act: Act) -> LedgerError {
        match ended {
            Ended::Caller(error) => error,
            Ended::Problem(fault) => in_words(fault, path, act),
        }
    }
}

/// One ledger, as long as its fencing token is the one that was raised when it was opened.
pub(crate) struct PostgresBackend {
    ledgers: Ledgers,
    name: String,
    id: i64,
}

impl PostgresBackend {
    /// Begins the ledger of a new study.
    pub(crate) fn create(
        ledgers: &Ledgers,
        charter: &Charter,
    ) -> Result<(Self, Record), LedgerError> {
        let hash = charter.hash();
        let created = ledgers.pool.write(ledgers.patience, |tx, is_again| {
            let n_added = tx.query_typed(
                "INSERT INTO fedbo_ledger.ledgers (name, config, epsilon, delta, mode, accountant, hash)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id",
                &[
                    (&charter.name, Type::TEXT),
                    (&charter.config, Type::BYTEA),
                    (&charter.budget.epsilon(), Type::FLOAT8),
                    (&charter.budget.delta().get(), Type::FLOAT8),
                    (&mode_name(charter.mode), Type::TEXT),
                    (&charter.accountant.name(), Type::TEXT),
                    (&&hash[..], Type::BYTEA),
                ],
            )?;
            // Where the answer was lost, the one that is there was begun by this call; opening it compares the charters.
            match n_added.is_empty() && !is_again {
                true => Err(Ended::Caller(LedgerError::Exists {
                    path: ledgers.place_of(&charter.name),
                })),
                false => Ok(()),
            }
        });
        created
            .map_err(|ended| ledgers.refusal(ended, ledgers.place_of(&charter.name), Act::Write))?;
        Self::open(ledgers, charter)
    }

    /// Opens a ledger after all of it was verified, and raises its fencing token: whoever had it open can commit no more.
    pub(crate) fn open(
        ledgers: &Ledgers,
        charter: &Charter,
    ) -> Result<(Self, Record), LedgerError> {
        let place = ledgers.place_of(&charter.name);
        let opened = ledgers.pool.write(ledgers.patience, |tx, _| {
            let locked = tx.query_typed_opt(
                "SELECT id FROM fedbo_ledger.ledgers WHERE name = $1 FOR NO KEY UPDATE",
                &[(&charter.name, Type::TEXT)],
            )?;
            let Some(locked) = locked else {
                let path = place.clone();
                return Err(Ended::Caller(LedgerError::Absent { path }));
            };
            let id: i64 = locked.try_get(0)?;
            let findings = Findings::of(&mut Rows { tx, id })?;
            let mut record = findings.into_record(&place).map_err(Ended::Caller)?;
            let differences = charter.differences(&record.charter);
            if !differences.is_empty() {
                let path = place.clone();
                return Err(Ended::Caller(LedgerError::OtherCharter {
                    path,
                    differences,
                }));
            }
            let no_more =
                || Ended::Caller(ledgers.corrupt(&charter.name, "its fencing token is at its end"));
            record.token = record.token.checked_add(1).ok_or_else(no_more)?;
            tx.query_typed(
                "UPDATE fedbo_ledger.ledgers SET token = $2 WHERE id = $1",
                &[(&id, Type::INT8), (&record.token, Type::INT8)],
            )?;
            Ok((id, record))
        });
        let (id, record) = opened.map_err(|ended| ledgers.refusal(ended, place, Act::Write))?;
        pass("ledger: its fencing token is raised");
        let backend = Self {
            ledgers: ledgers.clone(),
            name: charter.name.clone(),
            id,
        };
        Ok((backend, record))
    }
}

impl Backend for PostgresBackend {
    fn find(&self, key: Key, take: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<bool, LedgerError> {
        let (column, key) = match key {
            Key::Seq(seq) => ("seq", seq),
            Key::Round(round) => ("round", round),
        };
        let ledgers = &self.ledgers;
        let refusal = |ended| ledgers.refusal(ended, ledgers.place_of(&self.name), Act::Read);
        let row = ledgers.pool.read(ledgers.patience, |tx| {
            let sql = format!("{ENTRY} AND {column} = $2");
            Ok(tx.query_typed_opt(&sql, &[(&self.id, Type::INT8), (&key, Type::INT8)])?)
        });
        let Some(row) = row.map_err(refusal)? else {
            return Ok(false);
        };
        let stored = entry(&row).map_err(|fault| refusal(fault.into()))?;
        if !stored.has_its_hash() {
            let what = format!("entry {} does not have its hash", stored.seq);
            return Err(ledgers.corrupt(&self.name, &what));
        }
        take(&stored);
        Ok(true)
    }

    /// A commit whose answer was lost is looked for under the lock of the ledger's row, which its transaction held to its end:
    /// it is written again only if it is known not to have happened.
    fn append(&mut self, token: i64, new: &Entry<'_>, head: &Head) -> Result<(), LedgerError> {
        let ledgers = &self.ledgers;
        let place = ledgers.place_of(&self.name);
        let id = (&self.id as _, Type::INT8);
        let (seq, round) = (signed(new.seq), signed(new.round));
        let appended = ledgers.pool.write(ledgers.patience, |tx, is_again| {
            let row = tx.query_typed_opt(
                "SELECT token FROM fedbo_ledger.ledgers WHERE id = $1 FOR NO KEY UPDATE",
                std::slice::from_ref(&id),
            )?;
            let found: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
            if found != Some(token) {
                let path = place.clone();
                return Err(Ended::Caller(LedgerError::Superseded { path }));
            }
            let last = tx.query_typed_opt(
                "SELECT seq, hash FROM fedbo_ledger.entries WHERE ledger = $1 ORDER BY seq DESC LIMIT 1",
                std::slice::from_ref(&id),
            )?;
            let last = match last {
                Some(row) => (row.try_get::<_, i64>(0)?, hash_of(&row, 1)?),
                None => (0, *new.previous), // the charter's, which never changes
            };
            if is_again && last == (seq, head.hash) {
                return Ok(());
            }
            if last != (seq - 1, *new.previous) {
                let what = format!("it ends at entry {}, expected entry {}", last.0, seq - 1);
                return Err(Ended::Caller(ledgers.corrupt(&self.name, &what)));
            }
            tx.query_typed(
                "INSERT INTO fedbo_ledger.entries (ledger, seq, previous, round, event, release, hash)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    id.clone(),
                    (&seq, Type::INT8),
                    (&&new.previous[..], Type::BYTEA),
                    (&round, Type::INT8),
                    (&new.event, Type::BYTEA),
                    (&new.release, Type::BYTEA),
                    (&&head.hash[..], Type::BYTEA),
                ],
            )?;
            pass("ledger: a charge is written and not committed");
            Ok(())
        });
        appended.map_err(|ended| ledgers.refusal(ended, place.clone(), Act::Write))?;
        pass("ledger: a charge is committed");
        Ok(())
    }
}

/// The rows of one ledger in a transaction.
struct Rows<'t, 'c> {
    tx: &'t mut Transaction<'c>,
    id: i64,
}

impl Source for Rows<'_, '_> {
    type Failure = Fault;

    fn is_damage(failure: &Fault) -> bool {
        failure.is_damage()
    }

    /// What PostgreSQL has no check for, such as damaged indexes, shows in the chain: rows are read in order and by number.
    fn problems(&mut self) -> Result<Vec<String>, Fault> {
        let rows = self.tx.query_typed(
            "SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')
             AND tgrelid IN ('fedbo_ledger.ledgers'::regclass, 'fedbo_ledger.entries'::regclass) ORDER BY tgname::text",
            &[],
        )?;
        let found: Vec<String> = rows
            .iter()
            .map(|row| row.try_get(0))
            .collect::<Result<_, _>>()?;
        let mut problems = Vec::new();
        if found != TRIGGERS {
            problems.push(format!(
                "its triggers are not those of its layout: {} found of {}",
                found.len(),
                TRIGGERS.len()
            ));
        }
        let row = self.tx.query_typed_one(
            "SELECT count(*) FROM pg_class WHERE relpersistence <> 'p'
             AND oid IN ('fedbo_ledger.ledgers'::regclass, 'fedbo_ledger.entries'::regclass)",
            &[],
        )?;
        if row.try_get::<_, i64>(0)? > 0 {
            problems.push("its tables are unlogged: a crash would empty them".to_owned());
        }
        Ok(problems)
    }

    fn charters(&mut self) -> Result<Vec<StoredCharter>, Fault> {
        let rows = self.tx.query_typed(
            "SELECT name, config, epsilon, delta, mode, accountant, hash FROM fedbo_ledger.ledgers WHERE id = $1",
            &[(&self.id, Type::INT8)],
        )?;
        let charter = |row: &Row| {
            Ok(StoredCharter {
                name: row.try_get(0)?,
                config: row.try_get(1)?,
                epsilon: row.try_get(2)?,
                delta: row.try_get(3)?,
                mode: row.try_get(4)?,
                accountant: row.try_get(5)?,
                hash: hash_of(row, 6)?,
            })
        };
        rows.iter().map(charter).collect()
    }

    fn token(&mut self) -> Result<i64, Fault> {
        let row = self.tx.query_typed_one(
            "SELECT token FROM fedbo_ledger.ledgers WHERE id = $1",
            &[(&self.id, Type::INT8)],
        )?;
        Ok(row.try_get(0)?)
    }

    fn entries(&mut self, each: &mut dyn FnMut(&StoredEntry<'_>)) -> Result<(), Fault> {
        let mut after = 0_i64;
        loop {
            let rows = self.tx.query_typed(
                &format!("{ENTRY} AND seq > $2 ORDER BY seq LIMIT {BATCH}"),
                &[(&self.id, Type::INT8), (&after, Type::INT8)],
            )?;
            for row in &rows {
                let stored = entry(row)?;
                after = signed(stored.seq);
                each(&stored);
            }
            if rows.is_empty() {
                return Ok(());
            }
        }
    }
}

fn id(tx: &mut Transaction<'_>, name: &str) -> Result<Option<i64>, Fault> {
    let sql = "SELECT id FROM fedbo_ledger.ledgers WHERE name = $1";
    let row = tx.query_typed_opt(sql, &[(&name, Type::TEXT)])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// From `seq, previous, round, event, release, hash`.
fn entry(row: &Row) -> Result<StoredEntry<'_>, Fault> {
    Ok(StoredEntry {
        seq: unsigned(row.try_get(0)?),
        previous: hash_of(row, 1)?,
        round: unsigned(row.try_get(2)?),
        event: row.try_get(3)?,
        release: row.try_get(4)?,
        hash: hash_of(row, 5)?,
    })
}

/// A hash; one of another length is none that anything has.
fn hash_of(row: &Row, column: usize) -> Result<Hash, Fault> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(bytes.try_into().unwrap_or_default())
}

/// A number as the database has it: a ledger takes none that is larger.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The layout takes none below 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn in_words(fault: Fault, path: PathBuf, act: Act) -> LedgerError {
    let message = match &fault {
        Fault::Unsafe(setting) => {
            fedbo_postgres::unsafe_setting(setting, "charges that were acknowledged")
        }
        fault => fault.words(act, LAYOUT.schema),
    };
    match act {
        _ if fault.is_damage() => LedgerError::Corrupt {
            path,
            message: format!("it is damaged: {message}; go on from a backup whose head you know"),
        },
        Act::Write => LedgerError::Write { path, message },
        Act::Connect | Act::Read => LedgerError::Read { path, message },
    }
}
