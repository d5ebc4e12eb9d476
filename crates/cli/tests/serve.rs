//! `fedbo serve`: trials for workers over HTTP, with failures of workers, networks and processes.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{LOSS, Sandbox, interrupt, study};
use fedbo_testkit::postgres;
use rustix::process::Signal;
use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// A running server, as a worker sees it.
struct Served {
    child: Option<Child>,
    address: String,
    token: String,
}

impl Served {
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut child = sandbox.start(&[&fixed, arguments].concat());
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        said.read_line(&mut line).expect("a line");
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            panic!("{}", finished_error(child));
        };
        let url = said["url"].as_str().expect("an address");
        let address = url.split_once("://").expect("a scheme").1.to_owned();
        let token = said["token"].as_str().unwrap_or_default().to_owned();
        Self { child: Some(child), address, token }
    }

    /// Sends a request and returns its status and body.
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
        for header in headers {
            head += &format!("{header}\r\n");
        }
        if !headers.iter().any(|header| header.starts_with("Transfer-Encoding")) {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("it reads");
        let _ = stream.write_all(body); // the server need not read a refused body
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {text}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }

    fn request(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let header = format!("Authorization: Bearer {}", self.token);
        self.send(method, path, &[&header], body.as_bytes())
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.request("POST", path, &body.to_string())
    }

    /// Returns the response to a request that must succeed.
    fn done(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    /// Returns the body of a request that must be refused with this status.
    fn refused(&self, status: u16, path: &str, body: &Value) -> Value {
        let (found, answer) = self.post(path, body);
        assert_eq!(found, status, "{path} {body}: {answer}");
        answer
    }

    fn ask(&self, worker: &str, nonce: &str) -> Value {
        self.done("/v1/ask", &json!({ "worker": worker, "nonce": nonce }))
    }

    fn tell(&self, worker: &str, number: u64, value: f64) -> Value {
        let body = json!({ "worker": worker, "value": value });
        self.done(&format!("/v1/trials/{number}/tell"), &body)
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.request("GET", path, "");
        assert_eq!(status, 200, "{answer}");
        answer
    }

    fn kill(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("alive");
        child.wait().expect("it ends");
    }

    /// Stops the server by a signal and returns its standard error.
    fn stop(mut self, signal: Signal) -> String {
        let child = self.child.take().expect("it runs");
        interrupt(&child, signal);
        finished_error(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the standard error of a program that must succeed. Its standard output has already been
/// taken.
fn finished_error(mut child: Child) -> String {
    let mut text = String::new();
    let pipe = child.stderr.as_mut().expect("piped");
    pipe.read_to_string(&mut text).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {text}");
    text
}

/// Starts a server for a study of random points.
fn random(trials: u64) -> (Sandbox, Served) {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(trials, "random", LOSS));
    let served = Served::start(&sandbox, &["study.toml"]);
    (sandbox, served)
}

fn number(trial: &Value) -> u64 {
    trial["number"].as_u64().unwrap_or_else(|| panic!("a trial: {trial}"))
}

/// Returns the value of [`LOSS`] for a trial, with all the digits that it prints.
fn loss(trial: &Value) -> f64 {
    let at = |name: &str| trial["parameters"][name].clone();
    let (x, n) = (at("x").as_f64().expect("x"), at("n").as_f64().expect("n"));
    let kind = if at("kind") == "b" { 0.0 } else { 0.3 };
    (x - 0.5).powi(2) + (n - 4.0).powi(2) / 30.0 + kind
}

#[test]
fn a_worker_asks_tells_and_sees_the_study_until_it_is_full() {
    let (sandbox, served) = random(3);
    let mut values = BTreeMap::new();
    for n in 0..3 {
        let trial = served.ask("w", &format!("n{n}"));
        assert_eq!((trial["status"].as_str(), number(&trial)), (Some("trial"), n));
        assert_eq!(trial["lease_s"], 60.0);
        let value = loss(&trial);
        values.insert(n, value);
        assert_eq!(served.tell("w", n, value), json!({ "told": "new" }));
    }
    let full = served.ask("w", "last");
    assert_eq!(full["status"], "full", "{full}");
    let study = served.get("/v1/study");
    assert_eq!(study["trials"]["complete"], 3);
    assert_eq!((&study["trials_wanted"], &study["direction"]), (&json!(3), &json!("minimize")));
    assert_eq!(study["parameters"][2]["choices"], json!(["a", "b", "c"]));
    let best = values.values().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(study["best"]["value"], best);
    let told = served.get("/v1/trials?after=1");
    assert_eq!((told["trials"].as_array().expect("a list").len(), &told["after"]), (2, &json!(3)));
    assert_eq!(told["trials"][0]["value"], values[&1]);
    assert_eq!(served.get("/v1/trials?after=3")["trials"], json!([]));
    served.stop(Signal::TERM);
    assert_eq!(sandbox.told("study.toml").len(), 3);
}

/// Checks that the keys of a response agree with a schema of the description: all required keys,
/// and no unknown ones.
fn is_as_described(description: &Value, schema: &Value, answer: &Value) {
    let keys: BTreeSet<&str> =
        answer.as_object().expect("an object").keys().map(String::as_str).collect();
    let named = schema["properties"].as_object().expect("properties");
    let named: BTreeSet<&str> = named.keys().map(String::as_str).collect();
    let required = schema["required"].as_array().expect("a list");
    let required: BTreeSet<&str> =
        required.iter().map(|key| key.as_str().expect("a text")).collect();
    assert!(keys.is_subset(&named) && required.is_subset(&keys), "{answer}: {schema}");
    let codes = &description["components"]["schemas"]["Code"]["enum"];
    let code = answer.get("code");
    assert!(code.is_none_or(|code| codes.as_array().expect("a list").contains(code)), "{answer}");
}

#[test]
fn answers_have_the_keys_of_the_description() {
    let (_sandbox, served) = random(2);
    let (_, description) = served.send("GET", "/v1/openapi.json", &[], b"");
    let schemas = &description["components"]["schemas"];
    let of = |name: &str, answer: &Value| is_as_described(&description, &schemas[name], answer);
    let given = served.ask("w", "1");
    is_as_described(&description, &schemas["Asked"]["oneOf"][0], &given);
    served.ask("w", "2");
    is_as_described(&description, &schemas["Asked"]["oneOf"][1], &served.ask("w", "3"));
    let report = json!({ "worker": "w", "epoch": 1, "value": 1 });
    of("Verdict", &served.done("/v1/trials/0/report", &report));
    of("Renewed", &served.done("/v1/trials/0/renew", &json!({ "worker": "w" })));
    of("Told", &served.tell("w", 0, 1.0));
    of("Problem", &served.refused(409, "/v1/trials/0/tell", &json!({ "worker": "w", "value": 2 })));
    of("Released", &served.done("/v1/trials/1/release", &json!({ "worker": "w" })));
    let study = served.get("/v1/study");
    of("Study", &study);
    is_as_described(&description, &schemas["Study"]["properties"]["trials"], &study["trials"]);
    is_as_described(
        &description,
        &schemas["Study"]["properties"]["best"]["oneOf"][1],
        &study["best"],
    );
    of("Trials", &served.get("/v1/trials"));
    of("Problem", &served.request("GET", "/v1/nowhere", "").1);
}

/// The test fails if a worker gets different points than a run of the program, or if stored values
/// differ in any bit.
#[test]
fn one_worker_gets_the_trials_of_a_run_to_the_bit() {
    for strategy in ["log-ei", "sobol"] {
        let (run, sandbox) = (Sandbox::new(), Sandbox::new());
        let text = study(14, strategy, LOSS);
        run.write("study.toml", &text);
        run.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
        sandbox.write("study.toml", &text);
        let served = Served::start(&sandbox, &["study.toml"]);
        let tuned = run.export("study.toml");
        for (n, row) in tuned.iter().enumerate() {
            let trial = served.ask("only", &format!("nonce-{n}"));
            let bits = |x: Option<f64>| x.expect("a number").to_bits(); // a number has several decimal forms
            let (ours, theirs) = (trial["parameters"]["x"].as_f64(), row["x"].parse().ok());
            assert_eq!(bits(ours), bits(theirs), "{strategy}, trial {n}");
            served.tell("only", n as u64, row["value"].parse().expect("a number"));
        }
        served.stop(Signal::INT);
        let columns = ["number", "state", "source", "value", "x", "n", "kind"];
        for (ours, theirs) in sandbox.export("study.toml").iter().zip(&tuned) {
            for name in columns {
                assert_eq!(ours[name], theirs[name], "{strategy}, {name}");
            }
        }
    }
}

#[test]
fn the_same_nonce_gets_the_same_trial_also_from_a_server_that_was_killed() {
    let (sandbox, served) = random(10);
    let trial = served.ask("w", "a");
    assert_eq!(served.ask("w", "a"), trial);
    assert_eq!(number(&served.ask("w", "b")), 1, "another nonce gets another trial");
    assert_eq!(number(&served.ask("v", "a")), 2, "so does another worker");
    served.kill();
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.ask("w", "a"), trial);
    assert_eq!(number(&served.ask("v", "a")), 2);
    assert_eq!(served.tell("w", 0, 1.5), json!({ "told": "new" }));
    let spent = served.refused(409, "/v1/ask", &json!({ "worker": "w", "nonce": "a" }));
    assert_eq!(spent["code"], "nonce-used", "{spent}");
    served.kill();
    // The nonce of a finished trial is not stored, so a later server cannot recognize the nonce, as
    // stated in docs/serve.md.
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.tell("w", 0, 1.5), json!({ "told": "already" }));
    assert_eq!(number(&served.ask("w", "a")), 3);
}

