//! Copies of a coordinator's folder, and whether one is sound.

use std::path::{Path, PathBuf};

use fedbo_database::Mode;
use fedbo_ledger::{Head, LedgerError};
use fedbo_wire::SigningKey;

use crate::home::{Home, HomeError, KEY, STORE};
use crate::store::{SqliteStore, Store as _, StoreError};
use crate::study::Study;

/// A copy of a coordinator's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The files, in the copy.
    pub files: Vec<PathBuf>,
}

/// A problem in a coordinator's folder, and the file that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderProblem {
    /// The file.
    pub file: PathBuf,
    /// The problem, and the remedy.
    pub message: String,
}

/// An error in copying or checking a folder.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The folder cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of its ledgers cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The copy cannot be written.
    #[error("{}: {cause}", path.display())]
    Write {
        /// The file or folder that cannot be written.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
}

/// Copies a coordinator's folder to a new one, each file as it is at one moment, also while it serves: the store first, then the
/// ledgers, which so are never behind what the store knows of them. No vector of an agent is in either (INV-16). The key is
/// copied if `with_key` says so: who has it can pass for the coordinator.
///
/// # Errors
/// If the folder cannot be read, something stands where the copy is to be, or it cannot be written.
pub fn backup(folder: &Path, to: &Path, with_key: bool) -> Result<Backup, BackupError> {
    let home = Home::open(folder, Mode::Existing)?;
    let write = |path: &Path| {
        let path = path.to_owned();
        move |cause| BackupError::Write { path, cause }
    };
    std::fs::create_dir_all(to).map_err(write(to))?;
    let mut files = vec![to.join(STORE)];
    SqliteStore::backup(&folder.join(STORE), &files[0])?;
    for record in home.store().studies()? {
        let ledger = home.ledger(&record.name);
        if ledger.exists() {
            let copy = to.join(ledger.file_name().unwrap_or_default());
            fedbo_ledger::backup(&ledger, &copy)?;
            files.push(copy);
        }
    }
    if with_key {
        let copy = to.join(KEY);
        std::fs::copy(folder.join(KEY), &copy).map_err(write(&copy))?; // with its permissions
        files.push(copy);
    }
    Ok(Backup { files })
}

/// The coordinator's store beside a ledger's file, and the head that it has noted of that ledger: as far as the study's releases had
/// gone. None for a file that is no study's of a coordinator.
///
/// # Errors
/// If the store cannot be read.
pub fn noted_head(ledger: &Path) -> Result<Option<(PathBuf, String)>, StoreError> {
    let name = ledger.file_name().and_then(|name| name.to_str());
    let Some(study) = name.and_then(|name| name.strip_suffix(".ledger.db")) else {
        return Ok(None);
    };
    let store = ledger.with_file_name(STORE);
    if !store.exists() {
        return Ok(None);
    }
    let head = SqliteStore::head_of(&store, study)?;
    Ok(head.map(|head| (store, head)))
}

/// All that is wrong in a coordinator's folder: in its store, in each study's configuration, in each ledger, and where a ledger
/// ends before what has left it. Reads only, also while it serves.
///
/// # Errors
/// If the folder is no coordinator's, or the system refuses a file.
pub fn verify(folder: &Path) -> Result<Vec<FolderProblem>, BackupError> {
    let path = folder.join(STORE);
    if !path.exists() {
        let path = folder.to_owned();
        return Err(HomeError::Absent { path }.into());
    }
    let problem = |file: &Path| {
        let file = file.to_owned();
        move |message: String| FolderProblem { file: file.clone(), message }
    };
    let found = SqliteStore::verify(&path)?;
    if !found.is_empty() {
        return Ok(found.into_iter().map(problem(&path)).collect());
    }
    let mut problems = Vec::new();
    let store = SqliteStore::open(&path, Mode::Existing)?;
    // Whether a configuration can be served does not depend on who signs it.
    let anybody = SigningKey::from_seed([0; 32]);
    for record in store.studies()? {
        let study = match Study::of(&record, &anybody) {
            Ok(study) => study,
            Err(error) => {
                let message = format!("study {:?}: {error}", record.name);
                problems.push(problem(&path)(message));
                continue;
            }
        };
        if study.plan().is_none() {
            continue;
        }
        let ledger = folder.join(format!("{}.ledger.db", record.name));
        let known = record.head.as_deref();
        let head = known.and_then(|known| known.parse::<Head>().ok());
        match (known, head) {
            (None, _) => {}
            (Some(known), None) => {
                let message = format!("study {:?}: {known:?} is no head of a ledger", record.name);
                problems.push(problem(&path)(message));
            }
            (Some(known), Some(_)) if !ledger.exists() => {
                let message = format!("it is missing, and its releases had gone on to {known}");
                problems.push(problem(&ledger)(message));
            }
            (Some(_), head @ Some(_)) => {
                let report = fedbo_ledger::verify(&ledger, head.as_ref())?;
                let messages = report.problems.iter().map(ToString::to_string);
                problems.extend(messages.map(problem(&ledger)));
            }
        }
    }
    Ok(problems)
}
