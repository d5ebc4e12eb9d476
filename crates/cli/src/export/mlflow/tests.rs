//! Exports to a server that keeps runs as MLflow does, records requests, and fails where it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use fedbo_space::ParameterSpec;
use fedbo_study::{Definition, EarlyStoppingSpec, StrategySpec, Study};

use super::*;
use crate::exit::Exit;

/// A run as the server keeps it.
#[derive(Clone, Debug, Default)]
struct StoredRun {
    id: String,
    name: String,
    status: String,
    tags: BTreeMap<String, String>,
    params: BTreeMap<String, String>,
    /// Appended, as MLflow does: key, step, value.
    metrics: Vec<(String, i64, f64)>,
}

impl StoredRun {
    fn metric(&self, key: &str) -> Vec<(i64, f64)> {
        let mut found: Vec<_> =
            self.metrics.iter().filter(|each| each.0 == key).map(|each| (each.1, each.2)).collect();
        found.sort_by_key(|each| each.0);
        found
    }
}

#[derive(Default)]
struct State {
    experiments: Vec<String>,
    runs: Vec<StoredRun>,
    /// Paths, in the order of their arrival, with the header `authorization`.
    requests: Vec<(String, Option<String>)>,
    /// The number of requests after which the next is answered with an error.
    fails_after: Option<usize>,
    /// The answer of that one: status and body.
    failure: (u16, String),
    /// Every page names a next one.
    is_endless: bool,
}

struct Server {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { url, state }
    }

    fn client(&self) -> Mlflow {
        Mlflow::new(&self.url, None, None).unwrap()
    }

    fn runs(&self) -> Vec<StoredRun> {
        self.state.lock().unwrap().runs.clone()
    }

    fn fail_after(&self, n_requests: usize, status: u16, body: &str) {
        let mut state = self.state.lock().unwrap();
        let n_so_far = state.requests.len();
        state.fails_after = Some(n_so_far + n_requests);
        state.failure = (status, body.to_owned());
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let target = first.split(' ').nth(1).unwrap().to_owned();
        let (mut length, mut authorization) = (0, None);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "authorization" => authorization = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, answer) = state.lock().unwrap().answer(&target, authorization, &body);
        // In one write: a second one would wait for the first to be acknowledged.
        let length = answer.len();
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{answer}");
        writer.write_all(answer.as_bytes()).unwrap();
    }
}

