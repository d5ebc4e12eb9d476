//! A trial in formats for programs: JSON objects and CSV rows.

use std::collections::BTreeMap;

use fedbo_space::cell::escaped;
use fedbo_space::{Direction, Point, Space};
use fedbo_storage::{Correction, Report, Stop, Told, Trial, TrialState};
use fedbo_study::{Definition, EXPORT_COLUMNS, Study, StudyError, export_column};
use serde::Serialize;
use serde_json::Map;

use crate::corrections::CorrectionRecord;
use fedbo_console::text::{number, quoted, timestamp};

/// Prefix of the tokens of holders that asked over HTTP.
pub const HTTP_HOLDER_PREFIX: &str = "serve:";

/// Returns the name of a thin worker, given its token; `None` if the token does not belong to a
/// thin worker.
#[must_use]
pub fn name_of(id: &str) -> Option<&str> {
    Some(id.strip_prefix(HTTP_HOLDER_PREFIX)?.split_once(':')?.0)
}

/// Version of the JSON documents printed by the study commands.
pub const SCHEMA_VERSION: u32 = 1;

/// A trial as JSON, with times in UTC.
#[derive(Serialize)]
pub struct TrialRecord<'a> {
    number: u64,
    state: &'static str,
    source: &'a str,
    /// Number of the failed trial that this trial retries.
    retry_of: Option<u64>,
    value: Option<f64>,
    /// All numbers by name, if a trial has more than one. A number that was not measured is null.
    #[serde(skip_serializing_if = "Map::is_empty")]
    outcomes: Map<String, serde_json::Value>,
    /// True if all constraints are satisfied; `None` if trials have a single value, this trial has
    /// no numbers, or a constraint's number was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    feasible: Option<bool>,
    failure: Option<FailureRecord<'a>>,
    parameters: &'a Point,
    attempts: u32,
    holder: Option<String>,
    asked_at: String,
    started_at: Option<String>,
    told_at: Option<String>,
    told_order: Option<u64>,
    ask_seconds: f64,
    evaluate_seconds: Option<f64>,
    /// Latest epoch reported during training.
    trained_epochs: Option<u32>,
    /// Reason for the early stop.
    stopped_because: Option<&'a str>,
    /// Values reported during training, with their epochs.
    #[serde(skip_serializing_if = "<[Report]>::is_empty")]
    reports: &'a [Report],
    /// Earlier outcomes, which were corrected or discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    corrections: Vec<CorrectionRecord<'a>>,
}

#[derive(Serialize)]
struct FailureRecord<'a> {
    kind: &'a str,
    message: &'a str,
}

impl<'a> TrialRecord<'a> {
    /// Creates the record of a trial in a study with this definition.
    pub fn new(definition: &Definition, trial: &'a Trial) -> Self {
        let violation = definition.outcomes_table().and_then(|_| definition.violation(trial));
        Self {
            number: trial.number,
            state: trial.state.word(),
            source: &trial.source,
            retry_of: trial.retry_of(),
            value: last_value(trial),
            outcomes: outcomes(definition, trial.numbers()),
            feasible: violation.map(|_| definition.is_feasible(trial)),
            failure: match trial.told() {
                Some(Told::Failed { kind, message }) => Some(FailureRecord { kind, message }),
                _ => None,
            },
            parameters: &trial.point,
            attempts: trial.attempts,
            holder: holder(trial),
            asked_at: timestamp(trial.asked_at_ms),
            started_at: trial.started_at_ms.map(timestamp),
            told_at: trial.told_at_ms.map(timestamp),
            told_order: trial.told_seq,
            ask_seconds: trial.ask_seconds,
            evaluate_seconds: trial.evaluate_seconds(),
            trained_epochs: trial.last_report().map(|last| last.epoch),
            stopped_because: match trial.told() {
                Some(Told::Stopped { because, .. }) => Some(because),
                _ => None,
            },
            reports: &trial.reports,
            corrections: Vec::new(),
        }
    }
}

/// Returns a trial's numbers by name, null for a number that was not measured; empty if the study's
/// trials have a single value.
pub fn outcomes(definition: &Definition, numbers: &[f64]) -> Map<String, serde_json::Value> {
    if definition.outcomes_table().is_none() {
        return Map::new();
    }
    let names = definition.number_names().into_iter().map(str::to_owned);
    names.zip(numbers.iter().map(|number| (*number).into())).collect()
}

