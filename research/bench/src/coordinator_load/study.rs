//! A study with many enrolled agents, and their requests, signed in advance.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use fedbo_coordinator::store::{StudyRecord, StudyState};
use fedbo_coordinator::{Home, Study};
use fedbo_database::Mode;
use fedbo_federation::Federation;
use fedbo_testkit::postgres::Server as Postgres;
use fedbo_wire::{
    CLOCK_TOLERANCE_MS, Digest, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE,
    HEADER_TIME, PROTOCOL_VERSION, PublicKey, Signature, SigningKey, Stamp, Upload, sign_request,
};
use rayon::prelude::*;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use super::Load;
use super::client::SERVER_NAME;
use super::server::{CERTIFICATE, CERTIFICATE_KEY, KEY};

/// Name of the study.
pub(super) const NAME: &str = "load";

/// A coordinator's folder with one paused study, and the keys of its agents.
pub(super) struct Prepared {
    folder: TempDir,
    /// The shards' database server, and the URL of their database.
    database: Option<(Postgres, String)>,
    pub(super) study: Study,
    pub(super) coordinator: PublicKey,
    pub(super) certificate: CertificateDer<'static>,
    /// Keys of the agents. The last agent waits for rounds.
    keys: Vec<SigningKey>,
    counter: AtomicU64,
}

impl Prepared {
    /// Creates the study and enrols its agents.
    pub(super) fn new(load: &Load) -> Result<Self> {
        match load.shards {
            0 => Self::in_folder(load),
            _ => Self::in_database(load),
        }
    }

    /// Creates the study in memory and then copies it to disk.
    ///
    /// Every enrolment is flushed to storage, which would be slow on disk.
    fn in_folder(load: &Load) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let aside = match memory.is_dir() {
            true => tempfile::tempdir_in(memory)?,
            false => tempfile::tempdir()?,
        };
        let home = Home::open(aside.path(), Mode::Create)?;
        let record = create(&home, aside.path(), load)?;
        let keys: Vec<SigningKey> = (0..=load.agents).map(key).collect();
        let store = home.store();
        for (slot, key) in (0..).zip(&keys) {
            let token = home.token(&record, slot)?;
            store.enrol(&token.key().public(), &token.config, &key.public())?;
        }
        store.set_state(record.key, StudyState::Paused)?;
        let (study, coordinator) = (Study::of(&record, &home.key())?, home.key().public());
        let certificate = certify(aside.path())?;
        drop((home, store));
        let folder = tempfile::tempdir()?;
        for entry in fs::read_dir(aside.path())? {
            let entry = entry?;
            fs::copy(entry.path(), folder.path().join(entry.file_name()))?;
        }
        Ok(Self {
            folder,
            database: None,
            study,
            coordinator,
            certificate,
            keys,
            counter: AtomicU64::new(0),
        })
    }

    /// Creates the study in a database of a newly started server.
    ///
    /// Inserts agents directly, because enrolment is not measured here.
    fn in_database(load: &Load) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = Postgres::start();
        let url = server.new_database();
        let home = Home::shared(&url.parse()?, &folder.path().join(KEY), Mode::Create)?;
        let record = create(&home, folder.path(), load)?;
        let keys: Vec<SigningKey> = (0..=load.agents).map(key).collect();
        let public: Vec<Vec<u8>> = keys.iter().map(|key| key.public().0.to_vec()).collect();
        let name = url.rsplit_once('/').context("an address names its database")?.1;
        let mut client = server.connect(name);
        client.execute(
            "UPDATE fedbo_coordinator.slots SET key = enrolled.key
             FROM unnest($1::bytea[]) WITH ORDINALITY AS enrolled (key, place) WHERE slot = place - 1",
            &[&public],
        )?;
        client.batch_execute(
            "UPDATE fedbo_coordinator.studies SET state = 'paused';
             UPDATE fedbo_coordinator.generation SET number = number + 1; ANALYZE",
        )?;
        let (study, coordinator) = (Study::of(&record, &home.key())?, home.key().public());
        let certificate = certify(folder.path())?;
        drop(home);
        let database = Some((server, url));
        Ok(Self {
            folder,
            database,
            study,
            coordinator,
            certificate,
            keys,
            counter: AtomicU64::new(0),
        })
    }

    /// Returns the URL of the shards' database, or `None` without shards.
    pub(super) fn store(&self) -> Option<&str> {
        self.database.as_ref().map(|(_, url)| &**url)
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(super) fn set_state(&self, state: StudyState) -> Result<()> {
        let set = || {
            let home = match self.store() {
                Some(url) => {
                    Home::shared(&url.parse()?, &self.folder.path().join(KEY), Mode::Existing)?
                }
                None => Home::open(self.folder.path(), Mode::Existing)?,
            };
            anyhow::Ok(home.store().set_state(self.study.key, state)?)
        };
        // Database calls must not block a thread that drives tasks.
        let ended = std::thread::scope(|scope| scope.spawn(set).join());
        ended.map_err(|_| anyhow::anyhow!("the study's state could not be set"))?
    }

    /// Creates and signs a request without a body, from the waiting agent.
    pub(super) fn get(&self, target: &str) -> Result<Vec<u8>> {
        let key = self.keys.last().context("no agent waits")?;
        let counter = self.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let stamp = Stamp { time_ms: now_ms()?, counter };
        let signed = sign_request(key, &self.coordinator, "GET", target, &[], stamp);
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n{HEADER_PROTOCOL}: {PROTOCOL_VERSION}\r\n{HEADER_KEY}: {}\r\n\
             {HEADER_TIME}: {}\r\n{HEADER_COUNTER}: {counter}\r\n{HEADER_SIGNATURE}: {}\r\n\r\n",
            signed.key, stamp.time_ms, signed.signature
        );
        Ok(request.into_bytes())
    }
}

