//! A coordinator's folder: its store, its key, its ledgers, and the lock that keeps a second service out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_database::{Lock, Mode, NotLocked, private_folder};
use fedbo_failpoints::pass;
use fedbo_federation::Federation;
use fedbo_ledger::Ledgers;
use fedbo_postgres::PostgresAddress;
use fedbo_transport::{KeyError, check_folder, read_key, read_or_make_key};
use fedbo_wire::{EnrolmentToken, SigningKey, config_digest};

use crate::store::{PostgresStore, SqliteStore, Store, StoreError, StudyRecord};
use crate::study::{Study, StudyUnusable};

pub(crate) const STORE: &str = "coordinator.db";
pub(crate) const KEY: &str = "coordinator.key";
const LOCK: &str = "coordinator.lock";

/// The number of days for which an enrolment token is valid.
pub const TOKEN_DAYS: u64 = 7;

/// An error in opening or using a coordinator's folder.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The system refuses.
    #[error("{}: {cause}", path.display())]
    Refused {
        /// The file or folder that is refused.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// There is none.
    #[error("{}: there is no coordinator; --data names another folder, and `fedbo coordinator study create` or `fedbo coordinator run --create` \
         begins one there", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// The key, or the folder that it is in, cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key is gone, and studies are there.
    #[error("{}: the coordinator's key is missing, and agents know its studies by it; put it back from a backup", path.display())]
    KeyMissing {
        /// The file.
        path: PathBuf,
    },
    /// The store is gone, and ledgers are there.
    #[error("{}: the coordinator's store is missing, and {} is there; put it back from a backup", path.display(), ledger.display())]
    StoreMissing {
        /// The file.
        path: PathBuf,
        /// A ledger that is there.
        ledger: PathBuf,
    },
    /// The database's coordinator has another key.
    #[error(
        "{}: agents know the coordinator of {store} by another key; all replicas must have the same file, name that one with \
         --key", path.display()
    )]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// The database.
        store: String,
    },
    /// There is no randomness.
    #[error("the system has no randomness to give: {0}")]
    Randomness(getrandom::Error),
    /// Another service runs on the folder.
    #[error("{}: another coordinator runs on this folder; one serves all of its studies", path.display())]
    Held {
        /// The folder.
        path: PathBuf,
    },
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The study cannot be served.
    #[error(transparent)]
    Study(#[from] StudyUnusable),
}

/// A coordinator's folder; or its database, which replicas share, and its key.
pub struct Home {
    /// The folder; of a database, that of the key.
    path: PathBuf,
    /// The database's address without a password.
    database: Option<String>,
    /// True if opening it began it, with a new key.
    is_new: bool,
    store: Arc<dyn Store>,
    key: Arc<SigningKey>,
}

