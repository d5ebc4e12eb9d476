//! Actions on a page: access control, and equivalence to the commands.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use super::common::{LOSS, Sandbox, finished, json, study, wait_until};
use super::{Answer, Served, told};

/// Headers sent by a page of the dashboard.
struct Shown {
    cookie: String,
    origin: String,
    kind: &'static str,
    secret: String,
}

impl Shown {
    fn by(served: &Served) -> Self {
        let secret = served.json("/api/actions")["token"].as_str().expect("a secret").to_owned();
        Self {
            cookie: served.cookie(),
            origin: format!("Origin: http://{}", served.address),
            kind: "Content-Type: application/json",
            secret: format!("X-Fedbo-Action: {secret}"),
        }
    }

    fn all(&self) -> [&str; 4] {
        [&self.cookie, &self.origin, self.kind, &self.secret]
    }
}

impl Served {
    fn post(&self, path: &str, headers: &[&str], body: &str) -> Answer {
        let length = format!("Content-Length: {}", body.len());
        let mut stream = self.ask("POST", path, &[headers, &[length.as_str()]].concat());
        // The server can refuse the request before it has read the whole body.
        let _ = stream.write_all(body.as_bytes());
        Answer::read(stream)
    }

    /// Sends an action as a page of this dashboard does.
    fn act(&self, name: &str, body: &serde_json::Value) -> Answer {
        let path = format!("/api/studies/0-1/{name}");
        self.post(&path, &Shown::by(self).all(), &body.to_string())
    }
}

fn point(x: &str, n: &str, kind: &str) -> serde_json::Value {
    serde_json::json!({ "values": [["x", x], ["n", n], ["kind", kind]] })
}

/// Returns all trials as printed by a command.
fn trials(sandbox: &Sandbox) -> Vec<serde_json::Value> {
    let printed = json(sandbox.fedbo(&["trials", "study.toml", "--json"]).expect(0, &[]));
    printed["trials"].as_array().expect("trials").clone()
}

#[test]
fn without_the_switch_nothing_is_changed() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.json("/api/studies")["actions"], false);
    assert_eq!(served.json("/api/studies/0-1")["actions"], false);
    let refused = served.request("GET", "/api/actions", &[&served.cookie()]);
    assert_eq!(refused.status, 404);
    assert!(refused.body.contains("--actions"), "{}", refused.body);
    for name in ["enqueue", "retry", "stop"] {
        let origin = format!("Origin: http://{}", served.address);
        let headers = [&served.cookie(), &origin, "Content-Type: application/json"];
        let refused = served.post(&format!("/api/studies/0-1/{name}"), &headers, "{}");
        assert_eq!(refused.status, 405, "{name}");
        assert!(refused.body.contains("these pages are read-only"), "{}", refused.body);
        let asked = served.request("GET", &format!("/api/studies/0-1/{name}"), &headers[..1]);
        assert_eq!(asked.status, 405, "{name}");
    }
    served.stop();
    assert_eq!(trials(&sandbox).len(), 6);
}

