//! Storages of Optuna in SQLite.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_space::Direction;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};

use super::{Defect, Distribution, Found, State, Stored, key_of};

/// A study in the tables of an Optuna storage.
pub(super) fn read(path: &Path, study: Option<&str>) -> Result<Stored, Defect> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).and_then(|connection| {
        // A foreign file: what stands in its layout is not run.
        connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON")?;
        Ok(connection)
    });
    let connection = connection.map_err(|error| Defect::Unreadable(error.to_string()))?;
    let source = Source { connection };
    source.check_tables()?;
    let id = key_of(&source.studies()?, study)?;
    let directions = source.directions(id)?;
    let metric_names = if directions.len() > 1 { source.metric_names(id)? } else { None };
    Ok(Stored { metric_names, trials: source.trials(id)?, directions })
}

impl From<rusqlite::Error> for Defect {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.to_string())
    }
}

struct Source {
    connection: Connection,
}

fn state_of(text: &str) -> State {
    match text {
        "COMPLETE" => State::Complete,
        "FAIL" => State::Failed,
        "PRUNED" => State::Pruned,
        _ => State::Open,
    }
}

impl Source {
    /// Makes sure that what is read are tables: a view is a query of the file's author, which may never end.
    fn check_tables(&self) -> Result<(), Defect> {
        let sql = "SELECT name FROM sqlite_schema WHERE type <> 'table' AND lower(name) IN ('studies', 'study_directions',
                   'study_system_attributes', 'trials', 'trial_system_attributes', 'trial_params', 'trial_values')";
        let other: Option<String> =
            self.connection.query_row(sql, [], |row| row.get(0)).optional()?;
        match other {
            None => Ok(()),
            Some(name) => {
                Err(Defect::Content(format!("{name} is no table, as in a storage of Optuna")))
            }
        }
    }

    fn rows<T>(
        &self,
        sql: &str,
        study: i64,
        each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Defect> {
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([study], each)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn studies(&self) -> Result<Vec<(i64, String)>, Defect> {
        let mut statement = self
            .connection
            .prepare("SELECT study_id, study_name FROM studies ORDER BY study_id")?;
        let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(all.collect::<Result<_, _>>()?)
    }

    fn directions(&self, study: i64) -> Result<Vec<Direction>, Defect> {
        let sql = "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective";
        let texts: Vec<String> = self.rows(sql, study, |row| row.get(0))?;
        let directions = texts.iter().map(|text| match text.as_str() {
            "MINIMIZE" | "NOT_SET" => Ok(Direction::Minimize), // not set means minimize
            "MAXIMIZE" => Ok(Direction::Maximize),
            other => Err(Defect::Content(format!(
                "its direction {other:?} is neither MINIMIZE nor MAXIMIZE"
            ))),
        });
        directions.collect()
    }

    /// The names of the objectives, if the study has some.
    fn metric_names(&self, study: i64) -> Result<Option<Vec<String>>, Defect> {
        let sql = "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND key = 'study:metric_names'";
        let text: Option<String> =
            self.connection.query_row(sql, [study], |row| row.get(0)).optional()?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// All trials, in their order.
    fn trials(&self, study: i64) -> Result<Vec<Found>, Defect> {
        let sql = "SELECT trial_id, state FROM trials WHERE study_id = ? ORDER BY number, trial_id";
        let states: Vec<(i64, String)> =
            self.rows(sql, study, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let places: BTreeMap<i64, usize> =
            states.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        let mut found: Vec<Found> = states
            .into_iter()
            .map(|(_, state)| Found { state: state_of(&state), ..Found::default() })
            .collect();

        let sql = "SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json FROM trial_params p
                   JOIN trials t ON t.trial_id = p.trial_id WHERE t.study_id = ?";
        type Parameter = (i64, String, f64, String);
        let parameters: Vec<Parameter> =
            self.rows(sql, study, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        for (trial, name, number, text) in parameters {
            let distribution = Distribution::read(&text).map_err(|reason| {
                Defect::Content(format!("the distribution of parameter {name:?}: {reason}"))
            })?;
            if let Some(place) = places.get(&trial) {
                found[*place].parameters.insert(name, (number, distribution));
            }
        }

        let sql = "SELECT v.trial_id, v.value, v.value_type FROM trial_values v
                   JOIN trials t ON t.trial_id = v.trial_id WHERE t.study_id = ? ORDER BY v.objective";
        let values: Vec<(i64, Option<f64>, String)> =
            self.rows(sql, study, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        for (trial, value, kind) in values {
            if let Some(place) = places.get(&trial) {
                let value = value.filter(|value| kind == "FINITE" && value.is_finite());
                found[*place].values.push(value);
            }
        }

        let sql = "SELECT a.trial_id, a.value_json FROM trial_system_attributes a
                   JOIN trials t ON t.trial_id = a.trial_id WHERE t.study_id = ? AND a.key = 'constraints'";
        let constraints: Vec<(i64, String)> =
            self.rows(sql, study, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (trial, text) in constraints {
            if let Some(place) = places.get(&trial) {
                found[*place].constraints = serde_json::from_str(&text).ok();
            }
        }
        Ok(found)
    }
}
