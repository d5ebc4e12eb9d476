//! Failures of a storage's file, and their conversion to errors.

use std::fmt;
use std::path::Path;

use fedbo_database as database;
use fedbo_database::FileFault;

use super::schema::{self, FORMAT};
use crate::StorageError;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
}

/// A failure that has not been turned into an error yet.
#[derive(Debug)]
pub(super) enum Failure {
    /// A failure of the file.
    Database(database::Failure),
    /// An error for the caller.
    Storage(StorageError),
}

impl From<database::Failure> for Failure {
    fn from(failure: database::Failure) -> Self {
        Self::Database(failure)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(failure) => failure.fmt(f),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Returns a failure for inconsistent stored data. `what` describes the inconsistency.
    pub(super) fn contradiction(what: impl Into<String>) -> Self {
        Self::Database(database::Failure::Contradiction(what.into()))
    }

    /// Returns true if the system does not allow opening the file for writing, but may allow
    /// reading.
    pub(super) fn is_denied_by_system(&self) -> bool {
        matches!(self, Self::Database(failure) if failure.is_denied_by_system())
    }

    /// Returns true if the stored data are damaged.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Database(failure) if failure.is_damage())
    }

    /// Converts the failure into the error to return to callers.
    pub(super) fn into_error(self, path: &Path, doing: Operation) -> StorageError {
        match self {
            Self::Storage(error) => error,
            Self::Database(failure) => error(failure.into_fault(&FORMAT), path, doing),
        }
    }
}

/// Converts a fault of the file at `path` to an error.
pub(super) fn error(fault: FileFault, path: &Path, doing: Operation) -> StorageError {
    let place = path.display().to_string();
    match (fault, doing) {
        (FileFault::Absent, _) => StorageError::Absent { place },
        (FileFault::NotOurs(message), _) => StorageError::NotAStorage { place, message },
        (FileFault::Version { found, expected }, _) => schema::other_version(found, expected, path),
        (FileFault::Refused(message), Operation::Read) => StorageError::Read { place, message },
        (FileFault::Refused(message), Operation::Write) => StorageError::Write { place, message },
        (FileFault::Gone, _) => StorageError::Gone { place },
        (FileFault::Damaged(message), _) => StorageError::Corrupt { place, message },
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn error(extended_code: i32, doing: Operation) -> StorageError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        Failure::from(error).into_error(Path::new("study.db"), doing)
    }

    /// Tests one code per kind of fault. The module that defines the conversion tests all codes.
    #[test]
    fn each_fault_has_an_error_of_its_own() {
        for doing in [Operation::Read, Operation::Write] {
            let refused = error(ffi::SQLITE_FULL, doing);
            assert_eq!(matches!(refused, StorageError::Read { .. }), doing == Operation::Read);
            assert_eq!(matches!(refused, StorageError::Write { .. }), doing == Operation::Write);
            assert!(refused.to_string().contains("the disk is full"), "{refused}");
            let damaged = error(ffi::SQLITE_CORRUPT, doing);
            assert!(matches!(damaged, StorageError::Corrupt { .. }), "{damaged:?}");
            let other = error(ffi::SQLITE_NOTADB, doing);
            assert!(matches!(other, StorageError::NotAStorage { .. }), "{other:?}");
        }
    }
}
