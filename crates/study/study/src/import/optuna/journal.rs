//! Journals of Optuna: files to which each process appends its operations, one JSON object a line.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;

use fedbo_space::Direction;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Defect, Distribution, Found, State, Stored, add_constraints, key_of};

/// An operation with all fields that some kind of it has and that are read.
#[derive(Deserialize)]
struct Operation {
    op_code: u64,
    study_id: Option<usize>,
    trial_id: Option<usize>,
    study_name: Option<String>,
    directions: Option<Vec<u64>>,
    system_attr: Option<Map<String, Value>>,
    state: Option<u64>,
    value: Option<f64>,
    /// A value that is not finite was made null.
    values: Option<Vec<Option<f64>>>,
    param_name: Option<String>,
    param_value_internal: Option<f64>,
    distribution: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, f64>,
    #[serde(default)]
    distributions: BTreeMap<String, String>,
    system_attrs: Option<Map<String, Value>>,
}

/// The studies and trials after some operations.
#[derive(Default)]
struct Replay {
    /// By their keys; `None` for one that was deleted.
    studies: Vec<Option<Study>>,
    /// The names of those that were not.
    names: HashSet<String>,
    /// By their keys.
    trials: Vec<Trial>,
}

struct Study {
    name: String,
    directions: Vec<Direction>,
    metric_names: Option<Vec<String>>,
}

/// A trial whose distributions are not read yet: those of other studies may be anything.
struct Trial {
    /// The key of its study.
    study: usize,
    state: State,
    parameters: Vec<Parameter>,
    values: Vec<Option<f64>>,
    /// Those that hold constraints, each as it was set last.
    attributes: Map<String, Value>,
}

struct Parameter {
    name: String,
    number: f64,
    distribution: String,
    /// The line that says so.
    line: u64,
}

/// A study after all operations of a journal. A last line that is no operation is left out where others come before it: another process
/// is still writing it.
pub(super) fn read(mut file: impl BufRead, study: Option<&str>) -> Result<Stored, Defect> {
    let (mut replay, mut line) = (Replay::default(), Vec::new());
    for number in 1.. {
        line.clear();
        let unreadable = |error: std::io::Error| Defect::Unreadable(error.to_string());
        if file.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        let in_line = |message: String| Defect::Line(number, message);
        match serde_json::from_slice(&without_infinities(&line)) {
            Ok(operation) => replay.apply(operation, number).map_err(in_line)?,
            Err(_) if number > 1 && file.fill_buf().map_err(unreadable)?.is_empty() => break,
            Err(error) => {
                let message = format!("it is no operation of an Optuna journal ({error})");
                return Err(in_line(message));
            }
        }
    }
    replay.into_stored(study)
}

impl Replay {
    /// Does what Optuna does: an operation on a study that is gone, or on a trial that has ended, was refused there too.
    fn apply(&mut self, operation: Operation, line: u64) -> Result<(), String> {
        match operation.op_code {
            0 => {
                let name = needed(operation.study_name, "study_name")?;
                let directions = needed(operation.directions, "directions")?;
                let directions = directions.into_iter().map(direction).collect::<Result<_, _>>()?;
                if self.names.insert(name.clone()) {
                    self.studies.push(Some(Study { name, directions, metric_names: None }));
                }
            }
            1 => {
                let key = needed(operation.study_id, "study_id")?;
                if let Some(study) = self.studies.get_mut(key).and_then(Option::take) {
                    self.names.remove(&study.name);
                }
            }
            3 => {
                let key = needed(operation.study_id, "study_id")?;
                let attributes = needed(operation.system_attr, "system_attr")?;
                if let Some(Some(study)) = self.studies.get_mut(key)
                    && let Some(names) = attributes.get("study:metric_names")
                {
                    study.metric_names = serde_json::from_value(names.clone()).ok();
                }
            }
            4 => self.create_trial(operation, line)?,
            5 => {
                let name = needed(operation.param_name, "param_name")?;
                let number = needed(operation.param_value_internal, "param_value_internal")?;
                let distribution = needed(operation.distribution, "distribution")?;
                if let Some(trial) = self.open_trial(operation.trial_id)? {
                    trial.parameters.push(Parameter { name, number, distribution, line });
                }
            }
            6 => {
                let state = state(needed(operation.state, "state")?)?;
                if let Some(trial) = self.open_trial(operation.trial_id)? {
                    trial.state = state;
                    if let Some(values) = operation.values {
                        trial.values = values;
                    }
                }
            }
            9 => {
                let attributes = needed(operation.system_attr, "system_attr")?;
                if let Some(trial) = self.open_trial(operation.trial_id)? {
                    trial.attributes.extend(of_constraints(attributes));
                }
            }
            // Attributes of users, values before the end, and what other programs add.
            2 | 7 | 8 | 10 => {}
            other => return Err(format!("operation {other} is not known")),
        }
        Ok(())
    }

