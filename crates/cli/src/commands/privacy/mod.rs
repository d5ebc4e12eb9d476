//! `fedbo privacy`: privacy costs, planned and spent.

mod archive;
mod epsilon;
mod noise;
mod plan;
pub(crate) mod promise;
mod setting;
mod statement;
mod verify;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fedbo_coordinator::Home;
use fedbo_coordinator::store::{PostgresStore, Store as _};
use fedbo_ledger::{Head, History, LedgerError, Ledgers, Releases, Report};
use fedbo_runner::federation::{HEAD_FILE, LEDGER_FILE};
use fedbo_storage::{Mode, PostgresAddress};

use fedbo_console::{BadInput, Exit};

pub(crate) use statement::Document as StatementDocument;
pub(crate) use verify::Document as CheckDocument;

/// Plan privacy costs, and show the costs spent by a study
#[derive(clap::Subcommand)]
pub(crate) enum Privacy {
    Epsilon(epsilon::Epsilon),
    Noise(noise::Noise),
    Plan(plan::Plan),
    Statement(statement::Statement),
    Verify(verify::Verify),
    Archive(archive::Archive),
}

impl Privacy {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Epsilon(command) => command.run(),
            Self::Noise(command) => command.run(),
            Self::Plan(command) => command.run(),
            Self::Statement(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Archive(command) => command.run(),
        }
    }

    /// Returns the document printed by `--json`; `None` for the other commands.
    pub(crate) fn answer(&self) -> Option<anyhow::Result<String>> {
        match self {
            Self::Epsilon(command) => Some(command.answer()),
            Self::Noise(command) => Some(command.answer()),
            Self::Plan(command) => Some(command.answer()),
            Self::Statement(command) => Some(command.answer()),
            Self::Verify(_) | Self::Archive(_) => None,
        }
    }
}

/// The ledger that a command reads.
#[derive(clap::Args)]
struct Place {
    /// Results folder with ledger.db, the ledger's file, or a coordinator's database
    /// (postgresql://...)
    ledger: String,
    /// Name of the study, in a database
    #[arg(long, value_name = "STUDY")]
    study: Option<String>,
}

/// Location of a ledger.
pub(crate) enum Source {
    File(PathBuf),
    Database(PostgresAddress, Ledgers, String),
    /// The ledger of a coordinator's study, with the coordinator in this process.
    Coordinator(Arc<Home>, String),
}

/// Storage of a ledger.
enum At<'a> {
    File(PathBuf),
    Database(&'a Ledgers, &'a str),
}

impl Place {
    fn find(&self) -> anyhow::Result<Source> {
        if !PostgresAddress::is_postgres_address(&self.ledger) {
            if self.study.is_some() {
                let message =
                    "--study names a study in a database; a file holds the ledger of one study";
                return Err(BadInput(message.to_owned()).into());
            }
            return Ok(Source::from(Path::new(&self.ledger)));
        }
        let address: PostgresAddress =
            self.ledger.parse().map_err(|error| BadInput(format!("{error}")))?;
        let ledgers = Ledgers::open(&address)?;
        let name = match &self.study {
            Some(name) => name.clone(),
            None => {
                let names = ledgers.names()?;
                let message = format!(
                    "{address}: select one of its studies with --study: {}",
                    names.join(", ")
                );
                match <[String; 1]>::try_from(names) {
                    Ok([only]) => only,
                    Err(_) => return Err(BadInput(message).into()),
                }
            }
        };
        Ok(Source::Database(address, ledgers, name))
    }
}

impl From<&Path> for Source {
    /// Creates the source for a results folder or a ledger's file.
    fn from(path: &Path) -> Self {
        Self::File(ledger_file(path))
    }
}

impl Source {
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

    pub(crate) fn verify(&self, known: Option<&Head>) -> Result<Report, LedgerError> {
        match self.at() {
            At::File(file) => fedbo_ledger::verify(&file, known),
            At::Database(ledgers, name) => ledgers.verify(name, known),
        }
    }

    pub(crate) fn history(&self) -> Result<History, LedgerError> {
        match self.at() {
            At::File(file) => fedbo_ledger::history(&file),
            At::Database(ledgers, name) => ledgers.history(name),
        }
    }

    fn releases(&self) -> Result<(fedbo_ledger::Statement, Releases), LedgerError> {
        match self.at() {
            At::File(file) => fedbo_ledger::releases(&file),
            At::Database(ledgers, name) => ledgers.releases(name),
        }
    }

    /// Returns the round before which all releases have left, for a study that may be running;
    /// `None` if there is no limit.
    ///
    /// Later releases are durable but leave only at their set time, and must not be shown earlier
    /// (INV-9).
    pub(crate) fn released_before(&self) -> anyhow::Result<Option<u64>> {
        match self {
            Self::Coordinator(home, name) => Ok(Some(home.store().study(name)?.round)),
            Self::File(_) | Self::Database(..) => Ok(None),
        }
    }

    /// Returns a head noted beside the ledger, and its location.
    pub(crate) fn noted_head(&self) -> anyhow::Result<Option<(Head, String)>> {
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

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Database(_, _, name) => write!(f, "the ledger of {name:?}"),
            Self::Coordinator(home, name) => f.write_str(&home.ledger_place(name)),
        }
    }
}

/// Returns the ledger's file: `path` itself, or the one in a results folder.
fn ledger_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(LEDGER_FILE),
        false => path.to_owned(),
    }
}

/// Returns the ledger's head at its last release, if a run noted it beside the ledger.
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
