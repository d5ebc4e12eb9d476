//! The keys of an agent: files that nobody else may read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fedbo_database::sync_folder;
use fedbo_wire::{KeyUnreadable, PublicKey, SigningKey};
use zeroize::Zeroizing;

/// Name of the key's file in a home.
const KEY_FILE: &str = "identity.key";
/// Name of the key that is to replace it, while coordinators are being told.
const NEXT_FILE: &str = "identity.key.next";
/// A key's file is one short line; of another file no more than this is read.
const KEY_BYTES_MAX: u64 = 1024;

/// An error in using a key. No variant reveals anything of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is none.
    #[error("{}: the agent's key is missing; put a copy back, or enrol with a new token in a new home", path.display())]
    Missing {
        /// The path at which it should be.
        path: PathBuf,
    },
    /// Others may read or change it.
    #[error(
        "{}: others may read or change this key (its mode is {mode:03o}, expected 600); if nobody has, \
         `chmod 600 {}`, else let the agent take a new key", path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file holds no key.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason why it holds no key.
        source: KeyUnreadable,
    },
    /// The system refuses.
    #[error("{}: {cause}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// There is no randomness to make one of.
    #[error("the operating system gives no random numbers ({cause}), so no key can be made")]
    NoRandomness {
        /// The system's error message.
        cause: String,
    },
}

/// The key of an agent, and the one that is to replace it.
#[derive(Debug)]
pub struct Identity {
    /// In force.
    pub key: SigningKey,
    /// A rotation has begun and is not complete: coordinators know the one or the other.
    pub next: Option<SigningKey>,
}

impl Identity {
    /// Reads the keys of a home.
    ///
    /// # Errors
    /// If there is none, or it is not its owner's alone.
    pub fn load(home: &Path) -> Result<Self, KeyError> {
        let path = home.join(KEY_FILE);
        Ok(Self {
            key: read(&path)?.ok_or(KeyError::Missing { path })?,
            next: read(&home.join(NEXT_FILE))?,
        })
    }

    /// Reads the keys of a home, after making one if there is none.
    ///
    /// # Errors
    /// If it cannot be made, or is not its owner's alone.
    pub fn load_or_make(home: &Path) -> Result<Self, KeyError> {
        let path = home.join(KEY_FILE);
        if read(&path)?.is_none() {
            write_new(&path, &make()?)?;
        }
        Self::load(home)
    }

    /// Makes the key that is to replace this one, unless that was done before.
    pub fn prepare_next(&mut self, home: &Path) -> Result<(), KeyError> {
        if self.next.is_none() {
            let path = home.join(NEXT_FILE);
            write_new(&path, &make()?)?;
            self.next = read(&path)?;
        }
        Ok(())
    }

    /// Puts the next key in force.
    pub fn adopt_next(home: &Path) -> Result<(), KeyError> {
        let (from, to) = (home.join(NEXT_FILE), home.join(KEY_FILE));
        std::fs::rename(&from, &to)
            .and_then(|()| sync_folder(&to))
            .map_err(|error| refused(&to, &error))
    }

    /// The keys, first the one with this public half if there is such.
    pub fn in_order(self, known: PublicKey) -> Vec<SigningKey> {
        let mut keys: Vec<SigningKey> = std::iter::once(self.key).chain(self.next).collect();
        if let Some(place) = keys.iter().position(|key| key.public() == known) {
            keys.swap(0, place);
        }
        keys
    }
}

/// 32 bytes of the operating system become a key.
fn make() -> Result<SigningKey, KeyError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| KeyError::NoRandomness {
        cause: error.to_string(),
    })?;
    Ok(SigningKey::from_seed(*seed))
}

fn read(path: &Path) -> Result<Option<SigningKey>, KeyError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path, &error)),
    };
    let meta = file.metadata().map_err(|error| refused(path, &error))?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(KEY_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| refused(path, &error))?;
    let key = SigningKey::from_file_text(&text).map_err(|source| KeyError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(key))
}

/// The file appears whole or not at all; one that another process was faster to write stays.
fn write_new(path: &Path, key: &SigningKey) -> Result<(), KeyError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-{}", std::process::id()));
    let part = PathBuf::from(name);
    let _ = std::fs::remove_file(&part); // of a process that was killed
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(key.to_file_text().as_bytes())?;
            file.sync_all()
        })
        // A link is refused where there is a file already; a rename would replace it.
        .and_then(|()| match std::fs::hard_link(&part, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        })
        .and_then(|()| sync_folder(path));
    let _ = std::fs::remove_file(&part);
    written.map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> KeyError {
    KeyError::Refused {
        path: path.to_owned(),
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let first = Identity::load_or_make(home.path()).unwrap();
        let again = Identity::load_or_make(home.path()).unwrap();
        assert_eq!(first.key.public(), again.key.public());
        let path = home.path().join(KEY_FILE);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Whoever writes second leaves the first one's key.
        write_new(&path, &make().unwrap()).unwrap();
        assert_eq!(
            Identity::load(home.path()).unwrap().key.public(),
            first.key.public()
        );
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_may_read_is_refused_with_the_way_out() {
        let home = tempfile::tempdir().unwrap();
        Identity::load_or_make(home.path()).unwrap();
        let path = home.path().join(KEY_FILE);
        for mode in [0o640, 0o604, 0o620, 0o777] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Identity::load(home.path()).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
            assert!(error.contains(&format!("{mode:03o}")), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "fedbo-secret-key-1 0123").unwrap();
        let error = Identity::load(home.path()).unwrap_err().to_string();
        assert!(
            error.contains("damaged") && !error.contains("0123"),
            "{error}"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            Identity::load(home.path()),
            Err(KeyError::Missing { .. })
        ));
    }

    #[test]
    fn the_next_key_is_made_once_and_takes_the_place_of_the_first() {
        let home = tempfile::tempdir().unwrap();
        let mut identity = Identity::load_or_make(home.path()).unwrap();
        identity.prepare_next(home.path()).unwrap();
        let mut again = Identity::load(home.path()).unwrap();
        again.prepare_next(home.path()).unwrap();
        let next = identity.next.as_ref().unwrap().public();
        assert_eq!(again.next.as_ref().unwrap().public(), next);
        assert_eq!(again.in_order(next)[0].public(), next);
        Identity::adopt_next(home.path()).unwrap();
        let after = Identity::load(home.path()).unwrap();
        assert!(after.key.public() == next && after.next.is_none());
    }
}