#[test]
fn a_trial_is_told_once() {
    let (_sandbox, served) = random(5);
    served.ask("w", "a");
    served.ask("w", "b");
    let told = json!({ "worker": "w", "value": 0.1 });
    assert_eq!(served.done("/v1/trials/0/tell", &told)["told"], "new");
    assert_eq!(served.done("/v1/trials/0/tell", &told)["told"], "already");
    let other = served.refused(409, "/v1/trials/0/tell", &json!({ "worker": "w", "value": 0.2 }));
    assert_eq!(
        (&other["code"], &other["stored"]),
        (&json!("told-otherwise"), &json!({ "value": 0.1 }))
    );
    let failed =
        json!({ "worker": "w", "failed": { "kind": "exit", "message": "no \u{0} memory" } });
    assert_eq!(served.done("/v1/trials/1/tell", &failed)["told"], "new");
    assert_eq!(served.done("/v1/trials/1/tell", &failed)["told"], "already");
    let other = served.refused(409, "/v1/trials/1/tell", &told);
    assert_eq!(other["stored"]["failed"], failed["failed"]);
    let renewed = served.refused(409, "/v1/trials/1/renew", &json!({ "worker": "w" }));
    assert_eq!(renewed["code"], "told-otherwise");
}

#[test]
fn a_worker_acts_on_its_own_trials_only() {
    let (sandbox, served) = random(10);
    served.ask("holder", "1");
    for (action, body) in [
        ("tell", json!({ "worker": "b", "value": 1.0 })),
        ("renew", json!({ "worker": "b" })),
        ("release", json!({ "worker": "b" })),
    ] {
        let refusal = served.refused(409, &format!("/v1/trials/0/{action}"), &body);
        assert_eq!(refusal["code"], "not-held");
        let message = refusal["message"].as_str().expect("words");
        assert!(message.contains("held by another worker, not by worker \"b\""), "{message}");
        assert!(!message.contains("holder"), "the name is what it takes to act as it: {message}");
        let absent = served.refused(404, &format!("/v1/trials/9/{action}"), &body);
        assert_eq!(absent["code"], "no-trial");
    }
    // Create a trial that was asked for manually, and a waiting trial.
    sandbox.fedbo(&["ask", "study.toml"]).expect(0, &[]);
    served.refused(409, "/v1/trials/1/tell", &json!({ "worker": "b", "value": 1.0 }));
    assert_eq!(
        served.done("/v1/trials/0/release", &json!({ "worker": "holder" })),
        json!({ "released": 0 })
    );
    served.refused(409, "/v1/trials/0/tell", &json!({ "worker": "holder", "value": 1.0 }));
    assert_eq!(number(&served.ask("b", "1")), 0, "what was given back comes first");
    let given_back = served.refused(409, "/v1/ask", &json!({ "worker": "holder", "nonce": "1" }));
    assert_eq!(given_back["code"], "nonce-used");
    // Other programs see the holder's name.
    let seen = sandbox.fedbo(&["trials", "study.toml", "--json"]).stdout;
    assert!(seen.contains("\"worker b\"") && seen.contains("by hand"), "{seen}");
    sandbox.fedbo(&["tell", "study.toml", "0", "1"]).expect(2, &["another worker with a lease"]);
}