/// Each header by itself keeps out pages of other sites and other users, with a message.
#[test]
fn an_action_comes_from_a_page_of_this_dashboard() {
    let sandbox = told(6);
    let arguments = ["study.toml", "--actions", "--host", "tuning.example"];
    let served = Served::start(&sandbox, &arguments);
    assert_eq!(served.json("/api/studies")["actions"], true);
    let shown = Shown::by(&served);
    let (path, body) = ("/api/studies/0-1/enqueue", point("0.25", "4", "b").to_string());
    let wrong = |secret: &str| format!("X-Fedbo-Action: {secret}");
    let other = "a".repeat(served.token.len());
    let stranger = format!("Cookie: fedbo-{}={other}", served.port());
    let (empty, letters, token) = (wrong(""), wrong(&other), wrong(&served.token));
    // Index of the replaced header, its replacement (empty if omitted), status and message.
    let cases: [(usize, &str, u16, &str); 14] = [
        (0, "", 401, "with its token"),
        (0, &stranger, 401, "with its token"),
        (1, "", 403, "a page of this dashboard"),
        (1, "Origin: http://evil.example", 403, "another site"),
        (1, "Origin: null", 403, "another site"),
        (1, "Origin: http://127.0.0.1:1", 403, "another site"),
        (2, "", 415, "application/json"),
        (2, "Content-Type: text/plain", 415, "application/json"),
        (2, "Content-Type: application/x-www-form-urlencoded", 415, "application/json"),
        (2, "Content-Type: text/plain; application/json", 415, "application/json"),
        (3, "", 403, "reload the page"),
        (3, &empty, 403, "reload the page"),
        (3, &letters, 403, "reload the page"),
        // The token is not the secret for actions.
        (3, &token, 403, "reload the page"),
    ];
    for (index, instead, status, says) in cases {
        let mut headers = shown.all().to_vec();
        headers[index] = instead;
        headers.retain(|header| !header.is_empty());
        let refused = served.post(path, &headers, &body);
        assert_eq!(refused.status, status, "{index}, {instead:?}: {}", refused.body);
        assert!(refused.body.contains(says), "{instead:?}: {}", refused.body);
    }
    for (more, status) in [
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
        ("Sec-Fetch-Site: none", 403),
        ("Host: evil.example", 421),
    ] {
        let refused = served.post(path, &[&shown.all()[..], &[more]].concat(), &body);
        assert_eq!(refused.status, status, "{more}");
    }
    // The secret is also valid only for pages of this dashboard.
    for more in ["Sec-Fetch-Site: same-site", "Origin: http://evil.example"] {
        assert_eq!(served.request("GET", "/api/actions", &[&shown.cookie, more]).status, 403);
    }
    assert_eq!(served.request("GET", "/api/actions", &[]).status, 401);
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let refused =
            served.request(method, path, &[&shown.all()[..], &["Content-Length: 0"]].concat());
        assert_eq!(refused.status, 405, "{method}");
        assert!(!refused.body.is_empty());
    }
    for page in ["/", "/api/studies", "/api/studies/0-1"] {
        let refused = served.post(page, &shown.all(), &body);
        assert_eq!((refused.status, refused.body.is_empty()), (405, false), "{page}");
    }
    assert_eq!(trials(&sandbox).len(), 6, "nothing has happened");
    // The same request with all headers is accepted, also under the host names of a proxy.
    let mut headers = shown.all().to_vec();
    headers.push("Sec-Fetch-Site: same-origin");
    assert_eq!(served.post(path, &headers, &body).status, 200);
    headers[1] = "Origin: https://tuning.example";
    headers[2] = "Content-Type: Application/JSON; charset=utf-8";
    headers.push("Host: tuning.example");
    assert_eq!(served.post(path, &headers, &point("0.5", "4", "b").to_string()).status, 200);
    assert_eq!(trials(&sandbox).len(), 8);
    served.stop();
}

#[test]
fn requests_that_are_none_are_refused_in_words() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["study.toml", "--actions"]);
    let shown = Shown::by(&served);
    let post = |name: &str, body: &str| {
        served.post(&format!("/api/studies/0-1/{name}"), &shown.all(), body)
    };
    for (name, body) in [
        ("enqueue", ""),
        ("enqueue", "{}"),
        ("enqueue", "{\"values\": {\"x\": 1}}"),
        ("enqueue", "{\"values\": [], \"more\": 1}"),
        ("retry", "{\"trials\": [-1]}"),
        ("retry", "{\"trials\": [1e99]}"),
        ("stop", "{\"by\": \"me\"}"),
        ("stop", "\u{0}"),
    ] {
        let refused = post(name, body);
        assert_eq!(refused.status, 400, "{name}, {body}");
        assert!(refused.body.contains("does not have the expected form"), "{}", refused.body);
    }
    let deep = "[".repeat(50_000);
    assert_eq!(post("enqueue", &deep).status, 400);
    let long = format!("{{\"trials\": [{}1]}}", "1,".repeat(40_000));
    let refused = post("retry", &long);
    assert_eq!(refused.status, 413, "{}", refused.body);
    assert!(refused.body.contains("64 KiB"), "{}", refused.body);
    // Without a Content-Length header, the size limit applies as well.
    let chunk = format!("{:x}\r\n{}\r\n", 40_000, " ".repeat(40_000));
    let path = "/api/studies/0-1/stop";
    let mut stream =
        served.ask("POST", path, &[&shown.all()[..], &["Transfer-Encoding: chunked"]].concat());
    let _ = stream.write_all(format!("{chunk}{chunk}0\r\n\r\n").as_bytes());
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    assert!(line.contains("413"), "{line}");
    let elsewhere = served.post("/api/studies/0-9/stop", &shown.all(), "{}");
    assert_eq!(elsewhere.status, 404);
    assert!(elsewhere.body.contains("there is no study"), "{}", elsewhere.body);
    served.stop();
    assert_eq!(trials(&sandbox).len(), 6);
}

