//! Secret keys of rounds, with one file per key, in a folder that should be excluded from backups.
//!
//! A key is generated when its round is opened and erased when the round closes, so neither a later
//! state of the folder nor a backup can open the shares sealed for this key (INV-27). The folder
//! contains a tag that tells backup programs to exclude it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use fedbo_database::{private, private_folder, sync_folder};
use fedbo_party::HomeError;
use fedbo_secure_sum::OpeningKey;
use fedbo_transport::read_or_make_key;

use crate::error::HelperError;

/// Folder inside a helper's folder that contains all keys of rounds.
pub(crate) const KEYS_FOLDER: &str = "round-keys";

/// <https://bford.info/cachedir/>: `tar --exclude-caches`, restic, borg and others exclude a folder
/// with this tag.
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                   # Keys of rounds that are open. They are erased when their round closes, and are to be in no backup.\n";

/// Extension of a key file, after the round number.
const ENDING: &str = ".key";

/// Keys of one study's rounds.
pub(crate) struct RoundKeys {
    folder: PathBuf,
}

impl RoundKeys {
    /// Opens the keys of a study in a helper's folder, creating their folder if it is missing.
    pub(crate) fn of(home: &Path, study: &str) -> Result<Self, HelperError> {
        let all = home.join(KEYS_FOLDER);
        let folder = all.join(study);
        private_folder(&folder).map_err(refused(&folder))?;
        let tag = all.join("CACHEDIR.TAG");
        match private().write(true).create_new(true).open(&tag) {
            Ok(mut file) => file.write_all(TAG.as_bytes()).map_err(refused(&tag))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(&tag)(error)),
        }
        Ok(Self { folder })
    }

    /// Returns the key of a round, generating it if it is missing. The key is durable when this
    /// returns.
    pub(crate) fn get(&self, round: u64) -> Result<OpeningKey, HelperError> {
        let path = self.folder.join(format!("{round}{ENDING}"));
        let key = read_or_make_key(&path).map_err(HomeError::from)?;
        Ok(OpeningKey::of_round(&key.derived("fedbo helper, key of a round, version 1")))
    }

    /// Erases the keys of all rounds up to this one: overwrites the files, then removes them. Old
    /// copies of the blocks that the file system or the disk may keep are not erased.
    pub(crate) fn erase_to(&self, round: u64) -> Result<(), HelperError> {
        let entries = self.folder.read_dir().map_err(refused(&self.folder))?;
        let mut n_erased = 0;
        for entry in entries {
            let path = entry.map_err(refused(&self.folder))?.path();
            // This includes partial files from a process that died while writing.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let of = name.split_once('.').and_then(|(of, _)| of.parse::<u64>().ok());
            if of.is_some_and(|of| of <= round) {
                erase(&path).map_err(refused(&path))?;
                n_erased += 1;
            }
        }
        if n_erased > 0 {
            sync_folder(&self.folder.join(ENDING)).map_err(refused(&self.folder))?;
        }
        Ok(())
    }
}

fn erase(path: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let n = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(1 << 16);
    file.write_all(&vec![0; n])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

fn refused(path: &Path) -> impl Fn(std::io::Error) -> HelperError {
    let path = path.to_owned();
    move |cause| HelperError::RoundKey { path: path.clone(), cause }
}