#[test]
fn the_trial_of_a_worker_that_vanishes_is_given_to_another() {
    let (_sandbox, served) = random(1);
    let short = |worker: &str| json!({ "worker": worker, "nonce": "1", "lease_s": 1 });
    assert_eq!(number(&served.done("/v1/ask", &short("gone"))), 0);
    assert_eq!(served.done("/v1/ask", &short("next"))["status"], "wait");
    let mut waiting = short("next");
    waiting["wait_s"] = json!(30);
    let began = Instant::now();
    assert_eq!(number(&served.done("/v1/ask", &waiting)), 0, "once the lease is over");
    assert!(began.elapsed() < Duration::from_secs(10));
    let late = served.refused(409, "/v1/trials/0/tell", &json!({ "worker": "gone", "value": 1.0 }));
    assert_eq!(late["code"], "not-held");
    let again = served.refused(409, "/v1/ask", &short("gone"));
    assert_eq!(again["code"], "nonce-used");
    // A worker that renews its lease keeps the trial.
    for _ in 0..3 {
        served.done("/v1/trials/0/renew", &json!({ "worker": "next", "lease_s": 2 }));
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(served.done("/v1/ask", &short("third"))["status"], "wait");
    }
    served.tell("next", 0, 2.0);
    assert_eq!(served.done("/v1/ask", &short("third"))["status"], "full");
}

