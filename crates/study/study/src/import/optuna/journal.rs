//! Journals of Optuna: files to which each process appends its operations, one JSON object a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use fedbo_space::Direction;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Defect, Distribution, Found, State, Stored, key_of};

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
    /// By their keys, each with its study's.
    trials: Vec<(usize, Found)>,
}

struct Study {
    name: String,
    directions: Vec<Direction>,
    metric_names: Option<Vec<String>>,
}

/// A study after all operations of a journal. A last line that another process is still writing is left out.
pub(super) fn read(path: &Path, study: Option<&str>) -> Result<Stored, Defect> {
    let unreadable = |error: std::io::Error| Defect::Unreadable(error.to_string());
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let (mut replay, mut line) = (Replay::default(), Vec::new());
    for number in 1.. {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(unreadable)? == 0 || !line.ends_with(b"\n") {
            break;
        }
        let defect = |message: String| Defect::Line(number, message);
        let operation: Operation =
            serde_json::from_slice(&without_infinities(&line)).map_err(|error| {
                defect(format!("it is no operation of an Optuna journal ({error})"))
            })?;
        replay.apply(operation).map_err(defect)?;
    }
    replay.into_stored(study)
}

impl Replay {
    /// Does what Optuna does: an operation on a study that is gone, or on a trial that has ended, was refused there too.
    fn apply(&mut self, operation: Operation) -> Result<(), String> {
        match operation.op_code {
            0 => {
                let name = needed(operation.study_name, "study_name")?;
                let directions = needed(operation.directions, "directions")?;
                let directions = directions.into_iter().map(direction).collect::<Result<_, _>>()?;
                if self.studies.iter().flatten().all(|study| study.name != name) {
                    self.studies.push(Some(Study { name, directions, metric_names: None }));
                }
            }
            1 => {
                let key = needed(operation.study_id, "study_id")?;
                if let Some(study) = self.studies.get_mut(key) {
                    *study = None;
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
            4 => self.create_trial(operation)?,
            5 => {
                let name = needed(operation.param_name, "param_name")?;
                let number = needed(operation.param_value_internal, "param_value_internal")?;
                let text = needed(operation.distribution, "distribution")?;
                let parameter = (number, distribution(&name, &text)?);
                if let Some(trial) = self.open_trial(operation.trial_id)? {
                    trial.parameters.insert(name, parameter);
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
                    note_constraints(trial, &attributes);
                }
            }
            // Attributes of users, values before the end, and what other programs add.
            2 | 7 | 8 | 10 => {}
            other => return Err(format!("operation {other} is not known")),
        }
        Ok(())
    }

    fn create_trial(&mut self, operation: Operation) -> Result<(), String> {
        let key = needed(operation.study_id, "study_id")?;
        if !matches!(self.studies.get(key), Some(Some(_))) {
            return Ok(());
        }
        let state = operation.state.map_or(Ok(State::Open), state)?;
        let mut trial = Found { state, ..Found::default() };
        for (name, number) in operation.params {
            let text = operation.distributions.get(&name);
            let text = text.ok_or_else(|| format!("parameter {name:?} has no distribution"))?;
            let parameter = (number, distribution(&name, text)?);
            trial.parameters.insert(name, parameter);
        }
        trial.values = match (operation.values, operation.value) {
            (Some(values), _) => values,
            (None, Some(value)) => vec![Some(value)],
            (None, None) => Vec::new(),
        };
        note_constraints(&mut trial, &operation.system_attrs.unwrap_or_default());
        self.trials.push((key, trial));
        Ok(())
    }

    /// The trial of this key, if there is one that has not ended.
    fn open_trial(&mut self, key: Option<usize>) -> Result<Option<&mut Found>, String> {
        let trial = self.trials.get_mut(needed(key, "trial_id")?);
        Ok(trial.map(|(_, trial)| trial).filter(|trial| trial.state == State::Open))
    }

    fn into_stored(self, study: Option<&str>) -> Result<Stored, Defect> {
        let named = self.studies.iter().enumerate();
        let named = named.filter_map(|(key, study)| Some((key, study.as_ref()?.name.clone())));
        let key = key_of(&named.collect::<Vec<_>>(), study)?;
        let trials = self.trials.into_iter().filter(|(of, _)| *of == key);
        let trials = trials.map(|(_, trial)| trial).collect();
        let study = self.studies.into_iter().nth(key).flatten();
        let (directions, metric_names) =
            study.map(|study| (study.directions, study.metric_names)).unwrap_or_default();
        Ok(Stored { directions, metric_names, trials })
    }
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

fn distribution(name: &str, text: &str) -> Result<Distribution, String> {
    Distribution::read(text)
        .map_err(|reason| format!("the distribution of parameter {name:?}: {reason}"))
}

fn note_constraints(trial: &mut Found, attributes: &Map<String, Value>) {
    if let Some(numbers) = attributes.get("constraints") {
        trial.constraints = serde_json::from_value(numbers.clone()).ok();
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