    fn create_trial(&mut self, operation: Operation, line: u64) -> Result<(), String> {
        let study = needed(operation.study_id, "study_id")?;
        if !matches!(self.studies.get(study), Some(Some(_))) {
            return Ok(());
        }
        let state = operation.state.map_or(Ok(State::Open), state)?;
        let mut distributions = operation.distributions;
        let parameters = operation.params.into_iter().map(|(name, number)| {
            let distribution = distributions.remove(&name);
            let distribution =
                distribution.ok_or_else(|| format!("parameter {name:?} has no distribution"))?;
            Ok(Parameter { name, number, distribution, line })
        });
        let parameters = parameters.collect::<Result<_, String>>()?;
        let values = match (operation.values, operation.value) {
            (Some(values), _) => values,
            (None, Some(value)) => vec![Some(value)],
            (None, None) => Vec::new(),
        };
        let attributes = of_constraints(operation.system_attrs.unwrap_or_default()).collect();
        self.trials.push(Trial { study, state, parameters, values, attributes });
        Ok(())
    }

    /// The trial of this key, if there is one that has not ended.
    fn open_trial(&mut self, key: Option<usize>) -> Result<Option<&mut Trial>, String> {
        let trial = self.trials.get_mut(needed(key, "trial_id")?);
        Ok(trial.filter(|trial| trial.state == State::Open))
    }

    fn into_stored(self, study: Option<&str>) -> Result<Stored, Defect> {
        let named = self.studies.iter().enumerate();
        let named = named.filter_map(|(key, study)| Some((key, study.as_ref()?.name.clone())));
        let key = key_of(&named.collect::<Vec<_>>(), study)?;
        let mut first: BTreeMap<String, Distribution> = BTreeMap::new();
        let of_study = self.trials.into_iter().filter(|trial| trial.study == key);
        let trials = of_study.map(|trial| trial.found(&mut first)).collect::<Result<_, _>>()?;
        let study = self.studies.into_iter().nth(key).flatten();
        let (directions, metric_names) =
            study.map(|study| (study.directions, study.metric_names)).unwrap_or_default();
        Ok(Stored { directions, metric_names, trials })
    }
}

impl Trial {
    /// The trial with its distributions. Optuna refuses a parameter that is of another kind than the `first` of its name, as one with other
    /// choices is.
    fn found(self, first: &mut BTreeMap<String, Distribution>) -> Result<Found, Defect> {
        let Self { state, values, attributes, .. } = self;
        let mut found = Found { state, values, ..Found::default() };
        for (key, value) in &attributes {
            add_constraints(&mut found.constraints, key, value);
        }
        for Parameter { name, number, distribution, line } in self.parameters {
            let distribution = Distribution::read(&distribution).map_err(|reason| {
                let message = format!("the distribution of parameter {name:?}: {reason}");
                Defect::Line(line, message)
            })?;
            let known = first.entry(name.clone()).or_insert_with(|| distribution.clone());
            if known.is_compatible(&distribution) {
                found.parameters.insert(name, (number, distribution));
            }
        }
        Ok(found)
    }
}

fn of_constraints(attributes: Map<String, Value>) -> impl Iterator<Item = (String, Value)> {
    attributes.into_iter().filter(|(key, _)| key.starts_with("constraints"))
}

fn needed<T>(field: Option<T>, name: &str) -> Result<T, String> {
    field.ok_or_else(|| format!("it has no {name}"))
}

fn direction(code: u64) -> Result<Direction, String> {
    match code {
        0 | 1 => Ok(Direction::Minimize), // not set means minimize
        2 => Ok(Direction::Maximize),
        other => Err(format!("its direction {other} is none of 0, 1 and 2")),
    }
}

fn state(code: u64) -> Result<State, String> {
    match code {
        0 | 4 => Ok(State::Open), // running, waiting
        1 => Ok(State::Complete),
        2 => Ok(State::Pruned),
        3 => Ok(State::Failed),
        other => Err(format!("its state {other} is none of 0 to 4")),
    }
}

/// The line with null for `NaN`, `Infinity` and `-Infinity` outside texts, which Python writes and JSON does not know.
fn without_infinities(line: &[u8]) -> Vec<u8> {
    const TOKENS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut plain, mut rest, mut is_text) = (Vec::with_capacity(line.len()), line, false);
    while let Some(byte) = rest.first() {
        let token = TOKENS.into_iter().find(|token| !is_text && rest.starts_with(token));
        if let Some(token) = token {
            plain.extend_from_slice(b"null");
            rest = &rest[token.len()..];
            continue;
        }
        // In a text a backslash and what follows it stay together.
        let n = if is_text && *byte == b'\\' { rest.len().min(2) } else { 1 };
        is_text ^= *byte == b'"';
        plain.extend_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    plain
}
