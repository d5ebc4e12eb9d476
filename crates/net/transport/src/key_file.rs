//! Key files: secrets that nobody but their owner can read, in folders that nobody else can write (INV-26).

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fedbo_database::{beside, private, sync_folder};
use fedbo_wire::{KeyUnreadable, SigningKey};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use zeroize::Zeroizing;

/// A key's file is one short line; of another file no more than this is read.
const KEY_BYTES_MAX: u64 = 1024;

/// Behind the name of a secret that a process is writing; the id of the process follows.
const PART: &str = ".part-";

/// An error in using a key. No variant reveals anything of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Others may read or change the key.
    #[error(
        "{}: others may read or change this key (its mode is {mode:03o}, expected 600); if nobody has, `chmod 600 {}`; if somebody \
         may have, the key of an agent is replaced by `fedbo agent rotate`, and that of a coordinator by a new coordinator, which \
         takes on none of its studies", path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others can put files of theirs into the folder of the key.
    #[error(
        "{}: others can write in this folder (mode {mode:o}), and so replace the key in it; `chmod go-w {}`, or name a folder of \
         your own", path.display(), path.display()
    )]
    OpenFolder {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The folder of the key belongs to another user.
    #[error(
        "{}: this folder belongs to user {owner}, who can replace the key in it; run as that user, or name a folder of your own",
        path.display()
    )]
    OtherOwner {
        /// The folder.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
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
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// There is no randomness to make a key of.
    #[error("the operating system gives no random numbers ({0}), so no key can be made")]
    NoRandomness(getrandom::Error),
}

fn refused(path: &Path) -> impl Fn(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |cause| KeyError::Refused { path: path.clone(), cause }
}

/// Checks that a folder belongs to the user who runs this, or to the system's administrator, and that nobody else can put files
/// into it.
///
/// # Errors
/// If that is not so, or the folder cannot be looked at.
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

/// Reads a key; none if there is no file.
///
/// # Errors
/// If the file is not its owner's alone, or holds no key.
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

/// Reads a key, after drawing one if there is no file. The file appears whole or not at all; one that another process was faster
/// to write stays.
///
/// # Errors
/// If the file cannot be made, is not its owner's alone, or holds no key.
pub fn read_or_make_key(path: &Path) -> Result<SigningKey, KeyError> {
    if let Some(key) = read_key(path)? {
        remove_leftovers(path); // which may have the same secret
        return Ok(key);
    }
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(KeyError::NoRandomness)?;
    let key = SigningKey::from_seed(*seed);
    write_new_secret(path, &key.to_file_text()).map_err(refused(path))?;
    Ok(read_key(path)?.unwrap_or(key))
}

/// Writes a secret where there is none, for its owner alone: the file appears whole or not at all, and one that is there stays. On file
/// systems without hard links it is written in place, where a crash can leave it unfinished.
///
/// # Errors
/// What the system says.
pub fn write_new_secret(path: &Path, text: &str) -> std::io::Result<()> {
    if let Ok(target) = std::fs::read_link(path)
        && path.try_exists().is_ok_and(|exists| !exists)
    {
        let message = format!(
            "it is a link to {}, which is not there; put that back, or remove the link, and a file is made in its place",
            target.display()
        );
        return Err(std::io::Error::new(ErrorKind::NotFound, message));
    }
    remove_leftovers(path);
    // Of its own name, so that nobody else removes or links it while it is written.
    let part = beside(path, &format!("{PART}{}", std::process::id()));
    let _ = std::fs::remove_file(&part); // of a process that was killed
    let written = private()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        // A link is refused where there is a file already; a rename would replace it.
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

/// Removes what processes that are no more left of secrets that they were writing at this path.
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

/// Returns true if an error of making a hard link means that the file system has none.
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
        // No process has this id, the largest that there can be.
        let left = folder.path().join(format!("key.part-{}", i32::MAX));
        std::fs::write(&left, "of a process that was killed").unwrap();
        assert!(read_key(&path).unwrap().is_none());
        let first = read_or_make_key(&path).unwrap().public();
        assert_eq!(read_or_make_key(&path).unwrap().public(), first);
        assert_eq!(read_key(&path).unwrap().unwrap().public(), first);
        // Whoever writes second leaves the first one's key.
        write_new_secret(&path, &SigningKey::from_seed([1; 32]).to_file_text()).unwrap();
        assert_eq!(read_key(&path).unwrap().unwrap().public(), first);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// A key that is not kept would be another one each time.
    #[test]
    fn no_key_is_made_behind_a_link_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let error = read_or_make_key(&path).unwrap_err().to_string();
        assert!(error.contains("/key: it is a link to nowhere, which is not there"), "{error}");
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
