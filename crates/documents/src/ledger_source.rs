//! Location of a ledger: a results folder, a file, a database, or the coordinator in this process.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_coordinator::Home;
use fedbo_coordinator::store::{PostgresStore, Store as _};
use fedbo_ledger::{Head, History, LedgerError, Ledgers, Releases, Report};
use fedbo_runner::federation::{HEAD_FILE, LEDGER_FILE};
use fedbo_storage::{Mode, PostgresAddress};

use fedbo_console::BadInput;

/// Location of a ledger.
pub enum LedgerSource {
    /// A file.
    File(PathBuf),
    /// The named study's ledger in a database, with the database's address.
    Database(PostgresAddress, Ledgers, String),
    /// The ledger of a study with a coordinator in this process.
    Coordinator(Arc<Home>, String),
}

/// The storage of a ledger.
enum At<'a> {
    File(PathBuf),
    Database(&'a Ledgers, &'a str),
}

impl From<&Path> for LedgerSource {
    /// Creates the source for a results folder or a ledger file.
    fn from(path: &Path) -> Self {
        Self::File(ledger_file(path))
    }
}

impl LedgerSource {
    fn at(&self) -> At<'_> {
        match self {
            Self::File(file) => At::File(file.clone()),
            Self::Database(_, ledgers, name) => At::Database(ledgers, name),
            Self::Coordinator(home, name) => match home.ledgers() {
                Some(ledgers) => At::Database(ledgers, name),
                None => At::File(home.ledger(name)),
            },
        }
    }

    /// Verifies all entries and checks that `known` is one of the ledger's heads.
    ///
    /// # Errors
    /// Fails if there is no ledger, or if it cannot be read.
    pub fn verify(&self, known: Option<&Head>) -> Result<Report, LedgerError> {
        match self.at() {
            At::File(file) => fedbo_ledger::verify(&file, known),
            At::Database(ledgers, name) => ledgers.verify(name, known),
        }
    }

    /// Returns the charter, the entries and their total cost. For a coordinator's study, this
    /// includes releases that have not been sent yet: see
    /// [`released_before`](Self::released_before).
    ///
    /// # Errors
    /// Fails if there is no ledger, or if it cannot be read.
    pub fn history(&self) -> Result<History, LedgerError> {
        match self.at() {
            At::File(file) => fedbo_ledger::history(&file),
            At::Database(ledgers, name) => ledgers.history(name),
        }
    }

    /// Returns the statement and the releases.
    ///
    /// # Errors
    /// Fails if there is no ledger or if it cannot be read. Also fails for a coordinator in this
    /// process, since its ledger contains releases before they are sent (INV-9).
    pub fn releases(&self) -> anyhow::Result<(fedbo_ledger::Statement, Releases)> {
        if let Self::Coordinator(..) = self {
            let message = format!("{self}: its releases are not read while it may be running");
            return Err(BadInput(message).into());
        }
        Ok(match self.at() {
            At::File(file) => fedbo_ledger::releases(&file)?,
            At::Database(ledgers, name) => ledgers.releases(name)?,
        })
    }

    /// Returns the round before which all releases have been sent, for a study that may be running;
    /// `None` if there is no limit.
    ///
    /// Later releases are durable, but are sent only at their scheduled time and must not be shown
    /// before (INV-9).
    pub fn released_before(&self) -> anyhow::Result<Option<u64>> {
        match self {
            Self::Coordinator(home, name) => Ok(Some(home.store().study(name)?.round)),
            Self::File(_) | Self::Database(..) => Ok(None),
        }
    }

    /// Returns the head noted beside the ledger, if any, and the location of the note.
    pub fn noted_head(&self) -> anyhow::Result<Option<(Head, String)>> {
        let (text, place) = match self {
            Self::File(file) => {
                if let Some(head) = noted_head(file)? {
                    return Ok(Some((head, file.with_file_name(HEAD_FILE).display().to_string())));
                }
                if let Some((memory, head)) = fedbo_helper::noted_head(file)? {
                    return Ok(Some((head, memory.display().to_string())));
                }
                match fedbo_coordinator::noted_head(file)? {
                    Some((store, head)) => (head, store.display().to_string()),
                    None => return Ok(None),
                }
            }
            Self::Database(address, _, name) => {
                match PostgresStore::open(address, Mode::Existing)?.study(name)?.head {
                    Some(head) => (head, format!("the store in {address}")),
                    None => return Ok(None),
                }
            }
            Self::Coordinator(home, name) => match home.store().study(name)?.head {
                Some(head) => (head, "the coordinator's store".to_owned()),
                None => return Ok(None),
            },
        };
        let head = text.parse().map_err(|error| {
            BadInput(format!("{place}: {error}; put the store back from a backup"))
        })?;
        Ok(Some((head, place)))
    }
}

impl fmt::Display for LedgerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Database(_, _, name) => write!(f, "the ledger of {name:?}"),
            Self::Coordinator(home, name) => f.write_str(&home.ledger_place(name)),
        }
    }
}

/// Returns the path of the ledger: `path` itself, or the ledger in a results folder.
fn ledger_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(LEDGER_FILE),
        false => path.to_owned(),
    }
}

/// Returns the head of the ledger at its last release, if a run noted it beside the ledger.
fn noted_head(ledger: &Path) -> anyhow::Result<Option<Head>> {
    if ledger.file_name() != Some(LEDGER_FILE.as_ref()) {
        return Ok(None);
    }
    let path = ledger.with_file_name(HEAD_FILE);
    let unusable = |message: String| BadInput(format!("{}: {message}", path.display()));
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.parse() {
            Ok(head) => Ok(Some(head)),
            Err(error) => Err(unusable(format!("{error}; put the file back as it was")).into()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(format!("cannot read: {error}")).into()),
    }
}
