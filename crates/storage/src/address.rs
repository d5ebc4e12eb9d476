//! Where a study is kept, as a user writes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use fedbo_database::Mode;

use crate::{MemoryStorage, SqliteStorage, Storage, StorageError};

/// Where studies are kept: `sqlite:FILE` or `memory:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// This process's memory.
    Memory,
    /// A file.
    Sqlite(PathBuf),
}

/// Opens the storage at `address`. A file that cannot be written is opened for reading; then its first write fails with
/// [`StorageError::Write`]. `memory:` is a new and empty storage each time.
///
/// # Errors
/// [`StorageError::Absent`], [`StorageError::NotAStorage`], [`StorageError::Version`] and [`StorageError::Corrupt`] for
/// what stands there, [`StorageError::Write`] and [`StorageError::Read`] for what the system refuses.
pub fn open(address: &Address, mode: Mode) -> Result<Arc<dyn Storage>, StorageError> {
    match address {
        Address::Memory => Ok(Arc::new(MemoryStorage::new())),
        Address::Sqlite(path) => Ok(Arc::new(SqliteStorage::open(path, mode)?)),
    }
}

impl Address {
    /// The same with a relative file taken as seen from `folder`.
    #[must_use]
    pub fn relative_to(&self, folder: &Path) -> Self {
        match self {
            Self::Memory => Self::Memory,
            Self::Sqlite(path) => Self::Sqlite(folder.join(path)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = StorageError;

    /// Reads `sqlite:FILE` or `memory:`.
    fn from_str(text: &str) -> Result<Self, StorageError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        match text.strip_prefix("sqlite:") {
            Some(file)
                if !file.is_empty() && !file.starts_with("//") && !file.starts_with(":memory:") =>
            {
                Ok(Self::Sqlite(PathBuf::from(file)))
            }
            _ => Err(StorageError::Address {
                address: text.to_owned(),
                hint: hint(text),
            }),
        }
    }
}

/// What was probably meant.
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
            // Three slashes and a relative file, four and an absolute one: so others write it.
            file => instead(&format!("sqlite:{file}")),
        };
    }
    if scheme.starts_with("postgres") {
        return "; PostgreSQL is not in this version".to_owned();
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
            (
                "sqlite:////data/study.db",
                "; did you mean \"sqlite:/data/study.db\"?",
            ),
            ("sqllite:study.db", "; did you mean \"sqlite:study.db\"?"),
            ("SQLite:study.db", "; did you mean \"sqlite:study.db\"?"),
            ("memory", "; did you mean \"memory:\"?"),
            ("memroy:", "; did you mean \"memory:\"?"),
            ("sqlite::memory:", "; did you mean \"memory:\"?"),
            (
                "postgresql://host/db",
                "; PostgreSQL is not in this version",
            ),
            ("sqlite:", ""),
            ("sqlite://", ""),
            ("", ""),
            ("elsewhere", ""),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            let expected =
                format!("storage = {text:?}, expected \"sqlite:FILE\" or \"memory:\"{hint}");
            assert_eq!(error.to_string(), expected);
        }
    }
}
