//! A ledger in a database, open for writing.

use fedbo_failpoints::pass;
use fedbo_postgres::{Ended, Operation as Act};
use postgres::types::Type;

use super::Ledgers;
use super::rows::{ENTRY, Rows, entry, hash_of, signed};
use crate::backend::{Backend, Key, StoredEntry};
use crate::chain::Entry;
use crate::record::{Findings, Record};
use crate::{Charter, Head, LedgerError};

/// A ledger that is open for writing until another writer raises its fencing token.
pub(crate) struct PostgresBackend {
    ledgers: Ledgers,
    name: String,
    id: i64,
}

impl PostgresBackend {
    /// Creates the ledger of a new study.
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
                    (&charter.guarantee(), Type::TEXT),
                    (&charter.accountant.name(), Type::TEXT),
                    (&&hash[..], Type::BYTEA),
                ],
            )?;
            // If the server's response was lost, this call may have created the existing ledger.
            // `open` compares the charters.
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

    /// Opens a ledger after verifying all of it, and raises its fencing token. A previous writer
    /// can no longer commit.
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
                return Err(Ended::Caller(LedgerError::OtherCharter { path, differences }));
            }
            let no_more = || {
                Ended::Caller(
                    ledgers.corrupt(&charter.name, "its fencing token has reached its maximum"),
                )
            };
            record.token = record.token.checked_add(1).ok_or_else(no_more)?;
            tx.query_typed(
                "UPDATE fedbo_ledger.ledgers SET token = $2 WHERE id = $1",
                &[(&id, Type::INT8), (&record.token, Type::INT8)],
            )?;
            Ok((id, record))
        });
        let (id, record) = opened.map_err(|ended| ledgers.refusal(ended, place, Act::Write))?;
        pass("ledger: its fencing token is raised");
        let backend = Self { ledgers: ledgers.clone(), name: charter.name.clone(), id };
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
            let what = format!("entry {} does not match its hash", stored.seq);
            return Err(ledgers.corrupt(&self.name, &what));
        }
        take(&stored);
        Ok(true)
    }

    /// If the response to a commit was lost, looks for the entry while holding the lock on the
    /// ledger's row, which the lost transaction held until it ended. Writes the entry again only if
    /// that transaction did not commit.
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
                None => (0, *new.previous), // the charter's hash, which never changes
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
