//! Clients that flood the service: memory stays bounded, honest uploads are accepted, no vector is
//! lost and none counts twice.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fedbo_federation::{Collaboration, ReleaseMechanism};
use fedbo_privacy::mechanism::SimNoise;
use fedbo_transport::ConnectionLimits;
use fedbo_wire::SigningKey;

use crate::agent::{Agent, weights};
use crate::service::Pressed;
use crate::wire::Tls;

#[test]
fn flood() {
    press(3, 1.2);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn flood_for_a_minute() {
    press(20, 3.0);
}

/// Idle connections use up the limit. An agent still gets a connection long before the idle ones
/// time out, and keeps it.
#[test]
fn strangers_make_room_for_agents() {
    let limits = ConnectionLimits {
        n_connections: 32,
        patience: Duration::from_secs(30),
        ..ConnectionLimits::default()
    };
    let pressed = Pressed::start(limits, 2, (1, 600.0));
    let mut agents = pressed.agents();
    let crowd = || -> Vec<TcpStream> {
        let connect = |_| TcpStream::connect(pressed.address).unwrap();
        (0..3 * limits.n_connections).map(connect).collect()
    };
    let since = Instant::now();
    let first = crowd();
    assert!(agents[0].deliver(0));
    let second = crowd();
    assert!(agents[1].deliver(0));
    // Both agents keep their connections, which were not closed to make room.
    for agent in &mut agents {
        let request = agent.request(0, agent.weights(0));
        assert_eq!(agent.ask(&request).unwrap().0, 200);
    }
    assert!(since.elapsed() < limits.patience / 2, "{:?}", since.elapsed());
    drop((first, second));
    pressed.end();
}

const N_AGENTS: u32 = 6;
/// Maximum number of connections of the service.
const N_CONNECTIONS: usize = 64;
/// Number of connections that attackers try to hold.
const N_HELD: usize = 150;
/// Bytes that an attacker tries to send in one body.
const HUGE: usize = 64 << 20;
/// Minimum number of refused requests of each kind.
const N_REFUSED: usize = 1000;

fn press(n_rounds: u64, round_s: f64) {
    let limits = ConnectionLimits {
        n_connections: N_CONNECTIONS,
        patience: Duration::from_secs(2),
        body_patience: Duration::from_secs(2),
        answer_patience: Duration::from_secs(2),
    };
    let pressed = Pressed::start(limits, N_AGENTS, (n_rounds, round_s));
    let before = pressed.peak_bytes();
    let flooding = Flooding::default();
    let accepted = std::thread::scope(|scope| {
        let attacks: [fn(&Pressed, &Flooding); 6] =
            [connections, garbage, huge_bodies, chunks, forged, unknown];
        for attack in attacks {
            let (pressed, flooding) = (&pressed, &flooding);
            scope.spawn(move || attack(pressed, flooding));
        }
        let honest: Vec<_> = pressed
            .agents()
            .into_iter()
            .map(|agent| scope.spawn(move || play(agent, n_rounds)))
            .collect();
        let accepted: Vec<_> = honest.into_iter().map(|agent| agent.join()).collect();
        // On a slow machine, the run is extended until the flood is large enough.
        let since = Instant::now();
        while !flooding.is_enough() && since.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        flooding.ended.store(true, Ordering::Relaxed);
        accepted
    });
    // One flag per round for each slot, which is true if the upload was accepted.
    let accepted: Vec<Vec<bool>> = accepted.into_iter().map(|agent| agent.unwrap()).collect();
    let n_accepted = accepted.iter().flatten().filter(|is_in| **is_in).count();
    // On a busy machine some uploads may be late.
    assert!(2 * n_accepted > accepted.iter().flatten().count(), "{n_accepted} were accepted");
    assert!(flooding.is_enough(), "{flooding:?}");
    let grown = pressed.peak_bytes() - before;
    let most = pressed.bytes_max(N_CONNECTIONS);
    assert!(grown < most, "{grown} bytes, at most {most}; {flooding:?}");
    let expected = releases(&pressed, n_rounds, &accepted);
    let found = pressed.releases(expected.len());
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "a vector was lost, or counted twice");
    pressed.end();
}

/// Runs one agent in all rounds, with a new connection per round. Repeats each upload many times
/// with different vectors.
///
/// Returns one flag per round: true if the upload was accepted.
fn play(mut agent: Agent, n_rounds: u64) -> Vec<bool> {
    let mut accepted = Vec::new();
    for round in 0..n_rounds {
        accepted.push(agent.deliver(round));
        for n in 0..10 {
            let other = vec![f64::from(n); agent.weights(round).len()];
            let request = agent.request(round, other);
            // The round may be over, or the connection closed. Either way, the attempt must not
            // change anything.
            if let Ok((status, body)) = agent.ask(&request) {
                let text = String::from_utf8_lossy(&body);
                assert!([200, 409, 410].contains(&status), "{status} {text}");
            }
        }
        agent.hang_up();
    }
    accepted
}

