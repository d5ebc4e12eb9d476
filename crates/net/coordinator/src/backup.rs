//! Backups of a coordinator's folder, and their verification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fedbo_database::{Mode, sync_folder};
use fedbo_error_class::{Class, Classified};
use fedbo_ledger::{Head, LedgerError};
use fedbo_wire::SigningKey;

use crate::home::{Home, HomeError, KEY, STORE};
use crate::store::{SqliteStore, Store as _, StoreError};
use crate::study::Study;

/// A copy of a coordinator's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Paths of the copied files.
    pub files: Vec<PathBuf>,
}

/// A problem found in a coordinator's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderProblem {
    /// Affected file.
    pub file: PathBuf,
    /// Description of the problem and its remedy.
    pub message: String,
}

/// Error while copying or checking a folder.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The folder cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A ledger cannot be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The copy cannot be written.
    #[error("{}: {cause}", path.display())]
    Write {
        /// File or folder that cannot be written.
        path: PathBuf,
        /// Error from the operating system.
        cause: std::io::Error,
    },
}

impl Classified for BackupError {
    fn class(&self) -> Class {
        match self {
            Self::Write { .. } => Class::Output,
            Self::Home(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Ledger(error) => error.class(),
        }
    }
}

/// Copies a coordinator's folder to a new one. The coordinator may be running.
///
/// Each copied file is a snapshot. The store is copied first, then the ledgers, so a copied ledger
/// is never behind the head recorded in the copied store. Neither contains agents' vectors
/// (INV-16). The key is copied only if `with_key` is true, since its holder can impersonate the
/// coordinator. The copy is written to a folder with a name ending in `.part`, which is renamed
/// once it is complete.
///
/// # Errors
/// If the folder cannot be read, `to` exists already, or the copy cannot be written.
pub fn backup(folder: &Path, to: &Path, with_key: bool) -> Result<Backup, BackupError> {
    let home = Home::open(folder, Mode::Existing)?;
    let taken = |message: &str| std::io::Error::other(message.to_owned());
    if std::fs::symlink_metadata(to).is_ok() {
        return Err(write_error(to)(taken("exists already; name another place")));
    }
    let mut part = to.file_name().unwrap_or_default().to_owned();
    part.push(".part");
    let part = to.with_file_name(part);
    std::fs::create_dir_all(to.parent().unwrap_or(to)).map_err(write_error(to))?;
    std::fs::create_dir(&part).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => write_error(&part)(taken(
            "belongs to an interrupted copy, or to one in progress; remove it, or name another place",
        )),
        _ => write_error(&part)(cause),
    })?;
    let copied = copy_into(&home, folder, &part, with_key).and_then(|names| {
        std::fs::rename(&part, to).and_then(|()| sync_folder(to)).map_err(write_error(to))?;
        Ok(Backup { files: names.into_iter().map(|name| to.join(name)).collect() })
    });
    if copied.is_err() {
        let _ = std::fs::remove_dir_all(&part); // best effort: a partial copy is useless
    }
    copied
}

/// Copies the files, and returns their names.
fn copy_into(
    home: &Home,
    folder: &Path,
    to: &Path,
    with_key: bool,
) -> Result<Vec<OsString>, BackupError> {
    let mut names = vec![OsString::from(STORE)];
    SqliteStore::backup(&folder.join(STORE), &to.join(STORE))?;
    for record in home.store().studies()? {
        let ledger = home.ledger(&record.name);
        if ledger.exists() {
            let name = ledger.file_name().unwrap_or_default();
            fedbo_ledger::backup(&ledger, &to.join(name))?;
            names.push(name.to_owned());
        }
    }
    if with_key {
        let copy = to.join(KEY);
        let copied = std::fs::copy(folder.join(KEY), &copy) // with its permissions
            .and_then(|_| std::fs::File::open(&copy)?.sync_all())
            .and_then(|()| sync_folder(&copy));
        copied.map_err(write_error(&copy))?;
        names.push(KEY.into());
    }
    Ok(names)
}

fn write_error(path: &Path) -> impl Fn(std::io::Error) -> BackupError {
    let path = path.to_owned();
    move |cause| BackupError::Write { path: path.clone(), cause }
}

/// Finds the coordinator's store next to a ledger file. Returns the store's path and the last head
/// recorded there for this ledger.
///
/// Returns `None` if the file is not the ledger of a coordinator's study, or no head was recorded.
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

/// Checks a coordinator's folder, and returns the problems found.
///
/// Checks the store first, and only if it has no problems, the studies' configurations and the
/// ledgers. A ledger that ends before its last recorded head is a problem too. Read-only. The
/// coordinator may be running.
///
/// # Errors
/// If the folder is not a coordinator's, or a file cannot be accessed.
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
    let store = SqliteStore::open_for_reading(&path)?;
    // The signing key does not affect whether a configuration can be served.
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
                let message = format!("study {:?}: {known:?} is not a ledger head", record.name);
                problems.push(problem(&path)(message));
            }
            (Some(known), Some(_)) if !ledger.exists() => {
                let message = format!("it is missing, but its releases had reached {known}");
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
