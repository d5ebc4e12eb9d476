//! Logs that go to a collector: where the program is built with it, what is logged arrives; where not, it says so.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

#[path = "network/federation_folder.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod federation_folder;

use federation_folder::{Process, Setup, World};
use rustix::process::Signal;

#[cfg(feature = "otlp")]
#[test]
fn what_is_logged_arrives_at_the_collector() {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (arrived, arrives) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            // The head names the length of the body.
            loop {
                let n = stream.read(&mut buffer).unwrap_or(0);
                bytes.extend(&buffer[..n]);
                let text = String::from_utf8_lossy(&bytes).to_lowercase();
                let length = text
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
                let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
                let is_whole =
                    head.zip(length).is_some_and(|(head, n)| bytes.len() >= head + 4 + n);
                if n == 0 || is_whole {
                    break;
                }
            }
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = arrived.send(bytes);
        }
    });
    let world = World::new(&Setup::charged(2, 3, 0.5));
    world.create();
    world.done(&["coordinator", "study", "resume", "labs"]);
    let mut command = world.service("coordinator", 0);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    command.env("OTEL_SERVICE_NAME", "labs-service");
    let mut service = Process::start(&mut command);
    service.wait_for("round=2");
    service.signal(Signal::TERM);
    assert_eq!(service.end(), Some(0), "{:#?}", service.said);
    let all: Vec<u8> = arrives.try_iter().flatten().collect();
    let all = String::from_utf8_lossy(&all);
    for part in ["POST /v1/logs", "labs-service", "rounds are played here", "a round begins"] {
        assert!(all.contains(part), "{part:?} did not arrive: {all}");
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
