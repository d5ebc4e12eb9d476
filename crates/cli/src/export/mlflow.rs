//! Runs of MLflow, by its REST API: one run for the study, with one below it for each trial that has ended.
//!
//! An export may be interrupted and repeated: runs are found again by their tags, and of metrics, which MLflow appends, only steps that a
//! run lacks are sent. A trial's run has the status `RUNNING` until all of it has arrived; then it is not looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use data_encoding::BASE64;
use fedbo_storage::{Told, Trial};
use fedbo_study::{Definition, Study};
use fedbo_transport::{JsonClient, LinkError, checked_url};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{in_order_of_telling, named_numbers, time_of, with_best};
use crate::exit::BadInput;

/// Items of each kind that one request of `log-batch` may have, by MLflow's documentation.
const METRICS_MAX: usize = 1000;
const PARAMS_MAX: usize = 100;
/// Characters of a tag's value that every version of MLflow accepts.
const TAG_CHARS_MAX: usize = 5000;
/// Runs of one page of a search.
const PAGE: u32 = 1000;
/// Pages of one list at most: a list of more has no end.
const PAGES_MAX: usize = 1000;

/// Tags by which runs are found again.
const TAG_STUDY: &str = "fedbo.study";
/// The time of asking for the study's first trial, which tells studies of equal names apart.
const TAG_BEGAN: &str = "fedbo.began";
const TAG_TRIAL: &str = "fedbo.trial";

/// The failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MlflowError {
    /// There is no answer.
    #[error("MLflow at {url} cannot be reached: {cause}")]
    Unreachable { url: String, cause: LinkError },
    /// The server refuses.
    #[error("MLflow at {url} refuses {what}: {message} (status {status}){advice}")]
    Refused {
        url: String,
        what: &'static str,
        status: u16,
        /// MLflow's code of the error, if the answer has one.
        code: Option<String>,
        message: String,
        advice: &'static str,
    },
    /// The answer is none of MLflow's.
    #[error(
        "{url} answers {what} with something else than MLflow does: {message}; check the address"
    )]
    Unusable { url: String, what: &'static str, message: String },
}

/// The outcome of an export.
#[derive(Debug, Serialize)]
pub(crate) struct Exported {
    pub(crate) url: String,
    pub(crate) experiment: String,
    pub(crate) experiment_id: String,
    /// The study's run.
    pub(crate) run_id: String,
    /// Trials whose runs this export completed.
    pub(crate) exported: usize,
    /// Trials whose runs were complete before.
    pub(crate) known: usize,
    /// Trials that have not ended.
    pub(crate) open: usize,
}

/// The address in `mlflow:URL`, checked.
///
/// # Errors
/// The defect and the remedy.
pub(crate) fn address(given: &str, plain_http: bool) -> Result<String, BadInput> {
    let refused = |why: &str| BadInput(format!("--to {}: {why}", without_user(given)));
    let Some(url) = given.strip_prefix("mlflow:") else {
        return Err(refused("expected mlflow:URL, for instance mlflow:http://127.0.0.1:5000"));
    };
    let host = url.split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err(refused(
            "leave out what stands before the @; user and password come from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        ));
    }
    checked_url(url, plain_http).map_err(refused)
}

/// A text without what stands before an `@`, which may be a password.
fn without_user(given: &str) -> String {
    match (given.find("://"), given.rfind('@')) {
        (Some(from), Some(at)) if from < at => format!("{}***{}", &given[..from + 3], &given[at..]),
        _ => given.to_owned(),
    }
}

/// The header `authorization` that MLflow's variables stand for: a token, or user and password.
///
/// # Errors
/// If only one of user and password is given, or a variable is no text.
pub(crate) fn authorization(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<String>, BadInput> {
    let read = |name: &str| match variable(name).map(OsString::into_string) {
        Some(Ok(text)) if text.chars().any(char::is_control) => {
            Err(BadInput(format!("{name} has characters that no header can have")))
        }
        Some(Ok(text)) => Ok((!text.is_empty()).then_some(text)),
        Some(Err(_)) => Err(BadInput(format!("{name} is not a text in UTF-8"))),
        None => Ok(None),
    };
    let (user, password) = (read("MLFLOW_TRACKING_USERNAME")?, read("MLFLOW_TRACKING_PASSWORD")?);
    match (user, password, read("MLFLOW_TRACKING_TOKEN")?) {
        // MLflow's own clients prefer user and password too.
        (Some(user), Some(password), _) => {
            Ok(Some(format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))))
        }
        (None, None, token) => Ok(token.map(|token| format!("Bearer {token}"))),
        _ => Err(BadInput(
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD go together; one of them is missing".to_owned(),
        )),
    }
}

/// The experiment's server.
pub(crate) struct Mlflow {
    client: JsonClient,
}

