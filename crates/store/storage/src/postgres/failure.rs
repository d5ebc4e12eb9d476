//! Problems with a server, and their conversion to errors.

use fedbo_postgres::{Problem, unsafe_setting};

pub(super) use fedbo_postgres::Operation;

use super::schema;
use crate::StorageError;

/// A failure that has not been turned into an error yet.
#[derive(Debug)]
pub(super) enum Failure {
    /// A problem with the server or the connection.
    Problem(Problem),
    /// The stored data are inconsistent. Contains a description.
    Contradiction(String),
    /// There is no layout.
    Absent,
    /// The schema belongs to another program. Contains a description.
    NotOurs(String),
    /// The layout has this unsupported version.
    Version(i64),
    /// An error for the caller.
    Storage(StorageError),
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        Self::Problem(error.into())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl Failure {
    /// Returns true if the connection was lost or could not be opened, so that a new connection may
    /// work.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.is_lost())
    }

    /// Returns true if the server is running but does not accept connections, because it is
    /// starting up or shutting down.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.is_starting())
    }

    /// Converts the failure into the error to return to callers.
    pub(super) fn into_error(self, place: &str, doing: Operation) -> StorageError {
        let place = place.to_owned();
        let refused = |message: String| match doing {
            Operation::Connect => StorageError::Connect { place: place.clone(), message },
            Operation::Read => StorageError::Read { place: place.clone(), message },
            Operation::Write => StorageError::Write { place: place.clone(), message },
        };
        match self {
            Self::Storage(error) => error,
            Self::Problem(Problem::Unsafe(setting)) => {
                StorageError::Unsafe { place, message: unsafe_setting(setting, "finished trials") }
            }
            Self::Problem(Problem::Unsettled) => refused(
                "the connection was lost while the change was being stored, so it may or may not \
                 have been stored; once the server is back, check, or tell again: telling a stored \
                 result again is not an error"
                    .to_owned(),
            ),
            Self::Problem(problem) if problem.is_damage() => StorageError::Corrupt {
                message: format!(
                    "it is damaged: {}; restore a backup",
                    problem.words(doing, "fedbo")
                ),
                place,
            },
            Self::Problem(problem) => refused(problem.words(doing, "fedbo")),
            Self::Contradiction(what) => {
                StorageError::Corrupt { message: format!("{what}; restore a backup"), place }
            }
            Self::Absent => StorageError::Absent { place },
            Self::NotOurs(message) => StorageError::NotAStorage { place, message },
            Self::Version(found) => StorageError::Version {
                place,
                found,
                expected: schema::VERSION,
                remedy: match found < schema::VERSION {
                    true => "`fedbo storage upgrade` brings it up to date",
                    false => "use the newer fedbo that wrote it",
                },
            },
        }
    }
}