/// The test fails if a response is late. A waiting worker must get its response when the last trial
/// is told, not after its own waiting time.
#[test]
fn who_waits_is_answered_when_the_last_trial_is_told_and_when_the_server_ends() {
    let (_sandbox, served) = random(1);
    served.ask("w", "1");
    let waiting = |worker: &str| json!({ "worker": worker, "nonce": "1", "wait_s": 60 });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| served.done("/v1/ask", &waiting("a")));
        std::thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        served.tell("w", 0, 1.0);
        assert_eq!(first.join().expect("an answer")["status"], "full");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    });
    let (_sandbox, mut served) = random(1);
    served.ask("w", "1");
    let child = served.child.take().expect("it runs");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| served.done("/v1/ask", &waiting("b")));
        std::thread::sleep(Duration::from_millis(300));
        interrupt(&child, Signal::INT);
        assert_eq!(second.join().expect("an answer")["status"], "wait");
    });
    finished_error(child);
}

/// The test fails if the server's shutdown waits for a blocked storage call, which takes 30 s
/// because of another program's lock.
#[test]
fn the_end_of_the_server_waits_for_no_storage_that_is_locked() {
    let (sandbox, mut served) = random(2);
    let lock = rusqlite::Connection::open(sandbox.path("study.db")).expect("SQLite");
    lock.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let body = r#"{"worker":"w","nonce":"1"}"#;
    let (token, length) = (&served.token, body.len());
    let head = format!("POST /v1/ask HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}");
    let mut stream = TcpStream::connect(&served.address).expect("it listens");
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}").expect("it reads");
    std::thread::sleep(Duration::from_millis(500)); // until it waits for the lock
    drop(stream);
    let began = Instant::now();
    let child = served.child.take().expect("it runs");
    interrupt(&child, Signal::TERM);
    finished_error(child);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn many_workers_at_once_lose_no_trial_and_double_none() {
    for (strategy, trials) in [("random", 320), ("log-ei", 40)] {
        let sandbox = Sandbox::new();
        sandbox.write("study.toml", &study(trials, strategy, LOSS));
        let served = Served::start(&sandbox, &["study.toml"]);
        let work = |worker: usize| {
            let mut numbers = Vec::new();
            for n in 0.. {
                let body = json!({ "worker": format!("w{worker}"), "nonce": format!("{n}"), "wait_s": 20 });
                let trial = served.done("/v1/ask", &body);
                match trial["status"].as_str() {
                    Some("trial") => {}
                    Some("wait") => continue,
                    _ => break,
                }
                // Every third response is lost, and the request is repeated.
                if n % 3 == 0 {
                    assert_eq!(served.done("/v1/ask", &body), trial);
                }
                served.tell(&format!("w{worker}"), number(&trial), loss(&trial));
                numbers.push(number(&trial));
            }
            numbers
        };
        let numbers: Vec<u64> = std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..32).map(|w| scope.spawn(move || work(w))).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("it works")).collect()
        });
        assert_eq!(numbers.len() as u64, trials, "{strategy}: each trial has one worker");
        assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), (0..trials).collect());
        let told = served.get("/v1/study");
        assert_eq!(told["trials"]["complete"], trials);
        served.stop(Signal::INT);
        let verified = sandbox.fedbo(&["storage", "verify", "sqlite:study.db"]);
        verified.expect(0, &[]);
    }
}

