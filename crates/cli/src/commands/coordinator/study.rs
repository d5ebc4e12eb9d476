//! `fedbo coordinator study`: create, show, pause and resume studies.

use std::path::PathBuf;

use anyhow::Context as _;
use fedbo_config::choices_to_write;
use fedbo_coordinator::TOKEN_DAYS;
use fedbo_coordinator::store::StudyState;
use fedbo_documents::{ListedStudy, listed, slot_state};
use fedbo_federation::{Federation, FrozenFor};
use fedbo_servers::{SumStudy, card_of};
use fedbo_storage::Mode;
use fedbo_transport::checked_url;
use fedbo_wire::ServerCard;
use serde::Serialize;

use super::Place;
use crate::commands::problems;
use fedbo_console as console;
use fedbo_console::table::{self, Column};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;

/// Create, show, pause and resume studies
#[derive(clap::Subcommand)]
pub(crate) enum Study {
    Create(Create),
    Ls(Ls),
    Show(Show),
    Pause(Change),
    Resume(Change),
}

/// Create a study from a federation's file, and print a token for each of its agents
///
/// The public part of the file (roster, space, features, algorithm, privacy) is frozen and signed,
/// so later changes to the file have no effect on the study. Objectives stay with the agents:
/// commands and problems in the file are omitted. The study starts when all agents have enrolled,
/// or with `study resume`.
#[derive(clap::Args)]
pub(crate) struct Create {
    /// The federation, for instance federation.toml
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Wait for `study resume` instead of starting when all agents have enrolled
    #[arg(long)]
    paused: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// List the studies
#[derive(clap::Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    place: Place,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Show a study: its state, roster, ledger and frozen configuration
#[derive(clap::Args)]
pub(crate) struct Show {
    /// The study
    study: String,
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Pause or resume a study; a running coordinator notices within a second
#[derive(clap::Args)]
pub(crate) struct Change {
    /// The study
    study: String,
    #[command(flatten)]
    place: Place,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Created {
    study: String,
    tokens: Vec<TokenRecord>,
}

#[derive(Serialize)]
pub(super) struct TokenRecord {
    pub(super) slot: u32,
    pub(super) agent: String,
    pub(super) token: String,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    listed: ListedStudy,
    ledger_head: Option<String>,
    roster: Vec<SlotShown>,
    config: String,
}

#[derive(Serialize)]
struct SlotShown {
    slot: u32,
    agent: String,
    state: &'static str,
}

impl Study {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Create(command) => command.run(),
            Self::Ls(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Pause(command) => command.run(StudyState::Paused),
            Self::Resume(command) => command.run(StudyState::Running),
        }
    }
}

impl Create {
    /// Checks the settings of the helper before they are frozen.
    fn check_sum(&self, checked: &Federation) -> anyhow::Result<()> {
        let Some(sum) = &checked.file().secure_sum else {
            return Ok(());
        };
        let wrong = |what: String| BadInput(format!("{}: {what}", self.file.display()));
        if self.place.store.is_some() {
            let message = "[secure_sum] needs a coordinator in a folder (--data): replicas that share a database cannot run secure sums";
            return Err(wrong(message.to_owned()).into());
        }
        if let Some(Err(error)) = sum.helper.as_ref().map(|card| card.parse::<ServerCard>()) {
            return Err(wrong(format!("secure_sum.helper: {error}")).into());
        }
        if let Some(url) = &sum.helper_url {
            checked_url(url, true)
                .map_err(|error| wrong(format!("secure_sum.helper_url = {url:?}: {error}")))?;
            if let Err(error) = checked_url(url, false) {
                console::remark(&format!(
                    "secure_sum.helper_url = {url:?}: {error} (with `fedbo coordinator run`)"
                ));
            }
        }
        Ok(())
    }

