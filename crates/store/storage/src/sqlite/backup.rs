//! Copies a storage's file.

use std::path::Path;

use super::failure::{Failure, Operation};
use super::locate;
use crate::{Mode, StorageError};

/// Copies a consistent snapshot of a storage's file to a new file, which is durable when this
/// returns. Studies can continue to run.
///
/// # Errors
/// Same as for [`crate::open`]; [`StorageError::Write`] if `to` exists or cannot be written.
pub fn backup(path: &Path, to: &Path) -> Result<(), StorageError> {
    let (file, _) = locate(path, Mode::Existing)?;
    let refused = |doing, path| move |f| Failure::from(f).into_error(path, doing);
    file.open_for_reading().map_err(refused(Operation::Read, path))?;
    file.copy_to(to).map_err(refused(Operation::Write, to))
}
