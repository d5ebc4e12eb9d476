//! The service in a child process, so that its memory can be measured.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedbo_coordinator::{Home, Service, ServiceSettings, Study};
use fedbo_database::Mode;
use fedbo_federation::Federation;
use fedbo_transport::{ConnectionLimits, TlsFiles};
use fedbo_wire::{PublicKey, SigningKey};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::agent::Agent;

/// Name of the study.
pub(crate) const STUDY: &str = "pressed";
/// Number of features, M.
pub(crate) const N_FEATURES: usize = 100;

const FOLDER: &str = "FEDBO_PRESSURE_FOLDER";
const LIMITS: &str = "FEDBO_PRESSURE_LIMITS";
const ADDRESS: &str = "address";

/// Runs the service. The other tests start this test in a child process.
#[test]
#[ignore = "started by other tests"]
fn served() {
    let (Some(folder), Ok(limits)) = (std::env::var_os(FOLDER), std::env::var(LIMITS)) else {
        return;
    };
    let folder = Path::new(&folder);
    let home = Home::open(folder, Mode::Existing).unwrap();
    let numbers: Vec<u64> = limits.split(' ').map(|n| n.parse().unwrap()).collect();
    let [n_connections, patience, body_patience, answer_patience] = numbers[..] else {
        panic!("four numbers")
    };
    let settings = ServiceSettings {
        tls: Some(TlsFiles {
            certificate: folder.join("certificate.pem"),
            key: folder.join("certificate.key.pem"),
        }),
        limits: ConnectionLimits {
            n_connections: usize::try_from(n_connections).unwrap(),
            patience: Duration::from_millis(patience),
            body_patience: Duration::from_millis(body_patience),
            answer_patience: Duration::from_millis(answer_patience),
        },
        ..ServiceSettings::local(&home, "test")
    };
    let runtime = Runtime::new().unwrap();
    let service = runtime.block_on(Service::start(settings)).unwrap();
    let aside = folder.join("address.new");
    fs::write(&aside, service.address().to_string()).unwrap();
    fs::rename(&aside, folder.join(ADDRESS)).unwrap();
    // The parent process stops this one by closing the pipe, which also happens if the parent dies.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    runtime.block_on(service.stop());
}

/// A service with one study, with all agents enrolled.
pub(crate) struct Pressed {
    child: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) coordinator: PublicKey,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) study: Study,
    pub(crate) limits: ConnectionLimits,
    n_agents: u32,
}

impl Pressed {
    /// Starts the service, with `rounds` rounds that have a release and one round that has none.
    ///
    /// The noise is seeded, so each expected release can be recomputed from the vectors.
    pub(crate) fn start(
        limits: ConnectionLimits,
        n_agents: u32,
        (rounds, round_s): (u64, f64),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path(), Mode::Create).unwrap();
        let file = folder.path().join("federation.toml");
        let mut text = format!(
            "[federation]\nname = \"{STUDY}\"\nalgorithm = \"dp-fts-de\"\nrounds = {n_played}\nseed = 5\n\
             [features]\ncount = {N_FEATURES}\n[exploration]\nregions = 1\nweights = \"uniform\"\n\
             [privacy]\nsimulate = true\nnoise_multiplier = 1.0\nreleases = {rounds}\nmax_norm = 11.0\n\
             [network]\nround_s = {round_s:?}\n[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n",
            n_played = rounds + 1
        );
        for slot in 0..n_agents {
            text.push_str(&format!("[[agents]]\nname = \"agent-{slot}\"\n"));
        }
        fs::write(&file, text).unwrap();
        let (federation, config) = Federation::freeze(
            &file,
            &home.key().public().to_string(),
            &fedbo_objective::NoProblems,
        )
        .unwrap();
        let record = home.create_study(&federation, &config).unwrap();
        for slot in 0..n_agents {
            let token = home.token(&record, slot).unwrap();
            let key = key_of(slot).public();
            home.store().enrol(&token.key().public(), &token.config, &key).unwrap();
        }
        let study = Study::of(&record, &home.key()).unwrap();
        let coordinator = home.key().public();
        drop(home);
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("certificate.pem"), pair.cert.pem()).unwrap();
        let key = pair.signing_key.serialize_pem();
        fs::write(folder.path().join("certificate.key.pem"), key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let child = spawn(folder.path(), &limits);
        let address = address(folder.path());
        Self { child, folder, address, coordinator, tls: Arc::new(tls), study, limits, n_agents }
    }

    /// Returns all agents, without connections.
    pub(crate) fn agents(&self) -> Vec<Agent> {
        let agent = |slot| Agent::new(self, key_of(slot), slot);
        (0..self.n_agents).map(agent).collect()
    }

    /// Returns the service's peak resident memory so far, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        1024 * kib.parse::<u64>().unwrap()
    }

    /// Returns an upper bound on the memory of `n_connections` connections in bytes, according to
    /// the formula of [`ConnectionLimits`], plus an allowance for the allocator and the rounds of
    /// this small study.
    pub(crate) fn bytes_max(&self, n_connections: usize) -> u64 {
        let upload = fedbo_wire::Upload::n_bytes(N_FEATURES);
        let each = ConnectionLimits::BYTES_EACH + 2 * upload + fedbo_coordinator::OPENAPI.len();
        (n_connections * each) as u64 + (4 << 20)
    }

    /// Waits for `n` durable releases, and returns their bytes.
    pub(crate) fn releases(&self, n: usize) -> Vec<Vec<u8>> {
        let store = Home::open(self.folder.path(), Mode::Existing).unwrap().store();
        let since = Instant::now();
        loop {
            let releases = store.free_releases(self.study.key).unwrap();
            if releases.len() >= n || since.elapsed() > Duration::from_secs(20) {
                return releases.into_iter().map(|release| release.bytes).collect();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the service.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn key_of(slot: u32) -> SigningKey {
    SigningKey::from_seed([u8::try_from(slot).unwrap() + 1; 32])
}

fn spawn(folder: &Path, limits: &ConnectionLimits) -> Child {
    let numbers = format!(
        "{} {} {} {}",
        limits.n_connections,
        limits.patience.as_millis(),
        limits.body_patience.as_millis(),
        limits.answer_patience.as_millis()
    );
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "service::served"])
        .env(FOLDER, folder)
        .env(LIMITS, numbers)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn address(folder: &Path) -> SocketAddr {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(20) {
        if let Ok(text) = fs::read_to_string(folder.join(ADDRESS)) {
            return text.parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the service did not start")
}
