//! The problems with a server, and the error that a caller sees.

use fedbo_postgres::{Problem, unsafe_setting};

pub(super) use fedbo_postgres::Operation;

use super::schema;
use crate::StorageError;

/// Something that went wrong, not yet put into words.
#[derive(Debug)]
pub(super) enum Failure {
    /// With the server, or on the way to it.
    Problem(Problem),
    /// The stored data contradict themselves; how, in words.
    Contradiction(String),
    /// There is no layout.
    Absent,
    /// There is something else.
    NotOurs(String),
    /// The layout's version.
    Version(i64),
    /// In words already.
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
    /// Returns true if the connection is gone, or none could be made for now: another one may work.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.is_lost())
    }

    /// Returns true if the server is there, but does not take connections yet or any more.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.is_starting())
    }

    /// The error that a caller sees.
    pub(super) fn into_error(self, place: &str, doing: Operation) -> StorageError {
        let place = place.to_owned();
        let refused = |message: String| match doing {
            Operation::Connect => StorageError::Connect { place: place.clone(), message },
            Operation::Read => StorageError::Read { place: place.clone(), message },
            Operation::Write => StorageError::Write { place: place.clone(), message },
        };
        match self {
            Self::Storage(error) => error,
            Self::Problem(Problem::Unsafe(setting)) => StorageError::Unsafe {
                place,
                message: unsafe_setting(setting, "trials that were told"),
            },
            Self::Problem(Problem::Unsettled) => refused(
                "the connection was lost while the change was being stored, so it may have happened or not; once the \
                 server is back, look, or tell again: what was told already is no mistake"
                    .to_owned(),
            ),
            Self::Problem(problem) if problem.is_damage() => StorageError::Corrupt {
                message: format!(
                    "it is damaged: {}; go on from a backup",
                    problem.words(doing, "fedbo")
                ),
                place,
            },
            Self::Problem(problem) => refused(problem.words(doing, "fedbo")),
            Self::Contradiction(what) => StorageError::Corrupt {
                message: format!("{what}; go on from a backup"),
                place,
            },
            Self::Absent => StorageError::Absent { place },
            Self::NotOurs(message) => StorageError::NotAStorage { place, message },
            Self::Version(found) => StorageError::Version {
                place,
                found,
                expected: schema::VERSION,
                remedy: match found < schema::VERSION {
                    true => "`fedbo storage upgrade` brings it up to date",
                    false => "a newer fedbo wrote it, use that one",
                },
            },
        }
    }
}
