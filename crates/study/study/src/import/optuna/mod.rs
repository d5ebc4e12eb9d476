//! Studies in Optuna's storages.

mod journal;
mod postgres;
mod sqlite;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fedbo_postgres::PostgresAddress;
use fedbo_space::{Direction, ParameterSpec, Point, Value};
use serde::Deserialize;

use super::{ImportError, ImportedTrials};
use crate::{Definition, LeftOut};

/// A storage of Optuna, as a user names it: a file of SQLite with Optuna's tables (layout 12, of Optuna 3.0 and later), the same tables in
/// PostgreSQL, or a journal (`JournalFileBackend`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptunaStorage {
    /// A file of SQLite, or a journal.
    File(PathBuf),
    /// A database.
    Postgres(PostgresAddress),
}

impl FromStr for OptunaStorage {
    type Err = String;

    /// Reads a path, or an address as Optuna takes it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').unwrap_or_default();
        // After a plus stands the library by which Python connects.
        let kind = scheme.split('+').next().unwrap_or_default().to_lowercase();
        match (kind.as_str(), rest.strip_prefix("//")) {
            ("postgresql" | "postgres", Some(rest)) => {
                let address = format!("postgresql://{rest}").parse::<PostgresAddress>();
                Ok(Self::Postgres(address.map_err(|error| error.to_string())?))
            }
            ("postgresql" | "postgres", None) => {
                Err("a database of PostgreSQL is named as postgresql://USER@HOST/DATABASE"
                    .to_owned())
            }
            // A relative path has three slashes before it.
            ("sqlite", Some(path)) => Ok(Self::File(path.strip_prefix('/').unwrap_or(path).into())),
            (_, Some(_)) => Err(format!(
                "{scheme}://…: an Optuna study is read from a file of SQLite, a journal, or postgresql://USER@HOST/DATABASE; copy it to \
                 a file (optuna.copy_study), or write its trials as a table, study.trials_dataframe().to_csv(..), and import that with \
                 --space"
            )),
            (_, None) => Ok(Self::File(text.into())),
        }
    }
}

impl OptunaStorage {
    /// Reads a storage, and after `#` the name of one of its studies: `STORAGE` or `STORAGE#NAME`.
    ///
    /// # Errors
    /// If it is no storage; without what stands in it, where this may be a password.
    pub fn with_study(text: &str) -> Result<(Self, Option<&str>), String> {
        let Some((_, after_scheme)) = text.split_once("://") else {
            // Both names may have a #: the file is the first that is there.
            let mut splits = text.match_indices('#').map(|(at, _)| (&text[..at], &text[at + 1..]));
            let found = splits.clone().find(|(path, _)| Path::new(path).exists());
            return match found.or(splits.next_back()) {
                Some((path, study)) => Ok((path.parse()?, Some(study))),
                None => Ok((text.parse()?, None)),
            };
        };
        let Some((place, study)) = after_scheme.split_once('#') else {
            return Ok((text.parse()?, None));
        };
        if !place.contains('/') {
            return Err("the address ends at its first #, before a database; in a password # is written %23".to_owned());
        }
        Ok((text[..text.len() - study.len() - 1].parse()?, Some(study)))
    }
}

impl fmt::Display for OptunaStorage {
    /// Without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

/// A study in a storage of Optuna.
///
/// The space is that of the distributions of complete trials: a parameter whose range differed between them has the hull of its ranges.
/// Constraints that a sampler stored (`constraints_func`) become constraints `constraint_0`, …, and those of a trial
/// (`Trial.set_constraint`) have their keys as names; each is `at_most = 0`. Several objectives have
/// the names that the study gave its metrics, or `objective_0`, ….
///
/// # Errors
/// If the storage cannot be read, has no such study, or holds what a study cannot have.
pub fn read_optuna(
    storage: &OptunaStorage,
    study: Option<&str>,
    name: &str,
) -> Result<(Definition, ImportedTrials), ImportError> {
    let read = match storage {
        OptunaStorage::File(path) => read_file(path, study),
        OptunaStorage::Postgres(address) => {
            postgres::open(address).and_then(|mut database| tables::read(&mut database, study))
        }
    };
    let path = PathBuf::from(storage.to_string());
    read.and_then(|stored| stored.into_study(name)).map_err(|error| {
        let (line, message) = match error {
            Defect::Unreadable(message) => return ImportError::Unreadable { path, message },
            Defect::Storage(error) => {
                let message = "it is no storage of Optuna 3.0 or later, or it is damaged";
                (None, format!("{message} ({error})"))
            }
            Defect::Line(line, message) => (Some(line), message),
            Defect::Content(message) => (None, message),
        };
        ImportError::Table { path, line, message }
    })
}

/// A study in a file.
fn read_file(path: &Path, study: Option<&str>) -> Result<Stored, Defect> {
    let unreadable = |error: std::io::Error| Defect::Unreadable(error.to_string());
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    match file.fill_buf().map_err(unreadable)?.first() {
        Some(b'{') | None => journal::read(file, study), // a new journal is empty
        Some(_) => tables::read(&mut sqlite::open(path)?, study),
    }
}

enum Defect {
    /// The file or the server cannot be read.
    Unreadable(String),
    /// It is not what a storage is.
    Storage(String),
    /// A line of a journal cannot be used.
    Line(u64, String),
    /// Its content cannot be used.
    Content(String),
}

fn nothing() -> Defect {
    let message =
        "the study has no complete trial with all parameters and constraints, and finite values";
    Defect::Content(message.to_owned())
}

/// A study as a storage has it.
struct Stored {
    directions: Vec<Direction>,
    metric_names: Option<Vec<String>>,
    trials: Vec<Found>,
}

/// A trial as a storage has it.
#[derive(Default)]
struct Found {
    state: State,
    /// The stored number and the distribution of each parameter.
    parameters: BTreeMap<String, (f64, Distribution)>,
    /// `None` for a value that is not finite.
    values: Vec<Option<f64>>,
    constraints: Constraints,
}

/// The numbers of a trial that are at most 0 if it is feasible.
type Constraints = BTreeMap<ConstraintKey, f64>;

/// A constraint of a sampler by its place, or of a trial by its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConstraintKey {
    Nth(usize),
    Named(String),
}

