//! Earlier outcomes of corrected trials. The table is not part of the layout but is created for the
//! first correction. If the table does not exist, no trial was ever corrected.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::failure::Failure;
use super::rows::signed;
use crate::{Correction, LastCorrection, StudyKey, Told};

/// Times are in milliseconds since 1970. `before` is the earlier outcome as JSON. The table of
/// trials has the current one. Programs without support for the table ignore it.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS corrections (
    study INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    before TEXT NOT NULL,
    PRIMARY KEY (study, seq),
    FOREIGN KEY (study, number) REFERENCES trials (study, number)
) STRICT, WITHOUT ROWID
";

/// Returns true if the table exists.
pub(super) fn is_there(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'corrections'";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// Returns the last correction of a study.
pub(super) fn last(
    tx: &Transaction<'_>,
    study: StudyKey,
) -> Result<Option<LastCorrection>, Failure> {
    if !is_there(tx)? {
        return Ok(None);
    }
    let sql =
        "SELECT seq, number, at_ms FROM corrections WHERE study = ? ORDER BY seq DESC LIMIT 1";
    let last = tx.prepare_cached(sql)?.query_row([study.0], |row| {
        Ok(LastCorrection { seq: row.get(0)?, number: row.get(1)?, at_ms: row.get(2)? })
    });
    Ok(last.optional()?)
}

/// Returns all corrections of a study, in their order.
pub(super) fn all(tx: &Transaction<'_>, study: StudyKey) -> Result<Vec<Correction>, Failure> {
    if !is_there(tx)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT seq, number, at_ms, before FROM corrections WHERE study = ? ORDER BY seq";
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query([study.0])?;
    let mut corrections = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = row.get("seq")?;
        let before = row.get_ref("before")?.as_str().map_err(rusqlite::Error::from)?;
        // An error from serde_json would quote the outcome.
        let before = serde_json::from_str(before).map_err(|_| {
            Failure::contradiction(format!("correction {seq} of a study cannot be read"))
        })?;
        corrections.push(Correction {
            seq,
            number: row.get("number")?,
            at_ms: row.get("at_ms")?,
            before,
        });
    }
    Ok(corrections)
}

/// Stores the outcome that a trial had before a correction.
pub(super) fn insert(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    before: &Told,
    at_ms: i64,
) -> Result<(), Failure> {
    tx.execute_batch(TABLE)?;
    let before = serde_json::to_string(before)
        .map_err(|error| Failure::contradiction(format!("cannot store an outcome: {error}")))?;
    let seq = last(tx, study)?.map_or(1, |last| last.seq + 1);
    let sql = "INSERT INTO corrections (study, seq, number, at_ms, before) VALUES (?, ?, ?, ?, ?)";
    tx.prepare_cached(sql)?.execute(params![
        study.0,
        signed(seq),
        signed(number),
        at_ms,
        before
    ])?;
    Ok(())
}
