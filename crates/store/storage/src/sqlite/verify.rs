//! Verifies a file with SQLite's own checks, and checks the layout and the invariants of studies
//! and trials.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use fedbo_database::integrity_problems;
use fedbo_space::Point;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row};

use super::failure::{Failure, Operation};
use super::schema::FORMAT;
use super::{corrections, outcomes, stops};
use crate::{Mode, Process, StorageError, Told, missing};

/// The result of verifying a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Version of the layout.
    pub version: i64,
    /// Number of readable studies.
    pub n_studies: u64,
    /// Number of readable trials.
    pub n_trials: u64,
    /// All problems. Empty if the file is sound.
    pub problems: Vec<Problem>,
}

/// A problem found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the affected study, if the problem concerns one.
    pub study: Option<String>,
    /// Number of the affected trial, if the problem concerns one.
    pub trial: Option<i64>,
    /// Description of the problem.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(study) = &self.study {
            write!(f, "study {study:?}")?;
            if let Some(trial) = self.trial {
                write!(f, ", trial {trial}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

/// Checks a file and lists all problems. Reads a single snapshot and writes nothing, so it can be
/// called while other processes use the file.
///
/// # Errors
/// [`StorageError::Absent`], [`StorageError::NotAStorage`] and [`StorageError::Version`] if the
/// file is not a storage of this version; [`StorageError::Read`] if the system refuses access.
/// Damage is reported, not returned as an error.
pub fn verify(path: &Path) -> Result<VerifyReport, StorageError> {
    let (file, _) = super::locate(path, Mode::Existing)?;
    let mut findings = Findings::default();
    match file.open_for_verification() {
        Ok(connection) => {
            let checked = findings.check_all(&connection);
            findings.record_damage(checked)
        }
        Err(failure) => findings.record_damage(Err(failure.into())),
    }
    .map_err(|failure| failure.into_error(path, Operation::Read))?;
    Ok(VerifyReport {
        version: FORMAT.version(),
        n_studies: findings.n_studies,
        n_trials: findings.n_trials,
        problems: findings.problems,
    })
}

#[derive(Default)]
struct Findings {
    n_studies: u64,
    n_trials: u64,
    problems: Vec<Problem>,
}

impl Findings {
    fn add(&mut self, study: Option<&str>, trial: Option<i64>, message: impl Into<String>) {
        self.problems.push(Problem {
            study: study.map(str::to_owned),
            trial,
            message: message.into(),
        });
    }

    /// Records damage as a finding. Returns all other failures.
    fn record_damage(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(failure) if failure.is_damage() => {
                self.add(None, None, format!("it cannot be read completely: {failure}"));
                Ok(())
            }
            result => result,
        }
    }

    fn check_all(&mut self, connection: &Connection) -> Result<(), Failure> {
        let tx = connection.unchecked_transaction()?;
        let checks = [
            Self::sqlite,
            Self::layout,
            Self::studies,
            Self::stops,
            Self::outcomes,
            Self::corrections,
        ];
        for check in checks {
            let checked = check(self, &tx);
            self.record_damage(checked)?;
        }
        Ok(tx.commit()?)
    }

    /// Runs SQLite's own checks.
    fn sqlite(&mut self, connection: &Connection) -> Result<(), Failure> {
        for message in integrity_problems(connection)? {
            self.add(None, None, message);
        }
        Ok(())
    }

    /// Checks that tables and indexes match the layout. The tables of stops, outcomes and
    /// corrections are optional.
    fn layout(&mut self, connection: &Connection) -> Result<(), Failure> {
        for message in FORMAT.layout_problems_beside(
            connection,
            &[stops::TABLE, outcomes::TABLE, corrections::TABLE],
        )? {
            self.add(None, None, message);
        }
        Ok(())
    }

    fn studies(&mut self, connection: &Connection) -> Result<(), Failure> {
        let mut statement =
            connection.prepare("SELECT id, name, definition FROM studies ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, name, definition): (i64, String, String) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            self.n_studies += 1;
            if serde_json::from_str::<serde::de::IgnoredAny>(&definition).is_err() {
                self.add(Some(&name), None, "its definition is not JSON");
            }
            self.trials(connection, id, &name)?;
        }
        let mut statement = connection.prepare(
            "SELECT DISTINCT study, number FROM reports AS r WHERE NOT EXISTS
             (SELECT 1 FROM trials AS t WHERE t.study = r.study AND t.number = r.number)",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (study, number): (i64, i64) = (row.get(0)?, row.get(1)?);
            let message = format!(
                "there are reports of trial {number} of the study with key {study}, which is missing"
            );
            self.add(None, None, message);
        }
        let mut statement = connection.prepare(
            "SELECT DISTINCT study FROM trials WHERE study NOT IN (SELECT id FROM studies)",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let study: i64 = row.get(0)?;
            let message = format!("there are trials of a missing study (key {study})");
            self.add(None, None, message);
        }
        Ok(())
    }

    /// Checks that the stops of each study are numbered 1, 2, ….
    fn stops(&mut self, connection: &Connection) -> Result<(), Failure> {
        if !stops::is_there(connection)? {
            return Ok(());
        }
        let sql =
            "SELECT study FROM stops GROUP BY study HAVING min(seq) <> 1 OR max(seq) <> count(*)";
        let Ok(mut statement) = connection.prepare(sql) else {
            return Ok(()); // a different table, which was already reported
        };
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let study: i64 = row.get(0)?;
            let message = format!("the stops of the study with key {study} are not 1, 2, …");
            self.add(None, None, message);
        }
        Ok(())
    }

    /// Checks that further numbers are finite, belong to complete trials, and have positions 1, 2,
    /// …, and that each mark of a missing number belongs to one of the trial's numbers.
    fn outcomes(&mut self, connection: &Connection) -> Result<(), Failure> {
        if !outcomes::is_there(connection)? {
            return Ok(());
        }
        let sql = "SELECT o.study, o.number, min(o.place) <> 1 OR max(o.place) FILTER (WHERE o.place < ?1) <> sum(o.place < ?1)
                       OR max(o.place) - ?1 > sum(o.place < ?1)
                       OR sum(typeof(o.value) <> 'real' OR abs(o.value) > 1.7976931348623157e308) > 0,
                   t.value IS NULL OR t.stopped_epoch IS NOT NULL
             FROM outcomes AS o LEFT JOIN trials AS t ON t.study = o.study AND t.number = o.number
             GROUP BY o.study, o.number";
        let Ok(mut statement) = connection.prepare(sql) else {
            return Ok(()); // a different table, which was already reported
        };
        let mut rows = statement.query([missing::MARKS])?;
        while let Some(row) = rows.next()? {
            let (study, number): (i64, i64) = (row.get(0)?, row.get(1)?);
            let of = format!("the further numbers of trial {number} of the study with key {study}");
            if row.get(2)? {
                self.add(None, None, format!("{of} are not finite numbers at the places 1, 2, …"));
            }
            if row.get(3)? {
                self.add(None, None, format!("{of} are stored without a final value"));
            }
        }
        Ok(())
    }

    /// Checks that the corrections of each study are numbered 1, 2, …, and that the earlier
    /// outcomes can be read.
    fn corrections(&mut self, connection: &Connection) -> Result<(), Failure> {
        if !corrections::is_there(connection)? {
            return Ok(());
        }
        let sql = "SELECT study, seq, number, before FROM corrections ORDER BY study, seq";
        let Ok(mut statement) = connection.prepare(sql) else {
            return Ok(()); // a different table, which was already reported
        };
        let mut rows = statement.query([])?;
        let mut last = (0, 0);
        while let Some(row) = rows.next()? {
            let (study, seq, number): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let of = format!("correction {seq} of the study with key {study}");
            let expected = if last.0 == study { last.1 + 1 } else { 1 };
            last = (study, seq);
            if seq != expected {
                self.add(None, None, format!("{of} comes after correction {}", expected - 1));
            }
            let before: Option<String> = row.get(3).ok();
            if before.is_none_or(|text| serde_json::from_str::<Told>(&text).is_err()) {
                let message = format!("{of}: the earlier outcome of trial {number} cannot be read");
                self.add(None, None, message);
            }
        }
        Ok(())
    }

    fn trials(&mut self, connection: &Connection, id: i64, name: &str) -> Result<(), Failure> {
        let mut statement =
            connection.prepare("SELECT * FROM trials WHERE study = ? ORDER BY number")?;
        let mut rows = statement.query([id])?;
        let (mut next, mut told) = (0, Vec::new());
        while let Some(row) = rows.next()? {
            let number: i64 = row.get("number")?;
            self.n_trials += 1;
            if number > next {
                let message = match number - next {
                    1 => format!("trial {next} is missing"),
                    _ => format!("trials {next} to {} are missing", number - 1),
                };
                self.add(Some(name), None, message);
            } else if number < next {
                self.add(Some(name), Some(number), "its number occurs twice");
            }
            next = next.max(number.saturating_add(1));
            for message in problems_of(row) {
                self.add(Some(name), Some(number), message);
            }
            for message in problems_of_reports(connection, id, number, row)? {
                self.add(Some(name), Some(number), message);
            }
            if let Ok(Some(seq)) = row.get::<_, Option<i64>>("told_seq") {
                told.push((seq, number));
            }
        }
        self.order_of_telling(name, told);
        Ok(())
    }

    /// Checks that the trials' positions in the order of telling are 1, 2, … without gaps.
    fn order_of_telling(&mut self, name: &str, mut told: Vec<(i64, i64)>) {
        told.sort_unstable();
        let mut seen = HashSet::new();
        let mut next = 1;
        for (seq, number) in told {
            if !seen.insert(seq) {
                let message =
                    format!("its place {seq} in the order of telling is also another trial's");
                self.add(Some(name), Some(number), message);
            } else if seq != next {
                let message =
                    format!("its place in the order of telling is {seq}, expected {next}");
                self.add(Some(name), Some(number), message);
            }
            next = seq.saturating_add(1);
        }
    }
}