#[test]
fn a_point_is_added_as_the_command_does_it() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["study.toml", "--actions"]);
    for (x, n, kind) in [
        ("9", "4", "b"),
        ("a lot", "4", "b"),
        ("0.5", "4.5", "b"),
        ("0.5", "4", "<b>"),
        ("", "4", "b"),
    ] {
        let refused = served.act("enqueue", &point(x, n, kind));
        assert_eq!(refused.status, 422, "{x}, {n}, {kind}: {}", refused.body);
        let [x, n, kind] = [("x", x), ("n", n), ("kind", kind)].map(|(a, b)| format!("{a}={b}"));
        let ran = sandbox.fedbo(&["enqueue", "study.toml", &x, &n, &kind]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains(&refused.body), "{} and {}", ran.stderr, refused.body);
    }
    for values in [r#"[["x", "1"]]"#, r#"[["x", "1"], ["x", "1"]]"#, r#"[["y", "1"]]"#, "[]"] {
        let body: serde_json::Value =
            serde_json::from_str(&format!("{{\"values\": {values}}}")).expect("JSON");
        let refused = served.act("enqueue", &body);
        assert_eq!(refused.status, 422, "{values}: {}", refused.body);
    }
    assert_eq!(trials(&sandbox).len(), 6);
    let mut events = served.events_at("/api/studies/0-1/events", Some("6"));
    assert_eq!(events.next().expect("an event").1["open"], serde_json::json!([]));
    let added = served.act("enqueue", &point("0.25", "4", "b"));
    assert_eq!(added.status, 200, "{}", added.body);
    let added: serde_json::Value = serde_json::from_str(&added.body).expect("JSON");
    assert_eq!(added["trial"], 6);
    let (_, news) = events.next().expect("an event");
    assert_eq!(
        news["open"][0]["parameters"],
        serde_json::json!({ "x": 0.25, "n": 4, "kind": "b" })
    );
    // The point cannot be repeated, because it is already a trial.
    let refused = served.act("enqueue", &point("0.25", "4", "b"));
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("is already trial 6"), "{}", refused.body);
    served.stop();
}

#[test]
fn failed_trials_are_tried_again_as_the_command_does_it() {
    let sandbox = told(12);
    let failed: Vec<u64> = trials(&sandbox)
        .iter()
        .filter(|trial| trial["state"] == "failed")
        .map(|trial| trial["number"].as_u64().expect("a number"))
        .collect();
    assert!(failed.len() > 1, "{failed:?}");
    let served = Served::start(&sandbox, &["study.toml", "--actions"]);
    let retry = |numbers: &[u64]| served.act("retry", &serde_json::json!({ "trials": numbers }));
    let sound = (0..12).find(|number| !failed.contains(number)).expect("a value");
    for (number, says) in [(sound, "only a failed trial"), (99, "there is no trial 99")] {
        let refused = retry(&[number]);
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains(says), "{}", refused.body);
    }
    let done = retry(&failed[..1]);
    let expected = serde_json::json!({ "trials": [{ "trial": 12, "retry_of": failed[0] }] });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&done.body).expect("JSON"), expected);
    let refused = retry(&failed[..1]);
    assert!(refused.status == 422 && refused.body.contains("as trial 12"), "{}", refused.body);
    // In a group, trials that did not fail or are already waiting are skipped.
    let group = [&failed[..2], &[sound]].concat();
    let done: serde_json::Value = serde_json::from_str(&retry(&group).body).expect("JSON");
    assert_eq!(done["trials"], serde_json::json!([{ "trial": 13, "retry_of": failed[1] }]));
    assert_eq!(trials(&sandbox).len(), 14);
    served.stop();
}

