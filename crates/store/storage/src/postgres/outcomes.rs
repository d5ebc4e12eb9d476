//! Further numbers of trials. The table is not part of the layout but is created for the first
//! trial with further numbers. If the table does not exist, no trial has further numbers.

use postgres::Transaction;
use postgres::types::Type;

use super::connection::Moment;
use super::failure::Failure;
use super::{rows, schema};
use crate::StudyKey;

/// The numbers after the value of trial `number`, by position from 1. There is no foreign key to
/// the table of trials, because only that table's owner could declare one.
const TABLE: &str = "
CREATE TABLE fedbo.outcomes (
    study bigint NOT NULL,
    number bigint NOT NULL,
    place bigint NOT NULL CHECK (place > 0),
    value double precision NOT NULL CHECK (value > '-Infinity' AND value < 'Infinity'),
    PRIMARY KEY (study, number, place)
);
";

/// Advisory lock that is held while the table is created, because trials of two studies may create
/// it concurrently. The bytes spell "outc".
const CREATING: i64 = 0x6f75_7463;

/// Stores the further numbers of a finished trial.
pub(super) fn insert(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    further: &[f64],
    moment: Moment,
) -> Result<(), Failure> {
    write(tx, study, number, further, moment, "")
}

/// Stores the further numbers of a corrected trial instead of the earlier ones. If the trial no
/// longer has a value, the earlier ones stay, but are not read.
pub(super) fn replace(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    further: &[f64],
    moment: Moment,
) -> Result<(), Failure> {
    let conflict = "ON CONFLICT (study, number, place) DO UPDATE SET value = excluded.value";
    write(tx, study, number, further, moment, conflict)
}

fn write(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    further: &[f64],
    moment: Moment,
    conflict: &str,
) -> Result<(), Failure> {
    if further.is_empty() {
        return Ok(());
    }
    if !moment.has_outcomes {
        tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({CREATING})"))?;
        if !schema::additions(tx)?.1.has_outcomes {
            tx.batch_execute(TABLE)?;
            tx.batch_execute(&schema::grants("fedbo.outcomes"))?;
        }
    }
    let sql = format!(
        "INSERT INTO fedbo.outcomes (study, number, place, value)
         SELECT $1, $2, place, value FROM unnest($3::double precision[]) WITH ORDINALITY AS o (value, place) {conflict}"
    );
    tx.execute_typed(
        &sql,
        &[
            (&study.0, Type::INT8),
            (&rows::signed(number), Type::INT8),
            (&further, Type::FLOAT8_ARRAY),
        ],
    )?;
    Ok(())
}
