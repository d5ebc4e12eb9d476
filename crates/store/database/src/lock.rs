//! File locks that record their holder.
//!
//! Each lock is an operating-system lock on a separate file. The system releases it when the
//! holding process ends, even after a crash. Any process that can delete the file can bypass the
//! lock.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::private;

/// Retry time for a lock that this process itself seems to hold, and pause between two attempts.
/// The ratio of the two must stay below the number of attempts in [`Lock::take`].
const OWN_PATIENCE: Duration = Duration::from_millis(300);
const OWN_PAUSE: Duration = Duration::from_millis(5);

/// An exclusive lock on a file, released on drop.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Error of [`Lock::take`].
#[derive(Debug)]
pub enum NotLocked {
    /// Another process holds the lock: `process ID`, or `another process` if the file has no id.
    Held(String),
    /// The system refuses access to the lock file.
    Refused(PathBuf, std::io::Error),
}

impl Lock {
    /// Takes the lock on a file. The file is created with owner-only permissions, because any
    /// process that can read it can hold the lock.
    ///
    /// Does not wait for other processes. Retries for `OWN_PATIENCE` if this process itself seems
    /// to hold the lock, because between fork and exec, a child process has a copy of each open
    /// file and thus of the lock.
    ///
    /// # Errors
    /// If another process holds the lock, or the file cannot be opened for writing.
    pub fn take(path: &Path) -> Result<Self, NotLocked> {
        let refused = |error| NotLocked::Refused(path.to_owned(), error);
        let since = Instant::now();
        for _ in 0..100 {
            let mut file = private()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(refused)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let by = holder(&mut file);
                    let is_own = by == format!("process {}", std::process::id());
                    if is_own && since.elapsed() < OWN_PATIENCE {
                        std::thread::sleep(OWN_PAUSE);
                        continue;
                    }
                    return Err(NotLocked::Held(by));
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
            }
            // The file may have been deleted between opening and locking it.
            if !is_at(&file, path) {
                continue;
            }
            // The id is used only in messages, so a full disk does not matter.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "process {}", std::process::id()));
            return Ok(Self { _file: file });
        }
        Err(refused(std::io::Error::other("another process keeps replacing it")))
    }
}

/// Returns the holder's process id from the file, if it is readable.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(64).read_to_string(&mut text));
    let id: Option<u32> = text.trim().strip_prefix("process ").and_then(|id| id.parse().ok());
    match (read, id) {
        (Ok(_), Some(id)) => format!("process {id}"),
        _ => "another process".to_owned(),
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let key = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let here = file.metadata().map(key);
    let there = std::fs::metadata(path).map(key);
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        let held_by = || match Lock::take(&path) {
            Err(NotLocked::Held(by)) => by,
            other => panic!("{other:?}"),
        };
        assert_eq!(held_by(), format!("process {}", std::process::id()));
        // The content of the file is used only in messages. Changing it does not release the lock.
        std::fs::write(&path, "process x").unwrap();
        assert_eq!(held_by(), "another process");
        drop(first);
        Lock::take(&path).unwrap();
        let absent = folder.path().join("absent/lock");
        assert!(matches!(Lock::take(&absent), Err(NotLocked::Refused(..))));
    }
}