/// Returns the problems of one trial. Reads the columns one by one, because any of them may be
/// damaged.
fn problems_of(row: &Row<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut demand = |holds: bool, message: &str| {
        if !holds {
            problems.push(message.to_owned());
        }
    };
    let point: Option<String> = read(row, "point");
    let point = point.and_then(|text| serde_json::from_str::<Point>(&text).ok());
    demand(point.is_some(), "its point cannot be read");
    let encoding: Option<Vec<u8>> = read(row, "encoding");
    demand(encoding.is_some_and(|encoding| !encoding.is_empty()), "it has no encoding");
    demand(read::<String>(row, "source").is_some(), "it has no source");
    demand(
        read::<f64>(row, "ask_seconds").is_some_and(f64::is_finite),
        "the time of its proposal is not a number",
    );
    demand(read::<i64>(row, "asked_at_ms").is_some(), "it lacks the time when it was asked for");
    let attempts: Option<u32> = read(row, "attempts");
    demand(attempts.is_some(), "its number of attempts is invalid");

    let (is_told, is_held) = (is_set(row, "told_seq"), is_set(row, "holder"));
    let (has_value, has_failure) = (is_set(row, "value"), is_set(row, "failure_kind"));
    let was_stopped = is_set(row, "stopped_epoch");
    demand(is_set(row, "stopped_because") == was_stopped, "its stop lacks an epoch or a reason");
    demand(!was_stopped || (is_told && has_value), "it was stopped without a value");
    demand(is_set(row, "failure_message") == has_failure, "its failure lacks a kind or a message");
    if is_told {
        demand(has_value != has_failure, "it has ended without exactly one outcome");
        demand(read::<i64>(row, "told_at_ms").is_some(), "it lacks the time when it was told");
        demand(!is_held, "it has ended but has a holder");
    } else {
        demand(
            !has_value && !has_failure && !is_set(row, "told_at_ms"),
            "it has an outcome or a time of telling, but no place in the order of telling",
        );
    }
    if has_value {
        demand(
            read::<f64>(row, "value").is_some_and(f64::is_finite),
            "its value is not a finite number",
        );
    }
    if is_held {
        demand(
            read::<String>(row, "holder").is_some_and(|holder| !holder.is_empty()),
            "its holder cannot be read",
        );
        demand(
            is_set(row, "started_at_ms") && attempts.is_some_and(|attempts| attempts > 0),
            "it is running, but was never started",
        );
        let process: Option<String> = read(row, "holder_process");
        demand(
            process.is_none_or(|text| serde_json::from_str::<Process>(&text).is_ok()),
            "its holder's process cannot be read",
        );
    } else {
        demand(
            !is_set(row, "holder_process") && !is_set(row, "until_ms"),
            "it has a lease, but no holder",
        );
        demand(is_told || !is_set(row, "started_at_ms"), "it was started, but has no holder");
    }
    problems
}

