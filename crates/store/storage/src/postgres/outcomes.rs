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
    if further.is_empty() {
        return Ok(());
    }
    if !moment.has_outcomes {
        tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({CREATING})"))?;
        if !schema::version_and_outcomes(tx)?.1 {
            tx.batch_execute(TABLE)?;
            tx.batch_execute(&schema::grants("fedbo.outcomes"))?;
        }
    }
    tx.execute_typed(
        "INSERT INTO fedbo.outcomes (study, number, place, value)
         SELECT $1, $2, place, value FROM unnest($3::double precision[]) WITH ORDINALITY AS o (value, place)",
        &[
            (&study.0, Type::INT8),
            (&rows::signed(number), Type::INT8),
            (&further, Type::FLOAT8_ARRAY),
        ],
    )?;
    Ok(())
}
