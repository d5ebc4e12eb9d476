//! The rows of a ledger, in a transaction.

use std::path::PathBuf;

use fedbo_postgres::{Operation as Act, Problem as Fault};
use postgres::types::Type;
use postgres::{Row, Transaction};

use super::layout::{LAYOUT, TRIGGERS};
use crate::LedgerError;
use crate::backend::{Source, StoredCharter, StoredEntry};
use crate::chain::Hash;

pub(super) const ENTRY: &str =
    "SELECT seq, previous, round, event, release, hash FROM fedbo_ledger.entries WHERE ledger = $1";

/// Number of entries per query when all entries are read.
const BATCH: i64 = 16;

/// The rows of one ledger in a transaction.
pub(super) struct Rows<'t, 'c> {
    pub(super) tx: &'t mut Transaction<'c>,
    pub(super) id: i64,
}

impl Source for Rows<'_, '_> {
    type Failure = Fault;

    fn is_damage(failure: &Fault) -> bool {
        failure.is_damage()
    }

    /// Checks that the triggers are enabled and the tables are logged. PostgreSQL has no check for
    /// other damage, for example of indexes. The hash chain detects it, because rows are read in
    /// order and by number.
    fn problems(&mut self) -> Result<Vec<String>, Fault> {
        let rows = self.tx.query_typed(
            "SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')
             AND tgrelid IN ('fedbo_ledger.ledgers'::regclass, 'fedbo_ledger.entries'::regclass) ORDER BY tgname::text",
            &[],
        )?;
        let found: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
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

pub(super) fn id(tx: &mut Transaction<'_>, name: &str) -> Result<Option<i64>, Fault> {
    let sql = "SELECT id FROM fedbo_ledger.ledgers WHERE name = $1";
    let row = tx.query_typed_opt(sql, &[(&name, Type::TEXT)])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Converts a row of `seq, previous, round, event, release, hash`.
pub(super) fn entry(row: &Row) -> Result<StoredEntry<'_>, Fault> {
    Ok(StoredEntry {
        seq: unsigned(row.try_get(0)?),
        previous: hash_of(row, 1)?,
        round: unsigned(row.try_get(2)?),
        event: row.try_get(3)?,
        release: row.try_get(4)?,
        hash: hash_of(row, 5)?,
    })
}

/// Returns a hash from a column. A value of the wrong length becomes all zeros, which match no
/// entry.
pub(super) fn hash_of(row: &Row, column: usize) -> Result<Hash, Fault> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(bytes.try_into().unwrap_or_default())
}

/// Converts a number to the database's type. A ledger accepts no larger numbers.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from the database. The layout accepts no negative numbers.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn in_words(fault: Fault, path: PathBuf, act: Act) -> LedgerError {
    let message = match &fault {
        Fault::Unsafe(setting) => fedbo_postgres::unsafe_setting(setting, "acknowledged charges"),
        fault => fault.words(act, LAYOUT.schema),
    };
    match act {
        _ if fault.is_damage() => LedgerError::Corrupt {
            path,
            message: format!("it is damaged: {message}; restore a backup with a known head"),
        },
        Act::Write => LedgerError::Write { path, message },
        Act::Connect | Act::Read => LedgerError::Read { path, message },
    }
}
