//! A helper's folder: its key, joined studies, shares and ledgers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_database::{Lock, Mode};
use fedbo_federation::Federation;
use fedbo_ledger::{Head, Ledger, LedgerError};
use fedbo_party::{Database, HomeError, hold, keep_private, make_folder};
use fedbo_privacy::mechanism::{SecureNoise, Server};
use fedbo_servers::{SumStudy, card_of, sealing_key_of};
use fedbo_transport::{
    Clock as _, HttpClient, Signer, SystemClock, check_folder, checked_url, read_or_make_key,
};
use fedbo_wire::{
    Digest, HEADER_CONFIG, HEADER_SIGNATURE, PublicKey, ServerCard, Signature, SigningKey,
    config_digest, verify_config,
};

use crate::error::{HelperError, JoinError};
use crate::records::{Records, ShareRecord, StudyRecord};
use crate::round_keys::RoundKeys;
use crate::schema::FORMAT;
use crate::sum::{Sum, Summing};

const DATABASE_FILE: &str = "helper.db";
const KEY_FILE: &str = "helper.key";
const LOCK_FILE: &str = "helper.lock";
const LEDGER_ENDING: &str = ".ledger.db";

/// Maximum size of a study's configuration in bytes.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// A helper's folder.
pub struct Home {
    folder: PathBuf,
    database: Database,
    key: Arc<SigningKey>,
}

/// A study to join.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The coordinator's address.
    pub url: String,
    /// The coordinator's key, as given by its operator.
    pub coordinator: PublicKey,
    /// The study's name.
    pub study: String,
    /// PEM file of certificate authorities trusted in addition to the system's.
    pub ca: Option<PathBuf>,
    /// Allows `http://` to other machines.
    pub allow_plain_http: bool,
}

/// A joined study that the helper can serve.
#[derive(Clone)]
pub struct JoinedStudy {
    /// The study described by its configuration.
    pub study: SumStudy,
    /// The federation described by the configuration.
    pub federation: Federation,
    /// The key of the study's coordinator.
    pub coordinator: PublicKey,
    /// The coordinator's address at the time of joining.
    pub url: String,
}

impl Home {
    /// Opens a folder. With [`Mode::Create`], initializes a missing or empty folder with a new key.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn open(folder: &Path, mode: Mode) -> Result<Self, HelperError> {
        let file = folder.join(DATABASE_FILE);
        if mode == Mode::Create {
            make_folder(folder)?;
            if let Some(ledger) = a_ledger(folder).filter(|_| !file.exists()) {
                return Err(HelperError::SharesMissing { path: file, ledger });
            }
        } else if !file.exists() {
            return Err(HelperError::Absent { path: folder.to_owned() });
        }
        check_folder(folder).map_err(HomeError::from)?;
        let key_file = folder.join(KEY_FILE);
        if file.exists() && !key_file.exists() {
            return Err(HelperError::KeyMissing { path: key_file });
        }
        let key = read_or_make_key(&key_file).map_err(HomeError::from)?;
        let database = Database::open(&file, mode, &FORMAT)?;
        for suffix in ["", "-wal", "-shm"] {
            keep_private(&folder.join(format!("{DATABASE_FILE}{suffix}")))?;
        }
        Ok(Self { folder: folder.to_owned(), database, key: Arc::new(key) })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the card that identifies the helper to agents and coordinators.
    #[must_use]
    pub fn card(&self) -> ServerCard {
        card_of(&self.key)
    }