/// Creates a study with trials that run until a file `go` exists. Each trial creates a file when it
/// starts.
fn slow() -> Sandbox {
    let sandbox = Sandbox::new();
    let script = format!("touch begun.$$; while [ ! -e go ]; do sleep 0.02; done; {LOSS}");
    sandbox.write("study.toml", &study(12, "sobol", &script));
    sandbox
}

/// Returns the number of started commands.
fn begun(sandbox: &Sandbox) -> usize {
    let files = std::fs::read_dir(sandbox.folder.path()).expect("a folder").flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with("begun")).count()
}

#[test]
fn a_stop_ends_every_run_of_now_and_none_that_is_begun_later() {
    let sandbox = slow();
    let tune = |more: &[&str]| sandbox.start(&[&["tune", "study.toml", "--json"], more].concat());
    let (first, second) = (tune(&[]), tune(&["--jobs", "2"]));
    wait_until(|| begun(&sandbox) == 3);
    let served = Served::start(&sandbox, &["study.toml", "--actions"]);
    assert_eq!(served.json("/api/studies/0-1")["last_stop"], serde_json::Value::Null);
    let stopped = served.act("stop", &serde_json::json!({}));
    let stopped: serde_json::Value = serde_json::from_str(&stopped.body).expect("JSON");
    assert_eq!(stopped["running"], serde_json::json!([0, 1, 2]));
    assert_eq!(served.json("/api/studies/0-1")["last_stop"]["by"], "fedbo dashboard");
    served.stop();
    sandbox.write("go", "");
    let mut n_told = 0;
    for (child, jobs) in [(first, 1), (second, 2)] {
        let ran = finished(child);
        let says = "stopped by fedbo dashboard at 20";
        let closing = json(ran.expect(0, &[says, "continue with: fedbo tune study.toml"]));
        assert_eq!(
            (&closing["ended"], &closing["told_by_this_run"]),
            (&"stopped".into(), &jobs.into())
        );
        n_told += jobs;
    }
    assert_eq!((begun(&sandbox), n_told), (3, 3), "no further trial was begun, and none is lost");
    assert!(trials(&sandbox).iter().all(|trial| trial["state"] == "complete"));
    // Asking manually still works, and a run started later continues.
    sandbox.fedbo(&["ask", "study.toml"]).expect(0, &[]);
    sandbox.fedbo(&["release", "study.toml", "3"]).expect(0, &[]);
    let closing = json(sandbox.fedbo(&["tune", "study.toml", "--json"]).expect(0, &[]));
    assert_eq!((&closing["ended"], &closing["told_by_this_run"]), (&"complete".into(), &9.into()));
    // Backup, verification and upgrade handle stops.
    sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
    sandbox.fedbo(&["storage", "upgrade", "study.db"]).expect(0, &[]);
    sandbox.fedbo(&["storage", "backup", "study.db", "copy.db"]).expect(0, &[]);
    sandbox.fedbo(&["storage", "verify", "copy.db"]).expect(0, &[]);
}

