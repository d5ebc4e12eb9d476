//! A coordinator's folder: its store, its key, its ledgers, and the lock against a second service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_database::{Lock, Mode, NotLocked, private_folder};
use fedbo_error_class::{Class, Classified};
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

/// Validity of an enrolment token in days.
pub const TOKEN_DAYS: u64 = 7;

/// Error while opening or using a coordinator's folder.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A file or folder cannot be accessed.
    #[error("{}: {cause}", path.display())]
    Refused {
        /// File or folder that cannot be accessed.
        path: PathBuf,
        /// Error from the operating system.
        cause: std::io::Error,
    },
    /// The folder contains no coordinator.
    #[error("{}: there is no coordinator here; name another folder with --data, or create a \
         coordinator with `fedbo coordinator study create` or `fedbo coordinator run \
         --create`", path.display())]
    Absent {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The key, or its folder, cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key of an existing coordinator is missing.
    #[error("{}: the coordinator's key is missing, and agents identify its studies by it; restore it from a backup", path.display())]
    KeyMissing {
        /// Path of the key.
        path: PathBuf,
    },
    /// The store is missing, but ledgers exist.
    #[error("{}: the coordinator's store is missing, but {} exists; restore it from a backup", path.display(), ledger.display())]
    StoreMissing {
        /// Path of the store.
        path: PathBuf,
        /// Path of a ledger in the folder.
        ledger: PathBuf,
    },
    /// The database belongs to a coordinator with a different key.
    #[error(
        "{}: agents know the coordinator of {store} by another key; all replicas must use the same \
         key file; name it with --key", path.display()
    )]
    OtherKey {
        /// Path of the key.
        path: PathBuf,
        /// Address of the database.
        store: String,
    },
    /// The system provides no random numbers.
    #[error("cannot get random numbers from the system: {0}")]
    Randomness(getrandom::Error),
    /// Another service uses the folder.
    #[error("{}: another coordinator is running on this folder; one coordinator serves all of its studies", path.display())]
    Held {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The store refused an operation.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The study cannot be served.
    #[error(transparent)]
    Study(#[from] StudyUnusable),
}

impl Classified for HomeError {
    fn class(&self) -> Class {
        match self {
            Self::Refused { .. } | Self::Key(KeyError::Refused { .. }) => Class::Output,
            Self::Store(error) => error.class(),
            Self::Randomness(_) | Self::Key(KeyError::NoRandomness(_)) => Class::Internal,
            _ => Class::Input,
        }
    }
}

/// A coordinator's folder, or a shared database together with the coordinator's key.
pub struct Home {
    /// Coordinator's folder; with a database, the folder that contains the key.
    path: PathBuf,
    /// Address of the database, without the password.
    database: Option<String>,
    /// True if opening this home created the coordinator.
    is_new: bool,
    store: Arc<dyn Store>,
    key: Arc<SigningKey>,
}

impl Home {
    /// Opens a folder. With [`Mode::Create`], initializes a missing or empty folder with a new key.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn open(path: &Path, mode: Mode) -> Result<Self, HomeError> {
        let (store_path, key_path) = (path.join(STORE), path.join(KEY));
        if mode == Mode::Create {
            private_folder(path)
                .map_err(|cause| HomeError::Refused { path: path.to_owned(), cause })?;
        }
        let is_new = !store_path.exists();
        // An interrupted initialization leaves no ledger, so the store was lost.
        if let Some(ledger) = a_ledger(path).filter(|_| is_new) {
            return Err(HomeError::StoreMissing { path: store_path, ledger });
        }
        if is_new && mode == Mode::Existing {
            let path = path.to_owned();
            return Err(HomeError::Absent { path });
        }
        check_folder(path)?;
        // The key is created before the store, so a store without a key means that the key was
        // lost.
        let key = key(&key_path, is_new)?;
        Ok(Self {
            path: path.to_owned(),
            database: None,
            is_new,
            store: Arc::new(SqliteStore::open(&store_path, mode)?),
            key: Arc::new(key),
        })
    }

    /// Opens a database shared by replicas.
    ///
    /// With [`Mode::Create`], creates the schema in an empty database, and a missing key if the
    /// database has no coordinator yet.
    ///
    /// # Errors
    /// If the database cannot be used, or its coordinator has a different key.
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

    /// Returns the address of the shared database without its password, or `None` for a folder.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns true if opening this home created the coordinator, so no agent has its key yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the path of the folder; with a database, of the folder that contains the key.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the store of studies, rosters and tokens.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Returns the coordinator's key.
    #[must_use]
    pub fn key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.key)
    }

    /// Returns the location of a study's ledger, for messages to the operator.
    #[must_use]
    pub fn ledger_place(&self, study: &str) -> String {
        match &self.database {
            Some(database) => format!("{database} --study {study}"),
            None => self.ledger(study).display().to_string(),
        }
    }

    /// Returns the ledgers in the shared database, or `None` for a folder, where each ledger is a
    /// separate file.
    #[must_use]
    pub fn ledgers(&self) -> Option<&Ledgers> {
        self.store.ledgers()
    }

    /// Returns the path of a study's ledger in a folder. The file exists if releases are charged.
    #[must_use]
    pub fn ledger(&self, study: &str) -> PathBuf {
        self.path.join(format!("{study}.ledger.db"))
    }

    /// Locks the folder against other services.
    ///
    /// # Errors
    /// If another service holds the lock, or the lock file cannot be used.
    pub fn lock(&self) -> Result<Lock, HomeError> {
        Lock::take(&self.path.join(LOCK)).map_err(|error| match error {
            NotLocked::Held(_) => HomeError::Held { path: self.path.clone() },
            NotLocked::Refused(path, cause) => HomeError::Refused { path, cause },
        })
    }

    /// Creates a study with a frozen configuration ([`Federation::freeze`]).
    ///
    /// # Errors
    /// If the study cannot be served or stored.
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

    /// Creates an enrolment token for a slot, and voids the slot's unused earlier tokens.
    ///
    /// # Errors
    /// If the store cannot be written, or the system provides no random numbers.
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

/// Returns the path of a ledger in the folder, if there is one.
fn a_ledger(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| path.to_string_lossy().ends_with(".ledger.db"))
}

/// Reads the coordinator's key. If the coordinator is new, creates a missing key.
fn key(path: &Path, is_new: bool) -> Result<SigningKey, HomeError> {
    match is_new {
        true => Ok(read_or_make_key(path)?),
        false => read_key(path)?.ok_or_else(|| HomeError::KeyMissing { path: path.to_owned() }),
    }
}
