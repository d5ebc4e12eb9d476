//! File locks that name their holder.
//!
//! A lock is the system's, on a file of its own: it ends with the process that holds it, however that ends, and is free at once
//! for the next. Whoever can delete the file can evade it.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::private;

/// The time for which a lock is tried again that this process seems to hold itself, and the pause between two tries: fewer of them than
/// tries altogether.
const OWN_PATIENCE: Duration = Duration::from_millis(300);
const OWN_PAUSE: Duration = Duration::from_millis(5);

/// An exclusive lock on a file, held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// An error in taking a lock.
#[derive(Debug)]
pub enum NotLocked {
    /// Another holds it: `process` and its id, or `another process` where it has not said so.
    Held(String),
    /// The system refuses the lock's file.
    Refused(PathBuf, std::io::Error),
}

impl Lock {
    /// Takes the lock of a file, which is made for its owner alone: whoever can read it can hold it. Waits for nobody, but tries
    /// again for `OWN_PATIENCE` where this very process seems to hold it: a program that it is just starting has a copy of each
    /// of its open files until it runs.
    ///
    /// # Errors
    /// If another holds the lock, or the file cannot be opened for writing.
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
            // The file may have been deleted between the opening and the locking.
            if !is_at(&file, path) {
                continue;
            }
            // For messages alone: a full disk does not matter.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "process {}", std::process::id()));
            return Ok(Self { _file: file });
        }
        Err(refused(std::io::Error::other("somebody keeps replacing it")))
    }
}

/// Returns what the holder wrote of itself, if that can be read.
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
        // What stands in the file is for messages: it frees nothing.
        std::fs::write(&path, "process x").unwrap();
        assert_eq!(held_by(), "another process");
        drop(first);
        Lock::take(&path).unwrap();
        let absent = folder.path().join("absent/lock");
        assert!(matches!(Lock::take(&absent), Err(NotLocked::Refused(..))));
    }
}
