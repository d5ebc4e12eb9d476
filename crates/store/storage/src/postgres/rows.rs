//! Converts trials to rows and back.

use std::collections::BTreeMap;

use postgres::types::{ToSql, Type};
use postgres::{Row, Transaction};

use super::failure::Failure;
use super::text;
use crate::{
    Process, Report, StudyKey, StudyRecord, Told, Trial, TrialLease, TrialState, Worker, missing,
};

const COLUMNS: &str = "number, point, source, ask_seconds, attempts, asked_at_ms, started_at_ms, holder, holder_process, \
     until_ms, told_seq, told_at_ms, value, failure_kind, failure_message, stopped_epoch, stopped_because";

// Conditions that select a trial's reports.
const ALL_REPORTS: &str = "true";
const REPORTS_FROM: &str = "r.epoch >= $3";
const REPORTS_UNSEEN: &str = "r.epoch >= coalesce((SELECT s.epoch FROM unnest($2::bigint[], $3::bigint[]) \
     AS s (number, epoch) WHERE s.number = trials.number), 0)";

/// Returns a query for trials ($1 is the study), with the reports selected by `which`. If a study
/// has no reports, the query makes one search for them instead of one per trial, and never a second
/// round trip. `has_outcomes` is true if the table of further numbers exists.
fn select(has_outcomes: bool, which: &str, condition: &str) -> String {
    let reported = |column: &str| {
        format!(
            "CASE WHEN EXISTS (SELECT FROM fedbo.reports WHERE study = $1) THEN (SELECT array_agg(r.{column} ORDER BY r.epoch) \
             FROM fedbo.reports r WHERE r.study = trials.study AND r.number = trials.number AND {which}) END"
        )
    };
    let (epochs, values) = (reported("epoch"), reported("value"));
    let further = |column: &str, kind: &str| match has_outcomes {
        true => format!(
            "(SELECT array_agg(o.{column} ORDER BY o.place) FROM fedbo.outcomes o WHERE o.study = trials.study AND o.number = trials.number)"
        ),
        false => format!("NULL::{kind}[]"),
    };
    let (further, places) = (further("value", "double precision"), further("place", "bigint"));
    format!(
        "SELECT {COLUMNS}, {epochs} AS epochs, {values} AS epoch_values, {further} AS further, {places} AS places FROM fedbo.trials {condition}"
    )
}

// Conditions that select trials. $1 is the study. Each condition uses an index search, regardless
// of the number of trials.
pub(super) const ALL: &str = "WHERE study = $1 ORDER BY number";
pub(super) const ONE: &str = "WHERE study = $1 AND number = $2";
pub(super) const OPEN: &str = "WHERE study = $1 AND told_seq IS NULL ORDER BY number";
pub(super) const OPEN_AFTER: &str =
    "WHERE study = $1 AND told_seq IS NULL AND number > $2 ORDER BY number LIMIT 1";
pub(super) const HELD_BY: &str =
    "WHERE study = $1 AND told_seq IS NULL AND holder = $2 ORDER BY number";
pub(super) const TOLD_AFTER: &str = "WHERE study = $1 AND told_seq > $2 ORDER BY told_seq";
pub(super) const FIRST_LIKE: &str = "WHERE study = $1 AND sha256(encoding) = sha256($2) AND encoding = $2 AND failure_kind IS DISTINCT FROM '' ORDER BY number LIMIT 1";
pub(super) const LAST: &str = "WHERE study = $1 ORDER BY number DESC LIMIT 1";
pub(super) const LAST_TOLD: &str =
    "WHERE study = $1 AND told_seq > 0 ORDER BY told_seq DESC LIMIT 1";

/// A typed parameter. Typed statements need not be prepared, so each takes one round trip.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Converts a row of `id, name, definition`.
pub(super) fn study(row: &Row) -> Result<StudyRecord, Failure> {
    Ok(StudyRecord {
        key: StudyKey(row.try_get(0)?),
        name: loaded(row.try_get(1)?)?,
        definition: loaded(row.try_get(2)?)?,
    })
}

