//! One process at a time writes a ledger.
//!
//! The lock is the system's, on a file beside the ledger: it ends with the process that holds it, however that ends, and so is
//! free at once for the next. It keeps two runs from computing the same study; that only one of them can commit is held by the
//! fencing token in the ledger itself, also where somebody deletes the lock's file.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fedbo_database::{beside, private};

/// For how long a lock is tried again that this process seems to hold itself, and the pause between two tries: fewer of them than
/// tries altogether.
const OWN_PATIENCE: Duration = Duration::from_millis(300);
const OWN_PAUSE: Duration = Duration::from_millis(5);

/// The lock of one ledger, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The reason why a lock cannot be taken.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Somebody holds it: who, in words.
    Held(String),
    /// The system refuses, with the file that it concerns.
    Refused(PathBuf, std::io::Error),
}

impl Lock {
    /// Takes the lock of the ledger at `path`, at once or not at all; one that this very process seems to hold, within
    /// [`OWN_PATIENCE`].
    pub(crate) fn take(path: &Path) -> Result<Self, NotLocked> {
        let path = beside(path, "-lock");
        let refused = |error| NotLocked::Refused(path.clone(), error);
        let since = Instant::now();
        for _ in 0..100 {
            // Who can read it can hold it.
            let mut file = private()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(refused)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let by = holder(&mut file);
                    // A program that this process is just starting has a copy of what it let go of, until it runs.
                    let is_own = by == format!("process {}", std::process::id());
                    if is_own && since.elapsed() < OWN_PATIENCE {
                        std::thread::sleep(OWN_PAUSE);
                        continue;
                    }
                    return Err(NotLocked::Held(by));
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
            }
            // Somebody may have deleted it between the opening and the locking.
            if !is_at(&file, &path) {
                continue;
            }
            // Only for messages: a full disk does not matter.
            let _ = file
                .set_len(0)
                .and_then(|()| writeln!(file, "process {}", std::process::id()));
            return Ok(Self { _file: file });
        }
        Err(refused(std::io::Error::other(
            "somebody keeps replacing it",
        )))
    }
}

/// Returns what the holder wrote about itself: `process` and its id, or `another process` if that cannot be read.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(64).read_to_string(&mut text));
    let text = text.trim();
    let pid = text.strip_prefix("process ");
    let is_known = read.is_ok()
        && pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()));
    if is_known {
        text.to_owned()
    } else {
        "another process".to_owned()
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
