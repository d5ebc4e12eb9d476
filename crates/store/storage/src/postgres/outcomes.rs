//! Further numbers of trials. Their table is no part of the layout: the first trial with some creates it, and without it no trial has any.

use postgres::Transaction;
use postgres::types::Type;

use super::connection::Moment;
use super::failure::Failure;
use super::{rows, schema};
use crate::StudyKey;

/// The numbers behind the value of trial `number`, by their places from 1. There is no reference to the trials: only their owner could
/// declare one.
const TABLE: &str = "
CREATE TABLE fedbo.outcomes (
    study bigint NOT NULL,
    number bigint NOT NULL,
    place bigint NOT NULL CHECK (place > 0),
    value double precision NOT NULL CHECK (value > '-Infinity' AND value < 'Infinity'),
    PRIMARY KEY (study, number, place)
);
";

/// Whoever creates the table holds this advisory lock, as trials of two studies may be the first at once. It says "outc".
const CREATING: i64 = 0x6f75_7463;

/// Stores the numbers behind the value of a trial that is told.
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