/// Returns the key of an agent.
fn key(slot: u32) -> SigningKey {
    let mut seed = [1; 32];
    seed[..4].copy_from_slice(&slot.to_le_bytes());
    SigningKey::from_seed(seed)
}

/// Creates the study.
fn create(home: &Home, folder: &Path, load: &Load) -> Result<StudyRecord> {
    let file = folder.join("federation.toml");
    fs::write(&file, text(load))?;
    let coordinator = home.key().public().to_string();
    let (federation, config) =
        Federation::freeze(&file, &coordinator, &fedbo_objective::NoProblems)?;
    Ok(home.create_study(&federation, &config)?)
}

/// Creates a certificate for the service, with an elliptic-curve key so that signing takes
/// microseconds.
fn certify(folder: &Path) -> Result<CertificateDer<'static>> {
    let pair = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    fs::write(folder.join(CERTIFICATE), pair.cert.pem())?;
    fs::write(folder.join(CERTIFICATE_KEY), pair.signing_key.serialize_pem())?;
    Ok(pair.cert.der().clone())
}

/// Signed uploads of all agents in all rounds.
pub(super) struct Uploads {
    n_agents: u32,
    n_features: usize,
    config: Digest,
    map: Digest,
    /// Time at which all uploads were signed, in milliseconds.
    time_ms: u64,
    keys: Vec<String>,
    /// Signatures, ordered by round, then by slot.
    signatures: Vec<Signature>,
}

