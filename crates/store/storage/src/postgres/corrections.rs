//! Earlier outcomes of corrected trials. The table is not part of the layout but is created for the
//! first correction. If the table does not exist, no trial was ever corrected.

use postgres::Transaction;
use postgres::types::Type;

use super::connection::Moment;
use super::failure::Failure;
use super::{rows, schema, text};
use crate::{Correction, LastCorrection, StudyKey, Told};

/// Times are in milliseconds since 1970. `before` is the earlier outcome as JSON. The table of
/// trials has the current one. There is no foreign key to the table of trials, because only that
/// table's owner could declare one.
const TABLE: &str = "
CREATE TABLE fedbo.corrections (
    study bigint NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    before text NOT NULL,
    PRIMARY KEY (study, seq)
);
";

/// Advisory lock that is held while the table is created, because trials of two studies may create
/// it concurrently. The bytes spell "corr".
const CREATING: i64 = 0x636f_7272;

/// Returns the last correction of a study. The table must exist.
pub(super) fn last(
    tx: &mut Transaction<'_>,
    study: StudyKey,
) -> Result<Option<LastCorrection>, Failure> {
    let sql = "SELECT seq, number, at_ms FROM fedbo.corrections WHERE study = $1
        ORDER BY seq DESC LIMIT 1";
    let Some(row) = tx.query_typed_opt(sql, &[(&study.0, Type::INT8)])? else {
        return Ok(None);
    };
    Ok(Some(LastCorrection {
        seq: rows::unsigned(row.try_get(0)?)?,
        number: rows::unsigned(row.try_get(1)?)?,
        at_ms: row.try_get(2)?,
    }))
}

/// Returns all corrections of a study, in their order. The table must exist.
pub(super) fn all(tx: &mut Transaction<'_>, study: StudyKey) -> Result<Vec<Correction>, Failure> {
    let sql =
        "SELECT seq, number, at_ms, before FROM fedbo.corrections WHERE study = $1 ORDER BY seq";
    let found = tx.query_typed(sql, &[(&study.0, Type::INT8)])?;
    let correction = |row: &postgres::Row| {
        let seq = rows::unsigned(row.try_get(0)?)?;
        let before = rows::loaded(row.try_get(3)?)?;
        // An error from serde_json would quote the outcome.
        let before = serde_json::from_str(&before).map_err(|_| {
            Failure::Contradiction(format!("correction {seq} of a study cannot be read"))
        })?;
        let number = rows::unsigned(row.try_get(1)?)?;
        Ok(Correction { seq, number, at_ms: row.try_get(2)?, before })
    };
    found.iter().map(correction).collect()
}

/// Stores the outcome that a trial had before a correction.
pub(super) fn insert(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    before: &Told,
    moment: Moment,
) -> Result<(), Failure> {
    if !schema::additions(tx)?.1.has_corrections {
        tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({CREATING})"))?;
        if !schema::additions(tx)?.1.has_corrections {
            tx.batch_execute(TABLE)?;
            tx.batch_execute(&schema::grants("fedbo.corrections"))?;
        }
    }
    let before = serde_json::to_string(before)
        .map_err(|error| Failure::Contradiction(format!("cannot store an outcome: {error}")))?;
    let seq = last(tx, study)?.map_or(1, |last| last.seq + 1);
    let (seq, number, before) = (rows::signed(seq), rows::signed(number), text::store(&before));
    tx.execute_typed(
        "INSERT INTO fedbo.corrections (study, seq, number, at_ms, before) VALUES ($1, $2, $3, $4, $5)",
        &[
            (&study.0, Type::INT8),
            (&seq, Type::INT8),
            (&number, Type::INT8),
            (&moment.now_ms, Type::INT8),
            (&before, Type::TEXT),
        ],
    )?;
    Ok(())
}