/// A run that is only waiting for a trial of another process is stopped too.
#[test]
fn the_command_stops_whoever_waits_too() {
    let sandbox = slow();
    sandbox.write(
        "one.toml",
        &std::fs::read_to_string(sandbox.path("study.toml"))
            .expect("a file")
            .replace("trials = 12", "trials = 1"),
    );
    let works = sandbox.start(&["tune", "one.toml"]);
    wait_until(|| begun(&sandbox) == 1);
    let waits = sandbox.start(&["tune", "one.toml", "--json"]);
    std::thread::sleep(Duration::from_millis(500));
    let ran = sandbox.fedbo(&["stop", "one.toml"]);
    ran.expect(0, &["continue with: fedbo tune one.toml"]);
    assert_eq!(
        ran.stdout,
        "test is stopped: no further trial begins; trial 0 is still running and will finish\n"
    );
    let closing = json(finished(waits).expect(0, &["stopped by fedbo stop at"]));
    assert_eq!(closing["ended"], "stopped");
    sandbox.write("go", "");
    // The study has all its trials, so the stop has prevented none.
    let ran = finished(works);
    ran.expect(0, &[]);
    assert!(!ran.stderr.contains("stopped by"), "{}", ran.stderr);
    let stopped = json(sandbox.fedbo(&["stop", "sqlite:study.db", "--json"]).expect(0, &[]));
    assert_eq!(
        (&stopped["by"], &stopped["running"]),
        (&"fedbo stop".into(), &serde_json::json!([]))
    );
    assert!(stopped["stopped_at"].as_str().is_some_and(|at| at.starts_with("20")));
    sandbox
        .fedbo(&["stop", "sqlite:study.db", "--study", "other"])
        .expect(2, &["no study \"other\""]);
    sandbox.fedbo(&["stop", "sqlite:none.db"]).expect(2, &["there is no such storage"]);
}

/// On a full disk, the page reports the error, and all stored data remain.
#[test]
fn a_full_disk_refuses_an_action_in_words() {
    let sandbox = told(6);
    let before = trials(&sandbox);
    let arguments = ["dashboard", "--listen", "127.0.0.1:0", "--no-open", "--json", "--actions"];
    let child = sandbox
        .limited_command("ulimit -f 0;", &[&arguments[..], &["study.toml"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let served = Served::of(child);
    for (name, body) in [("enqueue", point("0.25", "4", "b")), ("stop", serde_json::json!({}))] {
        let refused = served.act(name, &body);
        assert_eq!(refused.status, 507, "{name}: {}", refused.body);
        assert!(refused.body.contains("study.db: cannot write"), "{name}: {}", refused.body);
    }
    assert_eq!(served.json("/api/studies")["studies"][0]["n_told"], 6, "it can be read");
    served.stop();
    assert_eq!(trials(&sandbox), before);
    sandbox.fedbo(&["storage", "verify", "study.db"]).expect(0, &[]);
}

/// The tables beside pictures show the numbers that other commands print.
#[test]
fn figures_of_pictures_are_those_of_the_commands() {
    let sandbox = told(12);
    let text = std::fs::read_to_string(sandbox.path("study.toml")).expect("a file");
    let learner = text
        .replace("study.db", "new.db")
        .replace("name = \"log-ei\"", "name = \"rm-gp-ucb\"")
        .replace("[objective]", "[meta]\nstudies = [\"sqlite:study.db\"]\n[objective]");
    sandbox.write("learner.toml", &learner);
    sandbox.fedbo(&["tune", "learner.toml", "--trials", "8", "--quiet"]).expect(0, &[]);
    let served = Served::start(&sandbox, &["learner.toml", "study.toml"]);
    let best = json(sandbox.fedbo(&["best", "learner.toml", "--json"]).expect(0, &[]));
    let importance = served.json("/api/studies/0-1/importance");
    assert_eq!(importance["importance"], best["model"]["importance"]);
    assert_eq!(importance["importance"].as_array().map(Vec::len), Some(3));
    let transfer = served.json("/api/studies/0-1/transfer");
    assert_eq!((&transfer["old_studies"], &transfer["n_told"]), (&best["old_studies"], &8.into()));
    assert!(transfer["old_studies"]["studies"][0]["weight"].as_f64() > Some(0.0));
    let none = served.request("GET", "/api/studies/1-1/transfer", &[&served.cookie()]);
    assert_eq!(none.status, 404);
    assert!(none.body.contains("learns from no old ones"), "{}", none.body);
    // Pictures have a text description, and escape names.
    for name in ["history", "slices", "importance", "transfer"] {
        let picture = served.get(&format!("/api/studies/0-1/pictures/{name}.svg"));
        assert!(picture.contains("<title>test &lt;b&gt;</title>\n<desc>"), "{name}");
        let (_, rest) = picture.split_once("<desc>").expect("a description");
        assert!(rest.find("</desc>") > Some(10), "{name}: {rest}");
    }
    served.stop();
}