impl Uploads {
    /// Signs all uploads.
    pub(super) fn sign(prepared: &Prepared, load: &Load) -> Result<Self> {
        let study = &prepared.study;
        let mut uploads = Self {
            n_agents: load.agents,
            n_features: study.n_features as usize,
            config: study.digest,
            map: Digest(study.map.0),
            time_ms: now_ms()?,
            keys: prepared.keys.iter().map(|k| k.public().to_string()).collect(),
            signatures: Vec::new(),
        };
        let of_round = |round: u64| {
            let of = |(slot, key): (u32, &SigningKey)| {
                let body = uploads.body(slot, round);
                let target = target(round, slot);
                let stamp = Stamp { time_ms: uploads.time_ms, counter: round + 1 };
                sign_request(key, &prepared.coordinator, "PUT", &target, &body, stamp).signature
            };
            (0..load.agents).zip(&prepared.keys).map(of).collect::<Vec<Signature>>()
        };
        let signatures: Vec<Vec<Signature>> =
            (0..load.rounds).into_par_iter().map(of_round).collect();
        uploads.signatures = signatures.concat();
        let left_ms = (uploads.time_ms + CLOCK_TOLERANCE_MS).saturating_sub(now_ms()?);
        let needed_s = load.round_s * crate::measure::count(usize::try_from(load.rounds)?) + 10.0;
        ensure!(
            Duration::from_millis(left_ms).as_secs_f64() > needed_s,
            "signatures would be too old in the last round; ask for fewer or shorter rounds"
        );
        Ok(uploads)
    }

    /// Returns the vector of a slot in a round: numbers between −1 and 1, unique to the slot and
    /// round.
    pub(super) fn weights(&self, slot: u32, round: u64) -> impl Iterator<Item = f64> {
        let mut state = (round << 32 | u64::from(slot)).wrapping_mul(0x2545_f491_4f6c_dd1d);
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15); // SplitMix64
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let high = u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or_default();
            f64::from(high) / f64::from(1_u32 << 31) - 1.0
        })
        .take(self.n_features)
    }

    pub(super) fn body(&self, slot: u32, round: u64) -> Vec<u8> {
        let upload = Upload {
            config: self.config,
            map: self.map,
            slot,
            round,
            weights: self.weights(slot, round).collect(),
        };
        upload.to_bytes()
    }

    /// Returns the complete HTTP request of an upload.
    pub(super) fn request(&self, slot: u32, round: u64) -> Vec<u8> {
        let round_idx = usize::try_from(round).unwrap_or(usize::MAX); // a study lasts hours
        let n_before = round_idx.saturating_mul(self.n_agents as usize);
        let signature = self.signatures[n_before + slot as usize];
        let body = self.body(slot, round);
        let mut request = format!(
            "PUT {} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n{HEADER_PROTOCOL}: {PROTOCOL_VERSION}\r\n{HEADER_KEY}: {}\r\n\
             {HEADER_TIME}: {}\r\n{HEADER_COUNTER}: {}\r\n{HEADER_SIGNATURE}: {signature}\r\ncontent-length: {}\r\n\r\n",
            target(round, slot),
            self.keys[slot as usize],
            self.time_ms,
            round + 1,
            body.len()
        )
        .into_bytes();
        request.extend(body);
        request
    }
}

fn target(round: u64, slot: u32) -> String {
    format!("/v1/studies/{NAME}/rounds/{round}/slots/{slot}")
}

pub(super) fn now_ms() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_millis())?)
}

/// Returns the federation file. Every round collects vectors and releases one sum per region.
fn text(load: &Load) -> String {
    let privacy = match load.simulate {
        true => "simulate = true\nnoise_multiplier = 1.0",
        false => "epsilon = 8.0",
    };
    let mut text = format!(
        "[federation]\nname = \"{NAME}\"\nalgorithm = \"dp-fts-de\"\nrounds = {rounds}\ninitial = 1\nseed = 7\n\
         [features]\ncount = {features}\n[exploration]\nregions = {regions}\nweight_hold = \"forever\"\n\
         [privacy]\nreleases = {rounds}\nmax_norm = 22.0\n{privacy}\n\
         [network]\nround_s = {round_s:?}\ncollect_s = {collect_s:?}\n{intake}\
         [space.x1]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n[space.x2]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n",
        rounds = load.rounds,
        features = load.features,
        regions = load.regions,
        round_s = load.round_s,
        collect_s = load.collect_s(),
        intake = if load.shards > 0 { "intake = \"shards\"\n" } else { "" },
    );
    // An additional agent waits for the rounds and sends nothing.
    for slot in 0..=load.agents {
        text.push_str(&format!("[[agents]]\nname = \"agent-{slot}\"\n"));
    }
    text
}
