//! Files that nobody but their owner may read, from their first moment on (INV-26).

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a file is opened or begun.
static OPENING: Mutex<()> = Mutex::new(());

/// Options with which a file that is not there is created readable and writable for its owner alone, whatever the umask allows.
#[must_use]
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder for its owner alone, whatever the umask allows, and those above it that are missing; one that is there stays as it
/// is.
///
/// # Errors
/// The error that the system reports.
pub fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Keeps other threads from opening a database meanwhile.
///
/// Closing a file ends all locks that the process has on it, also those of SQLite's connections. So a file that is begun here is
/// closed again before any connection can open it.
pub(crate) fn opening() -> MutexGuard<'static, ()> {
    // Nothing is guarded but the order.
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins an empty file that its owner alone may read; one that is there stays as it is. SQLite gives what it lays beside a database
/// the database's permissions.
///
/// # Errors
/// The error that the system reports.
pub(crate) fn begin_file(path: &Path, _opening: &MutexGuard<'static, ()>) -> std::io::Result<()> {
    match private().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
