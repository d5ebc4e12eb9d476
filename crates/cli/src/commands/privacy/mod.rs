//! `fedbo privacy`: planned and actual privacy costs.

mod archive;
mod epsilon;
mod noise;
mod plan;
mod setting;
mod statement;
mod verify;

use std::path::Path;

use fedbo_documents::LedgerSource;
use fedbo_ledger::Ledgers;
use fedbo_storage::PostgresAddress;

use fedbo_console::{BadInput, Exit};

/// Plan privacy costs, and show the privacy spending of a study
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

    /// Returns the document printed by `--json`, or `None` for `verify` and `archive`.
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
    /// Name of the study, for a database
    #[arg(long, value_name = "STUDY")]
    study: Option<String>,
}

impl Place {
    fn find(&self) -> anyhow::Result<LedgerSource> {
        if !PostgresAddress::is_postgres_address(&self.ledger) {
            if self.study.is_some() {
                let message =
                    "--study names a study in a database; a file holds the ledger of one study";
                return Err(BadInput(message.to_owned()).into());
            }
            return Ok(LedgerSource::from(Path::new(&self.ledger)));
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
        Ok(LedgerSource::Database(address, ledgers, name))
    }
}
