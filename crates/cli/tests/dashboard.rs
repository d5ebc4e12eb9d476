//! `fedbo dashboard`: access control, content of the pages, and live updates.

mod access;
mod actions;
mod recreated;
mod runs;

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use common::{LOSS, Sandbox, finished, interrupt, study, wait_until};
use rustix::process::Signal;

/// A running dashboard and the state of a browser that uses it.
struct Served {
    child: Option<Child>,
    /// `127.0.0.1:PORT`.
    address: String,
    /// `/` and the random part of all URLs.
    path: String,
    token: String,
    /// `NAME=VALUE`, as set by the server.
    cookie: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Served {
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let fixed = ["dashboard", "--listen", "127.0.0.1:0", "--no-open", "--json"];
        Self::of(sandbox.start(&[&fixed, arguments].concat()))
    }

    /// Attaches to a dashboard started with `--json`.
    fn of(mut child: Child) -> Self {
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        said.read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().expect("an address").strip_prefix("http://").expect("HTTP");
        let (address, rest) = url.split_once('/').expect("a path");
        let (path, token) = rest.split_once("/?token=").unwrap_or((rest.trim_end_matches('/'), ""));
        let mut served = Self {
            child: Some(child),
            address: address.to_owned(),
            path: format!("/{path}"),
            token: token.to_owned(),
            cookie: String::new(),
        };
        served.enter(&served.token.clone());
        served
    }

    /// Exchanges a token for the cookie, if the token is valid.
    fn enter(&mut self, token: &str) {
        let welcome = self.request("GET", &format!("/?token={token}"), &[]);
        let cookie = welcome.head.split_once("set-cookie: ").map_or("", |(_, rest)| rest);
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("a port").1
    }

    fn cookie(&self) -> String {
        format!("Cookie: {}", self.cookie)
    }

    /// Sends a request; the response is not read yet.
    fn ask(&self, method: &str, path: &str, headers: &[&str]) -> TcpStream {
        self.ask_at(method, &format!("{}{path}", self.path), headers)
    }

