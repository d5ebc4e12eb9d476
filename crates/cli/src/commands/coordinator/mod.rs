//! `fedbo coordinator`: federations over a network, from the operator's side.

mod agents;
mod run;
mod study;

use std::path::PathBuf;

use fedbo_coordinator::Home;
use fedbo_coordinator::store::{SlotRecord, StudyRecord};
use fedbo_storage::{Mode, PostgresAddress};

use crate::core_dumps;
use fedbo_console::{BadInput, Exit};

/// Coordinate federations of agents in other processes, on this machine or elsewhere
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

/// The coordinator that a command operates on.
#[derive(clap::Args, Clone, Debug)]
struct Place {
    /// Folder of the coordinator: its key, its studies, its ledgers
    #[arg(long, value_name = "DIR", env = "FEDBO_COORDINATOR", default_value = "coordinator")]
    data: PathBuf,
    /// PostgreSQL database instead of a folder, shared by any number of coordinators
    #[arg(
        long,
        value_name = "URL",
        env = "FEDBO_COORDINATOR_STORE",
        hide_env_values = true, // it may contain a password, which clap would print in errors
        requires = "key"
    )]
    store: Option<String>,
    /// Secret key of all coordinators that share the database; `study create` creates it if absent
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

    /// Opens the coordinator, and returns it together with the study of this name and that study's
    /// roster.
    fn study(&self, name: &str) -> anyhow::Result<(Home, StudyRecord, Vec<SlotRecord>)> {
        let home = self.open(Mode::Existing)?;
        let record = home.store().study(name)?;
        let slots = home.store().slots(record.key)?;
        Ok((home, record, slots))
    }
}

/// Returns the slot of the agent with this name.
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
