//! An honest agent without an objective.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fedbo_wire::{Digest, PublicKey, SigningKey, Stamp, Upload, sign_request};
use rustls::ClientConfig;

use crate::service::{N_FEATURES, Pressed, STUDY};
use crate::wire::{Answer, Tls};

/// An agent, and its connection if one is open.
pub(crate) struct Agent {
    pub(crate) key: SigningKey,
    pub(crate) slot: u32,
    config: Digest,
    map: Digest,
    address: SocketAddr,
    coordinator: PublicKey,
    tls: Arc<ClientConfig>,
    connection: Option<Tls>,
}

impl Agent {
    pub(crate) fn new(pressed: &Pressed, key: SigningKey, slot: u32) -> Self {
        Self {
            key,
            slot,
            config: pressed.study.digest,
            map: Digest(pressed.study.map.0),
            address: pressed.address,
            coordinator: pressed.coordinator,
            tls: Arc::clone(&pressed.tls),
            connection: None,
        }
    }

    /// Returns the vector for a round, which is different for each slot and round.
    pub(crate) fn weights(&self, round: u64) -> Vec<f64> {
        weights(self.slot, round)
    }

    /// Returns an upload request for a vector.
    pub(crate) fn request(&self, round: u64, weights: Vec<f64>) -> Vec<u8> {
        let upload = Upload { config: self.config, map: self.map, slot: self.slot, round, weights };
        self.signed("PUT", &self.target(round), &upload.to_bytes())
    }

    /// Returns a signed request.
    pub(crate) fn signed(&self, method: &str, target: &str, body: &[u8]) -> Vec<u8> {
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed) + 1;
        let stamp = Stamp { time_ms: now_ms(), counter };
        let signed = sign_request(&self.key, &self.coordinator, method, target, body, stamp);
        let mut request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nfedbo-protocol: 3\r\nfedbo-key: {}\r\nfedbo-time: {}\r\n\
             fedbo-counter: {counter}\r\nfedbo-signature: {}\r\ncontent-length: {}\r\n\r\n",
            signed.key,
            stamp.time_ms,
            signed.signature,
            body.len()
        )
        .into_bytes();
        request.extend(body);
        request
    }

    fn target(&self, round: u64) -> String {
        format!("/v1/studies/{STUDY}/rounds/{round}/slots/{}", self.slot)
    }

    /// Sends a request on the current connection, or on a new one.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Tls::connect(self.address, &self.tls)?,
        };
        let answer = connection.ask(request)?;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Closes the connection.
    pub(crate) fn hang_up(&mut self) {
        self.connection = None;
    }

    /// Delivers the vector for a round. Retries if the connection fails, and until the round has
    /// begun.
    ///
    /// Returns `false` if the round was already over. A vector that was accepted once is accepted
    /// again, so a lost response does not matter.
    pub(crate) fn deliver(&mut self, round: u64) -> bool {
        let since = Instant::now();
        let mut last = String::new();
        while since.elapsed() < Duration::from_secs(30) {
            let request = self.request(round, self.weights(round));
            match self.ask(&request) {
                Ok((200, _)) => return true,
                Ok((status, body)) => {
                    last = format!("{status} {}", String::from_utf8_lossy(&body));
                    if last.contains(r#""code":"late""#) {
                        return false;
                    }
                    let passes = ["early", "unavailable", "not-started"]
                        .iter()
                        .any(|code| last.contains(&format!(r#""code":"{code}""#)));
                    assert!(passes, "slot {}, round {round}: {last}", self.slot);
                }
                Err(error) => last = error.to_string(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("slot {}, round {round}: {last}", self.slot);
    }
}

/// Request counter, which is different for each request.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Returns the vector from a slot for a round.
pub(crate) fn weights(slot: u32, round: u64) -> Vec<f64> {
    let mut state = round << 32 | u64::from(slot);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 30) - 1.0
    };
    for _ in 0..20 {
        next();
    }
    (0..N_FEATURES).map(|_| next()).collect()
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}