/// Returns the problems of a trial's reports.
fn problems_of_reports(
    connection: &Connection,
    study: i64,
    number: i64,
    trial: &Row<'_>,
) -> Result<Vec<&'static str>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT epoch, value FROM reports WHERE study = ? AND number = ? ORDER BY epoch",
    )?;
    let mut rows = statement.query([study, number])?;
    let mut problems = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        let epoch = read::<u32>(row, "epoch").filter(|epoch| *epoch > 0);
        let value = read::<f64>(row, "value").filter(|value| value.is_finite());
        last = epoch.zip(value);
        if last.is_none() {
            problems.push("it has a report without an epoch or a finite value");
        }
    }
    if last.is_some() && !is_set(trial, "told_seq") && !is_set(trial, "holder") {
        problems.push("it has reports, but no holder");
    }
    let (epoch, value) = (read::<u32>(trial, "stopped_epoch"), read::<f64>(trial, "value"));
    let bits = |(epoch, value): (u32, f64)| (epoch, value.to_bits());
    if is_set(trial, "stopped_epoch") && epoch.zip(value).map(bits) != last.map(bits) {
        problems.push("it was not stopped at its last report");
    }
    Ok(problems)
}

/// Returns a column's value, or `None` if it is null or has a different type.
fn read<T: FromSql>(row: &Row<'_>, column: &str) -> Option<T> {
    row.get(column).ok()
}

fn is_set(row: &Row<'_>, column: &str) -> bool {
    row.get_ref(column).is_ok_and(|value| value != rusqlite::types::ValueRef::Null)
}