    pub(crate) fn key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.key)
    }

    /// Returns the path of a study's ledger, which exists if releases are charged.
    #[must_use]
    pub fn ledger(&self, study: &str) -> PathBuf {
        self.folder.join(format!("{study}{LEDGER_ENDING}"))
    }

    /// Acquires the lock that allows one service per folder.
    ///
    /// # Errors
    /// If another service holds the lock, or the lock file cannot be used.
    pub fn lock(&self) -> Result<Lock, HelperError> {
        Ok(hold(&self.folder.join(LOCK_FILE), "serves the studies of this helper")?)
    }

    /// Returns the joined studies by name. For a study that cannot be served, the value is the
    /// error.
    ///
    /// # Errors
    /// If the studies cannot be read.
    pub fn studies(
        &self,
    ) -> Result<BTreeMap<String, Result<JoinedStudy, HelperError>>, HelperError> {
        let records = self.database.read(StudyRecord::all)?;
        let read = |record: StudyRecord| {
            let joined = self.read(&record);
            (record.name, joined)
        };
        Ok(records.into_iter().map(read).collect())
    }

    /// Parses a study from its configuration. Returns an error if this helper cannot serve it.
    fn read(&self, record: &StudyRecord) -> Result<JoinedStudy, HelperError> {
        let name = || record.name.clone();
        let not_ours = |why| HelperError::NotOurs { study: name(), why };
        let (federation, study) = study_of(record)?;
        if study.helper != self.card() {
            return Err(HelperError::OtherHelper {
                study: name(),
                named: study.helper.key,
                path: self.folder.clone(),
                own: self.key.public(),
            });
        }
        if study.leader.key != record.coordinator {
            return Err(not_ours(
                "has the card of a coordinator with another key than the given one",
            ));
        }
        let sealing = sealing_key_of(&self.key);
        if sealing.verification_key(&study.sealing(Server::Leader), &study.config.0).is_none() {
            return Err(not_ours("names a coordinator with an unusable key"));
        }
        if study.helper_charter.is_none() && cfg!(not(feature = "simulation")) {
            return Err(HelperError::Simulation { study: name() });
        }
        Ok(JoinedStudy {
            study,
            federation,
            coordinator: record.coordinator,
            url: record.url.clone(),
        })
    }

    /// Downloads a study's frozen configuration, checks it and stores it. Idempotent.
    ///
    /// # Errors
    /// If the coordinator does not have the given key, or this helper cannot serve the study.
    /// Nothing is stored in these cases.
    pub fn join(&self, options: &JoinOptions) -> Result<JoinedStudy, JoinError> {
        let given = options.url.clone();
        let url = checked_url(&given, options.allow_plain_http)
            .map_err(|message| JoinError::Url { url: given.clone(), message })?;
        let link = |source| JoinError::Link { url: url.clone(), source };
        let never = Arc::new(AtomicBool::new(false));
        let client = HttpClient::new(&url, options.ca.as_deref(), never, "the coordinator");
        let signer = Signer { key: &self.key, to: options.coordinator, counter: 0 };
        let target = format!("/v1/studies/{}/config", options.study);
        let answer = client
            .map_err(link)?
            .get(Some(signer), &target, Duration::ZERO, CONFIG_BYTES_MAX)
            .map_err(link)?;
        answer.has_status(200).map_err(link)?;
        let digest: Digest = answer.header(HEADER_CONFIG).map_err(link)?;
        let signature: Signature = answer.header(HEADER_SIGNATURE).map_err(link)?;
        let impostor =
            |message: &str| JoinError::Impostor { url: url.clone(), message: message.to_owned() };
        let is_signed = verify_config(&options.coordinator, &answer.body, &signature).is_ok();
        if !is_signed || digest != config_digest(&answer.body) {
            return Err(impostor("the study's text is not signed by the given coordinator"));
        }
        let config = String::from_utf8(answer.body)
            .map_err(|_| impostor("the study's text is not UTF-8"))?;
        let record = StudyRecord {
            id: 0,
            name: options.study.clone(),
            url: url.clone(),
            coordinator: options.coordinator,
            config,
        };
        let joined = self.read(&record)?;
        if joined.study.name != record.name {
            return Err(impostor("the text is of another study"));
        }
        let is_new = self.database.write(|tx| {
            let known = StudyRecord::all(tx)?.into_iter().find(|known| known.name == record.name);
            match known {
                Some(known) => {
                    Ok(known.config == record.config && known.coordinator == record.coordinator)
                }
                None => record.insert(tx, SystemClock.now_ms()).map(|()| true),
            }
        })?;
        match is_new {
            true => Ok(joined),
            false => Err(JoinError::Joined { study: record.name }),
        }
    }

    /// Stores a study without contacting its coordinator.
    #[cfg(test)]
    pub(crate) fn keep(&self, record: &StudyRecord) {
        self.database.write(|tx| record.insert(tx, 0)).unwrap();
    }

    /// Opens a study to run its rounds.
    pub(crate) fn open_sum(&self, joined: &JoinedStudy) -> Result<Box<dyn Summing>, HelperError> {
        let study = joined.study.clone();
        let records = StudyRecord::all;
        let id = self.database.read(records)?.into_iter().find(|known| known.name == study.name);
        let id = id.map(|known| known.id).ok_or(HelperError::NotOurs {
            study: study.name.clone(),
            why: "was not joined here",
        })?;
        let file = self.folder.join(DATABASE_FILE);
        let database = Database::open(&file, Mode::Existing, &FORMAT)?;
        let records = Records { database, study: id };
        let keys = (self.key(), RoundKeys::of(&self.folder, &study.name)?);
        let Some(charter) = &study.helper_charter else {
            return simulated(joined, keys, records);
        };
        let path = self.ledger(&study.name);
        let ledger = match Ledger::open(&path, charter) {
            Err(LedgerError::Absent { .. }) if records.charged(0)?.is_empty() => {
                Ledger::create(&path, charter)?
            }
            Err(LedgerError::Absent { .. }) => {
                return Err(HelperError::LedgerMissing { study: study.name, path });
            }
            opened => opened?,
        };
        let ledger = Some((ledger, path));
        Ok(Box::new(Sum::open(study, keys, SecureNoise::new(), records, ledger)?))
    }
}