#[derive(Deserialize)]
struct ExperimentAnswer {
    experiment: Experiment,
}

#[derive(Deserialize)]
struct Experiment {
    experiment_id: String,
    #[serde(default)]
    lifecycle_stage: String,
}

#[derive(Deserialize)]
struct ExperimentCreated {
    experiment_id: String,
}

#[derive(Deserialize)]
struct RunAnswer {
    run: Run,
}

#[derive(Deserialize)]
struct Run {
    info: RunInfo,
    #[serde(default)]
    data: RunData,
}

#[derive(Deserialize)]
struct RunInfo {
    run_id: String,
    #[serde(default)]
    status: String,
}

#[derive(Default, Deserialize)]
struct RunData {
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct RunsFound {
    #[serde(default)]
    runs: Vec<Run>,
    #[serde(default)]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct MetricHistory {
    #[serde(default)]
    metrics: Vec<MetricStep>,
    #[serde(default)]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct MetricStep {
    /// Left out for 0 by some versions; a text in others, as JSON of 64 bits may be.
    #[serde(default)]
    step: Value,
}

impl MetricStep {
    fn number(&self) -> Option<i64> {
        match &self.step {
            Value::Null => Some(0),
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        }
    }
}

#[derive(Deserialize)]
struct Problem {
    error_code: String,
    #[serde(default)]
    message: String,
}

/// A value of a metric.
struct Metric<'a> {
    key: &'a str,
    value: f64,
    time_ms: i64,
    step: i64,
}

/// The runs of a study that are there.
#[derive(Default)]
struct Known {
    study: Option<String>,
    /// By the trial's number: the run, and whether it is complete.
    trials: BTreeMap<u64, (String, bool)>,
}

impl Mlflow {
    /// A client of the server at `url`.
    ///
    /// # Errors
    /// If the file of certificates cannot be used.
    pub(crate) fn new(
        url: &str,
        authority: Option<&Path>,
        authorization: Option<String>,
    ) -> Result<Self, MlflowError> {
        let client = JsonClient::new(url, authority, authorization);
        let unreachable = |cause| MlflowError::Unreachable { url: url.to_owned(), cause };
        Ok(Self { client: client.map_err(unreachable)? })
    }

    /// Brings the experiment's runs up to the study's trials that have ended.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses: what it has by then is kept, and the next export goes on there.
    pub(crate) fn export(
        &self,
        study: &Study,
        trials: &[Trial],
        experiment: &str,
    ) -> anyhow::Result<Exported> {
        let name = &study.definition().name;
        let Some(first) = trials.first() else {
            return Err(BadInput(format!("study {name:?} has no trial to export yet")).into());
        };
        let began = first.asked_at_ms.to_string();
        let experiment_id = self.experiment(experiment)?;
        let known = self.known(&experiment_id, name, &began)?;
        let identity = [tag(TAG_STUDY, name), tag(TAG_BEGAN, &began)];
        let run_id = match &known.study {
            Some(run_id) => run_id.clone(),
            None => self.create_run(&experiment_id, name, first.asked_at_ms, &identity)?,
        };
        let definition = study.definition();
        let params = [
            ("direction".to_owned(), study.direction().to_string()),
            ("strategy".to_owned(), definition.strategy.name().to_owned()),
            ("seed".to_owned(), definition.seed.to_string()),
        ];
        self.log_params(&run_id, &params)?;
        let mut report = Exported {
            url: self.client.url().to_owned(),
            experiment: experiment.to_owned(),
            experiment_id: experiment_id.clone(),
            run_id: run_id.clone(),
            exported: 0,
            known: 0,
            open: trials.iter().filter(|trial| trial.told().is_none()).count(),
        };
        let told = in_order_of_telling(trials);
        for (_, trial) in &told {
            let (trial_run, is_new) = match known.trials.get(&trial.number) {
                Some((_, true)) => {
                    report.known += 1;
                    continue;
                }
                Some((trial_run, false)) => (trial_run.clone(), false),
                None => {
                    let mut tags = vec![tag("mlflow.parentRunId", &run_id)];
                    tags.extend(identity.iter().cloned());
                    tags.extend(tags_of(trial));
                    let began = trial.started_at_ms.unwrap_or(trial.asked_at_ms);
                    let run_name = format!("trial {}", trial.number);
                    (self.create_run(&experiment_id, &run_name, began, &tags)?, true)
                }
            };
            self.complete(&trial_run, is_new, study.definition(), trial)?;
            report.exported += 1;
        }
        let of_study = with_best(study, trials).into_iter().flat_map(|each| {
            let step = i64::try_from(each.place).unwrap_or(i64::MAX);
            let time_ms = each.told_at_ms;
            each.scalars().into_iter().map(move |(key, value)| Metric { key, value, time_ms, step })
        });
        self.log_metrics(&run_id, known.study.is_none(), of_study.collect())?;
        if let Some((_, last)) = told.last() {
            self.end_run(&run_id, "FINISHED", time_of(last))?;
        }
        Ok(report)
    }

