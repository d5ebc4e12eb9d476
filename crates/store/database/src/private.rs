//! Files that are created readable only by their owner (INV-26).

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held while a database file is created or opened.
static OPENING: Mutex<()> = Mutex::new(());

/// Returns options that create a missing file with read and write permission only for its owner,
/// regardless of the umask.
#[must_use]
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder and its missing parents with permissions only for the owner, regardless of the
/// umask. An existing folder keeps its permissions.
///
/// # Errors
/// The system's error.
pub fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Prevents other threads from opening a database while the guard is held.
///
/// Closing a file releases all POSIX locks that the process has on the file, including the locks of
/// SQLite's connections. A file created here is therefore closed before any connection can open it.
pub(crate) fn opening() -> MutexGuard<'static, ()> {
    // The mutex guards no data, so poisoning does not matter.
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an empty file that only its owner can access. An existing file is left unchanged. SQLite
/// gives the files next to a database the same permissions.
///
/// # Errors
/// The system's error.
pub(crate) fn create_private_file(
    path: &Path,
    _opening: &MutexGuard<'static, ()>,
) -> std::io::Result<()> {
    match private().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
