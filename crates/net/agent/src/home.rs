//! An agent's folder: its key, its memory, its trials.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fedbo_database::Mode;
use fedbo_privacy::accounting::Budget;

use crate::database::Database;
use crate::lock::Lock;
use crate::log::forget_used;
use crate::schema::FORMAT;
use crate::trials::TRIALS_FILE;
use crate::{HomeError, Membership, purse};

/// Name of the agent's memory in its folder.
const DATABASE_FILE: &str = "agent.db";

/// Makes a folder for its owner alone, unless it is there.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> Result<(), HomeError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| HomeError::Folder {
        path: folder.to_owned(),
        cause: error.to_string(),
    })
}

/// An agent's folder. Raw data never leaves it (INV-12): what an agent sends is a weight sample a round.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    pub(crate) database: Database,
}

impl Home {
    /// Opens the folder of an agent that was enrolled.
    ///
    /// # Errors
    /// If there is no agent, or its memory is damaged or cannot be written.
    pub fn open(folder: &Path) -> Result<Self, HomeError> {
        Self::with(folder, Mode::Existing)
    }

    /// Opens the folder, after making it if there is none: for its owner alone.
    pub(crate) fn open_or_make(folder: &Path) -> Result<Self, HomeError> {
        make_folder(folder)?;
        Self::with(folder, Mode::Create)
    }

    /// Opens the folder to look at it.
    pub(crate) fn look(folder: &Path) -> Result<Self, HomeError> {
        Ok(Self {
            database: Database::look(&folder.join(DATABASE_FILE), &FORMAT)?,
            folder: folder.to_owned(),
        })
    }

    fn with(folder: &Path, mode: Mode) -> Result<Self, HomeError> {
        check_folder(folder)?;
        for name in [DATABASE_FILE, TRIALS_FILE] {
            for suffix in ["", "-wal", "-shm"] {
                keep_private(&folder.join(format!("{name}{suffix}")))?;
            }
        }
        let database = Database::open(&folder.join(DATABASE_FILE), mode, &FORMAT)?;
        // Also of studies that are not run any more (INV-26).
        forget_used(&database)?;
        Ok(Self {
            database,
            folder: folder.to_owned(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The studies that the agent takes part in, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn memberships(&self) -> Result<Vec<Membership>, HomeError> {
        self.database.read(Membership::all)
    }

    /// The budget over all the agent's studies, as the last run whose file has one said it; none before the first.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn budget(&self) -> Result<Option<Budget>, HomeError> {
        self.database.read(purse::cap)
    }

    /// The membership in this study; the only one if none is named.
    ///
    /// # Errors
    /// If there is none, or several.
    pub fn membership(&self, study: Option<&str>) -> Result<Membership, HomeError> {
        let all = self.memberships()?;
        let known = || {
            let names: Vec<String> = all.iter().map(|m| format!("{:?}", m.study)).collect();
            names.join(", ")
        };
        let which = match (study, all.as_slice()) {
            (_, []) => {
                "the agent takes part in no study; enrol it with the token that the study's operator gave you"
                    .to_owned()
            }
            (Some(study), _) => match all.iter().find(|m| m.study == study) {
                Some(found) => return Ok(found.clone()),
                None => format!(
                    "the agent takes part in no study {study:?}; it takes part in {}",
                    known()
                ),
            },
            (None, [only]) => return Ok(only.clone()),
            (None, _) => format!(
                "the agent takes part in several studies: name one of {} as agent.study",
                known()
            ),
        };
        Err(HomeError::WhichStudy {
            path: self.folder.clone(),
            which,
        })
    }

    /// Makes sure that nobody else runs this study.
    pub(crate) fn hold(&self, membership: &Membership) -> Result<Lock, HomeError> {
        let path = self.folder.join(format!("study-{}.lock", membership.id));
        Lock::take(&path, "runs this study of the agent")
    }

    /// Makes sure that nobody else changes the key, or takes a new membership.
    pub(crate) fn hold_key(&self) -> Result<Lock, HomeError> {
        let path = self.folder.join("identity.lock");
        Lock::take(&path, "is changing the agent's key or enrolling it")
    }
}

/// That nobody but its owner, who is who runs this or the system's administrator, can put other files into a folder (INV-26).
fn check_folder(folder: &Path) -> Result<(), HomeError> {
    let Ok(metadata) = std::fs::metadata(folder) else {
        return Ok(()); // there is none, as whoever opens it says
    };
    let path = folder.to_owned();
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(HomeError::OpenFolder { path, mode });
    }
    let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != us && owner != 0 && us != 0 {
        return Err(HomeError::OtherOwner { path, owner });
    }
    Ok(())
}

/// Takes a file that an earlier version left readable to others back from them; one that is not there is made private by who makes it.
fn keep_private(path: &Path) -> Result<(), HomeError> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mut permissions = metadata.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    permissions.set_mode(0o600);
    std::fs::set_permissions(path, permissions).map_err(|error| HomeError::Folder {
        path: path.to_owned(),
        cause: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_read_is_taken_back_and_where_they_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        drop(Home::open_or_make(&home).unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let file = home.join(DATABASE_FILE);
        assert_eq!((mode(&home), mode(&file)), (0o700, 0o600));
        set(&file, 0o644);
        drop(Home::open(&home).unwrap());
        assert_eq!(mode(&file), 0o600);
        for open in [0o720, 0o702, 0o777] {
            set(&home, open);
            let error = Home::open(&home).unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
    }
}
