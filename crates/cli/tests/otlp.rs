//! Export of logs, metrics and traces to a collector. A build without support prints a warning.
#![cfg_attr(
    feature = "otlp",
    expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")
)]

use crate::federation_folder;
#[cfg(feature = "otlp")]
use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use federation_folder::{Process, Setup, World};
use rustix::process::Signal;

#[cfg(feature = "otlp")]
#[test]
fn what_a_coordinator_says_of_itself_arrives_at_the_collector_and_nothing_else() {
    let (endpoint, arrives) = collector::start();
    let world = World::new(&Setup::charged(2, 3, 0.5));
    world.create();
    world.done(&["coordinator", "study", "resume", "labs"]);
    let mut command = world.service("coordinator", 0);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    command.env("OTEL_SERVICE_NAME", "labs-service");
    command.args(["--metrics", "127.0.0.1:0"]);
    let mut service = Process::start(&mut command);
    let line = service.wait_for("metrics and health checks on http://");
    let operator = line.rsplit('/').next().unwrap().trim();
    let mut stream = TcpStream::connect(operator).unwrap();
    let request = b"SECRETMETHOD /healthz?secret HTTP/1.1\r\nhost: x\r\nsecret: 1\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    service.wait_for("round=2");
    service.signal(Signal::TERM);
    assert_eq!(service.end(), Some(0), "{:#?}", service.said);
    let requests: Vec<collector::Arrived> = arrives.try_iter().collect();
    let texts = |path: &str| -> BTreeSet<String> {
        let of_path = requests.iter().filter(|request| request.path == path);
        of_path.flat_map(collector::texts).collect()
    };
    let has = |path: &str, parts: &[&str]| {
        let texts = texts(path);
        for part in parts {
            let found = texts.iter().any(|text| text.contains(part));
            assert!(found, "{part:?} did not arrive at {path}: {texts:?}");
        }
    };
    has("/v1/logs", &["labs-service", "leading the rounds", "a round begins"]);
    has("/v1/traces", &["labs-service", "round", "_OTHER /healthz"]);
    has(
        "/v1/metrics",
        &["labs-service", "fedbo.commit_seconds", "fedbo.round", "fedbo.connections"],
    );
    // INV-4: the names of spans, metrics and their fields are on the allow-list.
    let page = include_str!("../../../docs/operations.md");
    let listed = |heading: &str| -> BTreeSet<String> {
        let section = page.split_once(&format!("\n### {heading}\n")).expect("a heading").1;
        let section = section.split("\n#").next().expect("a section");
        section.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let values = ["labs-service", "labs", "s", "_OTHER /healthz", "_OTHER", "/healthz"];
    let library = ["fedbo", "service.name", "opentelemetry", "rust"];
    let is_expected = |text: &str| {
        values.contains(&text) || library.contains(&text) || text.starts_with("telemetry.sdk.")
    };
    let is_version = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let metrics: BTreeSet<String> =
        listed("Metrics").iter().map(|name| name.replacen("fedbo_", "fedbo.", 1)).collect();
    for (path, listed) in [("/v1/traces", listed("Spans")), ("/v1/metrics", metrics)] {
        for text in texts(path) {
            let is_known = listed.contains(&text) || is_expected(&text) || is_version(&text);
            assert!(is_known, "{text:?} was sent to {path}, and is on no list");
        }
    }
}

#[cfg(feature = "otlp")]
#[test]
fn a_collector_gets_only_the_signals_that_it_is_asked_for() {
    let (endpoint, arrives) = collector::start();
    let world = World::new(&Setup::charged(2, 3, 0.5));
    world.create();
    let mut command = world.service("coordinator", 0);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    command.env("OTEL_TRACES_EXPORTER", "none").env("OTEL_METRICS_EXPORTER", "none");
    command.args(["--log", "info"]);
    let mut service = Process::start(&mut command);
    service.wait_for("://");
    world.done(&["coordinator", "study", "resume", "labs"]);
    service.wait_for("leading the rounds");
    service.signal(Signal::TERM);
    assert_eq!(service.end(), Some(0), "{:#?}", service.said);
    let paths: BTreeSet<String> = arrives.try_iter().map(|request| request.path).collect();
    assert_eq!(paths, BTreeSet::from(["/v1/logs".to_owned()]));
}

/// A collector that stores the requests it receives.
#[cfg(feature = "otlp")]
mod collector {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, channel};

    pub(super) struct Arrived {
        pub(super) path: String,
        pub(super) body: Vec<u8>,
    }

    /// Starts the collector. Returns its address and the receiver of its requests.
    pub(super) fn start() -> (String, Receiver<Arrived>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (arrived, arrives) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let arrived = arrived.clone();
                // Exporters send concurrently.
                std::thread::spawn(move || {
                    if let Some(request) = answered(&stream.unwrap()) {
                        let _ = arrived.send(request);
                    }
                });
            }
        });
        (endpoint, arrives)
    }

    fn answered(mut stream: &TcpStream) -> Option<Arrived> {
        let mut reader = BufReader::new(stream);
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(' ') {
                None if line.trim_end().is_empty() => break,
                Some(("POST", rest)) => rest.split(' ').next()?.clone_into(&mut path),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length:") => {
                    length = value.trim().parse().ok()?;
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).ok()?;
        Some(Arrived { path, body })
    }

    /// Returns the fields of a span or a log record with a random identifier of 8 or 16 bytes,
    /// which can happen to be valid UTF-8: `trace_id`, `span_id` and a span's `parent_span_id`.
    fn identifiers(path: &str) -> &'static [u64] {
        match path {
            "/v1/traces" => &[1, 2, 4],
            "/v1/logs" => &[9, 10],
            _ => &[],
        }
    }

    /// Returns the strings in a request: byte fields that are readable text and not protobuf
    /// messages. Skips identifiers of spans and log records.
    pub(super) fn texts(request: &Arrived) -> Vec<String> {
        fields(&request.body, identifiers(&request.path), &[]).unwrap_or_default()
    }

    /// Returns the strings in the fields below a path of field numbers, or `None` if the bytes are
    /// not a message.
    fn fields(mut bytes: &[u8], identifiers: &[u64], path: &[u64]) -> Option<Vec<String>> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            match (key >> 3, key & 7) {
                (0, _) => return None,
                (_, 0) => drop(varint(&mut bytes)?),
                (_, 1) => bytes = bytes.get(8..)?,
                (_, 5) => bytes = bytes.get(4..)?,
                (_, 2) => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    let field = bytes.get(..length)?;
                    bytes = &bytes[length..];
                    // A span or log record is in field 2 of a scope, which is in field 2 of a
                    // resource, in field 1 of the request.
                    let is_random = path == [1, 2, 2] && identifiers.contains(&(key >> 3));
                    if is_random && matches!(length, 8 | 16) {
                        continue;
                    }
                    let text = std::str::from_utf8(field).ok();
                    let is_text = |text: &&str| !text.chars().any(char::is_control);
                    match text.filter(is_text).filter(|text| !text.is_empty()) {
                        Some(text) => found.push(text.to_owned()),
                        None => {
                            let below = [path, &[key >> 3]].concat();
                            found.extend(fields(field, identifiers, &below).unwrap_or_default());
                        }
                    }
                }
                _ => return None,
            }
        }
        Some(found)
    }

    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_collector_that_is_named_in_vain_is_mentioned() {
    let world = World::new(&Setup::charged(2, 3, 0.5));
    world.create();
    let mut command = world.service("coordinator", 0);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let mut service = Process::start(&mut command);
    service.wait_for("built without OTLP");
    service.wait_for("://");
    service.signal(Signal::TERM);
    assert_eq!(service.end(), Some(0), "{:#?}", service.said);
}