/// Formats a trial's numbers, each except the value with its name: `0.5, latency_ms 40`, or
/// `error 0.1, size_mb 12`. A number that was not measured is named as such.
pub fn numbers_in_words(definition: &Definition, numbers: &[f64]) -> String {
    let names = definition.number_names().into_iter();
    let each = names.zip(numbers).map(|(name, value)| match name {
        name if value.is_nan() => format!("{name} not measured"),
        "value" => number(*value),
        name => format!("{name} {}", number(*value)),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the arguments that `fedbo tell` requires for a trial's numbers: `VALUE`, or
/// `VALUE --outcome latency_ms=NUMBER`.
pub fn tell_usage(definition: &Definition) -> String {
    let each = definition.number_names().into_iter().map(|name| match name {
        "value" => "VALUE".to_owned(),
        name => format!("--outcome {name}=NUMBER"),
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Formats a trial's numbers as exact arguments of `fedbo tell`.
pub fn tell_arguments(definition: &Definition, numbers: &[f64]) -> String {
    let names = definition.number_names().into_iter();
    let each = names.zip(numbers).map(|(name, value)| match name {
        "value" => format!("{value:?}"),
        name => format!("--outcome {}", quoted(&format!("{name}={value:?}"))),
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Returns the value of a trial. For a trial stopped early, returns its last value, which is not
/// final.
pub fn last_value(trial: &Trial) -> Option<f64> {
    match trial.told() {
        Some(Told::Stopped { value, .. }) => Some(*value),
        _ => trial.value(),
    }
}

/// Returns the holder of a running trial: `by hand`, `process 4711` or `worker node-7`.
pub fn holder(trial: &Trial) -> Option<String> {
    match &trial.state {
        TrialState::Running(holding) => Some(match &holding.worker.process {
            Some(process) => format!("process {}", process.pid),
            None if holding.until_ms.is_none() => "by hand".to_owned(),
            None => match name_of(&holding.worker.id) {
                Some(name) => format!("worker {name}"),
                None => "another process".to_owned(),
            },
        }),
        _ => None,
    }
}

/// Failed trials that are being retried.
#[derive(Serialize)]
pub struct Retried {
    /// The waiting trials, in the order of the failed trials.
    trials: Vec<RetriedTrial>,
}

#[derive(Serialize)]
struct RetriedTrial {
    /// Number of the new trial.
    trial: u64,
    /// Number of the failed trial.
    retry_of: Option<u64>,
}

impl Retried {
    /// Creates the record of the new trials.
    #[must_use]
    pub fn new(waiting: &[Trial]) -> Self {
        let trials = waiting
            .iter()
            .map(|trial| RetriedTrial { trial: trial.number, retry_of: trial.retry_of() });
        Self { trials: trials.collect() }
    }
}

/// A study's stop, with its time in UTC.
#[derive(Serialize)]
pub struct StopRecord {
    stopped_at: String,
    by: String,
}

impl From<&Stop> for StopRecord {
    fn from(stop: &Stop) -> Self {
        Self { stopped_at: timestamp(stop.at_ms), by: stop.by.clone() }
    }
}

/// Result of stopping a study.
#[derive(Serialize)]
pub struct StopDocument {
    #[serde(flatten)]
    stop: StopRecord,
    /// Numbers of trials that are still being evaluated or are leased manually.
    running: Vec<u64>,
}

impl StopDocument {
    /// Stops a study. `by` names the program that stops it.
    ///
    /// # Errors
    /// Fails if the storage fails.
    pub fn stop(study: &Study, by: &str) -> Result<Self, StudyError> {
        let stop = study.stop(by)?;
        let open = study.open_trials()?;
        let running = open.iter().filter(|trial| matches!(trial.state, TrialState::Running(_)));
        Ok(Self {
            stop: StopRecord::from(&stop),
            running: running.map(|trial| trial.number).collect(),
        })
    }

    /// Returns the numbers of the trials that are still being evaluated.
    pub fn running(&self) -> &[u64] {
        &self.running
    }
}

/// All trials of a study.
#[derive(Serialize)]
pub struct TrialsDocument<'a> {
    schema_version: u32,
    study: &'a str,
    direction: Direction,
    storage: &'a str,
    trials: Vec<TrialRecord<'a>>,
}

impl<'a> TrialsDocument<'a> {
    /// Creates the document of all trials, with the study's corrections.
    #[must_use]
    pub fn new(
        study: &'a Study,
        storage: &'a str,
        trials: &'a [Trial],
        corrections: &'a [Correction],
    ) -> Self {
        let mut earlier: BTreeMap<u64, Vec<CorrectionRecord<'a>>> = BTreeMap::new();
        for each in corrections {
            let record = CorrectionRecord::new(study.definition(), each);
            earlier.entry(each.number).or_default().push(record);
        }
        Self {
            schema_version: SCHEMA_VERSION,
            study: &study.definition().name,
            direction: study.direction(),
            storage,
            trials: trials
                .iter()
                .map(|trial| TrialRecord {
                    corrections: earlier.remove(&trial.number).unwrap_or_default(),
                    ..TrialRecord::new(study.definition(), trial)
                })
                .collect(),
        }
    }
}

/// Formats all trials as CSV, one per line. Numbers round-trip exactly. Strings are formatted by
/// `fedbo_space::cell`.
pub fn csv(
    definition: &Definition,
    space: &Space,
    trials: &[Trial],
) -> Result<Vec<u8>, csv::Error> {
    let mut header: Vec<String> = EXPORT_COLUMNS.map(str::to_owned).to_vec();
    let columns = definition.column_names();
    header.extend(columns.iter().map(|name| (*name).to_owned()));
    header.extend(space.parameters().iter().map(|each| export_column(each.name(), space)));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header.iter().map(|name| escaped(name).into_owned()))?;
    let float = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:?}"));
    for trial in trials {
        let record = TrialRecord::new(definition, trial);
        let mut row = vec![
            record.number.to_string(),
            record.state.to_owned(),
            record.source.to_owned(),
            float(record.value),
            record
                .failure
                .map_or_else(String::new, |each| format!("{}: {}", each.kind, each.message)),
            record.attempts.to_string(),
            record.asked_at,
            record.started_at.unwrap_or_default(),
            record.told_at.unwrap_or_default(),
            float(Some(record.ask_seconds)),
            float(record.evaluate_seconds),
            record.trained_epochs.map_or_else(String::new, |epoch| epoch.to_string()),
        ];
        row.extend(
            columns
                .iter()
                .map(|name| float(record.outcomes.get(*name).and_then(serde_json::Value::as_f64))),
        );
        row.extend(space.parameters().iter().map(|parameter| {
            let value = trial.point.get(parameter.name());
            value.map_or_else(String::new, ToString::to_string)
        }));
        writer.write_record(row.iter().map(|cell| escaped(cell).into_owned()))?;
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

#[cfg(test)]
mod tests {
    use fedbo_space::{ParameterSpec, Value};

    use super::*;

    #[test]
    fn a_parameter_whose_name_is_taken_is_prefixed() {
        let spec = ParameterSpec::float(0.0, 1.0);
        let names = ["value", "x", "parameter.value"];
        let space = Space::from_specs(names.map(|name| (name, &spec))).expect("a space");
        let entries = names.map(|name| (name.to_owned(), Value::Float(0.1)));
        let trial = Trial {
            number: 0,
            point: Point::new(entries.to_vec()),
            source: "own".to_owned(),
            state: TrialState::Told(Told::Failed {
                kind: "exit".to_owned(),
                message: "with \"quotes\",\nand lines".to_owned(),
            }),
            attempts: 1,
            asked_at_ms: 0,
            started_at_ms: None,
            told_at_ms: None,
            told_seq: None,
            ask_seconds: 1e-17,
            reports: Vec::new(),
        };
        let text = String::from_utf8(csv(&Definition::new("d"), &space, &[trial]).expect("rows"))
            .expect("UTF-8");
        let (header, row) = text.split_once('\n').expect("two rows");
        assert_eq!(
            header,
            "number,state,source,value,failure,attempts,asked_at,started_at,told_at,ask_seconds,evaluate_seconds,trained_epochs,\
             parameter.parameter.value,x,parameter.value"
        );
        assert_eq!(
            row,
            "0,failed,own,,\"exit: with \"\"quotes\"\",\\nand lines\",1,1970-01-01T00:00:00.000Z,,,1e-17,,,0.1,0.1,0.1\n"
        );
    }
}
