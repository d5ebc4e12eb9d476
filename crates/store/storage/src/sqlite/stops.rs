//! Stops of studies. The table is not part of the layout but is created for the first stop. If the
//! table does not exist, no study was ever stopped.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::failure::Failure;
use super::rows::signed;
use crate::{Stop, StudyKey};

/// Times are in milliseconds since 1970. Programs without support for the table ignore it.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS stops (
    study INTEGER NOT NULL REFERENCES studies (id),
    seq INTEGER NOT NULL CHECK (seq > 0),
    at_ms INTEGER NOT NULL,
    stopped_by TEXT NOT NULL,
    PRIMARY KEY (study, seq)
) STRICT, WITHOUT ROWID
";

/// Returns true if the table exists.
pub(super) fn is_there(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'stops'";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// Returns the last stop of a study.
pub(super) fn last(tx: &Transaction<'_>, study: StudyKey) -> Result<Option<Stop>, Failure> {
    if !is_there(tx)? {
        return Ok(None);
    }
    let sql = "SELECT seq, at_ms, stopped_by FROM stops WHERE study = ? ORDER BY seq DESC LIMIT 1";
    let mut statement = tx.prepare_cached(sql)?;
    let last = statement.query_row([study.0], |row| {
        Ok(Stop { seq: row.get(0)?, at_ms: row.get(1)?, by: row.get(2)? })
    });
    Ok(last.optional()?)
}

/// Stores a stop.
pub(super) fn insert(
    tx: &Transaction<'_>,
    study: StudyKey,
    by: &str,
    at_ms: i64,
) -> Result<Stop, Failure> {
    tx.execute_batch(TABLE)?;
    let seq = last(tx, study)?.map_or(1, |stop| stop.seq + 1);
    let sql = "INSERT INTO stops (study, seq, at_ms, stopped_by) VALUES (?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(params![study.0, signed(seq), at_ms, by])?;
    Ok(Stop { seq, at_ms, by: by.to_owned() })
}
