//! The folder of a party: its owner's alone.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::HomeError;

/// Makes a folder for its owner alone, unless it is there.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> Result<(), HomeError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| HomeError::Folder {
        path: folder.to_owned(),
        cause: error.to_string(),
    })
}

/// That nobody but its owner, who is who runs this or the system's administrator, can put other files into a folder (INV-26).
pub fn check_folder(folder: &Path) -> Result<(), HomeError> {
    let Ok(metadata) = std::fs::metadata(folder) else {
        return Ok(()); // there is none, as whoever opens it says
    };
    let path = folder.to_owned();
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(HomeError::OpenFolder { path, mode });
    }
    let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != us && owner != 0 && us != 0 {
        return Err(HomeError::OtherOwner { path, owner });
    }
    Ok(())
}

/// Takes a file that an earlier version left readable to others back from them; one that is not there is made private by who makes it.
pub fn keep_private(path: &Path) -> Result<(), HomeError> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mut permissions = metadata.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    permissions.set_mode(0o600);
    std::fs::set_permissions(path, permissions).map_err(|error| HomeError::Folder {
        path: path.to_owned(),
        cause: error.to_string(),
    })
}
