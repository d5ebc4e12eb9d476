//! Converts trials to rows and back.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Params, Row, Transaction, params};

use super::failure::Failure;
use super::outcomes;
use crate::{
    Process, Report, StudyKey, StudyRecord, Told, Trial, TrialLease, TrialState, Worker, missing,
};

const COLUMNS: &str = "number, point, source, ask_seconds, attempts, asked_at_ms, started_at_ms, holder, holder_process, \
     until_ms, told_seq, told_at_ms, value, failure_kind, failure_message, stopped_epoch, stopped_because";

// Conditions that select trials. Each condition uses an index search, regardless of the number of
// trials. Indexes are named explicitly because the planner has no statistics and would otherwise
// use the primary key.
pub(super) const ALL: &str = "WHERE study = ? ORDER BY number";
pub(super) const ONE: &str = "WHERE study = ? AND number = ?";
pub(super) const OPEN: &str =
    "INDEXED BY trials_open WHERE study = ? AND told_seq IS NULL ORDER BY number";
pub(super) const OPEN_AFTER: &str = "INDEXED BY trials_open WHERE study = ? AND told_seq IS NULL AND number > ? ORDER BY number LIMIT 1";
pub(super) const HELD_BY: &str =
    "INDEXED BY trials_open WHERE study = ? AND told_seq IS NULL AND holder = ? ORDER BY number";
pub(super) const TOLD_AFTER: &str =
    "INDEXED BY trials_by_telling WHERE study = ? AND told_seq > ? ORDER BY told_seq";
pub(super) const FIRST_LIKE: &str = "INDEXED BY trials_by_encoding WHERE study = ? AND encoding = ? AND failure_kind IS NOT '' ORDER BY number LIMIT 1";
pub(super) const LAST: &str = "WHERE study = ? ORDER BY number DESC LIMIT 1";
pub(super) const LAST_TOLD: &str =
    "INDEXED BY trials_by_telling WHERE study = ? AND told_seq > 0 ORDER BY told_seq DESC LIMIT 1";

/// Converts a row of `id, name, definition`.
pub(super) fn study(row: &Row<'_>) -> rusqlite::Result<StudyRecord> {
    Ok(StudyRecord { key: StudyKey(row.get(0)?), name: row.get(1)?, definition: row.get(2)? })
}

/// Evaluates `expression` on the first trial that matches a condition.
pub(super) fn number(
    tx: &Transaction<'_>,
    expression: &str,
    condition: &str,
    params: impl Params,
) -> Result<Option<u64>, Failure> {
    let sql = format!("SELECT {expression} FROM trials {condition}");
    let mut statement = tx.prepare_cached(&sql)?;
    let number = statement.query_row(params, |row| row.get(0));
    Ok(number.optional()?)
}

/// Converts a number to SQLite's type. No stored number exceeds its range.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

// Conditions that select reports.
const OF_STUDY: &str = "WHERE study = ?";
const OF_TRIAL: &str = "WHERE study = ? AND number = ?";
const OF_TRIAL_FROM: &str = "WHERE study = ? AND number = ? AND epoch >= ?";

/// Returns all matching trials of a study, with their reports.
pub(super) fn trials(
    tx: &Transaction<'_>,
    study: StudyKey,
    condition: &str,
    params: impl Params,
) -> Result<Vec<Trial>, Failure> {
    trials_from(tx, study, condition, params, &BTreeMap::new())
}

/// Like [`trials`], but for trials in `from_epochs`, reads only the reports from that epoch on.
pub(super) fn trials_from(
    tx: &Transaction<'_>,
    study: StudyKey,
    condition: &str,
    params: impl Params,
    from_epochs: &BTreeMap<u64, u32>,
) -> Result<Vec<Trial>, Failure> {
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS} FROM trials {condition}"))?;
    let mut rows = statement.query(params)?;
    let mut trials = Vec::new();
    while let Some(row) = rows.next()? {
        trials.push(read(row)?);
    }
    // If a study has no reports, this takes only one search.
    if !trials.is_empty() && has_reports(tx, study)? {
        for trial in &mut trials {
            let from_epoch = from_epochs.get(&trial.number).copied().unwrap_or(0);
            trial.reports = reports(tx, study, trial.number, from_epoch)?;
        }
    }
    if outcomes::is_there(tx)? {
        for trial in &mut trials {
            outcomes::read_into(tx, study, trial)?;
        }
    }
    Ok(trials)
}

