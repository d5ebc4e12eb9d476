//! `fedbo coordinator run --dashboard`: the operator sees only public or released data (INV-4).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::federation_folder::{Process, Setup, World};
use crate::network::wire::check_holds_no_number;

/// A coordinator with the operator's pages.
pub(crate) struct Pages {
    pub(crate) service: Process,
    /// The agents' port.
    pub(crate) port: u16,
    /// `127.0.0.1:PORT` of the pages.
    address: String,
    /// `/` and the random part of all URLs.
    path: String,
    /// `NAME=VALUE`, as set by the server.
    cookie: String,
}

impl Pages {
    pub(crate) fn serve(world: &World, more: &[&str]) -> Self {
        let mut command = world.service("coordinator", 0);
        command.args(["--dashboard", "127.0.0.1:0"]).args(more);
        let mut service = Process::start(&mut command);
        let line = service.wait_for("coordinator of ");
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        let line = service.wait_for("operator's pages on http://");
        let (_, url) = line.split_once("http://").unwrap();
        let (address, path) = url.trim().split_once('/').unwrap();
        let (path, token) = path.split_once("/?token=").unwrap();
        let mut pages = Self {
            service,
            port,
            address: address.to_owned(),
            path: format!("/{path}"),
            cookie: String::new(),
        };
        let mut welcome = String::new();
        pages.ask("GET", &format!("/?token={token}"), "").read_to_string(&mut welcome).unwrap();
        let (_, cookie) = welcome.split_once("set-cookie: ").unwrap();
        pages.cookie = cookie.split(';').next().unwrap().to_owned();
        pages
    }

    fn cookie(&self) -> String {
        self.cookie.clone()
    }

