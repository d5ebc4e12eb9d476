//! `fedbo coordinator`: federations over a network, seen from their operator.

mod agents;
mod run;
mod study;

pub(crate) use agents::state as slot_state;
pub(crate) use study::{Listed, listed};

use std::path::PathBuf;

use fedbo_coordinator::Home;
use fedbo_coordinator::store::{SlotRecord, StudyRecord};
use fedbo_storage::{Mode, PostgresAddress};

use crate::core_dumps;
use crate::exit::{BadInput, Exit};

/// Coordinate federations whose agents are other processes, on this machine or far away
#[derive(clap::Subcommand)]
pub(crate) enum Coordinator {
    Run(Box<run::Run>),
    #[command(subcommand)]
    Study(study::Study),
    #[command(subcommand)]
    Agents(agents::Agents),
}

impl Coordinator {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        core_dumps::turn_off();
        match self {
            Self::Run(command) => command.run(),
            Self::Study(command) => command.run(),
            Self::Agents(command) => command.run(),
        }
    }
}

/// The coordinator that a command is about.
#[derive(clap::Args, Clone, Debug)]
struct Place {
    /// Folder of the coordinator: its key, its studies, its ledgers
    #[arg(long, value_name = "DIR", env = "FEDBO_COORDINATOR", default_value = "coordinator")]
    data: PathBuf,
    /// A PostgreSQL database instead of a folder, which any number of coordinators share
    #[arg(
        long,
        value_name = "URL",
        env = "FEDBO_COORDINATOR_STORE",
        hide_env_values = true, // it may hold a password, which an error of the parser would repeat
        requires = "key"
    )]
    store: Option<String>,
    /// The secret key of all coordinators that share the database; `study create` makes one that is not there
    #[arg(long, value_name = "FILE", env = "FEDBO_COORDINATOR_KEY", requires = "store")]
    key: Option<PathBuf>,
}

impl Place {
    fn open(&self, mode: Mode) -> anyhow::Result<Home> {
        match (&self.store, &self.key) {
            (Some(store), Some(key)) => {
                let address: PostgresAddress =
                    store.parse().map_err(|error| BadInput(format!("--store: {error}")))?;
                Ok(Home::shared(&address, key, mode)?)
            }
            _ => Ok(Home::open(&self.data, mode)?),
        }
    }

    /// The coordinator, one of its studies, and that study's roster.
    fn study(&self, name: &str) -> anyhow::Result<(Home, StudyRecord, Vec<SlotRecord>)> {
        let home = self.open(Mode::Existing)?;
        let record = home.store().study(name)?;
        let slots = home.store().slots(record.key)?;
        Ok((home, record, slots))
    }
}

/// The slot of an agent, by its name.
fn slot_of(slots: &[SlotRecord], name: &str) -> Result<u32, BadInput> {
    let found = slots.iter().find(|slot| slot.name == name);
    found.map(|slot| slot.slot).ok_or_else(|| {
        let nearest = fedbo_config::nearest(name, slots.iter().map(|slot| slot.name.as_str()));
        let hint = nearest.map_or_else(
            || "`fedbo coordinator agents ls STUDY` lists them".to_owned(),
            |nearest| format!("did you mean {nearest:?}?"),
        );
        BadInput(format!("there is no agent {name:?} on the roster; {hint}"))
    })
}