    fn run(&self) -> anyhow::Result<Exit> {
        // Check the file before anything is created.
        FileKind::Federation.check(&self.file)?;
        let (checked, _) = Federation::freeze(&self.file, "", problems())?;
        self.check_sum(&checked)?;
        let home = self.place.open(Mode::Create)?;
        let key = home.key().public().to_string();
        let card = card_of(&home.key()).to_string();
        let by = FrozenFor { key: &key, card: &card };
        let (federation, config) = Federation::freeze(&self.file, by, problems())?;
        if let Some(Err(refusal)) = federation.privacy().map(|plan| &plan.claim) {
            return Err(refusal.clone().into());
        }
        let record = home.create_study(&federation, &config)?;
        if home.is_new() {
            let place =
                home.database().map_or_else(|| home.path().display().to_string(), str::to_owned);
            console::remark(&format!(
                "{place}: a new coordinator, with a key that no agent knows yet"
            ));
        }
        if self.paused {
            home.store().set_state(record.key, StudyState::Paused)?;
        }
        let mut tokens = Vec::new();
        for (slot, agent) in (0_u32..).zip(&federation.agents) {
            tokens.push(TokenRecord {
                slot,
                agent: agent.name.clone(),
                token: home.token(&record, slot)?.to_text().to_string(),
            });
        }
        let claim = federation.privacy().and_then(|plan| plan.paid_claim());
        if let Some(warning) = claim.and_then(|claim| claim.warning()) {
            console::note(&format!("warning: {warning}"));
        }
        if self.json {
            let created = Created { study: record.name, tokens };
            console::result(&serde_json::to_string_pretty(&created)?)?;
            return Ok(Exit::Done);
        }
        if let Some(claim) = claim {
            console::note(&format!("all releases together cost {claim}"));
        } else if federation.is_simulation() {
            console::note(
                "warning: noise comes from the file's seed (privacy.simulate): releases protect nobody",
            );
        } else {
            console::note("note: what agents send is not protected by noise");
        }
        if let Some(sum) = SumStudy::of(&federation, &config)? {
            console::note(&format!(
                "vectors are summed by two servers: this coordinator, {key}, and the helper {} at {}. Each adds the whole noise, and neither \
                 sees a vector; one party that runs both sees them all. The helper's operator joins with\n  fedbo helper join {} \
                 --coordinator URL --key {key}",
                sum.helper.key, sum.helper_url, sum.name
            ));
        }
        if let Some(lines) = choices_to_write(&federation.space) {
            console::note(&format!(
                "note: agents accept choices that are not plain words only if their own agent.toml lists them. Ask the agents \
                 to check these and to add:\n[choices]\n{}",
                lines.trim_end()
            ));
        }
        print_tokens(&tokens)?;
        console::remark(&format!(
            "study {:?} {} its {} agents. Give each agent its token in private; a token is valid for \
             {TOKEN_DAYS} days and one agent:\n  fedbo agent enrol --coordinator URL --token TOKEN{}",
            record.name,
            match self.paused {
                true => "begins with `fedbo coordinator study resume`, and is for",
                false => "waits for",
            },
            tokens.len(),
            match federation.file().secure_sum {
                Some(_) => " --helper CARD, which the helper's operator gives to agents",
                None => "",
            }
        ));
        Ok(Exit::Done)
    }
}

/// Prints a table of tokens. They are shown only once.
pub(super) fn print_tokens(tokens: &[TokenRecord]) -> anyhow::Result<()> {
    let width = tokens.iter().map(|t| t.agent.chars().count()).max();
    let lines = tokens.iter().map(|token| {
        let width = width.unwrap_or(0);
        format!("{:>5}  {:width$}  {}\n", token.slot, token.agent, token.token)
    });
    let shown = console::result(&lines.collect::<String>());
    shown.context("tokens are shown only once, and showing these failed; make new ones with `fedbo coordinator agents token STUDY AGENT`")
}

impl Ls {
    fn run(&self) -> anyhow::Result<Exit> {
        let home = self.place.open(Mode::Existing)?;
        let records = home.store().studies()?;
        let listed: Vec<ListedStudy> =
            records.iter().map(|record| listed(&home, record)).collect::<Result<_, _>>()?;
        if self.json {
            console::result(&serde_json::to_string_pretty(&listed)?)?;
            return Ok(Exit::Done);
        }
        let texts = |of: fn(&ListedStudy) -> String| listed.iter().map(of).collect();
        let columns = vec![
            Column::words("study", texts(|study| study.study.clone()), 0),
            Column::words("state", texts(|study| study.state.to_owned()), 0),
            Column::numbers("round", texts(|study| format!("{}/{}", study.round, study.rounds)), 0),
            Column::numbers(
                "enrolled",
                texts(|study| format!("{}/{}", study.enrolled, study.agents)),
                0,
            ),
        ];
        let (table, _) = table::fit(columns, console::width());
        console::table(&table, None)?;
        Ok(Exit::Done)
    }
}

impl Show {
    fn run(&self) -> anyhow::Result<Exit> {
        let (home, record, slots) = self.place.study(&self.study)?;
        let roster = slots.into_iter().map(|slot| SlotShown {
            state: slot_state(&slot),
            slot: slot.slot,
            agent: slot.name,
        });
        let shown = Shown {
            listed: listed(&home, &record)?,
            ledger_head: record.head,
            roster: roster.collect(),
            config: record.config,
        };
        if self.json {
            console::result(&serde_json::to_string_pretty(&shown)?)?;
            return Ok(Exit::Done);
        }
        let ListedStudy { study, state, round, rounds, .. } = &shown.listed;
        let mut text = match *state {
            "finished" => format!("study {study:?} is finished, after {rounds} rounds\n"),
            state => format!("study {study:?} is {state}, round {round} of {rounds}\n"),
        };
        if let Some(head) = &shown.ledger_head {
            text += &format!("ledger: {}, head {head}\n", home.ledger_place(study));
        }
        text += "\n";
        for slot in &shown.roster {
            text += &format!("{:>5}  {:8}  {}\n", slot.slot, slot.state, slot.agent);
        }
        text += &format!("\n{}", shown.config);
        console::result(&text)?;
        Ok(Exit::Done)
    }
}

impl Change {
    fn run(&self, to: StudyState) -> anyhow::Result<Exit> {
        let (home, record, slots) = self.place.study(&self.study)?;
        home.store().set_state(record.key, to)?;
        let n_missing = slots.iter().filter(|slot| slot.key.is_none()).count();
        if record.state == StudyState::Waiting && n_missing > 0 {
            console::note(&format!(
                "{n_missing} of {} agents have not enrolled: until they do they count as zero",
                slots.len()
            ));
        }
        if self.json {
            let changed = serde_json::json!({
                "study": self.study,
                "state": to.name(),
                "agents": slots.len(),
                "enrolled": slots.len() - n_missing,
            });
            console::result(&changed.to_string())?;
            return Ok(Exit::Done);
        }
        console::result(&format!("study {:?} is {to}", self.study))?;
        Ok(Exit::Done)
    }
}