/// Evaluates `expression` on the first trial that matches a condition.
pub(super) fn number(
    tx: &mut Transaction<'_>,
    expression: &str,
    condition: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<u64>, Failure> {
    let sql = format!("SELECT {expression} FROM fedbo.trials {condition}");
    let row = tx.query_typed_opt(&sql, parameters)?;
    row.map(|row| unsigned(row.try_get(0)?)).transpose()
}

/// Converts a number to the database's type. No stored number exceeds its range.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns all matching trials.
pub(super) fn trials(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    condition: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Trial>, Failure> {
    read_all(tx, &select(has_outcomes, ALL_REPORTS, condition), parameters)
}

fn read_all(
    tx: &mut Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Trial>, Failure> {
    let rows = tx.query_typed(sql, parameters)?;
    rows.iter().map(read).collect()
}

/// Returns the open trials. For trials in `from_epochs`, returns only the reports from that epoch
/// on.
pub(super) fn open_from(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    study: StudyKey,
    from_epochs: &BTreeMap<u64, u32>,
) -> Result<Vec<Trial>, Failure> {
    let numbers: Vec<i64> = from_epochs.keys().map(|number| signed(*number)).collect();
    let epochs: Vec<i64> = from_epochs.values().map(|&epoch| epoch.into()).collect();
    let key: [Parameter<'_>; 3] =
        [(&study.0, Type::INT8), (&numbers, Type::INT8_ARRAY), (&epochs, Type::INT8_ARRAY)];
    read_all(tx, &select(has_outcomes, REPORTS_UNSEEN, OPEN), &key)
}

/// Returns the first matching trial.
pub(super) fn first(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    condition: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<Trial>, Failure> {
    Ok(trials(tx, has_outcomes, condition, parameters)?.into_iter().next())
}

/// Returns the trial with this number.
pub(super) fn one(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    study: StudyKey,
    number: u64,
) -> Result<Option<Trial>, Failure> {
    let key = [(&study.0 as _, Type::INT8), (&signed(number) as _, Type::INT8)];
    first(tx, has_outcomes, ONE, &key)
}

/// Returns the trial with this number and its reports from an epoch on.
pub(super) fn one_from(
    tx: &mut Transaction<'_>,
    has_outcomes: bool,
    study: StudyKey,
    number: u64,
    from_epoch: u32,
) -> Result<Option<Trial>, Failure> {
    let key: [Parameter<'_>; 3] = [
        (&study.0, Type::INT8),
        (&signed(number), Type::INT8),
        (&i64::from(from_epoch), Type::INT8),
    ];
    Ok(read_all(tx, &select(has_outcomes, REPORTS_FROM, ONE), &key)?.into_iter().next())
}

fn read(row: &Row) -> Result<Trial, Failure> {
    let number: i64 = row.try_get("number")?;
    let contradiction =
        |what: &str| Failure::Contradiction(format!("trial {number} is damaged: {what}"));
    let (holder, told_seq): (Option<String>, Option<i64>) =
        (row.try_get("holder")?, row.try_get("told_seq")?);
    let state = match (told_seq, holder) {
        (None, None) => TrialState::Waiting,
        (None, Some(id)) => {
            let process: Option<&str> = row.try_get("holder_process")?;
            let process: Option<Process> = process
                .map(serde_json::from_str)
                .transpose()
                .map_err(|_| contradiction("its holder's process cannot be read"))?;
            TrialState::Running(TrialLease {
                worker: Worker { id: loaded(id)?, process },
                until_ms: row.try_get("until_ms")?,
            })
        }
        (Some(_), None) => {
            let failure: Option<String> = row.try_get("failure_kind")?;
            let stopped: Option<i64> = row.try_get("stopped_epoch")?;
            TrialState::Told(match (row.try_get("value")?, failure, stopped) {
                (Some(value), None, None) => {
                    let further: Option<Vec<f64>> = row.try_get("further")?;
                    let places: Option<Vec<i64>> = row.try_get("places")?;
                    let further = places.into_iter().flatten().zip(further.into_iter().flatten());
                    Told::with_numbers(missing::restored(value, further))
                }
                (Some(value), None, Some(epoch)) => Told::Stopped {
                    epoch: epoch_of(epoch)?,
                    value,
                    because: loaded(row.try_get("stopped_because")?)?,
                },
                (None, Some(kind), None) => {
                    Told::of_failure(loaded(kind)?, loaded(row.try_get("failure_message")?)?)
                }
                _ => return Err(contradiction("it has ended without exactly one outcome")),
            })
        }
        (Some(_), Some(_)) => return Err(contradiction("it has ended but has a holder")),
    };
    let attempts: i64 = row.try_get("attempts")?;
    Ok(Trial {
        number: unsigned(number)?,
        // An error from serde_json would quote the point.
        point: serde_json::from_str(row.try_get("point")?)
            .map_err(|_| contradiction("its point cannot be read"))?,
        source: loaded(row.try_get("source")?)?,
        state,
        attempts: u32::try_from(attempts)
            .map_err(|_| contradiction("its number of attempts is invalid"))?,
        asked_at_ms: row.try_get("asked_at_ms")?,
        started_at_ms: row.try_get("started_at_ms")?,
        told_at_ms: row.try_get("told_at_ms")?,
        told_seq: told_seq.map(unsigned).transpose()?,
        ask_seconds: row.try_get("ask_seconds")?,
        reports: reports(row)?,
    })
}

/// Returns the reports of a trial, sorted by epoch.
fn reports(row: &Row) -> Result<Vec<Report>, Failure> {
    let epochs: Option<Vec<i64>> = row.try_get("epochs")?;
    let values: Option<Vec<f64>> = row.try_get("epoch_values")?;
    let pairs = epochs.unwrap_or_default().into_iter().zip(values.unwrap_or_default());
    pairs
        .map(|(epoch, value)| {
            let epoch = epoch_of(epoch)?;
            Ok(Report { epoch, value })
        })
        .collect()
}

fn epoch_of(epoch: i64) -> Result<u32, Failure> {
    u32::try_from(epoch)
        .map_err(|_| Failure::Contradiction(format!("an epoch is invalid: {epoch}")))
}

/// Stores a report of a trial.
pub(super) fn insert_report(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
    report: Report,
) -> Result<(), Failure> {
    tx.execute_typed(
        "INSERT INTO fedbo.reports (study, number, epoch, value) VALUES ($1, $2, $3, $4)",
        &[
            (&study.0, Type::INT8),
            (&signed(number), Type::INT8),
            (&i64::from(report.epoch), Type::INT8),
            (&report.value, Type::FLOAT8),
        ],
    )?;
    Ok(())
}

/// Deletes the reports of a trial.
pub(super) fn delete_reports(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    number: u64,
) -> Result<(), Failure> {
    tx.execute_typed(
        "DELETE FROM fedbo.reports WHERE study = $1 AND number = $2",
        &[(&study.0, Type::INT8), (&signed(number), Type::INT8)],
    )?;
    Ok(())
}

/// Stores a new trial.
pub(super) fn insert(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    trial: &Trial,
    encoding: &[u8],
) -> Result<(), Failure> {
    let point = serde_json::to_string(&trial.point)
        .map_err(|error| Failure::Contradiction(format!("cannot store a point: {error}")))?;
    let changing = MutableColumns::of(trial)?;
    let mut parameters: Vec<Parameter<'_>> = changing.parameters(&study.0).into();
    let source = text::store(&trial.source);
    parameters.extend([
        (&point as &(dyn ToSql + Sync), Type::TEXT),
        (&encoding, Type::BYTEA),
        (&source, Type::TEXT),
        (&trial.ask_seconds, Type::FLOAT8),
        (&trial.asked_at_ms, Type::INT8),
    ]);
    tx.execute_typed(
        "INSERT INTO fedbo.trials (study, number, attempts, started_at_ms, holder, holder_process, until_ms, told_seq,
             told_at_ms, value, failure_kind, failure_message, stopped_epoch, stopped_because, point, encoding, source,
             ask_seconds, asked_at_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
        &parameters,
    )?;
    Ok(())
}

/// Stores all mutable columns of a trial.
pub(super) fn update(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    trial: &Trial,
) -> Result<(), Failure> {
    let changing = MutableColumns::of(trial)?;
    tx.execute_typed(
        "UPDATE fedbo.trials SET attempts = $3, started_at_ms = $4, holder = $5, holder_process = $6, until_ms = $7,
             told_seq = $8, told_at_ms = $9, value = $10, failure_kind = $11, failure_message = $12,
             stopped_epoch = $13, stopped_because = $14
         WHERE study = $1 AND number = $2",
        &changing.parameters(&study.0),
    )?;
    Ok(())
}

/// The mutable columns of a trial.
struct MutableColumns {
    number: i64,
    attempts: i64,
    started_at_ms: Option<i64>,
    holder: Option<String>,
    process: Option<String>,
    until_ms: Option<i64>,
    told_seq: Option<i64>,
    told_at_ms: Option<i64>,
    value: Option<f64>,
    kind: Option<String>,
    message: Option<String>,
    stopped_epoch: Option<i64>,
    because: Option<String>,
}

impl MutableColumns {
    fn of(trial: &Trial) -> Result<Self, Failure> {
        let (holding, told) = match &trial.state {
            TrialState::Waiting => (None, None),
            TrialState::Running(holding) => (Some(holding), None),
            TrialState::Told(told) => (None, Some(told)),
        };
        let process = holding.and_then(|holding| holding.worker.process.as_ref());
        let process = process.map(serde_json::to_string).transpose();
        let (value, stop) = match told {
            None => (None, None),
            Some(Told::Stopped { epoch, value, because }) => {
                (Some(*value), Some((*epoch, because)))
            }
            Some(told) => (told.numbers().first().map(|value| missing::stored(*value)), None),
        };
        let failure = told.and_then(Told::failure);
        let stored = |text: &str| text::store(text).into_owned();
        Ok(Self {
            number: signed(trial.number),
            attempts: trial.attempts.into(),
            started_at_ms: trial.started_at_ms,
            holder: holding.map(|holding| stored(&holding.worker.id)),
            process: process.map_err(|error| {
                Failure::Contradiction(format!("cannot store a process: {error}"))
            })?,
            until_ms: holding.and_then(|holding| holding.until_ms),
            told_seq: trial.told_seq.map(signed),
            told_at_ms: trial.told_at_ms,
            value,
            kind: failure.map(|(kind, _)| stored(kind)),
            message: failure.map(|(_, message)| stored(message)),
            stopped_epoch: stop.map(|(epoch, _)| epoch.into()),
            because: stop.map(|(_, because)| stored(because)),
        })
    }

    /// Returns the parameters $1 to $14.
    fn parameters<'a>(&'a self, study: &'a i64) -> [Parameter<'a>; 14] {
        [
            (study, Type::INT8),
            (&self.number, Type::INT8),
            (&self.attempts, Type::INT8),
            (&self.started_at_ms, Type::INT8),
            (&self.holder, Type::TEXT),
            (&self.process, Type::TEXT),
            (&self.until_ms, Type::INT8),
            (&self.told_seq, Type::INT8),
            (&self.told_at_ms, Type::INT8),
            (&self.value, Type::FLOAT8),
            (&self.kind, Type::TEXT),
            (&self.message, Type::TEXT),
            (&self.stopped_epoch, Type::INT8),
            (&self.because, Type::TEXT),
        ]
    }
}

pub(super) fn loaded(stored: String) -> Result<String, Failure> {
    text::load(stored)
        .ok_or_else(|| Failure::Contradiction("a text has an invalid escape".to_owned()))
}

pub(super) fn unsigned(number: i64) -> Result<u64, Failure> {
    u64::try_from(number)
        .map_err(|_| Failure::Contradiction(format!("a number is negative: {number}")))
}
