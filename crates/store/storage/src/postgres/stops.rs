//! Stops of studies. The table is not part of the layout but is created for the first stop. If the
//! table does not exist, no study was ever stopped.

use postgres::Transaction;
use postgres::types::Type;

use super::connection::Moment;
use super::failure::Failure;
use super::{rows, schema, text};
use crate::{Stop, StorageError, StudyKey};

/// Times are in milliseconds since 1970. U+0000 is escaped in strings. There is no foreign key to
/// the table of studies, because only that table's owner could declare one.
const TABLE: &str = "
CREATE TABLE fedbo.stops (
    study bigint NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    at_ms bigint NOT NULL,
    stopped_by text NOT NULL,
    PRIMARY KEY (study, seq)
);
";

/// Returns true if the table exists.
pub(super) fn is_there(tx: &mut Transaction<'_>) -> Result<bool, Failure> {
    let row = tx.query_typed_one("SELECT to_regclass('fedbo.stops') IS NOT NULL", &[])?;
    Ok(row.try_get(0)?)
}

/// Locks a study, as every change to it does.
pub(super) fn lock(tx: &mut Transaction<'_>, study: StudyKey) -> Result<(), Failure> {
    let sql = "SELECT 1 FROM fedbo.studies WHERE id = $1 FOR NO KEY UPDATE";
    match tx.query_typed_opt(sql, &[(&study.0, Type::INT8)])? {
        Some(_) => Ok(()),
        None => Err(StorageError::NoStudy { key: study }.into()),
    }
}

/// Returns the last stop of a study. `is_there` is true if the table exists.
pub(super) fn last(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    is_there: bool,
) -> Result<Option<Stop>, Failure> {
    if !is_there {
        return Ok(None);
    }
    let sql =
        "SELECT seq, at_ms, stopped_by FROM fedbo.stops WHERE study = $1 ORDER BY seq DESC LIMIT 1";
    let row = tx.query_typed_opt(sql, &[(&study.0, Type::INT8)])?;
    row.map(|row| {
        let (seq, by): (i64, String) = (row.try_get(0)?, row.try_get(2)?);
        Ok(Stop { seq: rows::unsigned(seq)?, at_ms: row.try_get(1)?, by: rows::loaded(by)? })
    })
    .transpose()
}

/// Stores a stop.
pub(super) fn insert(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    by: &str,
    moment: Moment,
) -> Result<Stop, Failure> {
    if !moment.has_stops {
        tx.batch_execute(TABLE)?;
        tx.batch_execute(&schema::grants("fedbo.stops"))?;
    }
    let seq = last(tx, study, true)?.map_or(1, |stop| stop.seq + 1);
    let (number, stored) = (rows::signed(seq), text::store(by));
    tx.execute_typed(
        "INSERT INTO fedbo.stops (study, seq, at_ms, stopped_by) VALUES ($1, $2, $3, $4)",
        &[
            (&study.0, Type::INT8),
            (&number, Type::INT8),
            (&moment.now_ms, Type::INT8),
            (&stored, Type::TEXT),
        ],
    )?;
    Ok(Stop { seq, at_ms: moment.now_ms, by: by.to_owned() })
}