    fn ask(&self, method: &str, path: &str, cookie: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (address, below) = (&self.address, &self.path);
        let head = format!(
            "{method} {below}{path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Sends a request and returns the status and body of the response.
    fn answer(&self, method: &str, path: &str, cookie: &str) -> (u16, String) {
        let mut text = String::new();
        self.ask(method, path, cookie).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let (status, body) = self.answer("GET", path, &self.cookie());
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// Returns the first event of a study that satisfies `is`.
    fn event(&self, is: impl Fn(&Value) -> bool) -> Value {
        let path = "/api/federations/labs/events";
        let lines = BufReader::new(self.ask("GET", path, &self.cookie())).lines();
        // Chunks of a chunked response are on separate lines.
        let data = lines.map_while(Result::ok).filter_map(|line| {
            let text = line.strip_prefix("data: ")?.to_owned();
            serde_json::from_str::<Value>(&text).ok()
        });
        data.into_iter().find(is).unwrap()
    }

    /// Waits for the event at the study's end.
    fn finished(&self) -> Value {
        self.event(|news| news["state"] == "finished")
    }

    /// Returns everything that the pages serve about the study.
    pub(crate) fn everything(&self) -> String {
        let event = self.event(|_| true).to_string();
        let paths = ["/", "/api/federations", "/api/federations/labs"];
        let pages = paths.map(|path| self.get(path)).join("\n");
        let ledgers = ["ledger", "ledger/check"].map(|name| {
            let path = format!("/api/federations/labs/{name}");
            self.answer("GET", &path, &self.cookie()).1 // absent for a study without charges
        });
        pages + &event + &ledgers.join("\n")
    }

    pub(crate) fn end(mut self) {
        self.service.signal(rustix::process::Signal::TERM);
        assert_eq!(self.service.end(), Some(0), "{:#?}", self.service.said);
    }
}

/// The page shows the roster before any enrolment, deliveries as they arrive, and all rounds at the
/// end.
#[test]
fn an_operator_sees_who_delivered_in_which_round() {
    let world = World::new(&Setup::charged(3, 3, 1.0));
    let tokens = world.create();
    let pages = Pages::serve(&world, &[]);
    let list = pages.json("/api/federations");
    assert_eq!(list["federations"][0]["study"], "labs");
    assert_eq!(list["federations"][0]["enrolled"], 0);
    assert_eq!(list["federations"][0]["delivered"], Value::Null);
    let about = pages.json("/api/federations/labs");
    assert_eq!((&about["algorithm"], &about["has_ledger"]), (&"dp-fts-de".into(), &true.into()));
    assert!(about["config"].as_str().unwrap().contains("name = \"labs\""));
    let news = pages.event(|_| true);
    assert_eq!((&news["state"], &news["roster"][1]["agent"]), (&"waiting".into(), &"lab 1".into()));
    assert_eq!(news["roster"][1]["silent_s"], Value::Null);
    let mut agents = world.start_agents(&tokens, pages.port);
    let news = pages.event(|news| !news["delivered"].as_array().unwrap().is_empty());
    assert!(news["roster"].as_array().unwrap().iter().all(|each| each["state"] == "enrolled"));
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    // The last release has been sent, but the last round continues for a while.
    pages.finished();
    let news = pages.event(|_| true);
    let delivered = news["delivered"].as_array().unwrap();
    assert!(!delivered.is_empty(), "{news}");
    // On a slow machine, an agent may miss a deadline, but not all agents miss all deadlines.
    assert!(delivered.iter().all(|round| round[1].as_str().unwrap().len() == 3), "{news}");
    assert!(delivered.iter().any(|round| round[1] == "111"), "{news}");
    let head = news["ledger_head"].as_str().unwrap();
    assert_eq!(head.split(':').next(), Some("3"));
    let ledger = pages.json("/api/federations/labs/ledger");
    assert_eq!((&ledger["statement"]["head"], &ledger["problem"]), (&head.into(), &Value::Null));
    let check = pages.json("/api/federations/labs/ledger/check");
    assert_eq!((&check["is_sound"], &check["compared_with"]), (&true.into(), &head.into()));
    pages.end();
}

/// A release is durable before its scheduled time, and the pages show it only when it is sent
/// (INV-9). Neither the release's charge nor its hash reveals the time of its computation.
#[test]
fn no_release_is_shown_before_its_instant() {
    let world = World::new(&Setup::charged(2, 4, 2.0));
    let tokens = world.create();
    let pages = Pages::serve(&world, &[]);
    let mut agents = world.start_agents(&tokens, pages.port);
    let mut seen = BTreeSet::new();
    while !agents.iter_mut().all(Process::has_ended) {
        let path = "/api/federations/labs/ledger";
        let (status, ledger) = pages.answer("GET", path, &pages.cookie());
        let check = pages.answer("GET", &format!("{path}/check"), &pages.cookie()).1;
        // The round is read after the ledger, so it covers all displayed releases.
        let round = pages.json("/api/federations")["federations"][0]["round"].as_u64().unwrap();
        if status == 200 {
            let ledger: Value = serde_json::from_str(&ledger).unwrap();
            let statement = &ledger["statement"];
            let n_shown = statement["releases"].as_u64().unwrap();
            assert!(n_shown <= round, "{n_shown} releases in round {round}: {ledger}");
            assert_eq!(ledger["entries"].as_array().unwrap().len() as u64, n_shown);
            assert!(statement["head"].as_str().unwrap().starts_with(&format!("{n_shown}:")));
            let check: Value = serde_json::from_str(&check).unwrap();
            assert!(check["entries"].as_u64().unwrap() <= round, "round {round}: {check}");
            seen.insert(n_shown);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(seen.len() >= 4, "{seen:?}");
    pages.end();
}

/// The pages are restricted to the operator: they are not served on the agents' address, without
/// the token, or to a page of a different site, and they change nothing.
#[test]
fn the_pages_are_the_operators_alone() {
    let world = World::new(&Setup::simulated(2, 2, 60.0));
    let _tokens = world.create();
    let pages = Pages::serve(&world, &[]);
    for (method, path, cookie, expected) in [
        ("GET", "/api/federations", "", 401),
        ("GET", "/api/federations", "fedbo-1=x", 401),
        ("GET", "/", "", 401),
        ("GET", "/?token=aaaa", "", 401),
        ("POST", "/api/federations/labs", pages.cookie().as_str(), 405),
        ("GET", "/api/federations/other", pages.cookie().as_str(), 404),
        ("GET", "/api/federations/..%2F..%2Fcoordinator.key", pages.cookie().as_str(), 404),
        // The machine's studies and runs are not part of these pages.
        ("GET", "/api/studies", pages.cookie().as_str(), 404),
        ("GET", "/api/runs", pages.cookie().as_str(), 404),
    ] {
        let (status, body) = pages.answer(method, path, cookie);
        assert_eq!(status, expected, "{method} {path}: {body}");
        assert!(!body.contains("lab 0"), "{body}");
    }
    // The pages are served only below their path.
    let cookie = pages.cookie();
    let root = Pages { path: String::new(), ..pages };
    for path in ["/", "/api/federations", "/?token=aaaa"] {
        assert_eq!(root.answer("GET", path, &cookie).0, 401, "{path}");
    }
    let agents = Pages { address: format!("127.0.0.1:{}", root.port), ..root };
    for path in ["/", "/api/federations", "/assets/main.js"] {
        assert_eq!(agents.answer("GET", path, &agents.cookie()).0, 404, "{path}");
    }
    agents.end();
}

#[test]
fn pages_that_others_reach_need_a_token_of_their_own() {
    let world = World::new(&Setup::simulated(2, 2, 60.0));
    let _tokens = world.create();
    let refused = |more: &[&str], part: &str| {
        let mut command = world.service("coordinator", 0);
        let output = command.args(more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    };
    refused(&["--dashboard", "0.0.0.0:0"], "--dashboard-token FILE");
    let token = ["--dashboard", "0.0.0.0:0", "--dashboard-token", "token"];
    refused(&token, "plain");
    std::fs::write(world.path("short"), "abc").unwrap();
    refused(&["--dashboard", "127.0.0.1:0", "--dashboard-token", "short"], "short: ");
    // The token is only in its file.
    let mut command = world.service("coordinator", 0);
    command.args(token).arg("--plain-http");
    let mut service = Process::start(&mut command);
    let line = service.wait_for("operator's pages on http://");
    let text = std::fs::read_to_string(world.path("token")).unwrap();
    assert!(
        line.contains("?token=TOKEN with the token in token") && !line.contains(text.trim()),
        "{line}"
    );
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end(), Some(0));
}

/// The table in docs/operations.md has exactly the keys that the pages serve, each with a reason.
#[test]
fn every_field_of_the_pages_is_on_the_list() {
    let page = include_str!("../../../../docs/operations.md");
    let after = page.split_once("\n### The operator's pages\n").unwrap().1;
    let section = after.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut listed = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells[1].len() > 5, "a row without a reason: {row}");
        listed.extend(cells[0].split(", ").map(|name| name.replace('`', "")));
    }
    let world = World::new(&Setup::charged(2, 2, 0.5));
    let tokens = world.create();
    let pages = Pages::serve(&world, &[]);
    for process in &mut world.start_agents(&tokens, pages.port) {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let mut shown = BTreeSet::new();
    let study = "/api/federations/labs";
    let of_study = ["", "/ledger", "/ledger/check"].map(|part| format!("{study}{part}"));
    for path in std::iter::once("/api/federations").chain(of_study.iter().map(String::as_str)) {
        keys(&pages.json(path), &mut shown);
    }
    keys(&pages.event(|_| true), &mut shown);
    pages.end();
    // A valid ledger has no problems, so add the keys of problems.
    shown.extend(["entry", "message"].map(str::to_owned));
    assert_eq!(shown, listed);
}

/// Collects the keys of all objects of a document.
fn keys(document: &Value, found: &mut BTreeSet<String>) {
    match document {
        Value::Object(entries) => {
            for (key, value) in entries {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// The bytes served by the pages contain no trial of an agent in any form, for any algorithm:
/// before, during and after the study.
#[test]
fn no_trial_of_an_agent_is_in_any_byte_of_the_pages() {
    for setup in [
        Setup::charged(3, 3, 1.0),
        Setup { algorithm: "fts", privacy: "", seed: None, ..Setup::simulated(3, 4, 60.0) },
        Setup {
            algorithm: "shared-prior",
            privacy: "",
            seed: None,
            ..Setup::simulated(3, 4, 60.0)
        },
    ] {
        let world = World::new(&setup);
        let tokens = world.create();
        let pages = Pages::serve(&world, &[]);
        let mut agents = world.start_agents(&tokens, pages.port);
        let mut seen = String::new();
        while !agents.iter_mut().all(Process::has_ended) {
            seen += &pages.everything();
            std::thread::sleep(Duration::from_millis(200));
        }
        pages.finished();
        seen += &pages.everything();
        pages.end();
        let n_looked_for = check_holds_no_number(seen.as_bytes(), &world);
        assert!(n_looked_for > 150, "{n_looked_for}");
    }
}
