//! Conversions of rows and parameters, and statements shared by transactions.

use std::path::PathBuf;

use fedbo_postgres::{Ended, Operation, Problem};
use fedbo_wire::PublicKey;
use postgres::types::{ToSql, Type};
use postgres::{Row, Transaction};

use super::layout::LAYOUT;
use crate::store::{StoreError, StudyKey, StudyRecord};

pub(super) const STUDY: &str =
    "SELECT id, name, config, state, round, began_ms, head FROM fedbo_coordinator.studies";
pub(super) const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

pub(super) type Outcome<R> = Result<R, Ended<StoreError>>;
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl StoreError {
    pub(super) fn into_ended(self) -> Ended<Self> {
        Ended::Caller(self)
    }
}

pub(super) fn int(value: &i64) -> Parameter<'_> {
    (value, Type::INT8)
}

pub(super) fn text<'a, T: ToSql + Sync>(value: &'a T) -> Parameter<'a> {
    (value, Type::TEXT)
}

pub(super) fn bytes<'a, T: ToSql + Sync>(value: &'a T) -> Parameter<'a> {
    (value, Type::BYTEA)
}

/// Converts a number for the database. Rounds and times are far below the maximum.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from the database, where rounds and times are not negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn slot_number(number: i64) -> Outcome<u32> {
    u32::try_from(number).map_err(|_| contradiction(format!("a slot has number {number}")))
}

pub(super) fn contradiction(message: String) -> Ended<StoreError> {
    StoreError::Corrupt { path: PathBuf::from("the coordinator's database"), message }.into_ended()
}

pub(super) fn no_study(key: StudyKey) -> Ended<StoreError> {
    let name = format!("with key {}", key.0);
    StoreError::NoStudy { name }.into_ended()
}

pub(super) fn key(row: &Row, column: usize) -> Outcome<Option<[u8; 32]>> {
    let stored: Option<&[u8]> = row.try_get(column)?;
    let length = |stored: &[u8]| contradiction(format!("a key has {} bytes", stored.len()));
    stored.map(|stored| stored.try_into().map_err(|_| length(stored))).transpose()
}

pub(super) fn identity(tx: &mut Transaction<'_>) -> Outcome<Option<PublicKey>> {
    let sql = "SELECT key FROM fedbo_coordinator.identity";
    match tx.query_typed_opt(sql, &[])? {
        Some(row) => Ok(key(&row, 0)?.map(PublicKey)),
        None => Ok(None),
    }
}

pub(super) fn study(row: &Row) -> Outcome<StudyRecord> {
    let state: &str = row.try_get(3)?;
    Ok(StudyRecord {
        key: StudyKey(row.try_get(0)?),
        name: row.try_get(1)?,
        config: row.try_get(2)?,
        state: state.parse().map_err(|_| contradiction(format!("a study is {state:?}")))?,
        round: unsigned(row.try_get(4)?),
        began_ms: row.try_get::<_, Option<i64>>(5)?.map(unsigned),
        head: row.try_get(6)?,
    })
}

pub(super) fn study_named(tx: &mut Transaction<'_>, name: &str) -> Outcome<StudyRecord> {
    match tx.query_typed_opt(&format!("{STUDY} WHERE name = $1"), &[text(&name)])? {
        Some(row) => study(&row),
        None => {
            let name = name.to_owned();
            Err(StoreError::NoStudy { name }.into_ended())
        }
    }
}

/// Locks a study's row. Every change to a study locks it first.
pub(super) fn locked(tx: &mut Transaction<'_>, key: StudyKey) -> Outcome<StudyRecord> {
    let sql = format!("{STUDY} WHERE id = $1 FOR NO KEY UPDATE");
    match tx.query_typed_opt(&sql, &[int(&key.0)])? {
        Some(row) => study(&row),
        None => Err(no_study(key)),
    }
}

pub(super) fn check_slot(tx: &mut Transaction<'_>, study: StudyKey, slot: u32) -> Outcome<()> {
    let sql = "SELECT FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2";
    match tx.query_typed_opt(sql, &[int(&study.0), int(&i64::from(slot))])? {
        Some(_) => Ok(()),
        None => Err(StoreError::NoSlot { slot }.into_ended()),
    }
}

/// Voids the unused tokens of a slot.
pub(super) fn void_tokens(tx: &mut Transaction<'_>, study: StudyKey, slot: i64) -> Outcome<()> {
    let sql =
        "DELETE FROM fedbo_coordinator.tokens WHERE study = $1 AND slot = $2 AND used_by IS NULL";
    tx.query_typed(sql, &[int(&study.0), int(&slot)])?;
    Ok(())
}

/// Checks that the key has no other slot in the study. An agent with two slots would count twice.
pub(super) fn check_free(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    slot: u32,
    key: &PublicKey,
) -> Outcome<()> {
    let row = tx.query_typed_opt(
        "SELECT slot FROM fedbo_coordinator.slots WHERE study = $1 AND key = $2 AND slot <> $3",
        &[int(&study.0), bytes(&&key.0[..]), int(&i64::from(slot))],
    )?;
    match row {
        None => Ok(()),
        Some(row) => {
            let slot = slot_number(row.try_get(0)?)?;
            Err(StoreError::KeyTaken { slot }.into_ended())
        }
    }
}

pub(super) fn is_stored(
    tx: &mut Transaction<'_>,
    table: &str,
    study: StudyKey,
    round: i64,
    expected: &[u8],
) -> Outcome<bool> {
    let sql =
        format!("SELECT bytes FROM fedbo_coordinator.{table} WHERE study = $1 AND round = $2");
    let row = tx.query_typed_opt(&sql, &[int(&study.0), int(&round)])?;
    Ok(match row {
        Some(row) => row.try_get::<_, &[u8]>(0)? == expected,
        None => false,
    })
}

/// Deletes the vectors of earlier rounds (INV-16). The record of their delivery is kept.
pub(super) fn forget_before(tx: &mut Transaction<'_>, study: StudyKey, round: i64) -> Outcome<()> {
    tx.query_typed(
        "UPDATE fedbo_coordinator.inbox SET sealed = NULL WHERE study = $1 AND round < $2 AND sealed IS NOT NULL",
        &[int(&study.0), int(&round)],
    )?;
    Ok(())
}

pub(super) fn changed(tx: &mut Transaction<'_>) -> Outcome<()> {
    tx.query_typed("UPDATE fedbo_coordinator.generation SET number = number + 1", &[])?;
    Ok(())
}

pub(super) fn now_ms(tx: &mut Transaction<'_>) -> Outcome<u64> {
    Ok(unsigned(tx.query_typed_one(NOW, &[])?.try_get(0)?))
}

pub(super) fn in_words(problem: Problem, path: PathBuf, doing: Operation) -> StoreError {
    let message = match &problem {
        Problem::Unsafe(setting) => {
            fedbo_postgres::unsafe_setting(setting, "data acknowledged to agents")
        }
        problem => problem.words(doing, LAYOUT.schema),
    };
    match problem.is_damage() {
        true => StoreError::Corrupt {
            path,
            message: format!("it is damaged: {message}; restore a backup"),
        },
        false => StoreError::Refused { path, message },
    }
}
