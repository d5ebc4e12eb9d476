//! `service`: a running coordinator service behind a socket, including the framework's request
//! parsing and all routes.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fedbo_coordinator::store::StudyRecord;
use fedbo_coordinator::{Home, Service, Study};
use fedbo_wire::{
    Digest, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME,
    PROTOCOL_VERSION, Stamp, Upload, sign_request,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::input_reader::{Pieces, text};
use crate::keys::{agent, coordinator};
use crate::served::{begun, runtime, started};

/// Maximum time to wait for a response while fuzzing. Long polls take longer, so their responses
/// are not awaited.
const PATIENCE: Duration = Duration::from_millis(15);

/// The first byte selects the request: raw bytes; a signed request of an enrolled agent with a
/// method, a target and a body from the input; or an upload for the agent's own slot with modified
/// bytes. The service lives as long as the process.
pub fn service(bytes: &[u8]) {
    thread_local! {
        static WORLD: OnceCell<World> = const { OnceCell::new() };
    }
    WORLD.with(|world| {
        let world = world.get_or_init(|| World::new(PATIENCE));
        world.take(Pieces(bytes));
    });
}

/// A service for a folder in which both studies are in their first rounds and the agent has slot 0
/// of each.
struct World {
    runtime: Runtime,
    address: SocketAddr,
    /// Target and valid body of the agent's upload, by study.
    uploads: Vec<(String, Vec<u8>)>,
    /// Maximum wait for a response.
    patience: Duration,
    _service: Service,
}

impl World {
    fn new(patience: Duration) -> Self {
        let home = begun("service");
        let runtime = runtime();
        let service = runtime.block_on(started(&home));
        let service = service.expect("an address of this machine");
        Self {
            runtime,
            address: service.address(),
            uploads: uploads(&home),
            patience,
            _service: service,
        }
    }

    fn take(&self, pieces: Pieces<'_>) {
        let answer = self.answer(pieces);
        assert!(!answer.contains("HTTP/1.1 500"), "a defect of the service: {answer}");
    }

    /// Sends the request of an input and returns the response; empty if there is none.
    fn answer(&self, mut pieces: Pieces<'_>) -> String {
        let (request, is_whole) = match pieces.byte() % 3 {
            0 => (pieces.0.to_vec(), false),
            1 => {
                const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "PATCH"];
                let method = METHODS[pieces.below(METHODS.len())];
                let target = text(pieces.line());
                (signed(method, &target, pieces.0), true)
            }
            _ => {
                let (target, upload) = &self.uploads[pieces.below(self.uploads.len())];
                let cut = pieces.below(upload.len() + 1);
                let body = [&upload[..cut], pieces.0].concat();
                (signed("PUT", target, &body), true)
            }
        };
        text(&self.runtime.block_on(self.send(&request, is_whole)))
    }

    /// Sends a request and reads the response. After a request that may be incomplete, closes the
    /// sending side.
    async fn send(&self, request: &[u8], is_whole: bool) -> Vec<u8> {
        let socket = TcpSocket::new_v4().expect("a socket can be made");
        let mut stream = socket.connect(self.address).await.expect("the service listens");
        // The service closes the connection if it refuses to read the request.
        let _ = stream.write_all(request).await;
        if !is_whole {
            let _ = stream.shutdown().await;
        }
        let mut answer = Vec::new();
        let _ = timeout(self.patience, stream.read_to_end(&mut answer)).await;
        answer
    }
}

/// Returns the target and a valid body of the agent's upload, by study.
fn uploads(home: &Home) -> Vec<(String, Vec<u8>)> {
    let records = home.store().studies().expect("a sound store");
    let upload = |record: &StudyRecord| {
        let study = Study::of(record, &home.key()).expect("a valid study");
        let upload = Upload {
            config: study.digest,
            map: Digest(study.map.0),
            slot: 0,
            round: 0,
            weights: vec![0.25; study.n_features as usize],
        };
        let target = format!("/v1/studies/{}/rounds/0/slots/0", record.name);
        (target, upload.to_bytes())
    };
    records.iter().map(upload).collect()
}

/// Builds a request from arbitrary parts with a valid signature of the enrolled agent.
fn signed(method: &str, target: &str, body: &[u8]) -> Vec<u8> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed) + 1;
    let stamp = Stamp { time_ms: now_ms, counter };
    let signature = sign_request(agent(), &coordinator().public(), method, target, body, stamp);
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: fuzz\r\nconnection: close\r\ncontent-length: {}\r\n\
         {HEADER_PROTOCOL}: {PROTOCOL_VERSION}\r\n{HEADER_KEY}: {}\r\n{HEADER_TIME}: {}\r\n{HEADER_COUNTER}: {counter}\r\n{HEADER_SIGNATURE}: {}\r\n\r\n",
        body.len(),
        signature.key,
        stamp.time_ms,
        signature.signature
    );
    [head.as_bytes(), body].concat()
}

/// Requests to all routes.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let raw = |text: &str| [&[0], text.as_bytes()].concat();
    let signed = |method: u8, text: &str| [&[1, method, 0], text.as_bytes()].concat();
    vec![
        raw("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
        raw("GET /metrics HTTP/1.0\r\n\r\n"),
        raw("POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"),
        raw(
            "GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\nGET /readyz HTTP/1.1\r\nhost: x\r\n\r\n",
        ),
        raw(
            "PUT /v1/studies/relayed/rounds/0/slots/0 HTTP/1.1\r\nhost: x\r\nfedbo-protocol: 3\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        ),
        signed(0, "/v1/studies/relayed\n"),
        signed(0, "/v1/studies/charged/config\n"),
        signed(0, "/v1/studies/charged/handouts?after=0&entries=0&wait=0&delivered=0\n"),
        signed(0, "/v1/studies/rel%61yed/handouts?after=18446744073709551615\n"),
        signed(1, "/v1/enrol\n{\"token\":\"fbt1_\"}"),
        signed(1, "/v1/studies/charged/key\n{\"key\":\"00\",\"proof\":\"00\"}"),
        signed(2, "/v1/studies/charged/rounds/0/slots/1\nbody"),
        signed(3, "/v1/enrol\n"),
        vec![2, 0, 0, 104, 0],
        vec![2, 1, 0, 104, 0],
        vec![2, 0, 0, 88, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![2, 1, 0, 12, 0, 9],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds reach their intended routes, including those that require a signature.
    #[test]
    fn an_enrolled_agent_is_answered() {
        let world = World::new(Duration::from_secs(20));
        let answer = |bytes: &[u8]| world.answer(Pieces(bytes));
        for (seed, words) in [
            (&b"\x00GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"[..], " 200 "),
            (b"\x00nonsense", ""),
            (b"\x01\x00\x00/v1/studies/relayed\n", "\"study\":\"relayed\""),
            (b"\x01\x00\x00/v1/studies/charged/config\n", "[privacy]"),
            (b"\x01\x00\x00/v1/studies/charged/handouts?wait=0\n", " 204 "),
            (b"\x01\x01\x00/v1/studies/charged/key\n{}", "missing field"),
            (b"\x02\x00\x00\x68\x00", "accepted"),
            (b"\x02\x01\x00\x68\x00", "accepted"),
            (b"\x02\x01\x00\x67\x00", "wrong-length"),
        ] {
            let answer = answer(seed);
            assert!(answer.contains(words), "{:?}: {answer}", text(seed));
        }
    }
}
