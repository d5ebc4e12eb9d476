//! What goes wrong with a server, and the error that a caller sees.

use std::error::Error as _;
use std::io;

use postgres::error::{DbError, SqlState};

use super::schema;
use crate::StorageError;

/// What was being done when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Connect,
    Read,
    Write,
}

/// Something that went wrong, not yet put into words.
#[derive(Debug)]
pub(super) enum Failure {
    /// With the server, or on the way to it.
    Server(postgres::Error),
    /// The answer to a commit did not come, and the patience to find out what became of it is over.
    Unsettled,
    /// Something cannot be used; in words.
    Refused(String),
    /// What is stored contradicts itself, in words.
    Contradiction(String),
    /// There is no layout.
    Absent,
    /// There is something else.
    NotOurs(String),
    /// The layout's version.
    Version(i64),
    /// A setting with which the server loses what it acknowledged.
    Unsafe(&'static str),
    /// In words already.
    Storage(StorageError),
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl Failure {
    /// Whether the connection is gone, or none could be made for now: another one may do.
    pub(super) fn is_lost(&self) -> bool {
        let Self::Server(error) = self else {
            return false;
        };
        match error.as_db_error() {
            Some(said) => ends_connection(said),
            None => error.is_closed() || system_error(error).is_some_and(is_of_the_way),
        }
    }

    /// Whether the server is there, but does not take connections yet or any more.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW))
    }

    /// The error that a caller sees.
    pub(super) fn into_error(self, place: &str, doing: Doing) -> StorageError {
        let place = place.to_owned();
        let refused = |message: String| match doing {
            Doing::Connect => StorageError::Connect {
                place: place.clone(),
                message,
            },
            Doing::Read => StorageError::Read {
                place: place.clone(),
                message,
            },
            Doing::Write => StorageError::Write {
                place: place.clone(),
                message,
            },
        };
        match self {
            Self::Storage(error) => error,
            Self::Server(error) if is_damage(&error) => StorageError::Corrupt {
                message: format!(
                    "it is damaged: {}; go on from a backup",
                    words(&error, doing)
                ),
                place,
            },
            Self::Server(error) => refused(words(&error, doing)),
            Self::Refused(message) => refused(message),
            Self::Unsettled => refused(
                "the connection was lost while the change was being stored, so it may have happened or not; once the \
                 server is back, look, or tell again: what was told already is no mistake"
                    .to_owned(),
            ),
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
                    true => "use the fedbo that wrote it",
                    false => "a newer fedbo wrote it, use that one",
                },
            },
            Self::Unsafe(setting) => StorageError::Unsafe {
                place,
                message: danger(setting),
            },
        }
    }
}

/// What a setting that is off may cost, and the way out.
fn danger(setting: &str) -> String {
    let danger = match setting {
        "full_page_writes" => "a power cut may damage all that is stored",
        _ => "trials that were told may be lost when its machine goes down",
    };
    let also = match setting {
        "synchronous_commit" => ", or for one user or database with ALTER ROLE or ALTER DATABASE",
        _ => "",
    };
    format!(
        "the server's {setting} is off, so {danger}; whoever runs it turns it on with ALTER SYSTEM SET {setting} = on and \
         then SELECT pg_reload_conf(){also}"
    )
}

/// Whether the server ends the connection with this, for a reason that may pass.
fn ends_connection(said: &DbError) -> bool {
    use postgres::error::Severity::{Fatal, Panic};
    let is_fatal = match said.parsed_severity() {
        Some(severity) => matches!(severity, Fatal | Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    };
    // Who we are, which database, what we ask for: the same again would be refused again.
    let lasts = ["28", "3D", "42", "22", "0A"];
    is_fatal
        && !lasts
            .iter()
            .any(|class| said.code().code().starts_with(class))
}

fn system_error(error: &postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// Whether an error is of the way to the server, not of what was sent.
fn is_of_the_way(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied
    )
}

/// Whether what is stored is broken: pages, the layout, or a value of another type than was stored.
fn is_damage(error: &postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            let damage = [
                SqlState::DATA_CORRUPTED,
                SqlState::INDEX_CORRUPTED,
                SqlState::UNDEFINED_TABLE,
                SqlState::UNDEFINED_COLUMN,
                SqlState::INVALID_SCHEMA_NAME,
            ];
            damage.contains(code) || code.code().starts_with("23")
        }
        None => {
            let text = error.to_string();
            text.starts_with("error deserializing column") || text.starts_with("invalid column")
        }
    }
}

/// What the server or the system says, and the way out. Details are left out: they may quote what is stored.
fn words(error: &postgres::Error, doing: Doing) -> String {
    let Some(said) = error.as_db_error() else {
        return match (error.source(), doing) {
            (Some(cause), Doing::Connect) => format!("{cause}"),
            (Some(cause), _) => format!("the server cannot be reached: {cause}"),
            (None, _) => format!("the server cannot be reached: {error}"),
        };
    };
    let message = said.message();
    let way = match *said.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "give the password by PGPASSWORD or in ~/.pgpass"
        }
        SqlState::INVALID_CATALOG_NAME => "create it with createdb",
        SqlState::INSUFFICIENT_PRIVILEGE if doing == Doing::Connect => {
            "to be laid out in a new database, a storage needs a user who may create a schema in it; after that, one with \
             USAGE on the schema fedbo and the rights on its tables"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "ask its owner for the rights on the tables of the schema fedbo"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "it is a standby, or set to be read only; name the server that is written to"
        }
        SqlState::DISK_FULL => "make room on the server's disk",
        SqlState::LOCK_NOT_AVAILABLE => {
            "another process has kept this study locked for 30 s; look at pg_stat_activity of the server"
        }
        SqlState::TOO_MANY_CONNECTIONS => "end some, or raise its max_connections",
        _ => return message.to_owned(),
    };
    format!("{message}; {way}")
}
