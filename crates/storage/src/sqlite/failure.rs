//! What goes wrong in SQLite, in words of ours.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::StorageError;

/// What was being done when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Read,
    Write,
}

/// Something that went wrong, not yet put into words.
#[derive(Debug)]
pub(super) enum Failure {
    /// In SQLite.
    Sql(rusqlite::Error),
    /// The file may only be read.
    ReadOnly,
    /// The path does not lead to the open file any more.
    Moved,
    /// What is stored contradicts itself, in words.
    Contradiction(String),
    /// In words already.
    Storage(StorageError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
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
            Self::Sql(error) => f.write_str(&plain(error)),
            Self::ReadOnly => f.write_str("it is read-only"),
            Self::Moved => f.write_str("it was moved"),
            Self::Contradiction(what) => f.write_str(what),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl Failure {
    fn code(&self) -> Option<ffi::Error> {
        match self {
            Self::Sql(error) => error.sqlite_error().copied(),
            _ => None,
        }
    }

    /// Whether others are at work, so that it may go well in a moment.
    pub(super) fn is_busy(&self) -> bool {
        let code = self.code().map(|error| error.code);
        matches!(
            code,
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::FileLockingProtocolFailed
            )
        )
    }

    /// Whether the system refuses something to a writer that it may grant to a reader.
    pub(super) fn is_of_the_system(&self) -> bool {
        let code = self.code().map(|error| error.code);
        matches!(self, Self::ReadOnly)
            || matches!(
                code,
                Some(
                    ErrorCode::ReadOnly
                        | ErrorCode::CannotOpen
                        | ErrorCode::PermissionDenied
                        | ErrorCode::SystemIoFailure
                        | ErrorCode::DiskFull
                )
            )
    }

    /// Whether what is stored is broken.
    pub(super) fn is_damage(&self) -> bool {
        let code = self.code().map(|error| error.code);
        match self {
            Self::Sql(error) if code.is_none() => !matches!(error, rusqlite::Error::NulError(_)),
            Self::Sql(_) => matches!(
                code,
                Some(
                    ErrorCode::DatabaseCorrupt
                        | ErrorCode::Unknown
                        | ErrorCode::SchemaChanged
                        | ErrorCode::ConstraintViolation
                        | ErrorCode::TypeMismatch
                )
            ),
            Self::Contradiction(_) => true,
            Self::ReadOnly | Self::Moved | Self::Storage(_) => false,
        }
    }

    /// The error that a caller sees.
    pub(super) fn into_error(self, path: &Path, doing: Doing) -> StorageError {
        let path = path.to_owned();
        let refused = |path, message: String| match doing {
            Doing::Read => StorageError::Read { path, message },
            Doing::Write => StorageError::Write { path, message },
        };
        let corrupt = |path, what: String| StorageError::Corrupt {
            path,
            message: format!("{what}; `fedbo storage verify` lists what is wrong"),
        };
        let is_damage = self.is_damage();
        let error = match self {
            Self::Storage(error) => return error,
            Self::Contradiction(what) => return corrupt(path, what),
            Self::ReadOnly => {
                let message = "the file is read-only; make it writable or name another".to_owned();
                return refused(path, message);
            }
            Self::Moved => return StorageError::Gone { path },
            Self::Sql(error) => error,
        };
        let Some(code) = error.sqlite_error().copied() else {
            return corrupt(
                path,
                format!("its rows are not as expected: {}", plain(&error)),
            );
        };
        match code.code {
            ErrorCode::DiskFull => refused(
                path,
                "the disk is full; what was stored stays, free some space and go on".to_owned(),
            ),
            ErrorCode::SystemIoFailure => refused(path, io_message(code.extended_code)),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => refused(
                path,
                "the file or its folder is read-only; make both writable or name another file"
                    .to_owned(),
            ),
            ErrorCode::CannotOpen => refused(
                path,
                "the file, or one that belongs beside it (-wal, -shm), cannot be opened; check the permissions of the \
                 file and of its folder"
                    .to_owned(),
            ),
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed => refused(
                path,
                format!(
                    "another process has kept it locked for {} s; end that process or try again",
                    super::connection::PATIENCE.as_secs()
                ),
            ),
            ErrorCode::NotADatabase => StorageError::NotAStorage {
                path,
                message: "it is no storage of studies (not a SQLite file, or its head is damaged); name another file, or \
                          put a backup in its place, after removing the files of this name that end in -wal and -shm"
                    .to_owned(),
            },
            ErrorCode::DatabaseCorrupt => StorageError::Corrupt {
                path,
                message: "the file is damaged; `fedbo storage verify` lists what is wrong; a backup is the way out, after \
                          removing the files of this name that end in -wal and -shm"
                    .to_owned(),
            },
            _ if is_damage => corrupt(
                path,
                format!("its tables are not as expected: {}", plain(&error)),
            ),
            _ => refused(path, plain(&error)),
        }
    }
}

/// What SQLite says, without the statement.
fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    }
}

