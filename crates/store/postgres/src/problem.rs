//! The problems with a server, and their words for a user.

use std::error::Error as _;
use std::{fmt, io};

use postgres::error::{DbError, SqlState};

/// The operation during which something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening.
    Connect,
    /// Reading.
    Read,
    /// Changing something.
    Write,
}

/// Something that went wrong with a server, not yet put into words.
#[derive(Debug)]
pub enum Problem {
    /// With the server, or on the way to it.
    Server(postgres::Error),
    /// Something cannot be used; in words.
    Refused(String),
    /// A setting with which the server loses what it acknowledged.
    Unsafe(&'static str),
    /// The answer to a commit did not come, and the patience to find out what became of it is over.
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
            Self::Unsafe(setting) => f.write_str(&unsafe_setting(setting, "what was acknowledged")),
            Self::Unsettled => f.write_str(
                "the connection was lost while the change was being stored, so it may have happened or not",
            ),
        }
    }
}

impl Problem {
    /// Returns true if the connection is gone, or none could be made for now: another one may work.
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

    /// Returns true if the server is there, but does not take connections yet or any more.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW))
    }

    /// Returns true if the stored data are damaged: pages, the layout, or a value of another type than was stored.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Server(error) if is_damage(error))
    }

    /// Returns the message of the server or the system, and the way out. Details are left out: they may quote what is
    /// stored. `schema` is that of the tables on which rights may be missing.
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

/// Returns what a setting that is off may cost, and the way out; `kept` is what may be lost.
#[must_use]
pub fn unsafe_setting(setting: &str, kept: &str) -> String {
    let danger = match setting {
        "full_page_writes" => "a power cut may damage all that is stored".to_owned(),
        _ => format!("{kept} may be lost when its machine goes down"),
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

/// Returns true if the server ends the connection with this error, for a reason that may pass.
fn ends_connection(said: &DbError) -> bool {
    use postgres::error::Severity::{Fatal, Panic};
    let is_fatal = match said.parsed_severity() {
        Some(severity) => matches!(severity, Fatal | Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    };
    // Who we are, which database, what we ask for: the same again would be refused again.
    let lasts = ["28", "3D", "42", "22", "0A"];
    is_fatal && !lasts.iter().any(|class| said.code().code().starts_with(class))
}

fn system_error(error: &postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// Returns true if an error concerns the way to the server, not what was sent.
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

const GIVE_PASSWORD: &str = "give the password by PGPASSWORD or in ~/.pgpass, a line for this host, port, database and user";

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
                "{message}; to be laid out in a new database, a storage needs a user who may create a schema in it; after that, \
                 one with USAGE on the schema and the rights on {tables}"
            );
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            return format!("{message}; ask its owner for the rights on {tables}");
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