/// Returns the first matching trial of a study, with its reports from an epoch on.
pub(super) fn trial(
    tx: &Transaction<'_>,
    study: StudyKey,
    condition: &str,
    params: impl Params,
    from_epoch: u32,
) -> Result<Option<Trial>, Failure> {
    let mut statement = tx.prepare_cached(&format!("SELECT {COLUMNS} FROM trials {condition}"))?;
    let mut rows = statement.query(params)?;
    let Some(mut trial) = rows.next()?.map(read).transpose()? else {
        return Ok(None);
    };
    trial.reports = reports(tx, study, trial.number, from_epoch)?;
    if outcomes::is_there(tx)? {
        outcomes::read_into(tx, study, &mut trial)?;
    }
    Ok(Some(trial))
}

fn has_reports(tx: &Transaction<'_>, study: StudyKey) -> Result<bool, Failure> {
    let sql = format!("SELECT 1 FROM reports {OF_STUDY} LIMIT 1");
    Ok(tx.prepare_cached(&sql)?.exists([study.0])?)
}

/// Returns the reports of a trial from an epoch on, sorted by epoch.
fn reports(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    from_epoch: u32,
) -> Result<Vec<Report>, Failure> {
    let sql = format!("SELECT epoch, value FROM reports {OF_TRIAL_FROM} ORDER BY epoch");
    let mut statement = tx.prepare_cached(&sql)?;
    let rows = statement.query_map(params![study.0, signed(number), from_epoch], |row| {
        let (epoch, value) = (row.get(0)?, row.get(1)?);
        Ok(Report { epoch, value })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Stores a report of a trial.
pub(super) fn insert_report(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
    report: Report,
) -> Result<(), Failure> {
    tx.prepare_cached("INSERT INTO reports (study, number, epoch, value) VALUES (?, ?, ?, ?)")?
        .execute(params![study.0, signed(number), report.epoch, Value::Real(report.value)])?;
    Ok(())
}

/// Deletes the reports of a trial.
pub(super) fn delete_reports(
    tx: &Transaction<'_>,
    study: StudyKey,
    number: u64,
) -> Result<(), Failure> {
    let sql = format!("DELETE FROM reports {OF_TRIAL}");
    tx.prepare_cached(&sql)?.execute([study.0, signed(number)])?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Trial, Failure> {
    let number = row.get("number")?;
    let contradiction =
        |what: &str| Failure::contradiction(format!("trial {number} is damaged: {what}"));
    let point = row.get_ref("point")?.as_str().map_err(rusqlite::Error::from)?;
    let (holder, told_seq) = (row.get("holder")?, row.get("told_seq")?);
    let state = match (told_seq, holder) {
        (None, None) => TrialState::Waiting,
        (None, Some(id)) => {
            let process: Option<String> = row.get("holder_process")?;
            let process: Option<Process> = process
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|_| contradiction("its holder's process cannot be read"))?;
            TrialState::Running(TrialLease {
                worker: Worker { id, process },
                until_ms: row.get("until_ms")?,
            })
        }
        (Some(_), None) => {
            let (value, kind) = (row.get("value")?, row.get("failure_kind")?);
            TrialState::Told(match (value, kind, row.get("stopped_epoch")?) {
                (Some(value), None, None) => Told::Value(value),
                (Some(value), None, Some(epoch)) => {
                    Told::Stopped { epoch, value, because: row.get("stopped_because")? }
                }
                (None, Some(kind), None) => Told::of_failure(kind, row.get("failure_message")?),
                _ => return Err(contradiction("it has ended without exactly one outcome")),
            })
        }
        (Some(_), Some(_)) => return Err(contradiction("it has ended but has a holder")),
    };
    Ok(Trial {
        number,
        // An error from serde_json would quote the point.
        point: serde_json::from_str(point)
            .map_err(|_| contradiction("its point cannot be read"))?,
        source: row.get("source")?,
        state,
        attempts: row.get("attempts")?,
        asked_at_ms: row.get("asked_at_ms")?,
        started_at_ms: row.get("started_at_ms")?,
        told_at_ms: row.get("told_at_ms")?,
        told_seq,
        ask_seconds: row.get("ask_seconds")?,
        reports: Vec::new(),
    })
}

/// Stores a new trial.
pub(super) fn insert(
    tx: &Transaction<'_>,
    study: StudyKey,
    trial: &Trial,
    encoding: &[u8],
) -> Result<(), Failure> {
    let point = serde_json::to_string(&trial.point)
        .map_err(|error| Failure::contradiction(format!("cannot store a point: {error}")))?;
    tx.prepare_cached(
        "INSERT INTO trials (study, number, point, encoding, source, ask_seconds, attempts, asked_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        study.0,
        trial.number,
        point,
        encoding,
        trial.source,
        trial.ask_seconds,
        trial.attempts,
        trial.asked_at_ms,
    ])?;
    match trial.state {
        TrialState::Waiting => Ok(()),
        _ => update(tx, study, trial),
    }
}

/// Stores all mutable columns of a trial.
pub(super) fn update(tx: &Transaction<'_>, study: StudyKey, trial: &Trial) -> Result<(), Failure> {
    let (holding, told) = match &trial.state {
        TrialState::Waiting => (None, None),
        TrialState::Running(holding) => (Some(holding), None),
        TrialState::Told(told) => (None, Some(told)),
    };
    let process = holding.and_then(|holding| holding.worker.process.as_ref());
    let process = process
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| Failure::contradiction(format!("cannot store a process: {error}")))?;
    let (value, stop) = match told {
        None => (Value::Null, None),
        Some(Told::Stopped { epoch, value, because }) => {
            (Value::Real(*value), Some((epoch, because)))
        }
        Some(told) => (
            told.numbers()
                .first()
                .map_or(Value::Null, |value| Value::Real(missing::stored(*value))),
            None,
        ),
    };
    let failure = told.and_then(Told::failure);
    tx.prepare_cached(
        "UPDATE trials SET attempts = ?, started_at_ms = ?, holder = ?, holder_process = ?, until_ms = ?, told_seq = ?,
         told_at_ms = ?, value = ?, failure_kind = ?, failure_message = ?, stopped_epoch = ?, stopped_because = ?
         WHERE study = ? AND number = ?",
    )?
    .execute(params![
        trial.attempts,
        trial.started_at_ms,
        holding.map(|holding| &holding.worker.id),
        process,
        holding.and_then(|holding| holding.until_ms),
        trial.told_seq,
        trial.told_at_ms,
        value,
        failure.map(|(kind, _)| kind),
        failure.map(|(_, message)| message),
        stop.map(|(epoch, _)| epoch),
        stop.map(|(_, because)| because),
        study.0,
        trial.number,
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::super::schema::FORMAT;
    use super::*;

    #[test]
    fn every_selection_is_a_search_in_its_index() {
        let connection = Connection::open_in_memory().unwrap();
        FORMAT.create_layout(&connection).unwrap();
        for (condition, index) in [
            (ALL, "PRIMARY KEY (study=?)"),
            (ONE, "PRIMARY KEY (study=? AND number=?)"),
            (OPEN, "trials_open (study=?)"),
            (OPEN_AFTER, "trials_open (study=? AND number>?)"),
            (HELD_BY, "trials_open (study=?)"),
            (TOLD_AFTER, "trials_by_telling (study=? AND told_seq>?)"),
            (FIRST_LIKE, "trials_by_encoding (study=? AND encoding=?)"),
            (LAST, "PRIMARY KEY (study=?)"),
            (LAST_TOLD, "trials_by_telling (study=? AND told_seq>?)"),
        ] {
            let sql = format!("EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM trials {condition}");
            let mut statement = connection.prepare(&sql).unwrap();
            let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            let plan = steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
            assert!(plan.starts_with("SEARCH") && plan.ends_with(index), "{condition}: {plan}");
        }
        for (condition, index) in [
            (OF_STUDY, "PRIMARY KEY (study=?)"),
            (OF_TRIAL, "PRIMARY KEY (study=? AND number=?)"),
            (OF_TRIAL_FROM, "PRIMARY KEY (study=? AND number=? AND epoch>?)"),
        ] {
            let sql = format!("EXPLAIN QUERY PLAN SELECT epoch, value FROM reports {condition}");
            let mut statement = connection.prepare(&sql).unwrap();
            let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            let plan = steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
            assert!(plan.starts_with("SEARCH") && plan.ends_with(index), "{condition}: {plan}");
        }
    }
}
