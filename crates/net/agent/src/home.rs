//! An agent's folder, which contains its key, database and trials.

use std::path::{Path, PathBuf};

use fedbo_database::{Lock, Mode};
use fedbo_party::{Database, HomeError, TRIALS_FILE, hold, keep_private, make_folder};
use fedbo_privacy::accounting::Budget;
use fedbo_transport::check_folder;

use crate::log::forget_used;
use crate::schema::FORMAT;
use crate::{Membership, budget};

/// Name of the agent's database in its folder.
const DATABASE_FILE: &str = "agent.db";

/// An agent's folder. Raw data never leaves the folder: an agent sends one vector of fixed size in
/// each collecting round, and nothing else (INV-12).
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
    pub(crate) database: Database,
}

impl Home {
    /// Opens the folder of an enrolled agent.
    ///
    /// # Errors
    /// If the folder contains no agent, or its database is damaged or cannot be written.
    pub fn open(folder: &Path) -> Result<Self, HomeError> {
        Self::with(folder, Mode::Existing)
    }

    /// Returns true if the folder contains an agent.
    #[must_use]
    pub fn exists(folder: &Path) -> bool {
        folder.join(DATABASE_FILE).exists()
    }

    /// Opens the folder. If it does not exist, creates it with access only for its owner.
    pub(crate) fn open_or_make(folder: &Path) -> Result<Self, HomeError> {
        make_folder(folder)?;
        Self::with(folder, Mode::Create)
    }

    /// Opens the folder read-only.
    pub(crate) fn look(folder: &Path) -> Result<Self, HomeError> {
        Ok(Self {
            database: Database::look(&folder.join(DATABASE_FILE), &FORMAT)?,
            folder: folder.to_owned(),
        })
    }

    fn with(folder: &Path, mode: Mode) -> Result<Self, HomeError> {
        if folder.is_dir() {
            check_folder(folder)?;
        }
        for name in [DATABASE_FILE, TRIALS_FILE] {
            for suffix in ["", "-wal", "-shm"] {
                keep_private(&folder.join(format!("{name}{suffix}")))?;
            }
        }
        let database = Database::open(&folder.join(DATABASE_FILE), mode, &FORMAT)?;
        // This includes the vectors of studies that no longer run (INV-26).
        forget_used(&database)?;
        Ok(Self { database, folder: folder.to_owned() })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the studies that the agent takes part in, sorted by name.
    ///
    /// # Errors
    /// If the memberships cannot be read.
    pub fn memberships(&self) -> Result<Vec<Membership>, HomeError> {
        self.database.read(Membership::all)
    }

    /// Returns the budget over all the agent's studies, from the last run with a budget in its
    /// file, or `None` if there was none.
    ///
    /// # Errors
    /// If the budget cannot be read.
    pub fn budget(&self) -> Result<Option<Budget>, HomeError> {
        self.database.read(budget::cap)
    }

    /// Returns the membership in this study, or the only membership if `study` is `None`.
    ///
    /// # Errors
    /// If there is no such membership, or `study` is `None` and there are several.
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
                    "the agent does not take part in study {study:?}; it takes part in {}",
                    known()
                ),
            },
            (None, [only]) => return Ok(only.clone()),
            (None, _) => format!(
                "the agent takes part in several studies; set agent.study to one of {}",
                known()
            ),
        };
        Err(HomeError::AmbiguousStudy { path: self.folder.clone(), which })
    }

    /// Locks the study, so that no other process can run it.
    pub(crate) fn hold(&self, membership: &Membership) -> Result<Lock, HomeError> {
        let path = self.folder.join(format!("study-{}.lock", membership.id));
        hold(&path, "runs this study of the agent")
    }

    /// Locks the key, so that no other process can change it or enrol the agent.
    pub(crate) fn hold_key(&self) -> Result<Lock, HomeError> {
        let path = self.folder.join("identity.lock");
        hold(&path, "is changing the agent's key or enrolling it")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