#[test]
fn reports_are_judged_and_a_stop_is_said_again() {
    let sandbox = Sandbox::new();
    let text = study(20, "random", LOSS)
        + "[early_stopping]\nrule = \"median\"\nepochs = 9\ntrials_min = 2\nwarmup_epochs = 1\n";
    sandbox.write("study.toml", &text);
    let served = Served::start(&sandbox, &["study.toml"]);
    let report = |number: u64, epoch: u32, value: f64| {
        let body = json!({ "worker": "w", "epoch": epoch, "value": value });
        served.done(&format!("/v1/trials/{number}/report"), &body)
    };
    // Each trial is better than all earlier ones, so none is stopped.
    let better = BTreeMap::from([(0, 1.0), (1, 0.9), (2, 0.8), (3, 0.7)]);
    for number in 0..4 {
        assert_eq!(served.ask("w", &format!("{number}"))["epochs"], 9);
        for epoch in 1..=9 {
            assert_eq!(report(number, epoch, better[&number])["stop"], false);
        }
        served.tell("w", number, better[&number]);
    }
    served.ask("w", "bad");
    let mut verdict = json!(null);
    let stopped_at = (1..9).find(|epoch| {
        verdict = report(4, *epoch, 9.0);
        verdict["stop"] == true
    });
    let stopped_at = stopped_at.expect("a stop before the end");
    assert!(verdict["reason"].is_string());
    assert_eq!(report(4, stopped_at, 9.0), verdict, "the same again");
    let told = served.refused(409, "/v1/trials/4/tell", &json!({ "worker": "w", "value": 9.0 }));
    assert_eq!(told["stored"]["stopped"]["epoch"], stopped_at);
    served.ask("w", "order");
    report(5, 2, 0.5);
    assert_eq!(report(5, 2, 0.5)["stop"], false, "the same again");
    let body = |epoch: Value, value: f64| json!({ "worker": "w", "epoch": epoch, "value": value });
    for (status, epoch, value) in
        [(409, json!(1), 0.5), (409, json!(2), 0.6), (400, json!(10), 0.5)]
    {
        served.refused(status, "/v1/trials/5/report", &body(epoch, value));
    }
    assert_eq!(
        served.refused(
            409,
            "/v1/trials/5/report",
            &json!({ "worker": "v", "epoch": 3, "value": 1 })
        )["code"],
        "not-held"
    );
    assert_eq!(served.get("/v1/study")["trials"]["stopped"], 1);
}

#[test]
fn a_study_without_early_stopping_stops_nobody() {
    let (_sandbox, served) = random(2);
    served.ask("w", "1");
    let body = json!({ "worker": "w", "epoch": 3, "value": 1e9 });
    assert_eq!(served.done("/v1/trials/0/report", &body), json!({ "stop": false, "reason": null }));
}

#[test]
fn a_stop_and_failures_in_a_row_begin_no_further_trial_until_the_server_is_started_again() {
    let (sandbox, served) = random(30);
    served.ask("w", "1");
    sandbox.fedbo(&["stop", "study.toml"]).expect(0, &[]);
    let stopped = served.ask("w", "2");
    assert_eq!(stopped["status"], "stopped");
    assert!(stopped["reason"].as_str().expect("words").contains("fedbo stop"), "{stopped}");
    assert_eq!(served.tell("w", 0, 1.0)["told"], "new", "what runs is still told");
    served.stop(Signal::INT);
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(30, "random", LOSS));
    let served = Served::start(&sandbox, &["study.toml"]);
    let failed =
        json!({ "worker": "w", "failed": { "kind": "exit", "message": "no such program" } });
    for n in 0..5 {
        served.ask("w", &format!("{n}"));
        served.done(&format!("/v1/trials/{n}/tell"), &failed);
    }
    let stopped = served.ask("w", "6");
    assert_eq!(stopped["status"], "stopped", "{stopped}");
    let said = served.stop(Signal::INT);
    assert!(said.contains("the last 5 trials failed"), "{said}");
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.ask("w", "7")["status"], "trial");
}

#[test]
fn without_the_token_nobody_is_answered() {
    let (_sandbox, served) = random(2);
    let body = json!({ "worker": "w", "nonce": "1" }).to_string();
    let (start, last) = served.token.split_at(served.token.len() - 1);
    let changed = format!("{start}{}", if last == "x" { "y" } else { "x" });
    for header in [
        String::new(),
        "Authorization: Bearer ".to_owned(),
        format!("Authorization: Bearer {changed}"),
        format!("Authorization: Bearer {}", &served.token[1..]),
        format!("Authorization: Basic {}", served.token),
        format!("Cookie: token={}", served.token),
        format!("X-Token: {}", served.token),
    ] {
        let headers: Vec<&str> =
            Some(header.as_str()).into_iter().filter(|h| !h.is_empty()).collect();
        for (method, path) in [
            ("POST", "/v1/ask"),
            ("GET", "/v1/study"),
            ("GET", "/v1/trials"),
            ("GET", "/nowhere"),
            ("OPTIONS", "/v1/ask"),
        ] {
            let (status, answer) = served.send(method, path, &headers, body.as_bytes());
            assert_eq!((status, &answer["code"]), (401, &json!("unauthorized")), "{header} {path}");
        }
    }
    let (status, _) =
        served.send("POST", &format!("/v1/ask?token={}", served.token), &[], body.as_bytes());
    assert_eq!(status, 401);
    assert_eq!(served.send("GET", "/healthz", &[], b""), (200, json!("ok\n")));
    let (status, description) = served.send("GET", "/v1/openapi.json", &[], b"");
    assert_eq!((status, &description["openapi"]), (200, &json!("3.1.0")));
    assert_eq!(served.request("GET", "/v1/nowhere", "").0, 404);
    assert_eq!(served.request("GET", "/v1/ask", "").0, 405);
    assert_eq!(served.get("/v1/study")["trials"]["running"], 0, "no refusal has taken a trial");
}

