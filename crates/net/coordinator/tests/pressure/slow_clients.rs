//! Slow clients of each kind are cut off at their limit, and honest agents are not affected.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_coordinator::OPENAPI;
use fedbo_transport::ConnectionLimits;

use crate::agent::Agent;
use crate::service::Pressed;
use crate::wire::Tls;

#[test]
fn slow_clients() {
    let second = Duration::from_secs(1);
    press(
        40,
        ConnectionLimits {
            n_connections: 512,
            patience: second,
            body_patience: second,
            answer_patience: second,
        },
    );
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn slow_clients_at_the_limits_of_every_day() {
    press(500, ConnectionLimits::default());
}

/// Bodies that arrive byte by byte are accepted once they are complete. Until then, they use memory
/// only for the received bytes, not for the buffers into which the bytes were read.
#[test]
fn a_body_in_pieces_takes_the_memory_of_a_body() {
    const N_CONNECTIONS: usize = 50;
    const N_PIECES: usize = 300;
    let pressed = Pressed::start(ConnectionLimits::default(), 2, (1, 600.0));
    let mut agents = pressed.agents();
    assert!(agents[0].deliver(0));
    let before = pressed.peak_bytes();
    let request = agents[0].request(0, agents[0].weights(0));
    let (first, pieces) = request.split_at(request.len() - N_PIECES);
    let mut connections: Vec<Tls> =
        (0..N_CONNECTIONS).map(|_| Tls::connect(pressed.address, &pressed.tls).unwrap()).collect();
    connections.iter_mut().for_each(|tls| tls.send(first).unwrap());
    let (last, pieces) = pieces.split_last().unwrap();
    for piece in pieces {
        connections.iter_mut().for_each(|tls| tls.send(&[*piece]).unwrap());
        std::thread::sleep(Duration::from_millis(2));
    }
    let grown = pressed.peak_bytes() - before;
    let most = pressed.bytes_max(N_CONNECTIONS);
    assert!(grown < most, "{grown} bytes, at most {most}");
    for tls in &mut connections {
        assert_eq!(tls.ask(&[*last]).unwrap().0, 200);
    }
    pressed.end();
}

/// Tolerance for closing a connection late on a busy machine.
const LENIENCE: Duration = Duration::from_secs(3);
/// Maximum 99th percentile of honest upload times.
const HONEST_P99: Duration = Duration::from_millis(500);
/// Interval at which slow clients send a byte.
const TRICKLE: Duration = Duration::from_millis(100);

fn press(n_of_each_kind: usize, limits: ConnectionLimits) {
    let pressed = Pressed::start(limits, 4, (1, 600.0));
    let mut agents = pressed.agents();
    assert!(agents.iter_mut().all(|agent| agent.deliver(0)));
    let before = pressed.peak_bytes();
    let ended = AtomicBool::new(false);
    let (calm, attacked, kept) = std::thread::scope(|scope| {
        let calm = honest_p99(&mut agents, |since| since.elapsed() > Duration::from_millis(500));
        let attack = scope.spawn(|| {
            let kept = attack(&pressed, n_of_each_kind);
            ended.store(true, Ordering::Relaxed);
            kept
        });
        let attacked = honest_p99(&mut agents, |_| ended.load(Ordering::Relaxed));
        (calm, attacked, attack.join().unwrap())
    });
    assert!(attacked < HONEST_P99, "p99 {attacked:?}, without slow clients {calm:?}");
    for (kind, kept) in &kept {
        let limit = kind.limit(&limits);
        let kept = kept.unwrap_or_else(|| panic!("{kind:?}: still open"));
        assert!(kept < limit + LENIENCE, "{kind:?}: {kept:?}");
        assert!(kept > limit.mul_f64(0.8), "{kind:?}: {kept:?}");
    }
    let grown = pressed.peak_bytes() - before;
    let most = pressed.bytes_max(kept.len() + agents.len());
    assert!(grown < most, "{grown} bytes, at most {most}");
    pressed.end();
}

/// Measures upload times until `ends` returns true, and returns their 99th percentile.
fn honest_p99(agents: &mut [Agent], ends: impl Fn(Instant) -> bool) -> Duration {
    let since = Instant::now();
    let mut took = Vec::new();
    while !ends(since) || took.len() < 100 {
        for agent in &mut *agents {
            let request = agent.request(0, agent.weights(0));
            let sent = Instant::now();
            let (status, _) = agent.ask(&request).unwrap();
            assert_eq!(status, 200);
            took.push(sent.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    took.sort();
    took[took.len() * 99 / 100]
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Connects and sends nothing.
    Handshake,
    /// Sends a head that never ends.
    Head,
    /// Sends a body byte by byte.
    Body,
    /// Requests many responses and reads nothing.
    Answer,
}

impl Kind {
    fn limit(self, limits: &ConnectionLimits) -> Duration {
        match self {
            Self::Handshake | Self::Head => limits.patience,
            Self::Body => limits.body_patience,
            Self::Answer => limits.answer_patience,
        }
    }
}

/// Opens `n_of_each_kind` slow connections of each kind. Returns the time after which the server
/// closed each connection, or `None` if the connection was still open at the end.
fn attack(pressed: &Pressed, n_of_each_kind: usize) -> Vec<(Kind, Option<Duration>)> {
    let kinds = [Kind::Handshake, Kind::Head, Kind::Body, Kind::Answer];
    let mut slow: Vec<Slow> = Vec::new();
    for _ in 0..n_of_each_kind {
        slow.extend(kinds.map(|kind| Slow::open(kind, pressed)));
    }
    let longest = kinds.map(|kind| kind.limit(&pressed.limits)).into_iter().max();
    let until = Instant::now() + longest.unwrap() + LENIENCE;
    while Instant::now() < until && slow.iter().any(|slow| slow.kept.is_none()) {
        slow.iter_mut().for_each(Slow::go_on);
        std::thread::sleep(TRICKLE);
    }
    slow.into_iter().map(|slow| (slow.kind, slow.kept)).collect()
}

struct Slow {
    kind: Kind,
    stream: Stream,
    since: Instant,
    kept: Option<Duration>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

impl Slow {
    fn open(kind: Kind, pressed: &Pressed) -> Self {
        let tls = || Tls::connect(pressed.address, &pressed.tls).unwrap();
        let stream = match kind {
            Kind::Handshake => Stream::Plain(TcpStream::connect(pressed.address).unwrap()),
            Kind::Head => {
                let mut tls = tls();
                tls.send(b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\nx: ").unwrap();
                Stream::Tls(Box::new(tls))
            }
            Kind::Body => {
                let mut tls = tls();
                // The request comes from an agent on the roster, since the server reads no other
                // bodies.
                let agent = &pressed.agents()[0];
                let request = agent.request(0, agent.weights(0));
                let n_head = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
                tls.send(&request[..n_head + 4]).unwrap();
                Stream::Tls(Box::new(tls))
            }
            Kind::Answer => {
                let mut tls = tls();
                let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
                tls.send(&request.repeat((80 << 20) / OPENAPI.len())).unwrap();
                Stream::Tls(Box::new(tls))
            }
        };
        let slow = Self { kind, stream, since: Instant::now(), kept: None };
        slow.socket().set_nonblocking(true).unwrap();
        slow
    }

    fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(tls) => &tls.0.sock,
        }
    }

    /// Sends a little more, and checks whether the server has closed the connection.
    fn go_on(&mut self) {
        if self.kept.is_some() {
            return;
        }
        let continues = match (self.kind, &mut self.stream) {
            (Kind::Head | Kind::Body, Stream::Tls(tls)) => {
                tls.send(b"0").is_ok() && is_open(&tls.0.sock)
            }
            // Read nothing: writing a byte that cannot be decrypted fails once the other side has
            // closed.
            (Kind::Answer, Stream::Tls(tls)) => match tls.0.sock.write(b"0") {
                Ok(_) => true,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            },
            (_, stream) => match stream {
                Stream::Plain(stream) => is_open(stream),
                Stream::Tls(tls) => is_open(&tls.0.sock),
            },
        };
        if !continues {
            self.kept = Some(self.since.elapsed());
        }
    }
}

/// Returns true if the other side has not closed this non-blocking connection. Discards received
/// bytes.
fn is_open(mut stream: &TcpStream) -> bool {
    let mut block = [0; 4096];
    loop {
        match stream.read(&mut block) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
