//! A service in this process, and agents that connect to it over sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fedbo_coordinator::{Home, Service, ServiceSettings, Study};
use fedbo_database::Mode;
use fedbo_federation::Federation;
use fedbo_wire::{
    Digest, EnrolRequest, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE,
    HEADER_TIME, Handout, Limits, PROTOCOL_VERSION, PublicKey, RequestSignature, SigningKey, Stamp,
    Upload, sign_request,
};
use tokio::runtime::Runtime;

/// A running service and its folder.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) service: Option<Service>,
    pub(crate) address: SocketAddr,
    pub(crate) home: Home,
}

/// A response from the service.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.eq_ignore_ascii_case(name)).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl World {
    /// Starts a service with the studies in these files.
    pub(crate) fn new(folder: &Path, files: &[&str]) -> Self {
        let home = Home::open(folder, Mode::Create).unwrap();
        for text in files {
            let path = folder.join("study.toml");
            std::fs::write(&path, text).unwrap();
            let (federation, config) = Federation::freeze(
                &path,
                &home.key().public().to_string(),
                &fedbo_objective::NoProblems,
            )
            .unwrap();
            home.create_study(&federation, &config).unwrap();
        }
        Self::on(home)
    }

    /// Starts a service on a folder that contains studies.
    pub(crate) fn on(home: Home) -> Self {
        let runtime = Runtime::new().unwrap();
        let settings = settings(&home);
        let service = runtime.block_on(Service::start(settings)).unwrap();
        let address = service.address();
        Self { runtime, service: Some(service), address, home }
    }

    /// Stops the service, and starts a new one on the same folder.
    pub(crate) fn restart(self) -> Self {
        let folder = self.home.path().to_owned();
        self.end();
        Self::on(Home::open(&folder, Mode::Existing).unwrap())
    }

    pub(crate) fn end(mut self) {
        let service = self.service.take().unwrap();
        self.runtime.block_on(service.stop());
    }

    pub(crate) fn study(&self, name: &str) -> Study {
        let record = self.home.store().study(name).unwrap();
        Study::of(&record, &self.home.key()).unwrap()
    }

    /// Enrols all agents in a study, and waits until it runs.
    pub(crate) fn enrol(&self, name: &str) -> Vec<TestAgent> {
        let n_slots = self.study(name).n_slots;
        let enrol = |slot| self.enrol_slot(name, slot);
        let agents: Vec<TestAgent> = (0..n_slots).map(enrol).collect();
        let runs = |agent: &TestAgent| {
            let answer = agent.ask("GET", &format!("/v1/studies/{name}"), &[]);
            answer.text().contains("\"state\":\"running\"")
        };
        let is_running = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            runs(&agents[0])
        });
        assert!(is_running);
        agents
    }

    /// Enrols the agent of a slot.
    pub(crate) fn enrol_slot(&self, name: &str, slot: u32) -> TestAgent {
        let study = self.study(name);
        let record = self.home.store().study(name).unwrap();
        let token = self.home.token(&record, slot).unwrap();
        let seed = [u8::try_from(slot % 250).unwrap() + 1; 32];
        let agent = TestAgent {
            key: SigningKey::from_seed(seed),
            slot,
            study: name.to_owned(),
            digest: study.digest,
            map: Digest(study.map.0),
            address: self.address,
            coordinator: self.home.key().public(),
        };
        let request = EnrolRequest::new(&token, &agent.key.public());
        let body = serde_json::to_vec(&request).unwrap();
        let answer = agent.ask("POST", "/v1/enrol", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        agent
    }

    /// Reads a handout as an agent does.
    pub(crate) fn read(&self, name: &str, bytes: &[u8]) -> Handout {
        let study = self.study(name);
        let limits = Limits {
            n_features: study.n_features,
            n_slots: study.n_slots,
            release_bytes_max: 1 << 20,
        };
        Handout::from_bytes(bytes, &self.home.key().public(), limits).unwrap()
    }
}

pub(crate) fn settings(home: &Home) -> ServiceSettings {
    ServiceSettings::local(home, "test")
}

/// An agent without an objective, which sends the messages that a test gives it.
pub(crate) struct TestAgent {
    pub(crate) key: SigningKey,
    pub(crate) slot: u32,
    pub(crate) study: String,
    pub(crate) digest: Digest,
    pub(crate) map: Digest,
    pub(crate) address: SocketAddr,
    pub(crate) coordinator: PublicKey,
}

impl TestAgent {
    pub(crate) fn ask(&self, method: &str, target: &str, body: &[u8]) -> Answer {
        self.ask_counted(next_counter(), method, target, body)
    }

    pub(crate) fn ask_counted(
        &self,
        counter: u64,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Answer {
        let stamp = Stamp { time_ms: now_ms(), counter };
        let signed = sign_request(&self.key, &self.coordinator, method, target, body, stamp);
        send(self.address, method, target, &headers(&signed), body)
    }

    pub(crate) fn upload(&self, round: u64, weights: Vec<f64>) -> Answer {
        let bytes = self.bytes(round, weights);
        let target = self.target(round, self.slot);
        self.ask("PUT", &target, &bytes)
    }

    pub(crate) fn target(&self, round: u64, slot: u32) -> String {
        format!("/v1/studies/{}/rounds/{round}/slots/{slot}", self.study)
    }

    pub(crate) fn bytes(&self, round: u64, weights: Vec<f64>) -> Vec<u8> {
        let upload = Upload { config: self.digest, map: self.map, slot: self.slot, round, weights };
        upload.to_bytes()
    }

    pub(crate) fn poll(&self, query: &str) -> Answer {
        let target = format!("/v1/studies/{}/handouts?{query}", self.study);
        self.ask("GET", &target, &[])
    }
}

/// Returns the headers of a signed request.
pub(crate) fn headers(signed: &RequestSignature) -> String {
    format!(
        "{HEADER_PROTOCOL}: {PROTOCOL_VERSION}\r\n{HEADER_KEY}: {}\r\n{HEADER_TIME}: {}\r\n{HEADER_COUNTER}: {}\r\n{HEADER_SIGNATURE}: {}\r\n",
        signed.key, signed.stamp.time_ms, signed.stamp.counter, signed.signature
    )
}

/// Returns a counter that no earlier request has used.
pub(crate) fn next_counter() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Sends a request on its own connection.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &str,
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(70))).unwrap();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // If the service refuses a request after reading the head, it may already have closed the
    // connection.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

/// Returns a relayed study with three agents and two features.
pub(crate) fn relayed(round_s: f64) -> String {
    format!(
        "[federation]\nname = \"relayed\"\nalgorithm = \"fts\"\nrounds = 3\nseed = 5\n[features]\ncount = 2\n\
         [network]\nround_s = {round_s}\n[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n{AGENTS}"
    )
}

/// Returns a study with three agents and releases of sums.
pub(crate) fn summed(privacy: &str, round_s: f64, collect_s: f64) -> String {
    format!(
        "[federation]\nname = \"summed\"\nalgorithm = \"dp-fts-de\"\nrounds = 3\nseed = 5\n[features]\ncount = 3\n\
         [exploration]\nweights = \"uniform\"\n\
         [privacy]\n{privacy}\n[network]\nround_s = {round_s}\ncollect_s = {collect_s}\n\
         [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n{AGENTS}"
    )
}

const AGENTS: &str =
    "[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n[[agents]]\nname = \"c\"\n";

/// Returns a vector that is 1 at its slot and 0 elsewhere.
pub(crate) fn one_hot(slot: u32, n: usize) -> Vec<f64> {
    (0..n).map(|i| if i == slot as usize { 1.0 } else { 0.0 }).collect()
}
