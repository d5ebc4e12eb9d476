//! Further numbers of trials. The table is not part of the layout but is created for the first
//! trial with further numbers. If the table does not exist, no trial has further numbers.

use postgres::Transaction;
use postgres::types::Type;

use super::connection::Moment;
use super::failure::Failure;
use super::{rows, schema};
use crate::{StudyKey, missing};

/// The numbers after the value of trial `number`, by position from 1, followed by the marks of
/// missing numbers ([`missing::MARKS`]). There is no foreign key to
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

/// Stores the further numbers of a finished trial, given all of its numbers.
pub(super) fn insert(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    numbers: &[f64],
    moment: Moment,
) -> Result<(), Failure> {
    write(tx, study, number, numbers, moment, "")
}

/// Stores the further numbers of a corrected trial instead of the earlier ones. If the trial no
/// longer has a value, the earlier ones stay, but are not read.
pub(super) fn replace(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    numbers: &[f64],
    moment: Moment,
) -> Result<(), Failure> {
    if moment.has_outcomes && numbers.len() > 1 {
        // Nobody may delete rows.
        let sql =
            "UPDATE fedbo.outcomes SET value = 0 WHERE study = $1 AND number = $2 AND place >= $3";
        let key = [
            (&study.0 as _, Type::INT8),
            (&rows::signed(number) as _, Type::INT8),
            (&missing::MARKS as _, Type::INT8),
        ];
        tx.execute_typed(sql, &key)?;
    }
    let conflict = "ON CONFLICT (study, number, place) DO UPDATE SET value = excluded.value";
    write(tx, study, number, numbers, moment, conflict)
}

fn write(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    numbers: &[f64],
    moment: Moment,
    conflict: &str,
) -> Result<(), Failure> {
    let (places, further): (Vec<i64>, Vec<f64>) = missing::placed(numbers).into_iter().unzip();
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
         SELECT $1, $2, place, value FROM unnest($3::bigint[], $4::double precision[]) AS o (place, value) {conflict}"
    );
    tx.execute_typed(
        &sql,
        &[
            (&study.0, Type::INT8),
            (&rows::signed(number), Type::INT8),
            (&places, Type::INT8_ARRAY),
            (&further, Type::FLOAT8_ARRAY),
        ],
    )?;
    Ok(())
}
