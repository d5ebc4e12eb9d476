//! Problems with a server, and their messages for users.

use std::error::Error as _;
use std::{fmt, io};

use postgres::error::{DbError, SqlState};

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening a connection.
    Connect,
    /// Reading data.
    Read,
    /// Changing data.
    Write,
}

/// A problem with a server that has not been turned into a message yet.
#[derive(Debug)]
pub enum Problem {
    /// An error from the server, or an error of the connection.
    Server(postgres::Error),
    /// Something cannot be used. Contains the reason.
    Refused(String),
    /// A setting is off without which the server may lose acknowledged commits. Contains the
    /// setting's name.
    Unsafe(&'static str),
    /// The response to a commit was lost, and the outcome could not be determined before the
    /// deadline.
    Unsettled,
}

impl From<postgres::Error> for Problem {
    fn from(error: postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => f.write_str(&words(error, Operation::Read, "its tables")),
            Self::Refused(message) => f.write_str(message),
            Self::Unsafe(setting) => f.write_str(&unsafe_setting(setting, "acknowledged data")),
            Self::Unsettled => f.write_str(
                "the connection was lost while the change was being stored, so it may or may not have been stored",
            ),
        }
    }
}

impl Problem {
    /// Returns true if the connection was lost or could not be opened, so that a new connection may
    /// work.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        let Self::Server(error) = self else {
            return false;
        };
        match error.as_db_error() {
            Some(said) => ends_connection(said),
            None => error.is_closed() || system_error(error).is_some_and(is_connection_error),
        }
    }

    /// Returns true if the server is running but does not accept connections, because it is
    /// starting up or shutting down.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW))
    }

    /// Returns true if the stored data are damaged: pages or the layout are damaged, or a value has
    /// an unexpected type.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Server(error) if is_damage(error))
    }

    /// Returns the server's or system's message, and how to fix the problem. Omits the server's
    /// details, which may quote stored data. `schema` is the schema to name in errors about missing
    /// privileges.
    #[must_use]
    pub fn words(&self, doing: Operation, schema: &str) -> String {
        match self {
            Self::Server(error) => {
                words(error, doing, &format!("the tables of the schema {schema}"))
            }
            other => other.to_string(),
        }
    }
}

/// Describes the danger of a setting that is off, and how to turn it on. `kept` describes the data
/// that may be lost.
#[must_use]
pub fn unsafe_setting(setting: &str, kept: &str) -> String {
    let danger = match setting {
        "full_page_writes" => "a power cut may damage all stored data".to_owned(),
        _ => format!("{kept} may be lost if its machine crashes"),
    };
    let also = match setting {
        "synchronous_commit" => ", or for one user or database with ALTER ROLE or ALTER DATABASE",
        _ => "",
    };
    format!(
        "the server's {setting} is off, so {danger}; its administrator can turn it on with ALTER \
         SYSTEM SET {setting} = on and then SELECT pg_reload_conf(){also}"
    )
}

/// Returns true if the server closed the connection with this error, for a reason that may be
/// temporary.
fn ends_connection(said: &DbError) -> bool {
    use postgres::error::Severity::{Fatal, Panic};
    let is_fatal = match said.parsed_severity() {
        Some(severity) => matches!(severity, Fatal | Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    };
    // For these classes, a retry would fail again: authentication, unknown database, syntax or
    // access, encoding, unsupported feature.
    let lasts = ["28", "3D", "42", "22", "0A"];
    is_fatal && !lasts.iter().any(|class| said.code().code().starts_with(class))
}

fn system_error(error: &postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// Returns true if an error concerns the connection to the server, not the data sent.
fn is_connection_error(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied
    )
}

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

const GIVE_PASSWORD: &str = "set the password in PGPASSWORD, or in ~/.pgpass with a line for this host, port, database and user";

fn words(error: &postgres::Error, doing: Operation, tables: &str) -> String {
    let Some(said) = error.as_db_error() else {
        return match (error.source(), doing) {
            (Some(cause), Operation::Connect) => match cause.to_string() {
                missing if missing == "password missing" => format!("{missing}; {GIVE_PASSWORD}"),
                cause => cause,
            },
            (Some(cause), _) => format!("the server cannot be reached: {cause}"),
            (None, _) => format!("the server cannot be reached: {error}"),
        };
    };
    let message = said.message();
    let way = match *said.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => GIVE_PASSWORD,
        SqlState::INVALID_CATALOG_NAME => "create it with createdb",
        SqlState::INSUFFICIENT_PRIVILEGE if doing == Operation::Connect => {
            return format!(
                "{message}; creating the tables in a new database needs a user with the right to \
                 create a schema, and later use needs USAGE on the schema and the rights on \
                 {tables}"
            );
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            return format!("{message}; ask its owner for the rights on {tables}");
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "it is a standby or read-only; name the primary server"
        }
        SqlState::DISK_FULL => "make room on the server's disk",
        SqlState::LOCK_NOT_AVAILABLE => {
            "another process has kept this study locked for 30 s; check pg_stat_activity on the server"
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            "end some connections, or raise the server's max_connections"
        }
        _ => return message.to_owned(),
    };
    format!("{message}; {way}")
}
