//! A party's folder, which only its owner can access.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fedbo_database::{Lock, NotLocked, private_folder};

use crate::HomeError;

fn refused(path: &Path) -> impl Fn(std::io::Error) -> HomeError {
    let path = path.to_owned();
    move |cause| HomeError::Folder { path: path.clone(), cause: cause.to_string() }
}

/// Creates a folder that only its owner can access, unless it already exists.
///
/// # Errors
/// If the folder cannot be created.
pub fn make_folder(folder: &Path) -> Result<(), HomeError> {
    private_folder(folder).map_err(refused(folder))
}

/// Locks a file without waiting. In error messages, `what` describes the holder's work.
///
/// # Errors
/// If another process holds the lock, or the file cannot be written.
pub fn hold(path: &Path, what: &str) -> Result<Lock, HomeError> {
    Lock::take(path).map_err(|error| match error {
        NotLocked::Held(by) => HomeError::Held { path: path.to_owned(), by, what: what.to_owned() },
        NotLocked::Refused(path, cause) => refused(&path)(cause),
    })
}

/// Makes a file private, in case an earlier version left it readable to other users. Does nothing
/// if the file does not exist, because new files are created private.
///
/// # Errors
/// If the permissions cannot be changed.
pub fn keep_private(path: &Path) -> Result<(), HomeError> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mut permissions = metadata.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    permissions.set_mode(0o600);
    std::fs::set_permissions(path, permissions).map_err(refused(path))
}