    /// Sends a request for a path from the root.
    fn ask_at(&self, method: &str, path: &str, headers: &[&str]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            text += &format!("Host: {}\r\n", self.address);
        }
        for header in headers {
            text += &format!("{header}\r\n");
        }
        stream.write_all(format!("{text}\r\n").as_bytes()).expect("it reads");
        stream
    }

    fn request(&self, method: &str, path: &str, headers: &[&str]) -> Answer {
        Answer::read(self.ask(method, path, headers))
    }

    /// Returns the body of a page that this user may access.
    fn get(&self, path: &str) -> String {
        let answer = self.request("GET", path, &[&self.cookie()]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path)).expect("JSON")
    }

    /// Returns the IDs and data of a study's events.
    fn events(
        &self,
        id: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (String, serde_json::Value)> + use<> {
        self.events_at(&format!("/api/studies/{id}/events"), after)
    }

    /// Returns the IDs and data of the events at a path.
    fn events_at(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (String, serde_json::Value)> + use<> {
        self.named_events_at(path, after).map(|(_, id, data)| (id, data))
    }

    /// Returns the names, IDs and data of the events at a path.
    fn named_events_at(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (String, String, serde_json::Value)> + use<> {
        let cookie = self.cookie();
        let last = after.map(|id| format!("Last-Event-ID: {id}"));
        let headers: Vec<&str> =
            [Some(cookie.as_str()), last.as_deref()].into_iter().flatten().collect();
        let stream = self.ask("GET", path, &headers);
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        std::iter::from_fn(move || {
            let [name, id, data] = ["event: ", "id: ", "data: "]
                .map(|head| lines.find_map(|line| line.strip_prefix(head).map(str::to_owned)));
            Some((name?, id?, serde_json::from_str(&data?).expect("JSON")))
        })
    }

    /// Stops the dashboard with Ctrl-C.
    fn stop(mut self) {
        if let Some(child) = self.child.take() {
            interrupt(&child, Signal::INT);
            let ended = child.wait_with_output().expect("it ends");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

/// Returns the position in an event's ID.
fn seq(id: &str) -> u64 {
    id.rsplit('-').next().and_then(|seq| seq.parse().ok()).expect("a number")
}

/// Creates a study of 12 trials. Some fail with messages that a page must not interpret as markup.
fn told(trials: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    let script = format!(
        "if [ \"$3\" = a ]; then echo '<img src=x onerror=alert(1)>' >&2; exit 3; fi; {LOSS}"
    );
    let text = study(trials, "log-ei", &script).replace("\"test\"", "\"test <b>\"");
    sandbox.write("study.toml", &text);
    sandbox.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
    sandbox
}

#[test]
fn only_who_has_the_token_gets_an_answer() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["study.toml"]);
    let cookie = served.cookie();
    let other = format!("Cookie: fedbo-{}={}", served.port(), "a".repeat(served.token.len()));
    for path in ["/", "/api/studies", "/assets/main.js", "/api/studies/0-1/trials.csv", "/nothing"]
    {
        for headers in [&[][..], &[other.as_str()], &["Cookie: fedbo=x"]] {
            let refused = served.request("GET", path, headers);
            assert_eq!(refused.status, 401, "{path}");
            assert!(!refused.body.contains("test"), "{}", refused.body);
        }
    }
    assert_eq!(served.request("GET", "/?token=no", &[&cookie]).status, 401);
    let welcome = served.request("GET", &format!("/?study=0-1&token={}", served.token), &[]);
    assert_eq!(welcome.status, 303);
    assert!(welcome.head.contains("location: ./?study=0-1\r\n"), "{}", welcome.head);
    assert!(welcome.head.contains("httponly; samesite=lax"), "{}", welcome.head);
    assert_eq!(
        served.request("GET", "/", &[&format!("Cookie: a=b; {}", &cookie[8..])]).status,
        200
    );
    served.stop();
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["study.toml", "--host", "tuning.example"]);
    let cookie = served.cookie();
    let status = |method: &str, headers: &[&str]| {
        served.request(method, "/api/studies", &[&[cookie.as_str()], headers].concat()).status
    };
    let port = served.port();
    for host in ["evil.example", "127.0.0.1", "localhost.evil.example", ""] {
        assert_eq!(status("GET", &[&format!("Host: {host}")]), 421, "{host:?}");
    }
    for host in
        [format!("localhost:{port}"), format!("LOCALHOST:{port}"), "tuning.example".to_owned()]
    {
        assert_eq!(status("GET", &[&format!("Host: {host}")]), 200, "{host:?}");
    }
    for origin in ["http://evil.example", "null", "file://", "http://localhost:1"] {
        assert_eq!(status("GET", &[&format!("Origin: {origin}")]), 403, "{origin:?}");
    }
    assert_eq!(status("GET", &[&format!("Origin: http://{}", served.address)]), 200);
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(status(method, &["Content-Length: 0"]), 405, "{method}");
    }
    served.stop();
}

#[test]
fn pages_hold_no_script_and_name_no_other_host() {
    let sandbox = told(6);
    let served = Served::start(&sandbox, &["."]);
    let page = served.request("GET", "/", &[&served.cookie()]);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    for script in page.body.split("<script").skip(1) {
        let (attributes, rest) = script.split_once('>').expect("an end");
        assert!(attributes.contains(" src=\"assets/") && rest.starts_with("</script>"), "{script}");
    }
    assert!(!page.body.contains("style=") && !page.body.contains("<style"), "{}", page.body);
    let mut names: Vec<String> = Vec::new();
    for part in page.body.split(['"', '\'']).filter(|part| part.starts_with("assets/")) {
        names.push(part.to_owned());
    }
    let modules = served.get("/assets/study.js") + &served.get("/assets/main.js");
    for part in
        modules.split('"').filter_map(|part| part.strip_prefix("./")).filter(|p| !p.is_empty())
    {
        names.push(format!("assets/{part}"));
    }
    assert!(names.len() > 8, "{names:?}");
    for name in &names {
        let text = served.get(&format!("/{name}"));
        if !name.contains("uplot") && !name.ends_with(".svg") {
            assert!(
                !text.contains("innerHTML")
                    && !text.contains("http://")
                    && !text.contains("https://"),
                "{name}"
            );
        }
    }
    let again = served.request("GET", "/assets/main.js", &[&served.cookie()]);
    let tag = again.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag");
    let same = served.request(
        "GET",
        "/assets/main.js",
        &[&served.cookie(), &format!("If-None-Match: {tag}")],
    );
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    served.stop();
}

#[test]
fn a_study_is_shown_as_the_other_commands_show_it() {
    let sandbox = told(12);
    let served = Served::start(&sandbox, &["study.toml"]);
    let list = served.json("/api/studies");
    let id = list["studies"][0]["id"].as_str().expect("a study").to_owned();
    assert_eq!(list["studies"][0]["n_told"], 12);
    let about = served.json(&format!("/api/studies/{id}"));
    assert_eq!((&about["name"], &about["n_trials"]), (&"test <b>".into(), &12.into()));
    let table = served.get(&format!("/api/studies/{id}/trials.csv"));
    let exported = sandbox.fedbo(&["export", "study.toml"]);
    assert_eq!(table, exported.stdout);
    let trials = served.json(&format!("/api/studies/{id}/trials.json"));
    let printed = sandbox.fedbo(&["trials", "study.toml", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&printed.stdout).expect("JSON");
    assert_eq!(trials["trials"], printed["trials"]);
    sandbox.fedbo(&["plot", "study.toml", "--out", "pictures"]).expect(0, &[]);
    for name in ["history", "slices", "importance"] {
        let picture = served.get(&format!("/api/studies/{id}/pictures/{name}.svg"));
        let plotted = std::fs::read_to_string(sandbox.path(&format!("pictures/{name}.svg")));
        assert_eq!(picture, plotted.expect("a picture"), "{name}");
        assert!(!picture.contains("<b>"), "{name}: a name acts as markup");
        let path = format!("/api/studies/{id}/pictures/{name}.svg");
        let shown = served.request("GET", &path, &[&served.cookie(), "Sec-Fetch-Dest: image"]);
        assert!(shown.head.contains("image/svg+xml"), "{name}: {}", shown.head);
    }
    for path in
        ["/api/studies/0-9", "/api/studies/9-1", "/api/studies/x/events", "/api/studies/..%2f"]
    {
        assert_eq!(served.request("GET", path, &[&served.cookie()]).status, 404, "{path}");
    }
    for picture in ["transfer.svg", "learning-curves.png", "history.exe", "history"] {
        let path = format!("/api/studies/{id}/pictures/{picture}");
        assert_eq!(served.request("GET", &path, &[&served.cookie()]).status, 404, "{path}");
    }
    let surface = served.json(&format!("/api/studies/{id}/surface?x=x&y=kind"));
    assert!(surface["mean"][0][0].is_f64() && surface["std"][0][0].as_f64() >= Some(0.0));
    for axes in ["x=x&y=none", "x=x", "x=x&y=x"] {
        let path = format!("/api/studies/{id}/surface?{axes}");
        assert!(served.request("GET", &path, &[&served.cookie()]).status >= 400, "{axes}");
    }
    served.stop();
}

#[test]
fn trials_appear_as_they_are_told_and_none_twice_after_an_interruption() {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(9, "log-ei", LOSS));
    let served = Served::start(&sandbox, &["study.toml"]);
    assert_eq!(served.json("/api/studies")["studies"], serde_json::json!([]), "none is begun yet");
    let tuning = sandbox.start(&["tune", "study.toml", "--quiet"]);
    wait_until(|| served.json("/api/studies")["studies"][0]["id"].is_string());
    let mut numbers = Vec::new();
    let mut last = String::new();
    for (id, news) in served.events("0-1", None) {
        let told = news["told"].as_array().expect("trials");
        numbers.extend(told.iter().map(|trial| trial["told_order"].as_u64().expect("an order")));
        last = id;
        if numbers.len() >= 4 {
            break;
        }
    }
    finished(tuning).expect(0, &[]);
    served.stop();
    // A second server continues where the first one stopped, because the browser sends its last
    // event ID.
    let served = Served::start(&sandbox, &["sqlite:study.db"]);
    while numbers.len() < 9 {
        let (id, news) = served.events("0-1", Some(&last)).next().expect("an event");
        let told = news["told"].as_array().expect("trials");
        numbers.extend(told.iter().map(|trial| trial["told_order"].as_u64().expect("an order")));
        last = id;
    }
    assert_eq!(numbers, (1..=9).collect::<Vec<u64>>());
    served.stop();
}

#[test]
fn mistakes_say_the_way_out() {
    let sandbox = Sandbox::new();
    let run =
        |arguments: &[&str]| sandbox.fedbo(&[&["dashboard", "--no-open"], arguments].concat());
    run(&[]).expect(2, &["has no study file, storage or run results"]);
    run(&["absent.toml"]).expect(2, &["there is no such file"]);
    run(&["--listen", "0.0.0.0:0"]).expect(2, &["only for this machine", "ssh -L"]);
    sandbox.write("study.toml", &study(3, "log-ei", LOSS).replace("sqlite:study.db", "memory:"));
    run(&["study.toml"]).expect(2, &["storage = \"sqlite:study.db\""]);
}

/// Program arguments are visible to all users of a machine, and the URL contains the token.
#[test]
fn the_browser_is_opened_by_a_file_that_only_its_user_reads() {
    let sandbox = told(3);
    let program = sandbox.write(
        "xdg-open",
        "#!/bin/sh\nstat -c %a \"$1\" > mode; echo \"$1\" > argument; cp \"$1\" copy; mv copy page\n",
    );
    common::allow(&program, 0o755);
    let path = format!("{}:{}", sandbox.folder.path().display(), env!("PATH"));
    std::fs::create_dir(sandbox.path("session")).expect("a folder");
    let mut child = sandbox
        .command(&["dashboard", "--listen", "127.0.0.1:0"])
        .env("PATH", path)
        .env("DISPLAY", ":99")
        .env("XDG_RUNTIME_DIR", sandbox.folder.path().join("session"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut url).expect("a line");
    wait_until(|| sandbox.path("page").exists());
    let read = |name: &str| std::fs::read_to_string(sandbox.path(name)).expect("a file");
    let (base, token) = url.trim().split_once("?token=").expect("a token");
    let page = read("page");
    let (_, opened) = page.split_once(&format!("url={base}?token=")).expect("the address");
    let once = opened.split('"').next().expect("a token");
    assert!(once.len() == 32 && once != token, "{page}");
    assert_eq!(read("mode").trim(), "600");
    let argument = read("argument");
    assert!(argument.contains("/session/") && !argument.contains("token"), "{argument}");
    // The token in the file admits only one browser.
    let (address, path) = base.trim_start_matches("http://").split_once('/').expect("a path");
    for status in ["303", "401"] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!(
            "GET /{path}?token={once} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    }
    // The program that opens browsers has exited and is not a zombie.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    wait_until(|| std::fs::read_to_string(&children).is_ok_and(|children| children.is_empty()));
    interrupt(&child, Signal::INT);
    assert!(child.wait().expect("it ends").success());
    assert!(!std::path::Path::new(read("argument").trim()).exists(), "the file is left behind");
}

#[test]
fn a_run_is_shown_and_followed_and_no_path_leads_out_of_its_folder() {
    let sandbox = Sandbox::new();
    let results = sandbox.path("results/lines");
    std::fs::create_dir_all(&results).expect("a folder");
    let head =
        "experiment,arm,agent,run,iteration,source,x1,value,best,regret,ask_seconds,status\n";
    let row = |arm: &str, agent: &str, iteration: i64, source: &str| {
        format!(
            "lines,{arm},{agent},0,{iteration},{source},0.5,{iteration}.5,{iteration}.5,,0.1,ok\n"
        )
    };
    let first = row("fts", "north", 0, "initial") + &row("ts", "north", 0, "initial");
    std::fs::write(results.join("results.csv"), format!("{head}{first}")).expect("a file");
    std::fs::write(results.join("ledger.db"), "kept here").expect("a file");
    std::fs::write(sandbox.path("secret.csv"), "not here").expect("a file");
    let served = Served::start(&sandbox, &["."]);
    let list = served.json("/api/runs");
    assert_eq!(list["runs"][0]["id"], "0-results/lines");
    assert_eq!(list["runs"][0]["state"], "not finished");
    let base = "/api/runs/0-results%2Flines";
    let about = served.json(base);
    assert_eq!(about["files"], serde_json::json!(["results.csv"]));
    assert!(served.get(&format!("{base}/files/results.csv")).starts_with(head));
    for name in ["ledger.db", "..%2F..%2Fsecret.csv", "%2Fetc%2Fpasswd", ".csv"] {
        let answer = served.request("GET", &format!("{base}/files/{name}"), &[&served.cookie()]);
        assert_eq!(answer.status, 404, "{name}: {}", answer.body);
    }
    for id in ["0-", "0-results", "0-..", "0-..%2F..", "9-results%2Flines", "x"] {
        let answer = served.request("GET", &format!("/api/runs/{id}"), &[&served.cookie()]);
        assert_eq!(answer.status, 404, "{id}: {}", answer.body);
    }
    // New rows of the displayed arm arrive as events.
    let mut events = served.events_at(&format!("{base}/events?arm=ts"), None);
    let (seen, news) = events.next().expect("the rows so far");
    assert_eq!((seq(&seen), &news["arms"]), (1, &serde_json::json!(["fts", "ts"])));
    assert_eq!(news["rows"], serde_json::json!([["north", 0, "initial", 0.5, 0.5, null, null]]));
    let more = row("ts", "<b>south</b>", 1, "message:north") + &row("fts", "north", 1, "own");
    let mut file =
        std::fs::File::options().append(true).open(results.join("results.csv")).expect("a file");
    // A partially written line is not a row yet.
    file.write_all(&more.as_bytes()[..20]).expect("a file");
    std::thread::sleep(Duration::from_millis(700));
    file.write_all(&more.as_bytes()[20..]).expect("a file");
    let (seen, news) = events.next().expect("the rows that were added");
    assert_eq!((seq(&seen), news["n_all"].as_u64()), (2, Some(4)));
    assert_eq!(news["rows"][0][0], "<b>south</b>");
    // A browser that reconnects gets the missing rows. A browser that is up to date gets none.
    let mut again = served.events_at(&format!("{base}/events?arm=ts&run=0"), Some("1"));
    assert_eq!(again.next().expect("the rest").1["rows"].as_array().map(Vec::len), Some(1));
    let mut again = served.events_at(&format!("{base}/events?arm=ts&run=0"), Some(&seen));
    assert_eq!(again.next().expect("the rest").1["rows"].as_array().map(Vec::len), Some(0));
    // Check the means of both arms: north has 0.5 and 1.5.
    let means = served.json(&format!("{base}/means"));
    let fts = &means["metrics"][0]["arms"][0];
    assert_eq!((&fts["arm"], &fts["means"]), (&"fts".into(), &serde_json::json!([0.5, 1.5])));
    served.stop();
}

#[test]
fn a_page_in_a_file_has_everything_and_runs_nothing() {
    let sandbox = Sandbox::new();
    let hostile = "<script>alert(1)</script>";
    let file = study(4, "random", LOSS);
    sandbox.write("good.toml", &file);
    sandbox.fedbo(&["tune", "good.toml"]).expect(0, &[]);
    let write = |what: &str, file: &str| sandbox.fedbo(&["dashboard", what, "--html", file]);
    write("good.toml", "good.html").expect(0, &[]);
    let page = std::fs::read_to_string(sandbox.path("good.html")).expect("a page");
    assert!(page.contains("default-src 'none'") && page.contains("4 of 4"), "{page}");
    assert!(page.matches("data:image/svg+xml;base64,").count() >= 3);
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    assert!(!page.contains("@font-face") && page.contains("--ground"), "it asks for no file");
    // Create a run with names that contain markup.
    let results = sandbox.path("results/lines");
    std::fs::create_dir_all(&results).expect("a folder");
    let head = "experiment,arm,agent,run,iteration,source,x1,value,best,regret,ask_seconds,status";
    let row = format!("lines,fts,{hostile},0,1,own,0.5,2.5,2.5,,0.1,ok");
    std::fs::write(results.join("results.csv"), format!("{head}\n{row}\n")).expect("a file");
    std::fs::write(results.join("ledger.db"), "SQLite format 3\0").expect("a file");
    write("results/lines", "lines.html").expect(0, &[]);
    let page = std::fs::read_to_string(sandbox.path("lines.html")).expect("a page");
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"), "{page}");
    // Two sources at once and a nonexistent folder are refused.
    write(".", "both.html").expect(2, &["one study or run; here are test, lines"]);
    write("good.toml", "none/good.html").expect(4, &["none/good.html"]);
    sandbox.fedbo(&["dashboard", "good.toml", "--html", "x.html", "--json"]).expect(2, &["--json"]);
}

/// The files of uPlot are identical to the release named in its README.
#[test]
fn the_vendored_uplot_is_the_release() {
    use sha2::{Digest as _, Sha256};
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/assets/dashboard/uplot");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let recorded: std::collections::BTreeMap<&str, &str> = readme
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(digest, name)| (name, digest))
        .collect();
    let mut n_checked = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name != "README.md" {
            let bytes = std::fs::read(&path).unwrap();
            let digest: String =
                Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(recorded.get(name), Some(&digest.as_str()), "{name}");
            n_checked += 1;
        }
    }
    assert_eq!(n_checked, recorded.len());
    let script = std::fs::read_to_string(folder.join("uPlot.iife.min.js")).unwrap();
    assert!(script.contains("(v1.6.32)") && readme.starts_with("# uPlot 1.6.32"));
}