impl State {
    fn answer(
        &mut self,
        target: &str,
        authorization: Option<String>,
        body: &[u8],
    ) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let what = path.strip_prefix("/api/2.0/mlflow/").unwrap_or(path).to_owned();
        self.requests.push((what.clone(), authorization));
        if self.fails_after.is_some_and(|n| self.requests.len() > n) {
            self.fails_after = None;
            return self.failure.clone();
        }
        let asked: BTreeMap<&str, &str> =
            query.split('&').filter_map(|each| each.split_once('=')).collect();
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let answer = match what.as_str() {
            "experiments/get-by-name" => {
                let name = asked["experiment_name"].replace("%20", " ");
                match self.experiments.iter().position(|each| *each == name) {
                    Some(id) => json!({ "experiment": { "experiment_id": id.to_string() } }),
                    None => {
                        let problem = json!({
                            "error_code": "RESOURCE_DOES_NOT_EXIST",
                            "message": "Could not find experiment",
                        });
                        return (404, problem.to_string());
                    }
                }
            }
            "experiments/create" => {
                self.experiments.push(body["name"].as_str().unwrap().to_owned());
                json!({ "experiment_id": (self.experiments.len() - 1).to_string() })
            }
            "runs/search" => self.search(&body),
            "runs/create" => {
                let tags = body["tags"].as_array().unwrap().iter();
                let tags = tags.map(|tag| (text(&tag["key"]), text(&tag["value"]))).collect();
                let id = format!("run{}", self.runs.len());
                self.runs.push(StoredRun {
                    id: id.clone(),
                    name: text(&body["run_name"]),
                    status: "RUNNING".to_owned(),
                    tags,
                    ..StoredRun::default()
                });
                json!({ "run": { "info": { "run_id": id, "status": "RUNNING" } } })
            }
            "runs/log-batch" => {
                let run = self.run(&text(&body["run_id"]));
                let (empty, no_params) = (Vec::new(), Vec::new());
                let metrics = body["metrics"].as_array().unwrap_or(&empty);
                let params = body["params"].as_array().unwrap_or(&no_params);
                assert!(metrics.len() <= 1000 && params.len() <= 100, "limits of log-batch");
                for each in metrics {
                    assert!(each["timestamp"].as_i64().is_some_and(|ms| ms > 1_600_000_000_000));
                    let step = each["step"].as_i64().unwrap();
                    run.metrics.push((text(&each["key"]), step, each["value"].as_f64().unwrap()));
                }
                for each in params {
                    let (key, value) = (text(&each["key"]), text(&each["value"]));
                    let before = run.params.insert(key, value.clone());
                    assert!(before.is_none_or(|before| before == value), "a parameter changes");
                }
                json!({})
            }
            "runs/update" => {
                let status = text(&body["status"]);
                self.run(&text(&body["run_id"])).status = status;
                json!({})
            }
            "metrics/get-history" => {
                let run = self.run(asked["run_id"]);
                let metrics: Vec<Value> = run
                    .metric(asked["metric_key"])
                    .iter()
                    .map(|each| json!({ "step": each.0 }))
                    .collect();
                json!({ "metrics": metrics })
            }
            _ => return (404, "<html>not here</html>".to_owned()),
        };
        (200, answer.to_string())
    }

    /// Two runs a page, so that pages are needed.
    fn search(&self, body: &Value) -> Value {
        let began = text(&body["filter"]);
        let began = began.strip_prefix("tags.`fedbo.began` = '").and_then(|b| b.strip_suffix('\''));
        let began = began.expect("the filter of an export");
        let of_study = |run: &&StoredRun| run.tags[TAG_BEGAN] == began;
        let from: usize = body["page_token"].as_str().map_or(0, |token| token.parse().unwrap());
        let found: Vec<&StoredRun> = self.runs.iter().filter(of_study).collect();
        let page: Vec<Value> = found
            .iter()
            .skip(from)
            .take(2)
            .map(|run| {
                let tags: Vec<Value> =
                    run.tags.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
                json!({ "info": { "run_id": run.id, "status": run.status }, "data": { "tags": tags } })
            })
            .collect();
        match self.is_endless || from + 2 < found.len() {
            true => json!({ "runs": page, "next_page_token": (from + 2).to_string() }),
            false => json!({ "runs": page }),
        }
    }

    fn run(&mut self, id: &str) -> &mut StoredRun {
        self.runs.iter_mut().find(|run| run.id == id).expect("a run")
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Five trials: values 5, 3 and 4 with reports, one that failed, one that is open.
fn study() -> Study {
    let definition = Definition::new("lr's")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("kind", ParameterSpec::categorical(["a", "b", "c"]))
        .strategy(StrategySpec::sobol())
        .early_stopping(EarlyStoppingSpec::median(3))
        .minimize();
    let study = Study::in_memory(&definition).unwrap();
    for value in [5.0, 3.0, 4.0] {
        let trial = study.ask().unwrap();
        for epoch in 1..=3 {
            study.report(trial.number, epoch, value).unwrap();
        }
        study.tell(trial.number, value).unwrap();
    }
    let failed = study.ask().unwrap();
    study.tell_failed(failed.number, "out of memory").unwrap();
    study.ask().unwrap();
    study
}

fn export(server: &Server, study: &Study) -> anyhow::Result<Exported> {
    server.client().export(study, &study.trials().unwrap(), "my lab")
}

/// Everything that the server has of a study, in an order that does not depend on when it came.
fn content(server: &Server) -> Vec<String> {
    let mut runs: Vec<String> = server
        .runs()
        .iter()
        .map(|run| {
            let mut tags = run.tags.clone();
            tags.remove("mlflow.parentRunId");
            let mut metrics = run.metrics.clone();
            metrics.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
            format!("{} {} {tags:?} {:?} {metrics:?}", run.name, run.status, run.params)
        })
        .collect();
    runs.sort();
    runs
}

#[test]
fn a_study_becomes_a_run_with_one_below_it_for_each_trial_that_ended() {
    let (server, study) = (Server::start(), study());
    let exported = export(&server, &study).unwrap();
    assert_eq!((exported.exported, exported.known, exported.open), (4, 0, 1));
    let runs = server.runs();
    assert_eq!(runs.len(), 5);
    let parent = &runs[0];
    assert_eq!((parent.name.as_str(), parent.status.as_str()), ("lr's", "FINISHED"));
    assert_eq!(parent.params["strategy"], "sobol");
    assert_eq!(parent.metric("value"), [(0, 5.0), (1, 3.0), (2, 4.0)]);
    assert_eq!(parent.metric("best"), [(0, 5.0), (1, 3.0), (2, 3.0)]);
    let trials = study.trials().unwrap();
    for (trial, run) in trials.iter().zip(&runs[1..]) {
        assert_eq!(run.tags["mlflow.parentRunId"], parent.id);
        assert_eq!(run.tags[TAG_STUDY], "lr's");
        assert_eq!(run.tags[TAG_TRIAL], trial.number.to_string());
        let x = run.params["x"].parse::<f64>().unwrap();
        assert_eq!(x.to_bits(), trial.point.number("x").to_bits());
        let reports: Vec<(i64, f64)> =
            trial.reports.iter().map(|report| (i64::from(report.epoch), report.value)).collect();
        assert_eq!(run.metric("report"), reports);
    }
    assert_eq!(runs[1].metric("value"), [(3, 5.0)]);
    assert_eq!(runs[4].status, "FAILED");
    assert!(runs[4].metrics.is_empty());
    assert!(runs[4].tags["fedbo.message"].contains("out of memory"));
}

#[test]
fn a_second_export_adds_what_is_new_and_doubles_nothing() {
    let (server, study) = (Server::start(), study());
    export(&server, &study).unwrap();
    let before = content(&server);
    let again = export(&server, &study).unwrap();
    assert_eq!((again.exported, again.known), (0, 4));
    assert_eq!(content(&server), before);
    study.tell(4, 1.0).unwrap();
    let more = export(&server, &study).unwrap();
    assert_eq!((more.exported, more.known, more.open), (1, 4, 0));
    assert_eq!(server.runs()[0].metric("best"), [(0, 5.0), (1, 3.0), (2, 3.0), (4, 1.0)]);
}

/// Wherever an export is interrupted, the next one leaves what one without an interruption does.
#[test]
fn an_export_that_was_interrupted_anywhere_goes_on() {
    let study = study();
    let whole = Server::start();
    export(&whole, &study).unwrap();
    let (expected, n_requests) = (content(&whole), whole.state.lock().unwrap().requests.len());
    for n_answered in 0..n_requests {
        let server = Server::start();
        server.fail_after(n_answered, 503, "down for a moment");
        let error = export(&server, &study).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Coordinator, "{error}");
        assert!(error.to_string().contains("down for a moment (status 503)"), "{error}");
        export(&server, &study).unwrap();
        assert_eq!(content(&server), expected, "after {n_answered} requests");
    }
}