impl Home {
    /// Opens a folder; with [`Mode::Create`] one that is not there, or is empty, is begun with a new key.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(path: &Path, mode: Mode) -> Result<Self, HomeError> {
        let (store_path, key_path) = (path.join(STORE), path.join(KEY));
        if mode == Mode::Create {
            private_folder(path)
                .map_err(|cause| HomeError::Refused { path: path.to_owned(), cause })?;
        }
        let is_new = !store_path.exists();
        // Whatever was interrupted while it was begun has no ledger.
        if let Some(ledger) = a_ledger(path).filter(|_| is_new) {
            return Err(HomeError::StoreMissing { path: store_path, ledger });
        }
        if is_new && mode == Mode::Existing {
            let path = path.to_owned();
            return Err(HomeError::Absent { path });
        }
        check_folder(path)?;
        // The key first: a store without one is a coordinator that lost it.
        let key = key(&key_path, is_new)?;
        Ok(Self {
            path: path.to_owned(),
            database: None,
            is_new,
            store: Arc::new(SqliteStore::open(&store_path, mode)?),
            key: Arc::new(key),
        })
    }

    /// Opens a database that replicas share; with [`Mode::Create`] it is laid out if it is empty, and then a key that is not there is
    /// made.
    ///
    /// # Errors
    /// If it cannot be used, or its coordinator has another key.
    pub fn shared(
        address: &PostgresAddress,
        key_path: &Path,
        mode: Mode,
    ) -> Result<Self, HomeError> {
        let key_path = &std::path::absolute(key_path)
            .map_err(|cause| HomeError::Refused { path: key_path.to_owned(), cause })?;
        check_folder(key_path.parent().unwrap_or(Path::new("/")))?;
        let store = PostgresStore::open(address, mode)?;
        let is_new = store.identity()?.is_none();
        let key = key(key_path, is_new && mode == Mode::Create)?;
        if store.identify(&key.public())? != key.public() {
            return Err(HomeError::OtherKey {
                path: key_path.to_owned(),
                store: store.place().to_owned(),
            });
        }
        Ok(Self {
            path: key_path.parent().unwrap_or(Path::new("")).to_owned(),
            database: Some(store.place().to_owned()),
            is_new,
            store: Arc::new(store),
            key: Arc::new(key),
        })
    }

    /// The database that replicas share, without a password; none for a folder that one service uses.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns true if opening it began it: no agent knows its key yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.key)
    }

    /// The place of a study's ledger, in words.
    #[must_use]
    pub fn ledger_place(&self, study: &str) -> String {
        match &self.database {
            Some(database) => format!("{database} --study {study}"),
            None => self.ledger(study).display().to_string(),
        }
    }

    /// The ledgers of a database that replicas share; none in a folder, where each study has a file.
    #[must_use]
    pub fn ledgers(&self) -> Option<&Ledgers> {
        self.store.ledgers()
    }

    /// The file with the ledger of a study, in a folder; there is one where releases are charged.
    #[must_use]
    pub fn ledger(&self, study: &str) -> PathBuf {
        self.path.join(format!("{study}.ledger.db"))
    }

    /// Keeps others from serving from this folder.
    ///
    /// # Errors
    /// If another service holds it, or the system refuses.
    pub fn lock(&self) -> Result<Lock, HomeError> {
        Lock::take(&self.path.join(LOCK)).map_err(|error| match error {
            NotLocked::Held(_) => HomeError::Held { path: self.path.clone() },
            NotLocked::Refused(path, cause) => HomeError::Refused { path, cause },
        })
    }

    /// Begins a study with a frozen configuration ([`Federation::freeze`]).
    ///
    /// # Errors
    /// If it cannot be served or stored.
    pub fn create_study(
        &self,
        federation: &Federation,
        config: &str,
    ) -> Result<StudyRecord, HomeError> {
        let roster: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
        let draft = StudyRecord {
            key: crate::store::StudyKey(0),
            name: federation.name.clone(),
            config: config.to_owned(),
            state: crate::store::StudyState::Waiting,
            round: 0,
            began_ms: None,
            head: None,
        };
        Study::of(&draft, &self.key)?;
        if federation.network.is_sharded && self.store.shared().is_none() {
            return Err(StudyUnusable::NoShards.into());
        }
        let record = self.store.create_study(&federation.name, config, &roster)?;
        pass("coordinator: a study is stored");
        Ok(record)
    }

    /// Makes a token for a slot; earlier ones that were not used are void.
    ///
    /// # Errors
    /// If the store refuses, or there is no randomness.
    pub fn token(&self, study: &StudyRecord, slot: u32) -> Result<EnrolmentToken, HomeError> {
        let mut secret = [0; 20];
        getrandom::fill(&mut secret).map_err(HomeError::Randomness)?;
        let token = EnrolmentToken {
            secret,
            coordinator: self.key.public(),
            config: config_digest(study.config.as_bytes()),
        };
        let expires_ms = self.store.now_ms()? + TOKEN_DAYS * 86_400_000;
        let public = token.key().public();
        self.store.add_token(study.key, slot, &public, expires_ms)?;
        Ok(token)
    }
}

/// A ledger in a folder.
fn a_ledger(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| path.to_string_lossy().ends_with(".ledger.db"))
}

/// Reads the coordinator's key; one that is missing is made where there is none yet.
fn key(path: &Path, is_new: bool) -> Result<SigningKey, HomeError> {
    match is_new {
        true => Ok(read_or_make_key(path)?),
        false => read_key(path)?.ok_or_else(|| HomeError::KeyMissing { path: path.to_owned() }),
    }
}
