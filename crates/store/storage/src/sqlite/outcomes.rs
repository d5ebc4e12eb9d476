//! Further numbers of trials. The table is not part of the layout but is created for the first
//! trial with further numbers. If the table does not exist, no trial has further numbers.

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params};

use super::failure::Failure;
use super::rows::signed;
use crate::{StudyKey, Told, Trial, TrialState, missing};

/// The numbers after the value of trial `number`, by position from 1, followed by the marks of
/// missing numbers ([`missing::MARKS`]). `value` has the type ANY,
/// because with type REAL, SQLite would store −0.0 as 0. Programs without support for the table
/// ignore it.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS outcomes (
    study INTEGER NOT NULL,
    number INTEGER NOT NULL,
    place INTEGER NOT NULL CHECK (place > 0),
    value ANY NOT NULL CHECK (typeof(value) = 'real'),
    PRIMARY KEY (study, number, place),
    FOREIGN KEY (study, number) REFERENCES trials (study, number)
) STRICT, WITHOUT ROWID
";

/// Returns true if the table exists.
pub(super) fn is_there(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'outcomes'";
    Ok(connection.prepare_cached(sql)?.exists([])?)
}

/// Adds the further numbers to a trial with a value. The table must exist.
pub(super) fn read_into(
    tx: &Transaction<'_>,
    study: StudyKey,
    trial: &mut Trial,
) -> Result<(), Failure> {
    let Some(value) = trial.value() else {
        return Ok(());
    };
    let sql = "SELECT place, value FROM outcomes WHERE study = ? AND number = ? ORDER BY place";
    let mut statement = tx.prepare_cached(sql)?;
    let further = statement
        .query_map([study.0, signed(trial.number)], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, f64)>, _>>()?;
    trial.state = TrialState::Told(Told::with_numbers(missing::restored(value, further)));
    Ok(())
}

/// Stores the further numbers of a corrected trial instead of the earlier ones.
pub(super) fn replace(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    numbers: &[f64],
) -> Result<(), Failure> {
    if is_there(tx)? {
        let sql = "DELETE FROM outcomes WHERE study = ? AND number = ?";
        tx.prepare_cached(sql)?.execute([study.0, signed(number)])?;
    }
    insert(tx, study, number, numbers)
}

/// Stores the further numbers of a finished trial, given all of its numbers.
pub(super) fn insert(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    numbers: &[f64],
) -> Result<(), Failure> {
    let further = missing::placed(numbers);
    if further.is_empty() {
        return Ok(());
    }
    tx.execute_batch(TABLE)?;
    let sql = "INSERT INTO outcomes (study, number, place, value) VALUES (?, ?, ?, ?)";
    let mut statement = tx.prepare_cached(sql)?;
    for (place, value) in further {
        statement.execute(params![study.0, signed(number), place, Value::Real(value)])?;
    }
    Ok(())
}