#[test]
fn a_token_is_kept_in_a_file_of_its_owner_and_never_printed() {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(5, "random", LOSS));
    let mut served = Served::start(&sandbox, &["study.toml", "--token-file", "token", "-vv"]);
    assert_eq!(served.token, "", "the file has it");
    let path = sandbox.path("token");
    let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&path).expect("a token").trim().to_owned();
    served.token.clone_from(&token);
    served.ask("w", "1");
    let said = served.stop(Signal::INT);
    assert!(!said.contains(&token), "{said}");
    let mut served = Served::start(&sandbox, &["study.toml", "--token-file", "token"]);
    served.token = token;
    assert_eq!(number(&served.ask("w", "1")), 0, "the token is good after a restart");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let ran =
        sandbox.fedbo(&["serve", "study.toml", "--listen", "127.0.0.1:0", "--token-file", "token"]);
    ran.expect(2, &["chmod 600"]);
    for (arguments, said) in [
        (&["--listen", "0.0.0.0:0"][..], "--token-file FILE"),
        (&["--listen", "0.0.0.0:0", "--token-file", "other"], "--plain-http"),
        (&["--tls-cert", "study.toml", "--tls-key", "study.toml"], "certificate"),
    ] {
        sandbox.fedbo(&[&["serve", "study.toml"], arguments].concat()).expect(2, &[said]);
    }
    sandbox.fedbo(&["serve", "sqlite:study.db"]).expect(2, &["needs the study's file"]);
}

#[test]
fn the_memory_of_the_server_is_a_storage_too() {
    let sandbox = Sandbox::new();
    let text = study(2, "random", LOSS).replace("storage = \"sqlite:study.db\"\n", "");
    let (text, _) = text.split_once("[objective]").expect("an objective");
    sandbox.write("study.toml", text);
    let served = Served::start(&sandbox, &["study.toml"]);
    for n in 0..2 {
        let trial = served.ask("w", &format!("{n}"));
        served.tell("w", n, loss(&trial));
    }
    assert_eq!(served.ask("w", "end")["status"], "full");
    served.stop(Signal::INT);
    assert_eq!(sandbox.names(), ["study.toml"]);
}