fn io_message(extended_code: i32) -> String {
    let what = match extended_code {
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ => "reading failed",
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_TRUNCATE => {
            "writing failed; is there a quota or a limit of file sizes?"
        }
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            "the disk does not confirm that it has stored the data; check the disk"
        }
        ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMMAP => {
            "the file -shm beside it cannot be laid out; is the disk full, or in a network?"
        }
        ffi::SQLITE_IOERR_LOCK
        | ffi::SQLITE_IOERR_RDLOCK
        | ffi::SQLITE_IOERR_UNLOCK
        | ffi::SQLITE_IOERR_SHMLOCK => {
            "the file cannot be locked; it must lie on a disk of this machine"
        }
        _ => "the disk or the file system refuses to work",
    };
    format!("{what} (SQLite code {extended_code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(extended_code: i32, doing: Doing) -> StorageError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        Failure::Sql(error).into_error(Path::new("study.db"), doing)
    }

    #[test]
    fn each_code_has_an_error_that_says_what_to_do() {
        for (code, part) in [
            (ffi::SQLITE_FULL, "the disk is full"),
            (ffi::SQLITE_READONLY, "read-only"),
            (ffi::SQLITE_READONLY_DIRECTORY, "read-only"),
            (ffi::SQLITE_READONLY_CANTINIT, "read-only"),
            (ffi::SQLITE_CANTOPEN, "permissions"),
            (ffi::SQLITE_CANTOPEN_ISDIR, "permissions"),
            (ffi::SQLITE_IOERR_WRITE, "quota"),
            (ffi::SQLITE_IOERR_FSYNC, "check the disk"),
            (ffi::SQLITE_IOERR_SHMSIZE, "disk full"),
            (ffi::SQLITE_IOERR_LOCK, "disk of this machine"),
            (ffi::SQLITE_IOERR_CORRUPTFS, "SQLite code 8458"),
            (ffi::SQLITE_BUSY, "locked for 30 s"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "locked for 30 s"),
            (ffi::SQLITE_PROTOCOL, "locked for 30 s"),
            (ffi::SQLITE_NOMEM, ""),
        ] {
            let written = error(code, Doing::Write);
            assert!(matches!(written, StorageError::Write { .. }), "{written:?}");
            assert!(written.to_string().contains(part), "{written}");
            let read = error(code, Doing::Read);
            assert!(matches!(read, StorageError::Read { .. }), "{read:?}");
            assert!(read.to_string().contains(part), "{read}");
        }
        for doing in [Doing::Read, Doing::Write] {
            for code in [
                ffi::SQLITE_CORRUPT,
                ffi::SQLITE_CORRUPT_INDEX,
                ffi::SQLITE_ERROR,
                ffi::SQLITE_CONSTRAINT_CHECK,
            ] {
                let damaged = error(code, doing);
                assert!(
                    matches!(damaged, StorageError::Corrupt { .. }),
                    "{damaged:?}"
                );
            }
            let other = error(ffi::SQLITE_NOTADB, doing);
            assert!(
                matches!(other, StorageError::NotAStorage { .. }),
                "{other:?}"
            );
        }
    }
}
