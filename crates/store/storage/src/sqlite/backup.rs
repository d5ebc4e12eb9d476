//! A copy of a storage's file.

use std::path::Path;

use super::failure::{Failure, Operation};
use super::locate;
use crate::{Mode, StorageError};

/// Copies a storage's file, as it is at one moment, to a new file that is on the disk when this returns; also while studies run.
///
/// # Errors
/// As for [`crate::open`]; [`StorageError::Write`] if there is something at `to` or it cannot be written.
pub fn backup(path: &Path, to: &Path) -> Result<(), StorageError> {
    let (file, _) = locate(path, Mode::Existing)?;
    let refused = |doing, path| move |f| Failure::from(f).into_error(path, doing);
    file.open_for_reading().map_err(refused(Operation::Read, path))?;
    file.copy_to(to).map_err(refused(Operation::Write, to))
}
