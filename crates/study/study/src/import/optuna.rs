//! Studies in Optuna's storages.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_space::{Direction, ParameterSpec, Point, Value};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};
use serde::Deserialize;

use super::{ImportError, ImportedTrials};
use crate::{Definition, LeftOut};

/// A study in a storage of Optuna: a file of SQLite with Optuna's tables (layout 12, of Optuna 3.0 and later).
///
/// The space is that of the distributions of complete trials: a parameter whose range differed between them has the hull of its ranges.
/// Constraints that a sampler stored (`constraints_func`) become constraints `constraint_0`, …, each `at_most = 0`; several objectives have
/// the names that the study gave its metrics, or `objective_0`, ….
///
/// # Errors
/// If the file cannot be read, has no such study, or holds what a study cannot have.
pub fn read_optuna(
    path: &Path,
    study: Option<&str>,
    name: &str,
) -> Result<(Definition, ImportedTrials), ImportError> {
    let defect =
        |message: String| ImportError::Table { path: path.to_owned(), line: None, message };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).and_then(|connection| {
        // A foreign file: what stands in its layout is not run.
        connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON")?;
        Ok(connection)
    });
    let connection = connection.map_err(|error| ImportError::Unreadable {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let source = Source { connection };
    source.read(study, name).map_err(|error| match error {
        Defect::Storage(error) => {
            defect(format!("it is no storage of Optuna 3.0 or later, or it is damaged ({error})"))
        }
        Defect::Content(message) => defect(message),
    })
}

enum Defect {
    Storage(rusqlite::Error),
    Content(String),
}

impl From<rusqlite::Error> for Defect {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

fn nothing() -> Defect {
    Defect::Content("the study has no complete trial with all parameters".to_owned())
}

struct Source {
    connection: Connection,
}

/// A trial as its rows have it.
#[derive(Default)]
struct Found {
    state: String,
    /// The stored number and the distribution of each parameter.
    parameters: BTreeMap<String, (f64, Distribution)>,
    /// `None` for a value that is not finite.
    values: Vec<Option<f64>>,
    constraints: Option<Vec<f64>>,
}

impl Source {
    fn read(
        &self,
        study: Option<&str>,
        name: &str,
    ) -> Result<(Definition, ImportedTrials), Defect> {
        self.check_tables()?;
        let id = self.study(study)?;
        let directions = self.directions(id)?;
        let trials = self.trials(id)?;
        let mut definition = Definition::new(name);
        match &directions[..] {
            [] => return Err(Defect::Content("the study has no direction".to_owned())),
            [direction] => definition.direction = *direction,
            several => {
                let names = self.metric_names(id, several.len())?;
                for (name, direction) in names.into_iter().zip(several) {
                    definition = definition.objective(name, *direction);
                }
            }
        }
        let complete = trials.iter().filter(|trial| trial.state == "COMPLETE");
        let n_constraints = complete.clone().filter_map(|trial| trial.constraints.as_ref());
        let n_constraints = n_constraints.map(Vec::len).max().unwrap_or(0);
        for index in 0..n_constraints {
            definition = definition.at_most(format!("constraint_{index}"), 0.0);
        }
        let space = space_of(complete)?;
        if space.is_empty() {
            return Err(nothing());
        }
        for (name, distribution) in &space {
            definition = definition.parameter(name.clone(), distribution.spec());
        }
        definition.check().map_err(|error| Defect::Content(error.to_string()))?;
        let (mut kept, mut n_partial, mut n_infinite) = (Vec::new(), 0, 0);
        let (mut n_failed, mut n_pruned, mut n_open) = (0, 0, 0);
        for trial in trials {
            let constraints = trial.constraints.unwrap_or_default();
            match trial.state.as_str() {
                "COMPLETE" => {}
                "FAIL" => n_failed += 1,
                "PRUNED" => n_pruned += 1,
                _ => n_open += 1,
            }
            if trial.state != "COMPLETE" {
                continue;
            }
            let values: Option<Vec<f64>> = trial.values.into_iter().collect();
            let is_whole =
                trial.parameters.len() == space.len() && constraints.len() == n_constraints;
            match values.filter(|values| values.len() == directions.len()) {
                None => n_infinite += 1,
                Some(_) if !is_whole => n_partial += 1,
                Some(mut numbers) => {
                    numbers.extend(constraints);
                    let entries = trial.parameters.into_iter().map(|(name, (number, own))| {
                        let value = own.value(number).ok_or_else(|| {
                            Defect::Content(format!(
                                "parameter {name:?} = {number}: it is no value of its distribution"
                            ))
                        })?;
                        Ok((name, value))
                    });
                    kept.push((Point::new(entries.collect::<Result<_, Defect>>()?), numbers));
                }
            }
        }
        if kept.is_empty() {
            return Err(nothing());
        }
        let left_out = LeftOut::of_counts([
            (n_failed, "failed"),
            (n_pruned, "pruned"),
            (n_open, "not ended"),
            (n_infinite, "with a value that is not finite"),
            (n_partial, "without some of the parameters or constraints"),
        ]);
        Ok((definition, ImportedTrials { direction: None, trials: kept, left_out }))
    }

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

    /// The study's key; without a name that of the only study.
    fn study(&self, study: Option<&str>) -> Result<i64, Defect> {
        let mut statement = self
            .connection
            .prepare("SELECT study_id, study_name FROM studies ORDER BY study_id")?;
        let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let all: Vec<(i64, String)> = all.collect::<Result<_, _>>()?;
        let names = || {
            let names: Vec<String> = all.iter().map(|(_, name)| format!("{name:?}")).collect();
            names.join(", ")
        };
        match (study, &all[..]) {
            (_, []) => Err(Defect::Content("it has no study".to_owned())),
            (None, [(id, _)]) => Ok(*id),
            (None, _) => {
                let message =
                    format!("it has several studies; name one as optuna:FILE#NAME: {}", names());
                Err(Defect::Content(message))
            }
            (Some(wanted), _) => {
                let found = all.iter().find(|(_, name)| name == wanted);
                found.map(|(id, _)| *id).ok_or_else(|| {
                    Defect::Content(format!(
                        "it has no study {wanted:?}; its studies are {}",
                        names()
                    ))
                })
            }
        }
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

    /// The names of several objectives.
    fn metric_names(&self, study: i64, n: usize) -> Result<Vec<String>, Defect> {
        let sql = "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND key = 'study:metric_names'";
        let text: Option<String> =
            self.connection.query_row(sql, [study], |row| row.get(0)).optional()?;
        let given: Option<Vec<String>> = text.and_then(|text| serde_json::from_str(&text).ok());
        let given = given.filter(|names| names.len() == n);
        Ok(given.unwrap_or_else(|| (0..n).map(|index| format!("objective_{index}")).collect()))
    }

    /// All trials, in their order.
    fn trials(&self, study: i64) -> Result<Vec<Found>, Defect> {
        let sql = "SELECT trial_id, state FROM trials WHERE study_id = ? ORDER BY number, trial_id";
        let states: Vec<(i64, String)> =
            self.rows(sql, study, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let places: BTreeMap<i64, usize> =
            states.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        let mut found: Vec<Found> =
            states.into_iter().map(|(_, state)| Found { state, ..Found::default() }).collect();

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

/// The hull of the distributions of each parameter over trials.
fn space_of<'a>(
    trials: impl Iterator<Item = &'a Found>,
) -> Result<BTreeMap<String, Distribution>, Defect> {
    let mut space: BTreeMap<String, Distribution> = BTreeMap::new();
    for trial in trials {
        for (name, (_, distribution)) in &trial.parameters {
            let joined = match space.get(name) {
                None => Some(distribution.clone()),
                Some(known) => known.joined(distribution),
            };
            let Some(joined) = joined else {
                let message = format!(
                    "parameter {name:?} has different kinds of distributions; write its trials as a table \
                     (study.trials_dataframe().to_csv(..)) and import that with --space"
                );
                return Err(Defect::Content(message));
            };
            space.insert(name.clone(), joined);
        }
    }
    Ok(space)
}

/// A distribution as Optuna stores it.
#[derive(Clone, Debug, PartialEq)]
enum Distribution {
    Float { low: f64, high: f64, log: bool, step: Option<f64> },
    Int { low: i64, high: i64, log: bool, step: i64 },
    Categorical(Vec<Value>),
}

#[derive(Deserialize)]
struct Stored {
    name: String,
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    log: bool,
    step: Option<f64>,
    q: Option<f64>,
    choices: Option<Vec<serde_json::Value>>,
}

impl Distribution {
    fn read(text: &str) -> Result<Self, String> {
        let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Attributes { low, high, log, step, q, choices } = stored.attributes;
        let range = || low.zip(high).ok_or_else(|| "it has no bounds".to_owned());
        let log = log || stored.name.contains("Log");
        match stored.name.as_str() {
            "FloatDistribution"
            | "UniformDistribution"
            | "LogUniformDistribution"
            | "DiscreteUniformDistribution" => {
                let (low, high) = range()?;
                Ok(Self::Float { low, high, log, step: step.or(q) })
            }
            "IntDistribution" | "IntUniformDistribution" | "IntLogUniformDistribution" => {
                let (low, high) = range()?;
                let step = whole(step.unwrap_or(1.0))?.max(1);
                Ok(Self::Int { low: whole(low)?, high: whole(high)?, log, step })
            }
            "CategoricalDistribution" => {
                let choices = choices.ok_or_else(|| "it has no choices".to_owned())?;
                Ok(Self::Categorical(choices.iter().map(choice).collect::<Result<_, _>>()?))
            }
            other => Err(format!("its kind {other:?} is not known")),
        }
    }

    fn spec(&self) -> ParameterSpec {
        match self {
            Self::Float { low, high, log: true, .. } => ParameterSpec::log_float(*low, *high),
            Self::Float { low, high, step, .. } => {
                let spec = ParameterSpec::float(*low, *high);
                step.map_or(spec.clone(), |step| spec.with_step(step))
            }
            Self::Int { low, high, log: true, .. } => ParameterSpec::log_int(*low, *high),
            Self::Int { low, high, step: 1, .. } => ParameterSpec::int(*low, *high),
            #[expect(clippy::cast_precision_loss, reason = "a step within a range below 2^53")]
            Self::Int { low, high, step, .. } => {
                ParameterSpec::int(*low, *high).with_step(*step as f64)
            }
            Self::Categorical(choices) => ParameterSpec::categorical(choices.clone()),
        }
    }

    /// The hull of two ranges of one kind; `None` for two kinds.
    fn joined(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (
                Self::Float { low, high, log, step },
                Self::Float { low: other_low, high: other_high, log: other_log, step: other_step },
            ) if log == other_log && step == other_step => Some(Self::Float {
                low: low.min(*other_low),
                high: high.max(*other_high),
                log: *log,
                step: *step,
            }),
            (
                Self::Int { low, high, log, step },
                Self::Int { low: other_low, high: other_high, log: other_log, step: other_step },
            ) if log == other_log && step == other_step => Some(Self::Int {
                low: *low.min(other_low),
                high: *high.max(other_high),
                log: *log,
                step: *step,
            }),
            (Self::Categorical(a), Self::Categorical(b)) if a == b => Some(self.clone()),
            _ => None,
        }
    }

    /// The value that a stored number stands for: of a categorical parameter the index of a choice.
    fn value(&self, number: f64) -> Option<Value> {
        match self {
            Self::Float { .. } => Some(Value::Float(number)),
            Self::Int { .. } => whole(number).ok().map(Value::Int),
            Self::Categorical(choices) => {
                let index = usize::try_from(whole(number).ok()?).ok()?;
                choices.get(index).cloned()
            }
        }
    }
}

/// A whole number that Optuna stores as a float.
fn whole(number: f64) -> Result<i64, String> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    if number.fract() != 0.0 || number.abs() > MOST {
        return Err(format!("{number} is no whole number within 2^53"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within 2^53")]
    Ok(number as i64)
}

/// A choice; None of Python is the text `None`.
fn choice(stored: &serde_json::Value) -> Result<Value, String> {
    match stored {
        serde_json::Value::Null => Ok(Value::Choice("None".to_owned())),
        serde_json::Value::Bool(value) => Ok(Value::Bool(*value)),
        serde_json::Value::String(text) => Ok(Value::Choice(text.clone())),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(Value::Int(whole)),
            (None, Some(real)) => Ok(Value::Float(real)),
            (None, None) => Err(format!("its choice {number} is out of range")),
        },
        other => Err(format!("its choice {other} is neither a text nor a number nor a boolean")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of Optuna 5.0 (layout 12) that are read, without their indices.
    const LAYOUT: &str = "
        CREATE TABLE studies (study_id INTEGER NOT NULL PRIMARY KEY, study_name VARCHAR(512) NOT NULL);
        CREATE TABLE study_directions (study_direction_id INTEGER NOT NULL PRIMARY KEY, direction VARCHAR(8) NOT NULL,
            study_id INTEGER NOT NULL, objective INTEGER NOT NULL);
        CREATE TABLE study_system_attributes (study_system_attribute_id INTEGER NOT NULL PRIMARY KEY, study_id INTEGER,
            key VARCHAR(512), value_json TEXT);
        CREATE TABLE trials (trial_id INTEGER NOT NULL PRIMARY KEY, number INTEGER, study_id INTEGER, state VARCHAR(8) NOT NULL,
            datetime_start DATETIME, datetime_complete DATETIME);
        CREATE TABLE trial_system_attributes (trial_system_attribute_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER,
            key VARCHAR(512), value_json TEXT);
        CREATE TABLE trial_params (param_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER, param_name VARCHAR(512),
            param_value FLOAT, distribution_json TEXT);
        CREATE TABLE trial_values (trial_value_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER NOT NULL,
            objective INTEGER NOT NULL, value FLOAT, value_type VARCHAR(7) NOT NULL);";

    const X: &str = r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 2.0, "log": false}}"#;
    const WIDER: &str = r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": -2.0, "high": 1.0, "log": false}}"#;
    const N: &str = r#"{"name": "IntDistribution", "attributes": {"log": false, "step": 2, "low": 2, "high": 10}}"#;
    const K: &str = r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["a", null, 3, true, 0.5]}}"#;

    fn storage(rows: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(LAYOUT).unwrap();
        connection.execute_batch(rows).unwrap();
        (folder, path)
    }

    fn parameter(trial: i64, name: &str, value: f64, distribution: &str) -> String {
        format!(
            "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES ({trial}, '{name}', {value}, '{distribution}');"
        )
    }

    fn one_study() -> String {
        let mut rows = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO study_directions VALUES (1, 'MAXIMIZE', 1, 0);".to_owned();
        for (id, state) in [
            (1, "COMPLETE"),
            (2, "FAIL"),
            (3, "COMPLETE"),
            (4, "PRUNED"),
            (5, "RUNNING"),
            (6, "COMPLETE"),
            (7, "COMPLETE"),
        ] {
            rows +=
                &format!("INSERT INTO trials VALUES ({id}, {}, 1, '{state}', NULL, NULL);", id - 1);
            rows += &parameter(id, "x", 0.25, if id == 3 { WIDER } else { X });
            rows += &parameter(id, "n", 4.0, N);
            if id != 6 {
                rows += &parameter(id, "k", f64::from(i32::try_from(id).unwrap() - 1).min(4.0), K);
            }
            let (value, kind) = if id == 7 { ("NULL", "INF_POS") } else { ("0.5", "FINITE") };
            rows += &format!(
                "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES ({id}, 0, {value}, '{kind}');"
            );
        }
        rows
    }

    #[test]
    fn complete_trials_are_read_with_the_space_of_their_distributions() {
        let (_folder, path) = storage(&one_study());
        let (definition, read) = read_optuna(&path, None, "old").unwrap();
        assert_eq!(definition.direction, Direction::Maximize);
        let space = definition.space().unwrap();
        let names: Vec<&str> = space.parameters().iter().map(|each| each.name()).collect();
        assert_eq!(names, ["k", "n", "x"]);
        assert_eq!(space.parameters()[2].to_spec(), ParameterSpec::float(-2.0, 2.0));
        assert_eq!(space.parameters()[1].to_spec(), ParameterSpec::int(2, 10).with_step(2.0));
        let shown: Vec<String> = read
            .trials
            .iter()
            .map(|(point, numbers)| {
                format!(
                    "{} {numbers:?}",
                    point.iter().map(|(_, v)| v.to_string()).collect::<Vec<_>>().join(" ")
                )
            })
            .collect();
        assert_eq!(shown, ["a 4 0.25 [0.5]", "3 4 0.25 [0.5]"]);
        let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(
            left_out,
            [
                "1 failed",
                "1 pruned",
                "1 not ended",
                "1 with a value that is not finite",
                "1 without some of the parameters or constraints"
            ]
        );
    }

    #[test]
    fn several_objectives_and_constraints_keep_their_names_and_signs() {
        let mut rows = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO studies VALUES (2, 'two');
            INSERT INTO study_directions VALUES (1, 'MINIMIZE', 1, 0);
            INSERT INTO study_directions VALUES (2, 'MAXIMIZE', 2, 1); INSERT INTO study_directions VALUES (3, 'MINIMIZE', 2, 0);
            INSERT INTO study_system_attributes VALUES (1, 2, 'study:metric_names', '[\"loss\", \"speed\"]');
            INSERT INTO trials VALUES (9, 0, 2, 'COMPLETE', NULL, NULL);
            INSERT INTO trial_values VALUES (1, 9, 1, 7.0, 'FINITE'); INSERT INTO trial_values VALUES (2, 9, 0, 0.5, 'FINITE');
            INSERT INTO trial_system_attributes VALUES (1, 9, 'constraints', '[-0.25]');"
            .to_owned();
        rows += &parameter(9, "x", 0.25, X);
        let (_folder, path) = storage(&rows);
        let (definition, read) = read_optuna(&path, Some("two"), "old").unwrap();
        assert_eq!(definition.number_names(), ["loss", "speed", "constraint_0"]);
        assert_eq!(read.trials[0].1, [0.5, 7.0, -0.25]);
        let refused = |study| read_optuna(&path, study, "old").unwrap_err().to_string();
        assert!(refused(None).contains("name one as optuna:FILE#NAME: \"one\", \"two\""));
        assert!(refused(Some("three")).contains("no study \"three\""));
        assert!(refused(Some("one")).contains("no complete trial"));
    }

    #[test]
    fn what_a_foreign_file_may_hold_is_refused_with_its_reason() {
        let base = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO study_directions VALUES (1, 'MINIMIZE', 1, 0);
            INSERT INTO trials VALUES (1, 0, 1, 'COMPLETE', NULL, NULL);
            INSERT INTO trial_values VALUES (1, 1, 0, 0.5, 'FINITE');";
        let nested = r#"{"name": "CategoricalDistribution", "attributes": {"choices": [[1], 2]}}"#;
        let endless = "DROP TABLE trial_values; CREATE VIEW trial_values AS WITH RECURSIVE c(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS trial_id, 0 AS objective, n AS value, 'FINITE' AS value_type FROM c;";
        let int = r#"{"name": "IntDistribution", "attributes": {"low": 1, "high": 3}}"#;
        for (rows, expected) in [
            (parameter(1, "x", 0.5, "junk"), "the distribution of parameter \"x\""),
            (parameter(1, "x", 0.5, nested), "choice [1] is neither"),
            (parameter(1, "x", 7.0, K), "parameter \"x\" = 7"),
            (parameter(1, "x", 1.5, int), "no value of its distribution"),
            (
                "UPDATE study_directions SET direction = 'UP';".to_owned(),
                "neither MINIMIZE nor MAXIMIZE",
            ),
            ("DROP TABLE trial_values;".to_owned(), "no storage of Optuna"),
            (endless.to_owned(), "trial_values is no table"),
            (endless.replace("VIEW trial_values", "VIEW Trial_Values"), "Trial_Values is no table"),
        ] {
            let (_folder, path) = storage(&format!("{base}{rows}"));
            let message = read_optuna(&path, None, "old").unwrap_err().to_string();
            assert!(message.contains(expected) && message.contains("old.db"), "{message}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.db");
        std::fs::write(&path, "no database").unwrap();
        assert!(
            read_optuna(&path, None, "old")
                .unwrap_err()
                .to_string()
                .contains("no storage of Optuna")
        );
        assert!(read_optuna(&folder.path().join("none.db"), None, "old").is_err());
    }
}
