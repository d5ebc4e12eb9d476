//! One process at a time runs a study of a home, or changes its key.
//!
//! The lock is the system's, on a file in the home: it ends with the process that holds it, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::HomeError;

/// A lock, held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of this file, at once or not at all; `what` says what a holder of it does.
    ///
    /// # Errors
    /// If another process holds it, or the file cannot be written.
    pub fn take(path: &Path, what: &str) -> Result<Self, HomeError> {
        let refused = |error: std::io::Error| HomeError::Folder {
            path: path.to_owned(),
            cause: error.to_string(),
        };
        for _ in 0..100 {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(refused)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(HomeError::Held {
                        path: path.to_owned(),
                        by: holder(&mut file),
                        what: what.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
            }
            // Somebody may have deleted it between the opening and the locking.
            if !is_at(&file, path) {
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

/// The holder of the lock, in words: the process that it wrote into the file, if that can be read.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(64).read_to_string(&mut text));
    let pid = text.trim().strip_prefix("process ");
    let is_number = |pid: &str| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit());
    match (read, pid) {
        (Ok(_), Some(pid)) if is_number(pid) => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let key = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let here = file.metadata().map(key);
    let there = std::fs::metadata(path).map(key);
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}