/// Finds the helper's database next to a ledger file. Returns the database's path, and the head
/// that the ledger should have according to the charged shares in the database.
///
/// Returns `None` if the file is not the ledger of a helper's study. Read-only. The helper may be
/// running.
///
/// # Errors
/// If the database cannot be read.
pub fn noted_head(ledger: &Path) -> Result<Option<(PathBuf, Head)>, HelperError> {
    let name = ledger.file_name().and_then(|name| name.to_str());
    let file = ledger.with_file_name(DATABASE_FILE);
    let Some(name) = name.and_then(|name| name.strip_suffix(LEDGER_ENDING)) else {
        return Ok(None);
    };
    if !file.exists() {
        return Ok(None);
    }
    let database = Database::look(&file, &FORMAT)?;
    let studies = database.read(StudyRecord::all)?;
    let Some(record) = studies.into_iter().find(|known| known.name == name) else {
        return Ok(None);
    };
    let (_, study) = study_of(&record)?;
    let records = Records { database, study: record.id };
    let follow =
        |head: Head, known: ShareRecord| head.follow(known.round, &study.event_bytes, &known.share);
    let head = records.charged(0)?.into_iter().fold(study.helper_genesis, follow);
    Ok(Some((file, head)))
}

/// Parses a secure-sum study from its configuration.
fn study_of(record: &StudyRecord) -> Result<(Federation, SumStudy), HelperError> {
    let name = || record.name.clone();
    let federation = Federation::received(&record.config)
        .map_err(|source| HelperError::Text { study: name(), source: Box::new(source) })?;
    let study = SumStudy::of(&federation, &record.config)
        .map_err(|source| HelperError::Study { study: name(), source })?;
    let why = "is summed by its coordinator alone: its text has no table [secure_sum]";
    let study = study.ok_or_else(|| HelperError::NotOurs { study: name(), why })?;
    Ok((federation, study))
}

/// Returns the path of a ledger in the folder, if there is one.
fn a_ledger(folder: &Path) -> Option<PathBuf> {
    let mut paths = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.to_string_lossy().ends_with(LEDGER_ENDING))
}

#[cfg(feature = "simulation")]
fn simulated(
    joined: &JoinedStudy,
    keys: (Arc<SigningKey>, RoundKeys),
    records: Records,
) -> Result<Box<dyn Summing>, HelperError> {
    let noise = fedbo_privacy::mechanism::SimNoise::new(joined.federation.noise_seed());
    Ok(Box::new(Sum::open(joined.study.clone(), keys, noise, records, None)?))
}

#[cfg(not(feature = "simulation"))]
fn simulated(
    joined: &JoinedStudy,
    _: (Arc<SigningKey>, RoundKeys),
    _: Records,
) -> Result<Box<dyn Summing>, HelperError> {
    Err(HelperError::Simulation { study: joined.study.name.clone() })
}