/// Returns the releases of the accepted vectors, each counted once.
fn releases(pressed: &Pressed, n_rounds: u64, accepted: &[Vec<bool>]) -> Vec<Vec<u8>> {
    let federation = &pressed.study.federation;
    let Collaboration::Released(releases) = &federation.collaboration else {
        panic!("a study with releases")
    };
    let ReleaseMechanism::Lattice(mechanism) = releases.mechanism(federation.own_arm()) else {
        panic!("sums on a lattice")
    };
    let mut source = SimNoise::new(federation.noise_seed());
    let mut release = |round| {
        let shape = releases.schedule().shape(round);
        let mut collecting = mechanism.begin(round, shape);
        for (slot, accepted) in (0..).zip(accepted) {
            if !accepted[usize::try_from(round).unwrap()] {
                continue;
            }
            let mut vector = weights(slot, round);
            vector.resize(mechanism.settings().n_features as usize, 0.0); // the witnesses
            collecting.receive(slot, &vector).unwrap();
        }
        collecting.close(&mut source).unwrap().release.to_bytes()
    };
    (0..n_rounds).map(&mut release).collect()
}

/// Numbers of the attackers' actions so far, by kind.
#[derive(Debug, Default)]
struct Flooding {
    ended: AtomicBool,
    connections: AtomicUsize,
    garbage: AtomicUsize,
    huge_bodies: AtomicUsize,
    chunks: AtomicUsize,
    forged: AtomicUsize,
    unknown: AtomicUsize,
}

impl Flooding {
    fn continues(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    fn is_enough(&self) -> bool {
        let many = [&self.forged, &self.unknown];
        let some = [&self.garbage, &self.huge_bodies, &self.chunks];
        self.connections.load(Ordering::Relaxed) > 2 * N_HELD
            && many.iter().all(|n| n.load(Ordering::Relaxed) >= N_REFUSED)
            && some.iter().all(|n| n.load(Ordering::Relaxed) >= 10)
    }
}

fn add(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Holds more connections than the service allows, and replaces them with new ones.
fn connections(pressed: &Pressed, flooding: &Flooding) {
    let mut held = std::collections::VecDeque::new();
    while flooding.continues() {
        if let Ok(stream) = TcpStream::connect(pressed.address) {
            held.push_back(stream);
            add(&flooding.connections);
        }
        if held.len() > N_HELD {
            held.pop_front();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Sends meaningless bytes, as plain TCP and inside TLS.
fn garbage(pressed: &Pressed, flooding: &Flooding) {
    let bytes: Vec<u8> =
        (0..64_u32 << 10).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    while flooding.continues() {
        // The result does not matter.
        let _ = TcpStream::connect(pressed.address).and_then(|mut plain| plain.write_all(&bytes));
        if let Ok(mut tls) = Tls::connect(pressed.address, &pressed.tls) {
            let _ = tls.ask(&bytes);
            add(&flooding.garbage);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Announces a body of one terabyte, and sends the start of it.
fn huge_bodies(pressed: &Pressed, flooding: &Flooding) {
    let agent = &pressed.agents()[0];
    while flooding.continues() {
        let request = agent.request(0, agent.weights(0));
        let text = String::from_utf8_lossy(&request);
        let length = format!("content-length: {}", fedbo_wire::Upload::n_bytes(100));
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&length));
        let head = head.replace(&length, "content-length: 1000000000000") + "\r\n\r\n";
        if pour(pressed, head.as_bytes(), &[0; 1 << 14]) {
            add(&flooding.huge_bodies);
        }
    }
}

/// Sends bodies without announcing their length.
fn chunks(pressed: &Pressed, flooding: &Flooding) {
    let head = b"POST /v1/enrol HTTP/1.1\r\nhost: localhost\r\nfedbo-protocol: 3\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut chunk = b"4000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x4000, b'x');
    chunk.extend(b"\r\n");
    while flooding.continues() {
        if pour(pressed, head, &chunk) {
            add(&flooding.chunks);
        }
    }
}

/// Sends a head, then repeats a block until the server closes the connection. Returns true if the
/// server closed it.
fn pour(pressed: &Pressed, head: &[u8], block: &[u8]) -> bool {
    let Ok(mut tls) = Tls::connect(pressed.address, &pressed.tls) else {
        return false;
    };
    if tls.send(head).is_err() {
        return false;
    }
    let mut n_sent = 0;
    while n_sent < HUGE && tls.send(block).is_ok() {
        n_sent += block.len();
    }
    assert!(n_sent < HUGE, "all of a huge body was taken");
    true
}

/// Sends uploads in the name of an agent, with a signature for a different body.
fn forged(pressed: &Pressed, flooding: &Flooding) {
    let agent = &pressed.agents()[1];
    refused(pressed, flooding, &flooding.forged, 401, || {
        let mut request = agent.request(0, vec![0.5; 100]);
        *request.last_mut().unwrap() ^= 1;
        request
    });
}

/// Sends uploads with an unknown key.
fn unknown(pressed: &Pressed, flooding: &Flooding) {
    let agent = Agent::new(pressed, SigningKey::from_seed([200; 32]), 2);
    refused(pressed, flooding, &flooding.unknown, 404, || agent.request(0, vec![0.5; 100]));
}

/// Sends requests that must all be refused with this status.
fn refused(
    pressed: &Pressed,
    flooding: &Flooding,
    counter: &AtomicUsize,
    status: u16,
    request: impl Fn() -> Vec<u8>,
) {
    while flooding.continues() {
        let Ok(mut tls) = Tls::connect(pressed.address, &pressed.tls) else {
            continue;
        };
        while flooding.continues()
            && let Ok((found, body)) = tls.ask(&request())
        {
            assert_eq!(found, status, "{}", String::from_utf8_lossy(&body));
            add(counter);
        }
    }
}
