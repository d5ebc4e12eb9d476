//! The address of a storage, as written by users.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use fedbo_database::Mode;
use fedbo_error_class::masked;

use crate::{
    MemoryStorage, PostgresAddress, PostgresStorage, SqliteStorage, Storage, StorageError,
    UpgradeReport, upgrade,
};

/// The address of a storage of studies: `sqlite:FILE`, `postgresql://USER@HOST/DATABASE` or
/// `memory:`. Formatting omits the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The memory of this process.
    Memory,
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(PostgresAddress),
}

/// Opens the storage at `address`.
///
/// A file that cannot be written is opened for reading. The first write then fails with
/// [`StorageError::Write`]. The password for a PostgreSQL server comes from the address,
/// `PGPASSWORD` or a password file. `memory:` creates a new empty storage on each call.
///
/// # Errors
/// [`StorageError::Absent`], [`StorageError::NotAStorage`], [`StorageError::Version`] and
/// [`StorageError::Corrupt`] for unusable content; [`StorageError::Write`] and
/// [`StorageError::Read`] if the system refuses access; [`StorageError::Connect`] and
/// [`StorageError::Unsafe`] for a server that cannot be reached or may lose acknowledged commits.
pub fn open(address: &Address, mode: Mode) -> Result<Arc<dyn Storage>, StorageError> {
    match address {
        Address::Memory => Ok(Arc::new(MemoryStorage::new())),
        Address::Sqlite(path) => Ok(Arc::new(SqliteStorage::open(path, mode)?)),
        Address::Postgres(address) => Ok(Arc::new(PostgresStorage::open(address, mode)?)),
    }
}

/// Upgrades the storage at `address` to this program's version. A file is upgraded by [`upgrade`],
/// which keeps a copy. A PostgreSQL database is upgraded in one transaction.
///
/// # Errors
/// Same as for [`upgrade`] and [`PostgresStorage::upgrade`]; [`StorageError::Absent`] for
/// `memory:`.
pub fn upgrade_at(address: &Address) -> Result<UpgradeReport, StorageError> {
    match address {
        Address::Memory => Err(StorageError::Absent { place: address.to_string() }),
        Address::Sqlite(path) => upgrade(path),
        Address::Postgres(address) => PostgresStorage::upgrade(address),
    }
}

impl Address {
    /// Returns a copy with a relative path resolved against `folder`.
    #[must_use]
    pub fn relative_to(&self, folder: &Path) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Sqlite(path) => Self::Sqlite(folder.join(path)),
            Self::Postgres(address) => Self::Postgres(address.relative_to(folder)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = StorageError;

    /// Parses `sqlite:FILE`, `postgresql://USER@HOST/DATABASE` or `memory:`.
    fn from_str(text: &str) -> Result<Self, StorageError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        let refused = |hint: String| StorageError::Address { address: masked(text), hint };
        if PostgresAddress::is_postgres_address(text) {
            let address = PostgresAddress::parse(text);
            return address.map(Self::Postgres).map_err(|words| refused(format!("; {words}")));
        }
        match text.strip_prefix("sqlite:") {
            Some(file)
                if !file.is_empty() && !file.starts_with("//") && !file.starts_with(":memory:") =>
            {
                Ok(Self::Sqlite(PathBuf::from(file)))
            }
            _ => Err(refused(hint(text))),
        }
    }
}

/// Suggests the address that was probably intended.
fn hint(text: &str) -> String {
    let instead = |address: &str| format!("; did you mean {address:?}?");
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    let scheme = scheme.to_lowercase();
    if text.contains(":memory:") || scheme == "memory" {
        return instead("memory:");
    }
    if let Some(url) = text.strip_prefix("sqlite://") {
        let file = url.strip_prefix('/').unwrap_or(url);
        return match file {
            "" => String::new(),
            // Other programs use three slashes for a relative path and four for an absolute path.
            file => instead(&format!("sqlite:{file}")),
        };
    }
    if rest.starts_with("//") && strsim::damerau_levenshtein(&scheme, "postgresql") <= 2 {
        return instead(&masked(&format!("postgresql:{rest}")));
    }
    let is_database = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("db" | "sqlite" | "sqlite3" | "db3"))
    };
    if !rest.is_empty() && strsim::damerau_levenshtein(&scheme, "sqlite") <= 2 {
        return instead(&format!("sqlite:{rest}"));
    }
    if strsim::damerau_levenshtein(&scheme, "memory") <= 2 {
        return instead("memory:");
    }
    if is_database(Path::new(text)) || (rest.is_empty() && text.contains('/')) {
        return instead(&format!("sqlite:{text}"));
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_from_its_text() {
        for text in [
            "memory:",
            "sqlite:study.db",
            "sqlite:/data/a study.db",
            "sqlite:ä/ö",
            "postgresql://me@host:5433/db?sslmode=verify-full",
            "postgres://me@%2Frun%2Fpostgresql/db",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_relative_file_is_seen_from_a_folder() {
        let at = |text: &str| {
            let address = text.parse::<Address>().unwrap();
            address.relative_to(Path::new("/data")).to_string()
        };
        assert_eq!(at("sqlite:study.db"), "sqlite:/data/study.db");
        assert_eq!(at("sqlite:/other/study.db"), "sqlite:/other/study.db");
        assert_eq!(at("memory:"), "memory:");
    }

    #[test]
    fn what_is_no_address_gets_the_nearest_hint() {
        for (text, hint) in [
            ("study.db", "; did you mean \"sqlite:study.db\"?"),
            ("runs/study", "; did you mean \"sqlite:runs/study\"?"),
            ("sqlite:///study.db", "; did you mean \"sqlite:study.db\"?"),
            ("sqlite:////data/study.db", "; did you mean \"sqlite:/data/study.db\"?"),
            ("sqllite:study.db", "; did you mean \"sqlite:study.db\"?"),
            ("SQLite:study.db", "; did you mean \"sqlite:study.db\"?"),
            ("memory", "; did you mean \"memory:\"?"),
            ("memroy:", "; did you mean \"memory:\"?"),
            ("sqlite::memory:", "; did you mean \"memory:\"?"),
            ("postgresq://me@host/db", "; did you mean \"postgresql://me@host/db\"?"),
            ("postgres:db", "; it begins with postgresql://"),
            ("sqlite:", ""),
            ("sqlite://", ""),
            ("", ""),
            ("elsewhere", ""),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            let expected = format!(
                "storage = {text:?}, expected \"sqlite:FILE\", \"postgresql://USER@HOST/DATABASE\" or \
                 \"memory:\"{hint}"
            );
            assert_eq!(error.to_string(), expected);
        }
    }
}
