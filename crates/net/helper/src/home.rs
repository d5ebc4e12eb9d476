//! A helper's folder: its key, the studies that it has joined, its shares, its ledgers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_database::{Lock, Mode};
use fedbo_federation::Federation;
use fedbo_ledger::{Ledger, LedgerError};
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
use crate::records::{Records, StudyRecord};
use crate::schema::FORMAT;
use crate::sum::{Sum, Summing};

const DATABASE_FILE: &str = "helper.db";
const KEY_FILE: &str = "helper.key";
const LOCK_FILE: &str = "helper.lock";
const LEDGER_ENDING: &str = ".ledger.db";

/// Bytes of a study's text at most.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// A helper's folder.
pub struct Home {
    folder: PathBuf,
    database: Database,
    key: Arc<SigningKey>,
}

/// The study that is to be joined.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The coordinator's address.
    pub url: String,
    /// Its key, as its operator says.
    pub coordinator: PublicKey,
    /// The study's name.
    pub study: String,
    /// Certificates of an authority besides the usual, in PEM form.
    pub ca: Option<PathBuf>,
    /// True if `http://` is allowed beyond this machine.
    pub allow_plain_http: bool,
}

/// A study that the helper serves.
#[derive(Clone)]
pub struct JoinedStudy {
    /// The study, as its text says.
    pub study: SumStudy,
    /// The federation that the text describes.
    pub federation: Federation,
    /// The key of its coordinator.
    pub coordinator: PublicKey,
    /// The address of its coordinator when it was joined.
    pub url: String,
}

impl Home {
    /// Opens a folder; with [`Mode::Create`] one that is not there, or is empty, is begun with a new key.
    ///
    /// # Errors
    /// If it cannot be used.
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

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The card that agents and coordinators know the helper by.
    #[must_use]
    pub fn card(&self) -> ServerCard {
        card_of(&self.key)
    }

    pub(crate) fn key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.key)
    }

    /// The file with the ledger of a study; there is one where releases are charged.
    #[must_use]
    pub fn ledger(&self, study: &str) -> PathBuf {
        self.folder.join(format!("{study}{LEDGER_ENDING}"))
    }

    /// Keeps others from serving from this folder.
    ///
    /// # Errors
    /// If another service holds it, or the system refuses.
    pub fn lock(&self) -> Result<Lock, HelperError> {
        Ok(hold(&self.folder.join(LOCK_FILE), "serves the studies of this helper")?)
    }

    /// The studies that were joined, by name; or the reason why one cannot be served.
    ///
    /// # Errors
    /// If they cannot be read.
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

    /// A study, as its text says; refused if it is none of ours.
    fn read(&self, record: &StudyRecord) -> Result<JoinedStudy, HelperError> {
        let name = || record.name.clone();
        let federation = Federation::received(&record.config)
            .map_err(|source| HelperError::Text { study: name(), source: Box::new(source) })?;
        let study = SumStudy::of(&federation, &record.config)
            .map_err(|source| HelperError::Study { study: name(), source })?;
        let not_ours = |why| HelperError::NotOurs { study: name(), why };
        let study = study.ok_or_else(|| {
            not_ours("is summed by its coordinator alone: it has no table [secure_sum]")
        })?;
        if study.helper != self.card() {
            return Err(HelperError::OtherHelper {
                study: name(),
                named: study.helper.key,
                path: self.folder.clone(),
                own: self.key.public(),
            });
        }
        if study.leader.key != record.coordinator {
            return Err(not_ours("has another coordinator's card than the key that was named"));
        }
        let sealing = sealing_key_of(&self.key);
        if sealing.verification_key(&study.sealing(Server::Leader), &study.config.0).is_none() {
            return Err(not_ours("names a coordinator whose key cannot be used"));
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

    /// Fetches the frozen text of a study, checks it and keeps it. Done again, it is harmless.
    ///
    /// # Errors
    /// If the coordinator is not the one that was named, or the study none that this helper can serve. Nothing is kept then.
    pub fn join(&self, options: &JoinOptions) -> Result<JoinedStudy, JoinError> {
        let given = options.url.clone();
        let url = checked_url(&given, options.allow_plain_http)
            .map_err(|message| JoinError::Url { url: given.clone(), message })?;
        let link = |source| JoinError::Link { url: url.clone(), source };
        let never = Arc::new(AtomicBool::new(false));
        let client = HttpClient::new(&url, options.ca.as_deref(), never, "the coordinator");
        let signer = Signer { key: &self.key, to: options.coordinator };
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
            return Err(impostor(
                "the study's text is not signed by the coordinator that was named",
            ));
        }
        let config = String::from_utf8(answer.body)
            .map_err(|_| impostor("the study's text is no text in UTF-8"))?;
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

    /// Keeps a study without asking anybody.
    #[cfg(test)]
    pub(crate) fn keep(&self, record: &StudyRecord) {
        self.database.write(|tx| record.insert(tx, 0)).unwrap();
    }

    /// Begins to serve the rounds of a study.
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
        let keys = (self.key(), sealing_key_of(&self.key));
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

/// A ledger in the folder, if there is one.
fn a_ledger(folder: &Path) -> Option<PathBuf> {
    let mut paths = folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.to_string_lossy().ends_with(LEDGER_ENDING))
}

#[cfg(feature = "simulation")]
fn simulated(
    joined: &JoinedStudy,
    keys: (Arc<SigningKey>, fedbo_secure_sum::SealingKey),
    records: Records,
) -> Result<Box<dyn Summing>, HelperError> {
    let noise = fedbo_privacy::mechanism::SimNoise::new(joined.federation.noise_seed());
    Ok(Box::new(Sum::open(joined.study.clone(), keys, noise, records, None)?))
}

#[cfg(not(feature = "simulation"))]
fn simulated(
    joined: &JoinedStudy,
    _: (Arc<SigningKey>, fedbo_secure_sum::SealingKey),
    _: Records,
) -> Result<Box<dyn Summing>, HelperError> {
    Err(HelperError::Simulation { study: joined.study.name.clone() })
}