    /// Sends what a trial's run lacks, and ends it.
    fn complete(
        &self,
        run_id: &str,
        is_new: bool,
        definition: &Definition,
        trial: &Trial,
    ) -> Result<(), MlflowError> {
        let params: Vec<(String, String)> =
            trial.point.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        self.log_params(run_id, &params)?;
        let time_ms = time_of(trial);
        let reports = trial.reports.iter().map(|report| Metric {
            key: "report",
            value: report.value,
            time_ms,
            step: i64::from(report.epoch),
        });
        let last_epoch = trial.last_report().map_or(0, |last| i64::from(last.epoch));
        let value = trial.value();
        let value = value.map(|value| ("value", value)).into_iter();
        let numbers = value.chain(named_numbers(definition, trial));
        let numbers = numbers.map(|(key, value)| Metric { key, value, time_ms, step: last_epoch });
        self.log_metrics(run_id, is_new, reports.chain(numbers).collect())?;
        let status = match trial.told() {
            Some(Told::Failed { .. }) => "FAILED",
            _ => "FINISHED",
        };
        self.end_run(run_id, status, time_ms)
    }

    /// The experiment of this name, created if there is none.
    fn experiment(&self, name: &str) -> Result<String, MlflowError> {
        let what = "experiments/get-by-name";
        let query = utf8_percent_encode(name, NON_ALPHANUMERIC);
        match self.get::<ExperimentAnswer>(what, &format!("experiment_name={query}")) {
            Ok(found) if found.experiment.lifecycle_stage == "deleted" => {
                Err(MlflowError::Refused {
                    url: self.client.url().to_owned(),
                    what,
                    status: 200,
                    code: None,
                    message: format!("experiment {name:?} is deleted"),
                    advice: "; restore it there, or name another with --experiment",
                })
            }
            Ok(found) => Ok(found.experiment.experiment_id),
            Err(MlflowError::Refused { code: Some(code), .. })
                if code == "RESOURCE_DOES_NOT_EXIST" =>
            {
                let created: ExperimentCreated =
                    self.post("experiments/create", &json!({ "name": name }))?;
                Ok(created.experiment_id)
            }
            Err(error) => Err(error),
        }
    }

