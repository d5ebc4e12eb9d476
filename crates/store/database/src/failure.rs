//! SQLite errors, and their messages for users.

use std::fmt;

use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::{Content, Format, PATIENCE};

/// A failure that has not been turned into a message yet.
#[derive(Debug)]
pub enum Failure {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// The file is read-only.
    ReadOnly,
    /// The system refused an operation. Contains the reason.
    Refused(String),
    /// The path no longer refers to the open file.
    Moved,
    /// The stored data are inconsistent. Contains a description.
    Contradiction(String),
    /// The file is empty or belongs to another program.
    NotOurs(Content),
    /// The layout has a different version.
    Version {
        /// The file's version.
        found: i64,
        /// This program's version.
        expected: i64,
    },
}

/// A failure that a user can act on. The caller adds the path and the operation to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The file does not exist.
    Absent,
    /// The file does not have this format. Contains a description of the content, and how to fix
    /// the problem.
    NotOurs(String),
    /// The layout has a different version.
    Version {
        /// The file's version.
        found: i64,
        /// This program's version.
        expected: i64,
    },
    /// The file or its disk refused an operation, temporarily or permanently. Contains the system's
    /// error, and how to fix the problem.
    Refused(String),
    /// The file is no longer where it was opened.
    Gone,
    /// The stored data are damaged. Contains a description of the damage, and how to fix it.
    Damaged(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(error) => f.write_str(&plain(error)),
            Self::ReadOnly => f.write_str("it is read-only"),
            Self::Refused(what) => f.write_str(what),
            Self::Moved => f.write_str("it was moved"),
            Self::Contradiction(what) => f.write_str(what),
            Self::NotOurs(Content::Empty) => f.write_str("it is empty"),
            Self::NotOurs(_) => f.write_str("it is a file of another program"),
            Self::Version { found, expected } => {
                write!(f, "its layout has version {found}, expected {expected}")
            }
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

    /// Returns true if other processes are using the file, so that a retry may soon succeed.
    pub(crate) fn is_busy(&self) -> bool {
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

    /// Returns true if the system does not allow opening the file for writing, but may allow
    /// reading.
    pub fn is_denied_by_system(&self) -> bool {
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

    /// Returns true if the stored data are damaged.
    pub fn is_damage(&self) -> bool {
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
            Self::ReadOnly
            | Self::Refused(_)
            | Self::Moved
            | Self::NotOurs(_)
            | Self::Version { .. } => false,
        }
    }

    /// Converts the failure into the fault to report to callers, for a file of this format.
    #[must_use]
    pub fn into_fault(self, format: &Format) -> FileFault {
        let damaged = |what: String| FileFault::Damaged(format!("{what}; {}", format.first_aid()));
        let refused = |message: &str| FileFault::Refused(message.to_owned());
        let is_damage = self.is_damage();
        let error = match self {
            Self::Contradiction(what) => return damaged(what),
            Self::Refused(what) => return FileFault::Refused(what),
            Self::ReadOnly => {
                return refused("the file is read-only; make it writable or name another");
            }
            Self::Moved => return FileFault::Gone,
            Self::NotOurs(Content::Empty) => {
                return FileFault::NotOurs(format!("it is empty, {}", format.never));
            }
            Self::NotOurs(_) => {
                let message = "it is a SQLite file of another program; name another file";
                return FileFault::NotOurs(message.to_owned());
            }
            Self::Version { found, expected } => return FileFault::Version { found, expected },
            Self::Sql(error) => error,
        };
        let Some(code) = error.sqlite_error().copied() else {
            return damaged(format!("its rows are not as expected: {}", plain(&error)));
        };
        match code.code {
            ErrorCode::DiskFull => {
                refused("the disk is full; stored data is intact, free some space and continue")
            }
            ErrorCode::SystemIoFailure => FileFault::Refused(io_message(code.extended_code)),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => refused(
                "the file or its folder is read-only; make both writable or name another file",
            ),
            ErrorCode::CannotOpen => refused(
                "the file, or one of its companion files (-wal, -shm), cannot be opened; check the \
                 permissions of the file and of its folder",
            ),
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed => FileFault::Refused(format!(
                "another process has kept it locked for {} s; end that process or try again",
                PATIENCE.as_secs()
            )),
            ErrorCode::NotADatabase => FileFault::NotOurs(format!(
                "it is not a valid {} (not a SQLite file, or its header is damaged); name another \
                 file, or replace it with a backup after removing the files of this name that end \
                 in -wal and -shm",
                format.what
            )),
            ErrorCode::DatabaseCorrupt => FileFault::Damaged(format!(
                "the file is damaged; {}; restore a backup after removing the files of this name that end in -wal and -shm",
                format.first_aid()
            )),
            _ if is_damage => damaged(format!("its tables are not as expected: {}", plain(&error))),
            _ => FileFault::Refused(plain(&error)),
        }
    }
}

/// Returns SQLite's message without the SQL statement.
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
            "writing failed; is there a quota or a file size limit?"
        }
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            "the disk does not confirm that it has stored the data; check the disk"
        }
        ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_SHMMAP => {
            "the -shm file beside it cannot be created; is the disk full, or a network disk?"
        }
        ffi::SQLITE_IOERR_LOCK
        | ffi::SQLITE_IOERR_RDLOCK
        | ffi::SQLITE_IOERR_UNLOCK
        | ffi::SQLITE_IOERR_SHMLOCK => {
            "the file cannot be locked; it must be on a disk of this machine"
        }
        _ => "the disk or the file system has failed",
    };
    format!("{what} (SQLite code {extended_code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        application_id: 1,
        steps: &[],
        what: "collection of stamps",
        never: "no stamp was ever put into it",
        verify: Some("stamps verify"),
    };

    fn fault(extended_code: i32) -> FileFault {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None);
        Failure::Sql(error).into_fault(&FORMAT)
    }

    #[test]
    fn each_code_has_a_fault_that_says_what_to_do() {
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
            match fault(code) {
                FileFault::Refused(message) => assert!(message.contains(part), "{message}"),
                other => panic!("{other:?}"),
            }
        }
        for code in [
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_CORRUPT_INDEX,
            ffi::SQLITE_ERROR,
            ffi::SQLITE_CONSTRAINT_CHECK,
        ] {
            match fault(code) {
                FileFault::Damaged(message) => {
                    assert!(message.contains("`stamps verify`"), "{message}")
                }
                other => panic!("{other:?}"),
            }
        }
        match fault(ffi::SQLITE_NOTADB) {
            FileFault::NotOurs(message) => {
                assert!(message.contains("not a valid collection of stamps"), "{message}")
            }
            other => panic!("{other:?}"),
        }
    }
}
