//! Key files: secrets that only their owner can read, in folders that only the owner can write
//! (INV-26).

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fedbo_database::{beside, private, sync_folder};
use fedbo_wire::{KeyUnreadable, SigningKey};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use zeroize::Zeroizing;

/// Maximum number of bytes to read from a key file. A valid file contains one short line.
const KEY_BYTES_MAX: u64 = 1024;

/// Separates the file name of a secret from the id of the writing process in the names of temporary
/// files.
const PART: &str = ".part-";

/// Error when reading or writing a key. No variant reveals anything about the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Other users can read or change the key.
    #[error(
        "{}: others may read or change this key (its mode is {mode:03o}, expected 600); if nobody \
         has, `chmod 600 {}`; if somebody may have, replace the key of an agent with `fedbo agent \
         rotate`, and that of a coordinator with a new coordinator, which cannot take over its \
         studies", path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The file's permissions.
        mode: u32,
    },
    /// Other users can create files in the key's folder.
    #[error(
        "{}: others can write to this folder (mode {mode:o}) and so replace the key in it; `chmod \
         go-w {}`, or name a folder of your own", path.display(), path.display()
    )]
    OpenFolder {
        /// The folder.
        path: PathBuf,
        /// The folder's permissions.
        mode: u32,
    },
    /// The key's folder belongs to another user.
    #[error(
        "{}: this folder belongs to user {owner}, so that user can replace the key in it; run as that user, or name a folder of your own",
        path.display()
    )]
    OtherOwner {
        /// The folder.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// The file does not contain a key.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The parse error.
        source: KeyUnreadable,
    },
    /// The operating system returned an error.
    #[error("{}: {cause}", path.display())]
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The operating system provides no random numbers for a new key.
    #[error("cannot make a key: the operating system provides no random numbers ({0})")]
    NoRandomness(getrandom::Error),
}

fn refused(path: &Path) -> impl Fn(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |cause| KeyError::Refused { path: path.clone(), cause }
}

/// Checks that a folder belongs to the current user or to root, and that only its owner can add
/// files. Skips the check of the owner if the current user is root.
///
/// # Errors
/// If the check fails, or the folder cannot be inspected.
pub fn check_folder(path: &Path) -> Result<(), KeyError> {
    let metadata = std::fs::metadata(path).map_err(refused(path))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        let path = path.to_owned();
        return Err(KeyError::OpenFolder { path, mode });
    }
    let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != us && owner != 0 && us != 0 {
        let path = path.to_owned();
        return Err(KeyError::OtherOwner { path, owner });
    }
    Ok(())
}

/// Reads a key. Returns `None` if the file does not exist.
///
/// # Errors
/// If other users can access the file, or it does not contain a key.
pub fn read_key(path: &Path) -> Result<Option<SigningKey>, KeyError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path)(error)),
    };
    let mode = file.metadata().map_err(refused(path))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(KeyError::Exposed { path, mode });
    }
    let mut text = Zeroizing::new(String::new());
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(refused(path))?;
    match SigningKey::from_file_text(&text) {
        Ok(key) => Ok(Some(key)),
        Err(source) => Err(KeyError::Unreadable { path: path.to_owned(), source }),
    }
}

/// Reads a key, or creates one if the file does not exist.
///
/// The file is created atomically. If another process creates it first, that process's key is used.
///
/// # Errors
/// If the file cannot be created, other users can access it, or it does not contain a key.
pub fn read_or_make_key(path: &Path) -> Result<SigningKey, KeyError> {
    if let Some(key) = read_key(path)? {
        remove_leftovers(path); // they may contain the same secret
        return Ok(key);
    }
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(KeyError::NoRandomness)?;
    let key = SigningKey::from_seed(*seed);
    write_new_secret(path, &key.to_file_text()).map_err(refused(path))?;
    Ok(read_key(path)?.unwrap_or(key))
}

/// Writes a secret to a file that only its owner can access, unless the file already exists.
///
/// The file is created atomically. On file systems without hard links, it is written in place, so a
/// crash can leave it incomplete.
///
/// # Errors
/// If a file operation fails, or the path is a link to a missing file.
pub fn write_new_secret(path: &Path, text: &str) -> std::io::Result<()> {
    if let Ok(target) = std::fs::read_link(path)
        && path.try_exists().is_ok_and(|exists| !exists)
    {
        let message = format!(
            "it is a link to {}, which does not exist; restore that file, or remove the link to have a file created in its place",
            target.display()
        );
        return Err(std::io::Error::new(ErrorKind::NotFound, message));
    }
    remove_leftovers(path);
    // The name contains this process's id, so no other process removes or links the file while it
    // is being written.
    let part = beside(path, &format!("{PART}{}", std::process::id()));
    let _ = std::fs::remove_file(&part); // left by a killed process with the same id
    let written = private()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        // Creating a hard link fails if the file exists, whereas a rename would replace it.
        .and_then(|()| match std::fs::hard_link(&part, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if has_no_links(&error) => {
                match private().write(true).create_new(true).open(path) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                    Err(error) => Err(error),
                    Ok(mut file) => {
                        file.write_all(text.as_bytes())?;
                        file.sync_all()
                    }
                }
            }
            linked => linked,
        });
    let _ = std::fs::remove_file(&part);
    written.and_then(|()| sync_folder(path))
}

/// Removes temporary files left by dead processes that were writing a secret to this path.
fn remove_leftovers(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let start = path.file_name().unwrap_or_default().to_string_lossy() + PART;
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_string_lossy().strip_prefix(&*start).and_then(|id| id.parse().ok());
        let id = id.and_then(|id: u32| Pid::from_raw(id.try_into().ok()?));
        if id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns true if creating a hard link failed because the file system does not support it.
fn has_no_links(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        // This is the largest possible process id, which no process has.
        let left = folder.path().join(format!("key.part-{}", i32::MAX));
        std::fs::write(&left, "of a process that was killed").unwrap();
        assert!(read_key(&path).unwrap().is_none());
        let first = read_or_make_key(&path).unwrap().public();
        assert_eq!(read_or_make_key(&path).unwrap().public(), first);
        assert_eq!(read_key(&path).unwrap().unwrap().public(), first);
        // A second writer keeps the first one's key.
        write_new_secret(&path, &SigningKey::from_seed([1; 32]).to_file_text()).unwrap();
        assert_eq!(read_key(&path).unwrap().unwrap().public(), first);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// A dangling link is an error, because a key that cannot be stored would differ at each start.
    #[test]
    fn no_key_is_made_behind_a_link_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let error = read_or_make_key(&path).unwrap_err().to_string();
        assert!(error.contains("/key: it is a link to nowhere, which does not exist"), "{error}");
    }

    #[test]
    fn a_key_that_others_may_use_is_refused_and_so_is_a_damaged_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        read_or_make_key(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o777] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_key(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
            assert!(error.contains(&format!("{mode:03o}")), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "fedbo-secret-key-1 0123").unwrap();
        let error = read_key(&path).unwrap_err().to_string();
        assert!(error.contains("damaged") && !error.contains("0123"), "{error}");
    }
}