/// Sends bodies that a broken or hostile client could send. None of them takes a trial or ends the
/// server, and each refusal reports the error.
#[test]
fn hostile_bodies_are_refused_by_name() {
    let (_sandbox, served) = random(5);
    let trial = served.ask("w", "1");
    let deep = format!("{{\"worker\":{}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let many = format!(
        "{{{}\"worker\":\"w\",\"nonce\":\"2\"}}",
        (0..4000).map(|n| format!("\"k{n}\":1,")).collect::<String>()
    );
    let long = format!("{{\"worker\":\"{}\",\"nonce\":\"2\"}}", "w".repeat(60_000));
    let tell = "/v1/trials/0/tell";
    let report = "/v1/trials/0/report";
    let cases: Vec<(&str, &str, &str)> = vec![
        ("/v1/ask", "", "JSON object"),
        ("/v1/ask", "[]", "JSON object"),
        ("/v1/ask", "null", "JSON object"),
        ("/v1/ask", "{}", "\"worker\""),
        ("/v1/ask", r#"{"worker":"w"}"#, "\"nonce\""),
        ("/v1/ask", r#"{"worker":"w","nonce":7}"#, "\"nonce\" is 7"),
        ("/v1/ask", r#"{"worker":"a:b","nonce":"2"}"#, "\"worker\" is"),
        ("/v1/ask", r#"{"worker":"","nonce":"2"}"#, "\"worker\" is"),
        ("/v1/ask", r#"{"worker":"w\u0000","nonce":"2"}"#, "\"worker\" is"),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","nonce":"3"}"#, "\"nonce\" appears twice"),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","lease":5}"#, "\"lease\" is unknown"),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","lease_s":0}"#, "\"lease_s\" is 0"),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","lease_s":-1e308}"#, "\"lease_s\""),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","lease_s":"60"}"#, "\"lease_s\" is \"60\""),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","wait_s":61}"#, "\"wait_s\" is 61"),
        ("/v1/ask", r#"{"worker":"w","nonce":"2","wait_s":NaN}"#, "\"wait_s\": NaN"),
        ("/v1/ask", &deep, "recursion"),
        ("/v1/ask", &many, "\"k0\" is unknown"),
        ("/v1/ask", &long, "\"worker\" is"),
        (tell, r#"{"worker":"w"}"#, "\"value\" and \"failed\""),
        (tell, r#"{"worker":"w","value":null}"#, "\"value\" and \"failed\""),
        (tell, r#"{"worker":"w","value":NaN}"#, "\"value\": NaN"),
        (tell, r#"{"worker":"w","value":-Infinity}"#, "\"value\": -Infinity"),
        (tell, r#"{"worker":"w","value":1e400}"#, "\"value\": 1e400"),
        (tell, r#"{"worker":"w","value":"1.0"}"#, "\"value\" is \"1.0\""),
        (tell, r#"{"worker":"w","value":true}"#, "\"value\" is true"),
        (tell, r#"{"worker":"w","value":[1]}"#, "\"value\" is [1]"),
        (tell, r#"{"worker":"w","value":1,"failed":{"kind":"a","message":"b"}}"#, "are both given"),
        (tell, r#"{"worker":"w","failed":"why"}"#, "\"failed\" is \"why\""),
        (tell, r#"{"worker":"w","failed":{}}"#, "\"kind\""),
        (tell, r#"{"worker":"w","failed":{"kind":"two words","message":""}}"#, "\"kind\" is"),
        (
            tell,
            r#"{"worker":"w","failed":{"kind":"a","message":"b","why":1}}"#,
            "\"why\" is unknown",
        ),
        (report, r#"{"worker":"w","value":1}"#, "\"epoch\""),
        (report, r#"{"worker":"w","epoch":0,"value":1}"#, "\"epoch\" is 0"),
        (report, r#"{"worker":"w","epoch":1.5,"value":1}"#, "\"epoch\" is 1.5"),
        (report, r#"{"worker":"w","epoch":4294967296,"value":1}"#, "\"epoch\" is 4294967296"),
        ("/v1/trials/-1/tell", r#"{"worker":"w","value":1}"#, "number of the trial"),
        (
            "/v1/trials/99999999999999999999/tell",
            r#"{"worker":"w","value":1}"#,
            "number of the trial",
        ),
        ("/v1/trials/%ff/renew", r#"{"worker":"w"}"#, "number of the trial"),
    ];
    for (path, body, said) in cases {
        let (status, answer) = served.request("POST", path, body);
        let start: String = body.chars().take(80).collect();
        assert_eq!(status, 400, "{path} {start}: {answer}");
        let message = answer["message"].as_str().unwrap_or_else(|| panic!("{start}: {answer}"));
        assert!(message.contains(said) && message.len() < 400, "{start}: {message}");
    }
    let header = format!("Authorization: Bearer {}", served.token);
    let (status, answer) = served.send("POST", "/v1/ask", &[&header], b"{\"worker\":\"\xff\"}");
    assert_eq!((status, &answer["code"]), (400, &json!("bad-request")));
    let large = vec![b' '; (64 << 10) + 1];
    assert_eq!(served.send("POST", "/v1/ask", &[&header], &large).1["code"], "too-large");
    let chunked = [header.as_str(), "Transfer-Encoding: chunked"];
    let mut body = b"20000\r\n".to_vec();
    body.extend(vec![b' '; 0x20000]);
    body.extend(b"\r\n0\r\n\r\n");
    assert_eq!(served.send("POST", "/v1/ask", &chunked, &body).1["code"], "too-large");
    for query in ["after=-1", "after=x", "before=1", "after=1&after=2", "after="] {
        let (status, _) = served.request("GET", &format!("/v1/trials?{query}"), "");
        assert_eq!(status, 400, "{query}");
    }
    assert_eq!(served.get("/v1/study")["trials"]["running"], 1, "nothing was taken or told");
    assert_eq!(served.ask("w", "1"), trial);
}

#[test]
fn a_certificate_makes_it_https() {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(5, "random", LOSS));
    sandbox.fedbo(&["dev", "certs", "localhost"]).expect(0, &[]);
    let tls = ["--tls-cert", "certs/cert.pem", "--tls-key", "certs/key.pem"];
    let served = Served::start(&sandbox, &[&["study.toml"], &tls[..]].concat());
    let (_, port) = served.address.rsplit_once(':').expect("a port");
    let (url, bearer) = (format!("https://localhost:{port}"), format!("Bearer {}", served.token));
    let ask = |roots: RootCerts| {
        let provider = rustls::crypto::ring::default_provider();
        let tls = TlsConfig::builder().provider(TlsProvider::Rustls).root_certs(roots);
        let tls = tls.unversioned_rustls_crypto_provider(Arc::new(provider)).build();
        let client = ureq::Agent::config_builder().tls_config(tls).build().new_agent();
        let request = client.post(format!("{url}/v1/ask")).header("authorization", &bearer);
        request.send(r#"{"worker":"w","nonce":"1"}"#)
    };
    let pem = std::fs::read(sandbox.path("certs/ca.pem")).expect("a certificate");
    let authority = Certificate::from_pem(&pem).expect("a certificate");
    let mut answer = ask(RootCerts::new_with_certs(&[authority])).expect("an answer");
    let trial = answer.body_mut().read_to_string().expect("a text");
    let trial: Value = serde_json::from_str(&trial).expect("JSON");
    assert_eq!(trial["status"], json!("trial"));
    ask(RootCerts::new_with_certs(&[])).expect_err("the certificate's authority is unknown");
    // The server does not accept plain HTTP there.
    let mut stream = TcpStream::connect(&served.address).expect("it listens");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&answer));
}

/// A study in PostgreSQL is served like one in a file, even after a kill, and concurrently with
/// other programs.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_study_in_a_database_is_served_to_workers() {
    let server = postgres::Server::start();
    let (sandbox, url) = (Sandbox::new(), server.url("postgres"));
    sandbox.write("study.toml", &study(4, "log-ei", LOSS).replace("sqlite:study.db", &url));
    let served = Served::start(&sandbox, &["study.toml"]);
    let first = served.ask("a", "1");
    assert_eq!(served.tell("a", number(&first), 0.5)["told"], "new");
    let second = served.ask("a", "2");
    served.kill();
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(number(&served.ask("a", "2")), number(&second));
    served.done(&format!("/v1/trials/{}/release", number(&second)), &json!({ "worker": "a" }));
    sandbox.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(served.ask("a", "3")["status"], "full");
    assert_eq!(served.get("/v1/study")["trials"]["complete"], 4);
    served.stop(Signal::TERM);
}

/// All outcomes of a trial are told by name in a study with constraints or several objectives.
#[test]
fn all_numbers_are_told_by_name() {
    let sandbox = Sandbox::new();
    let text = study(9, "random", LOSS).replacen("direction = \"minimize\"\n", "", 1);
    let objectives = ["error", "size"]
        .map(|name| format!("[[objectives]]\nname = \"{name}\"\ndirection = \"minimize\"\n"));
    let constraint = "[[constraints]]\nname = \"ms\"\nat_most = 50\n";
    sandbox.write("s.toml", &format!("{text}\n{}{constraint}", objectives.concat()));
    let served = Served::start(&sandbox, &["s.toml"]);
    assert_eq!(served.ask("w", "n")["number"], 0);
    let path = "/v1/trials/0/tell";
    let body = |outcomes: Value| json!({ "worker": "w", "outcomes": outcomes });
    for (body, code, words) in [
        (json!({ "worker": "w", "value": 0.5 }), "bad-request", "\"outcomes\" and \"failed\""),
        (body(json!({ "error": 1, "size": 2 })), "bad-request", "outcomes: \"ms\" is missing"),
        (
            body(json!({ "error": 1, "size": 2, "ms": 3, "mb": 4 })),
            "bad-request",
            "\"mb\" is not a number of this study; expected {\"error\": .., \"size\": .., \"ms\": ..}",
        ),
        (body(json!({ "error": 1, "size": "2", "ms": 3 })), "bad-request", "expected a number"),
        (body(json!({ "error": 1, "size": null, "ms": 3 })), "not-finite", "not a finite number"),
    ] {
        let refused = served.refused(400, path, &body);
        let message = refused["message"].as_str().expect("words");
        assert!(refused["code"] == code && message.contains(words), "{body}: {refused}");
    }
    let outcomes = json!({ "error": 1.0, "size": 2.0, "ms": 3.0 });
    for told in ["new", "already"] {
        assert_eq!(served.done(path, &body(outcomes.clone()))["told"], told);
    }
    let refused = served.refused(409, path, &body(json!({ "error": 1, "size": 2, "ms": 4 })));
    assert_eq!(refused["stored"]["outcomes"], outcomes);
    let about = served.get("/v1/study");
    assert_eq!((&about["best"], &about["front"][0]["outcomes"]), (&Value::Null, &outcomes));
    assert_eq!(about["constraints"][0]["at_most"], 50.0);
    assert_eq!(served.get("/v1/trials")["trials"][0]["outcomes"], outcomes);
}