    /// The runs of the study that began at a time.
    fn known(&self, experiment_id: &str, study: &str, began: &str) -> Result<Known, MlflowError> {
        let mut known = Known::default();
        let mut page: Option<String> = None;
        for _ in 0..PAGES_MAX {
            // The time has digits alone; a name may have quotes, which a filter cannot have.
            let mut search = json!({
                "experiment_ids": [experiment_id],
                "filter": format!("tags.`{TAG_BEGAN}` = '{began}'"),
                "max_results": PAGE,
            });
            if let Some(token) = &page {
                search["page_token"] = json!(token);
            }
            let found: RunsFound = self.post("runs/search", &search)?;
            for run in found.runs {
                let tag = |key: &str| {
                    run.data.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
                };
                if tag(TAG_STUDY) != Some(study) {
                    continue;
                }
                match tag(TAG_TRIAL) {
                    None => known.study = Some(run.info.run_id),
                    Some(number) => {
                        let Ok(number) = number.parse() else { continue };
                        let is_complete = run.info.status != "RUNNING";
                        known.trials.insert(number, (run.info.run_id, is_complete));
                    }
                }
            }
            page = found.next_page_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(known);
            }
        }
        Err(self.endless("runs/search"))
    }

    /// The error for a list that goes on after [`PAGES_MAX`] pages.
    fn endless(&self, what: &'static str) -> MlflowError {
        let message = format!("the list goes on after {PAGES_MAX} pages");
        MlflowError::Unusable { url: self.client.url().to_owned(), what, message }
    }

    fn create_run(
        &self,
        experiment_id: &str,
        name: &str,
        began_ms: i64,
        tags: &[Value],
    ) -> Result<String, MlflowError> {
        let body = json!({
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": began_ms,
            "tags": tags,
        });
        let created: RunAnswer = self.post("runs/create", &body)?;
        Ok(created.run.info.run_id)
    }

    /// Sends parameters; those that are there already stay as they are.
    fn log_params(&self, run_id: &str, params: &[(String, String)]) -> Result<(), MlflowError> {
        for params in params.chunks(PARAMS_MAX) {
            let params: Vec<Value> =
                params.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
            let body = json!({ "run_id": run_id, "params": params });
            let _nothing: Value = self.post("runs/log-batch", &body)?;
        }
        Ok(())
    }

    /// Sends the metrics whose steps a run lacks.
    fn log_metrics(
        &self,
        run_id: &str,
        is_new: bool,
        mut metrics: Vec<Metric<'_>>,
    ) -> Result<(), MlflowError> {
        if !is_new {
            let keys: BTreeSet<&str> = metrics.iter().map(|metric| metric.key).collect();
            for key in keys {
                let there = self.steps(run_id, key)?;
                metrics.retain(|metric| metric.key != key || !there.contains(&metric.step));
            }
        }
        for metrics in metrics.chunks(METRICS_MAX) {
            let metrics: Vec<Value> = metrics
                .iter()
                .map(|metric| {
                    json!({
                        "key": metric.key,
                        "value": metric.value,
                        "timestamp": metric.time_ms,
                        "step": metric.step,
                    })
                })
                .collect();
            let body = json!({ "run_id": run_id, "metrics": metrics });
            let _nothing: Value = self.post("runs/log-batch", &body)?;
        }
        Ok(())
    }

    /// The steps of a metric that a run has.
    fn steps(&self, run_id: &str, key: &str) -> Result<BTreeSet<i64>, MlflowError> {
        let run = utf8_percent_encode(run_id, NON_ALPHANUMERIC);
        let mut steps = BTreeSet::new();
        let mut page: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = format!("run_id={run}&metric_key={key}");
            if let Some(token) = &page {
                query += &format!("&page_token={}", utf8_percent_encode(token, NON_ALPHANUMERIC));
            }
            let history: MetricHistory = self.get("metrics/get-history", &query)?;
            steps.extend(history.metrics.iter().filter_map(MetricStep::number));
            page = history.next_page_token.filter(|token| !token.is_empty());
            if page.is_none() {
                return Ok(steps);
            }
        }
        Err(self.endless("metrics/get-history"))
    }

    fn end_run(&self, run_id: &str, status: &str, time_ms: i64) -> Result<(), MlflowError> {
        let body = json!({ "run_id": run_id, "status": status, "end_time": time_ms });
        let _nothing: Value = self.post("runs/update", &body)?;
        Ok(())
    }

    fn post<T: DeserializeOwned>(
        &self,
        what: &'static str,
        body: &Value,
    ) -> Result<T, MlflowError> {
        let body = body.to_string().into_bytes();
        self.answer(what, self.client.post(&format!("/api/2.0/mlflow/{what}"), body))
    }

    fn get<T: DeserializeOwned>(&self, what: &'static str, query: &str) -> Result<T, MlflowError> {
        self.answer(what, self.client.get(&format!("/api/2.0/mlflow/{what}?{query}")))
    }

    fn answer<T: DeserializeOwned>(
        &self,
        what: &'static str,
        answer: Result<fedbo_transport::JsonAnswer, LinkError>,
    ) -> Result<T, MlflowError> {
        let url = self.client.url().to_owned();
        let answer = match answer {
            Ok(answer) => answer,
            Err(cause) => return Err(MlflowError::Unreachable { url, cause }),
        };
        let (status, body) = (answer.status, answer.body);
        if (200..300).contains(&status) {
            let unusable = |error: serde_json::Error| MlflowError::Unusable {
                url,
                what,
                message: error.to_string(),
            };
            return serde_json::from_slice(&body).map_err(unusable);
        }
        let problem = serde_json::from_slice::<Problem>(&body).ok();
        let advice = match status {
            401 | 403 => {
                "; set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            }
            300..=399 | 404 if problem.is_none() => {
                "; check the address: it is the one that a browser shows MLflow's page at"
            }
            _ => "",
        };
        let (code, message) = match problem {
            Some(problem) => {
                let said = format!("{}: {}", problem.error_code, problem.message);
                (Some(problem.error_code), first_line(said.as_bytes()))
            }
            None => (None, first_line(&body)),
        };
        Err(MlflowError::Refused { url, what, status, code, message, advice })
    }
}

/// The tags of a trial's run besides those of its study.
fn tags_of(trial: &Trial) -> Vec<Value> {
    let mut tags = vec![
        tag(TAG_TRIAL, &trial.number.to_string()),
        tag("fedbo.state", trial.state.word()),
        tag("fedbo.source", &trial.source),
    ];
    if let Some(Told::Failed { message: text, .. } | Told::Stopped { because: text, .. }) =
        trial.told()
    {
        tags.push(tag("fedbo.message", text));
    }
    tags
}

fn tag(key: &str, value: &str) -> Value {
    let value: String = value.chars().take(TAG_CHARS_MAX).collect();
    json!({ "key": key, "value": value })
}

/// The beginning of what a server says.
fn first_line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| "nothing more".to_owned(), |line| line.chars().take(500).collect())
}

#[cfg(test)]
mod tests;
