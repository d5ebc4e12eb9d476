//! `fedbo coordinator agents`: the roster of a study.

use fedbo_coordinator::TOKEN_DAYS;
use fedbo_documents::slot_state;
use serde::Serialize;

use super::study::{TokenRecord, print_tokens};
use super::{Place, slot_of};
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::table::{self, Column};

/// Show and change the agents of a study
#[derive(clap::Subcommand)]
pub(crate) enum Agents {
    Ls(Ls),
    Token(Token),
    Revoke(Revoke),
}

/// List a study's roster
#[derive(clap::Args)]
pub(crate) struct Ls {
    /// The study
    study: String,
    #[command(flatten)]
    place: Place,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Create a new token for an agent, to replace a lost or expired one or to enrol again with another
/// key
#[derive(clap::Args)]
pub(crate) struct Token {
    /// The study
    study: String,
    /// The agent's name
    agent: String,
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Revoke an agent; its slot on the roster remains and counts as zero
#[derive(clap::Args)]
pub(crate) struct Revoke {
    /// The study
    study: String,
    /// The agent's name
    agent: String,
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    slot: u32,
    agent: String,
    state: &'static str,
    key: Option<String>,
}

impl Agents {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Ls(command) => command.run(),
            Self::Token(command) => command.run(),
            Self::Revoke(command) => command.run(),
        }
    }
}

impl Ls {
    fn run(&self) -> anyhow::Result<Exit> {
        let (_, _, slots) = self.place.study(&self.study)?;
        let listed: Vec<Listed> = slots
            .into_iter()
            .map(|slot| Listed {
                state: slot_state(&slot),
                slot: slot.slot,
                key: slot.key.map(|key| key.to_string()),
                agent: slot.name,
            })
            .collect();
        if self.json {
            console::result(&serde_json::to_string_pretty(&listed)?)?;
            return Ok(Exit::Done);
        }
        let texts = |of: fn(&Listed) -> String| listed.iter().map(of).collect();
        let columns = vec![
            Column::numbers("slot", texts(|agent| agent.slot.to_string()), 0),
            Column::words("agent", texts(|agent| agent.agent.clone()), 0),
            Column::words("state", texts(|agent| agent.state.to_owned()), 0),
            Column::words("key", texts(|agent| agent.key.clone().unwrap_or_default()), 1),
        ];
        let (table, _) = table::fit(columns, console::width());
        console::table(&table, None)?;
        Ok(Exit::Done)
    }
}

impl Token {
    fn run(&self) -> anyhow::Result<Exit> {
        let (home, record, slots) = self.place.study(&self.study)?;
        let slot = slot_of(&slots, &self.agent)?;
        let token = TokenRecord {
            slot,
            agent: self.agent.clone(),
            token: home.token(&record, slot)?.to_text().to_string(),
        };
        if self.json {
            console::result(&serde_json::to_string_pretty(&token)?)?;
            return Ok(Exit::Done);
        }
        print_tokens(&[token])?;
        console::remark(&format!(
            "valid for {TOKEN_DAYS} days and one agent; an agent that enrols with it takes the slot from its previous holder"
        ));
        Ok(Exit::Done)
    }
}

impl Revoke {
    fn run(&self) -> anyhow::Result<Exit> {
        let (home, record, slots) = self.place.study(&self.study)?;
        let slot = slot_of(&slots, &self.agent)?;
        home.store().revoke(record.key, slot)?;
        if self.json {
            let revoked =
                serde_json::json!({ "slot": slot, "agent": self.agent, "state": "revoked" });
            console::result(&revoked.to_string())?;
            return Ok(Exit::Done);
        }
        console::result(&format!(
            "agent {:?} no longer takes part; its slot {slot} counts as zero",
            self.agent
        ))?;
        Ok(Exit::Done)
    }
}
