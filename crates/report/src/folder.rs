//! The results folder. One run at a time can lock it, and files are written atomically.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fedbo_space::cell::escaped;

use super::error::ReportError;

/// Name of a run's lock file.
const LOCK_FILE: &str = ".lock";

/// An exclusive lock on a results folder, held until it is dropped or the process ends.
#[derive(Debug)]
pub struct FolderLock {
    _held: File,
}

impl FolderLock {
    /// Locks a folder. Creates it if necessary.
    ///
    /// # Errors
    /// Returns [`ReportError::Locked`] if another run is writing there. Also fails if the folder
    /// cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, ReportError> {
        std::fs::create_dir_all(folder)
            .map_err(|cause| ReportError::CreateFolder { path: folder.to_owned(), cause })?;
        let path = folder.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|cause| ReportError::Write { path: path.clone(), cause })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _held: file }),
            Err(TryLockError::WouldBlock) => Err(ReportError::Locked { path: folder.to_owned() }),
            Err(TryLockError::Error(cause)) => Err(ReportError::Write { path, cause }),
        }
    }
}

/// Writes a file atomically: writes a temporary file, then renames it into place.
///
/// On failure, an existing file is unchanged. Concurrent writers of the same file are serialized.
///
/// # Errors
/// Returns [`ReportError::Write`] if the file cannot be written or moved into place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let aside = PathBuf::from(aside);
    let written = begin_aside(&aside).and_then(|mut file| {
        let placed = file.write_all(bytes).and_then(|()| std::fs::rename(&aside, path));
        placed.inspect_err(|_| drop(std::fs::remove_file(&aside))) // best effort: the temporary file is no longer needed
    });
    written.map_err(|cause| ReportError::Write { path: path.to_owned(), cause })
}

/// Creates the temporary file, empty and locked. Concurrent writers wait. A file left behind by a
/// killed process is reused.
fn begin_aside(path: &Path) -> std::io::Result<File> {
    for _ in 0..1000 {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.lock() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(()) | Err(_) => {} // without file locks, writers do not wait
        }
        // Another writer may have renamed this file into place while we waited for the lock, so
        // check that the path still refers to it.
        let (own, there) = (file.metadata()?, std::fs::metadata(path));
        if there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
    Err(std::io::Error::other("other programs keep writing it; try again when they have finished"))
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), ReportError> {
    match std::fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(ReportError::Write { path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// Formats a table as CSV. Strings are escaped so that no spreadsheet interprets them as formulas.
pub(crate) fn table_bytes<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in std::iter::once(head.map(str::to_owned)).chain(rows) {
        writer.write_record(row.iter().map(|cell| escaped(cell).into_owned()))?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_holds_a_folder_at_a_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let held = FolderLock::acquire(folder.path()).expect("a free folder");
        let second = FolderLock::acquire(folder.path());
        assert!(matches!(second, Err(ReportError::Locked { .. })));
        drop(held);
        assert!(FolderLock::acquire(folder.path()).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("summary.json");
        write_whole(&path, b"old").expect("a writable folder");
        std::fs::create_dir(folder.path().join("summary.json.part")).expect("in the way");
        let failed = write_whole(&path, b"new");
        assert!(matches!(failed, Err(ReportError::Write { .. })));
        assert_eq!(std::fs::read(&path).expect("the old file"), b"old");
    }

    #[test]
    fn those_who_write_one_file_at_once_take_turns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("all.csv");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        write_whole(&path, b"whole").expect("its turn");
                    }
                });
            }
        });
        assert_eq!(std::fs::read(&path).expect("a file"), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