/// An answer that does not arrive leaves metrics that are there already.
#[test]
fn metrics_that_arrived_before_the_answer_are_not_doubled() {
    let (server, study) = (Server::start(), study());
    export(&server, &study).unwrap();
    let before = content(&server);
    // As it stands after the last batch of a trial, before its run was ended.
    let mut state = server.state.lock().unwrap();
    state.run("run2").status = "RUNNING".to_owned();
    state.run("run2").metrics.pop();
    drop(state);
    export(&server, &study).unwrap();
    assert_eq!(content(&server), before);
}

#[test]
fn another_study_of_this_name_has_a_run_of_its_own() {
    let server = Server::start();
    export(&server, &study()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    export(&server, &study()).unwrap();
    let runs = server.runs();
    let parents: Vec<_> = runs.iter().filter(|run| !run.tags.contains_key(TAG_TRIAL)).collect();
    assert_eq!((runs.len(), parents.len()), (10, 2));
}

#[test]
fn a_refusal_names_what_the_server_says() {
    let (server, study) = (Server::start(), study());
    let problem = r#"{"error_code": "PERMISSION_DENIED", "message": "ask Ada"}"#;
    server.fail_after(0, 403, problem);
    let error = export(&server, &study).unwrap_err().to_string();
    for part in [
        "experiments/get-by-name",
        "PERMISSION_DENIED: ask Ada",
        "status 403",
        "MLFLOW_TRACKING_TOKEN",
    ] {
        assert!(error.contains(part), "{error}");
    }
    server.fail_after(0, 404, "<html>\n<p>nothing</p>");
    let error = export(&server, &study).unwrap_err().to_string();
    assert!(
        error.contains("<html> (status 404)") && error.contains("check the address"),
        "{error}"
    );
    server.fail_after(0, 200, "welcome");
    let error = export(&server, &study).unwrap_err().to_string();
    assert!(error.contains("something else than MLflow"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Mlflow::new(&format!("http://{nobody}"), None, None).unwrap();
    let error = client.export(&study, &study.trials().unwrap(), "x").unwrap_err();
    assert_eq!(Exit::of(&error), Exit::Coordinator);
    assert!(error.to_string().contains("nobody listens there"), "{error}");
}

#[test]
fn credentials_are_those_of_mlflow_and_go_into_the_header_alone() {
    let of = |variables: &[(&str, &str)]| {
        let variables: BTreeMap<String, OsString> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        authorization(|name| variables.get(name).cloned())
    };
    let (user, password) = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD");
    assert_eq!(of(&[]).unwrap(), None);
    assert_eq!(of(&[("MLFLOW_TRACKING_TOKEN", "abc")]).unwrap().as_deref(), Some("Bearer abc"));
    // RFC 7617, section 2.
    let basic = of(&[(user, "Aladdin"), (password, "open sesame")]).unwrap();
    assert_eq!(basic.as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    assert!(of(&[(user, "Aladdin")]).unwrap_err().0.contains("go together"));
    let error = of(&[("MLFLOW_TRACKING_TOKEN", "a\nb")]).unwrap_err().0;
    assert!(error.contains("no header") && !error.contains("a\nb"), "{error}");

    let (server, study) = (Server::start(), study());
    let client = Mlflow::new(&server.url, None, Some("Bearer abc".to_owned())).unwrap();
    client.export(&study, &study.trials().unwrap(), "x").unwrap();
    let requests = server.state.lock().unwrap().requests.clone();
    assert!(requests.len() > 10);
    assert!(requests.iter().all(|(_, header)| header.as_deref() == Some("Bearer abc")));
    assert!(!format!("{:?}", client.client).contains("abc"));
}

#[test]
fn a_list_without_an_end_is_refused() {
    let (server, study) = (Server::start(), study());
    server.state.lock().unwrap().is_endless = true;
    let error = export(&server, &study).unwrap_err().to_string();
    assert!(error.contains("runs/search") && error.contains("goes on after 1000 pages"), "{error}");
    assert!(server.runs().is_empty());
}

#[test]
fn addresses_are_checked() {
    assert_eq!(address("mlflow:http://127.0.0.1:5000/", false).unwrap(), "http://127.0.0.1:5000");
    assert_eq!(address("mlflow:https://a.example/ml", false).unwrap(), "https://a.example/ml");
    assert!(address("mlflow:http://a.example", true).is_ok());
    for (given, part) in [
        ("http://127.0.0.1:5000", "expected mlflow:URL"),
        ("mlflow:a.example", "expected https://HOST"),
        ("mlflow:http://a.example", "--plain-http"),
        ("mlflow:https://ada:secret@a.example", "MLFLOW_TRACKING_PASSWORD"),
    ] {
        let error = address(given, false).unwrap_err().0;
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_study_without_trials_is_refused() {
    let definition = Definition::new("empty")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .strategy(StrategySpec::sobol())
        .minimize();
    let study = Study::in_memory(&definition).unwrap();
    let error = export(&Server::start(), &study).unwrap_err();
    assert_eq!(Exit::of(&error), Exit::Input);
    assert!(error.to_string().contains("\"empty\" has no trial to export yet"), "{error}");
}