impl ConstraintKey {
    /// A name that the definition can have: the key without characters that names do not have, behind a prefix where it is taken.
    fn name(&self, definition: &Definition) -> String {
        let key = match self {
            Self::Nth(index) => return format!("constraint_{index}"),
            Self::Named(key) => {
                key.replace(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)), "_")
            }
        };
        match definition.clone().at_most(&key, 0.0).check() {
            Ok(_) => key,
            Err(_) => format!("constraint_{key}"),
        }
    }
}

/// Adds the constraints that an attribute of a trial holds: `constraints`, a list, or `constraints:KEY`, a number, where the key of a place
/// stands for that of the list. One that is not finite is left out.
fn add_constraints(found: &mut Constraints, attribute: &str, value: &serde_json::Value) {
    let Some(rest) = attribute.strip_prefix("constraints") else {
        return;
    };
    if rest.is_empty() {
        let numbers: Vec<f64> = serde_json::from_value(value.clone()).unwrap_or_default();
        for (index, number) in numbers.into_iter().enumerate() {
            found.entry(ConstraintKey::Nth(index)).or_insert(number);
        }
    } else if let Some(key) = rest.strip_prefix(':')
        && let Some(number) = value.as_f64()
    {
        let place = key.parse().ok().filter(|index: &usize| index.to_string() == key);
        let key = place.map_or_else(|| ConstraintKey::Named(key.to_owned()), ConstraintKey::Nth);
        found.insert(key, number);
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    Complete,
    Pruned,
    Failed,
}

impl Stored {
    fn into_study(self, name: &str) -> Result<(Definition, ImportedTrials), Defect> {
        let Self { directions, metric_names, trials } = self;
        let mut definition = Definition::new(name);
        match &directions[..] {
            [] => return Err(Defect::Content("the study has no direction".to_owned())),
            [direction] => definition.direction = *direction,
            several => {
                let unnamed = || (0..several.len()).map(|i| format!("objective_{i}")).collect();
                let given = metric_names.filter(|names| names.len() == several.len());
                let names: Vec<String> = given.unwrap_or_else(unnamed);
                for (name, direction) in names.into_iter().zip(several) {
                    definition = definition.objective(name, *direction);
                }
            }
        }
        let complete = trials.iter().filter(|trial| trial.state == State::Complete);
        let constraints: BTreeSet<ConstraintKey> =
            complete.clone().flat_map(|trial| trial.constraints.keys().cloned()).collect();
        let space = space_of(complete)?;
        if space.is_empty() {
            return Err(nothing());
        }
        for (name, distribution) in &space {
            definition = definition.parameter(name.clone(), distribution.spec());
        }
        for constraint in &constraints {
            let name = constraint.name(&definition);
            definition = definition.at_most(name, 0.0);
        }
        definition.check().map_err(|error| Defect::Content(error.to_string()))?;
        let (mut kept, mut n_partial, mut n_infinite) = (Vec::new(), 0, 0);
        let (mut n_failed, mut n_pruned, mut n_open) = (0, 0, 0);
        for trial in trials {
            match trial.state {
                State::Complete => {}
                State::Failed => n_failed += 1,
                State::Pruned => n_pruned += 1,
                State::Open => n_open += 1,
            }
            if trial.state != State::Complete {
                continue;
            }
            let values: Option<Vec<f64>> = trial.values.into_iter().collect();
            let is_whole = trial.parameters.len() == space.len()
                && trial.constraints.len() == constraints.len();
            match values.filter(|values| values.len() == directions.len()) {
                None => n_infinite += 1,
                Some(_) if !is_whole => n_partial += 1,
                Some(mut numbers) => {
                    numbers.extend(trial.constraints.into_values());
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
}

/// The key of the study of this name; without a name that of the only study.
fn key_of<K: Copy>(all: &[(K, String)], study: Option<&str>) -> Result<K, Defect> {
    const MOST_NAMED: usize = 20;
    let names = || {
        let names = all.iter().take(MOST_NAMED).map(|(_, name)| format!("{name:?}"));
        let more = all.len().checked_sub(MOST_NAMED + 1).map(|n| format!("and {} others", n + 1));
        names.chain(more).collect::<Vec<_>>().join(", ")
    };
    match (study, all) {
        (_, []) => Err(Defect::Content("it has no study".to_owned())),
        (None, [(key, _)]) => Ok(*key),
        (None, _) => {
            let message =
                format!("it has several studies; name one as optuna:STORAGE#NAME: {}", names());
            Err(Defect::Content(message))
        }
        (Some(wanted), _) => {
            let found = all.iter().find(|(_, name)| name == wanted);
            found.map(|(key, _)| *key).ok_or_else(|| {
                Defect::Content(format!("it has no study {wanted:?}; its studies are {}", names()))
            })
        }
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
struct StoredDistribution {
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
        let stored: StoredDistribution =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
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

    /// True for what Optuna takes for one parameter: one kind and scale, and the same choices.
    fn is_compatible(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float { log, .. }, Self::Float { log: other, .. })
            | (Self::Int { log, .. }, Self::Int { log: other, .. }) => log == other,
            (Self::Categorical(choices), Self::Categorical(other)) => choices == other,
            _ => false,
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
mod tests;
