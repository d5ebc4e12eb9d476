//! Tests of the information that others can see: captured traffic, and the output of the service.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::federation_folder::{Setup, World};

/// A proxy that records every byte, in both directions.
struct RecordingProxy {
    port: u16,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl RecordingProxy {
    fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let kept = Arc::clone(&kept);
                    std::thread::spawn(move || pump(from, to, &kept));
                }
            }
        });
        Self { port: own, seen }
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 16384];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        kept.lock().unwrap().extend(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    // The other side may already have closed the connection.
    let _ = to.shutdown(Shutdown::Write);
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else {
        return true;
    };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(part) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Checks that `seen` contains no number of the agents' trials. Returns the number of
/// representations that were searched for.
///
/// # Panics
/// If `seen` contains such a number.
pub(crate) fn check_holds_no_number(seen: &[u8], world: &World) -> usize {
    let mut n_looked_for = 0;
    let mut short = BTreeSet::new();
    for agent in 0..world.n_agents {
        for [x, y, value] in world.trials(agent) {
            let unit = |x: f64| (x + 5.0) / 10.0;
            // A point in single precision has eight bytes, which do not occur by chance, except for
            // corners of the space.
            for [first, second] in [[x, y], [unit(x), unit(y)]] {
                if let Some((first, second)) = short_form(first).zip(short_form(second)) {
                    n_looked_for += 1;
                    let point = [first, second].concat();
                    assert!(
                        !contains(seen, &point),
                        "({x}, {y}) of agent {agent} in single precision"
                    );
                }
            }
            let numbers = [x, y, value, unit(x), unit(y)].into_iter();
            // Skip the corners of the space, which are common numbers: 0, 1, 5.
            for number in numbers.filter(|number| number.fract() != 0.0) {
                for form in forms(number) {
                    n_looked_for += 1;
                    assert!(!contains(seen, &form), "{number} of agent {agent}: {form:?}");
                }
                short.extend(short_form(number).filter(|form| contains(seen, form)));
            }
        }
    }
    // Four bytes can occur by chance, for about one number in 4,000 per megabyte. Numbers that are
    // really sent would be sent by all agents.
    assert!(short.len() < 2, "numbers in single precision: {short:?}");
    n_looked_for
}

/// Returns all representations of a number with at least eight bytes: its bytes in both orders, and
/// its digits.
fn forms(number: f64) -> Vec<Vec<u8>> {
    let digits: String = format!("{:.12e}", number.abs()).chars().take(9).collect();
    vec![
        number.to_le_bytes().to_vec(),
        number.to_be_bytes().to_vec(),
        (-number).to_le_bytes().to_vec(),
        digits.into_bytes(),
        format!("{number}").into_bytes(),
    ]
}

/// Returns the bytes of a number in single precision. Returns `None` for a number close to one with
/// few binary digits (3/8), because its bytes contain common zeros.
fn short_form(number: f64) -> Option<[u8; 4]> {
    #[expect(clippy::cast_possible_truncation, reason = "a shorter form is looked for too")]
    let short = number as f32;
    (short.to_bits() & 0xffff != 0).then(|| short.to_le_bytes())
}

/// Values, inputs and incumbents of agents do not appear in the traffic in any form. The intended
/// content does: the releases in the ledger, and the configuration.
#[test]
fn a_capture_of_a_whole_run_holds_no_value_no_input_and_no_incumbent() {
    for setup in [
        Setup::charged(3, 4, 1.0),
        Setup { algorithm: "fts", privacy: "", seed: None, ..Setup::simulated(3, 4, 60.0) },
    ] {
        let world = World::new(&setup);
        let tokens = world.create();
        let (mut service, port) = world.serve(0);
        let tap = RecordingProxy::before(port);
        let mut agents = world.start_agents(&tokens, tap.port);
        for process in &mut agents {
            assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        }
        service.signal(rustix::process::Signal::TERM);
        assert_eq!(service.end(), Some(0));
        let seen = tap.seen.lock().unwrap().clone();
        assert!(contains(&seen, b"name = \"labs\""), "the configuration travels");
        if !setup.privacy.is_empty() {
            let releases = releases(&world);
            assert!(releases.len() > 2);
            assert!(releases.iter().all(|release| contains(&seen, release)));
        }
        let n_looked_for = check_holds_no_number(&seen, &world);
        assert!(n_looked_for > 200, "{n_looked_for}");
    }
}

fn releases(world: &World) -> Vec<Vec<u8>> {
    let ledger = Connection::open(world.path("coordinator/labs.ledger.db")).unwrap();
    let mut statement = ledger.prepare("SELECT release FROM entries").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The most verbose log and the metrics of the service contain no number of a vector, and no word
/// about the sample, norms or clipping (INV-4).
#[test]
fn canary_grep() {
    let world = World::new(&Setup::charged(3, 3, 1.0));
    let tokens = world.create();
    let mut command = world.service("coordinator", 0);
    let mut service = crate::federation_folder::Process::start(command.args(["--log", "trace"]));
    let line = service.wait_for("://");
    let port: u16 = line.rsplit(':').next().unwrap().trim().parse().unwrap();
    let tap = RecordingProxy::before(port);
    for process in &mut world.start_agents(&tokens, tap.port) {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(metrics.contains("fedbo_round"), "{metrics}");
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end(), Some(0));
    let said = format!("{}\n{metrics}", service.all());
    for word in ["sampl", "clip", "norm", "weight", "coin"] {
        assert!(!said.to_lowercase().contains(word), "{word}: {said}");
    }
    let mut n_looked_for = 0;
    for weight in uploaded_weights(&tap.seen.lock().unwrap()) {
        let digits: String = format!("{:.12e}", weight.abs()).chars().take(9).collect();
        n_looked_for += 1;
        assert!(!said.contains(&digits), "{weight}");
        assert!(!said.contains(&format!("{weight}")), "{weight}");
    }
    assert!(n_looked_for >= 3 * 3 * 30, "{n_looked_for}");
}

/// Extracts the weights of all uploads in a capture, since agents do not keep them (INV-26).
fn uploaded_weights(seen: &[u8]) -> Vec<f64> {
    let mut weights = Vec::new();
    for at in 0..seen.len().saturating_sub(88) {
        let upload = &seen[at..];
        if !upload.starts_with(b"FBUP") {
            continue;
        }
        let n_features = u32::from_le_bytes(upload[12..16].try_into().unwrap()) as usize;
        let body = upload[88..].chunks_exact(8).take(n_features);
        weights.extend(body.map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())));
    }
    weights
}
