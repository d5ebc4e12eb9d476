//! `fedbo agent`: one party of a federation over a network.

use std::cell::Cell;
use std::path::PathBuf;

use fedbo_agent::{
    AgentFile, Ended, EnrolOptions, HOME, Home, MoveOptions, Notice, Observer, RunOptions,
    UploadCounts,
};
use fedbo_config::choices_to_write;
use fedbo_federation::Federation;
use fedbo_privacy::accounting::Budget;
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_transport::ProxySetting;
use fedbo_wire::{EnrolmentToken, ServerCard};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::alignment::{self, AlignmentRecord};
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;
use fedbo_documents::space_display::{self, ShownParameter};
use fedbo_documents::trial_record::SCHEMA_VERSION;

/// Take part in a federation: tune your own objective and learn from other agents
#[derive(clap::Subcommand)]
pub(crate) enum Agent {
    Enrol(Enrol),
    Run(Run),
    Status(Status),
    Rotate(Rotate),
    Move(Move),
    Reconcile(Reconcile),
}

/// Join a study with the token from its operator
///
/// Creates the agent's folder and key, enrols the agent in the study, and stores the study's frozen
/// configuration. The command can be repeated safely.
#[derive(clap::Args)]
pub(crate) struct Enrol {
    /// Address of the coordinator: `https://HOST:PORT`
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// Token; - reads it from standard input
    #[arg(
        long,
        value_name = "TOKEN",
        env = "FEDBO_TOKEN",
        hide_env_values = true,
        value_parser = secret
    )]
    token: Zeroizing<String>,
    /// Card of the helper, as published by the party that runs it (`fedbo helper card`). Required
    /// if two servers compute the sums, so that the coordinator by itself cannot see a vector
    #[arg(long, value_name = "CARD")]
    helper: Option<String>,
    /// Folder of the agent
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Certificate authority of the coordinator (PEM), in addition to those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Outbound proxy: http://HOST:PORT, or none; by default the one in HTTPS_PROXY. Hosts in
    /// NO_PROXY are reached directly
    #[arg(long, value_name = "URL")]
    proxy: Option<ProxySetting>,
    /// Allow plain HTTP to other machines: anybody on the network path can read and change the
    /// messages
    #[arg(long)]
    plain_http: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Run an agent as configured in its file until its plan is complete
///
/// After an interruption, the same command resumes the agent. Its observations stay in its folder.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The agent's file, for instance agent.toml
    file: PathBuf,
    /// Print a JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Show an agent's progress in its studies and its privacy spending, without network requests
#[derive(clap::Args)]
pub(crate) struct Status {
    /// Folder of the agent
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Replace the agent's key at all of its coordinators
#[derive(clap::Args)]
pub(crate) struct Rotate {
    /// Folder of the agent
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Change the address of a coordinator
///
/// The server at the new address must prove that it has the coordinator's key, which the agent
/// received with its token. All studies of this coordinator move; stop the agent in all of them
/// first. If a check fails, the agent keeps the old address.
#[derive(clap::Args)]
pub(crate) struct Move {
    /// New address of the coordinator: `https://HOST:PORT`
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// One of the coordinator's studies; required if the agent's studies have several coordinators
    #[arg(long)]
    study: Option<String>,
    /// Folder of the agent
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Certificate authority of the coordinator (PEM), in addition to those of the system; by
    /// default that of the old address
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Allow plain HTTP to other machines: anybody on the network path can read and change the
    /// messages
    #[arg(long)]
    plain_http: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Update an agent's spending from its studies' ledgers after restoring its folder from a copy
///
/// A folder that was restored from an older copy or is used on two machines lacks records of some
/// messages sent in the agent's name. This command contacts the coordinators of the agent's
/// studies, follows their signed ledgers, charges the missing releases, and lets the agent
/// continue. First stop the agent on all other machines. The command can be repeated safely.
#[derive(clap::Args)]
pub(crate) struct Reconcile {
    /// Folder of the agent
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Name of the study; by default all unfinished studies
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Parses a secret, which is overwritten in memory when dropped.
#[expect(clippy::unnecessary_wraps, reason = "what clap asks for")]
fn secret(text: &str) -> Result<Zeroizing<String>, std::convert::Infallible> {
    Ok(Zeroizing::new(text.to_owned()))
}

#[derive(Serialize)]
struct Enrolled {
    study: String,
    slot: u32,
    agent: String,
    config: String,
    /// Parameters passed to the agent's commands.
    space: Vec<ShownParameter>,
    /// The study's guarantee for the agent's messages, in one sentence.
    protection: String,
    /// The guarantee without technical terms.
    in_plain_words: String,
}

/// Summary of a run.
#[derive(Serialize)]
struct RunSummary {
    schema_version: u32,
    /// `complete`, `study-over` or `interrupted`.
    ended: &'static str,
    /// Number of trials finished by this run, including failed ones.
    told_by_this_run: u64,
    failed: u64,
    /// True if the agent's budget allows no further upload.
    budget_reached: bool,
    storage: String,
}

#[derive(Serialize)]
struct StatusDocument {
    studies: Vec<StudyStatus>,
    privacy: Option<PrivacyStatus>,
}

#[derive(Serialize)]
struct StudyStatus {
    study: String,
    agent: String,
    slot: u32,
    coordinator: String,
    round: Option<u64>,
    rounds: u64,
    /// Head of the ledger, as `SEQ:HASH`.
    ledger_head: Option<String>,
    trials: u64,
    best: Option<f64>,
    /// Trust in the other agents, if the algorithm weighs them. A negative trust is the weight of
    /// their negated functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_percent: Option<i8>,
    /// Alignment of all agents' vectors, if their sums are released.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<AlignmentRecord>,
    #[serde(skip)]
    alignment_sentence: Option<String>,
    uploads_acknowledged: u64,
    uploads_missed: u64,
    finished: bool,
    /// Protection of the agent's messages, in one sentence without technical terms.
    in_plain_words: String,
}

#[derive(Serialize)]
struct PrivacyStatus {
    epsilon_max: f64,
    delta: f64,
    epsilon: Option<f64>,
    releases: u64,
}

impl From<fedbo_agent::PrivacyStatus> for PrivacyStatus {
    fn from(privacy: fedbo_agent::PrivacyStatus) -> Self {
        Self {
            epsilon_max: privacy.cap.epsilon(),
            delta: privacy.cap.delta().get(),
            epsilon: privacy.spent.as_ref().ok().map(|claim| claim.epsilon),
            releases: privacy.spent.as_ref().map_or(0, |claim| claim.n_releases),
        }
    }
}

impl PrivacyStatus {
    fn sentence(&self) -> String {
        let spent = self.epsilon.map_or_else(
            || "no finite bound is proved for the epsilon spent".to_owned(),
            |epsilon| format!("epsilon {epsilon:?} is spent"),
        );
        format!(
            "over all studies {spent}, on {} uploads, of {:?} at delta {:?}\n",
            self.releases, self.epsilon_max, self.delta
        )
    }
}

impl Agent {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        crate::core_dumps::turn_off();
        match self {
            Self::Enrol(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Rotate(command) => command.run(),
            Self::Move(command) => command.run(),
            Self::Reconcile(command) => command.run(),
        }
    }
}

impl Agent {
    /// Returns the document printed by `--json`, or `None` for commands with side effects.
    pub(crate) fn answer(&self) -> Option<anyhow::Result<String>> {
        match self {
            Self::Status(command) => {
                let document = command.document();
                Some(document.and_then(|document| Ok(serde_json::to_string_pretty(&document)?)))
            }
            Self::Enrol(_)
            | Self::Run(_)
            | Self::Rotate(_)
            | Self::Move(_)
            | Self::Reconcile(_) => None,
        }
    }
}

impl Enrol {
    fn run(&self) -> anyhow::Result<Exit> {
        let options = EnrolOptions {
            home: self.home.clone(),
            coordinator_url: self.coordinator.clone(),
            token: self.token()?,
            ca: self.ca.clone(),
            proxy: self.proxy.clone().unwrap_or_default(),
            helper: self.helper()?,
            allow_plain_http: self.plain_http,
        };
        let quiet = self.json;
        let membership = fedbo_agent::enrol(&options, &mut |federation| {
            if !quiet {
                // INV-24: show the parameters before anything is stored.
                console::note(&space_display::lines(&federation.space));
            }
        })?;
        let federation = membership.federation()?;
        let protection = fedbo_agent::protection(&federation);
        let in_plain_words = federation.in_plain_words();
        if let Some(warning) = fedbo_agent::weak_protection(&federation) {
            console::note(&format!("warning: {warning}"));
        }
        if let Some(warning) = fedbo_agent::short_rounds(&federation) {
            console::note(&format!("warning: {warning}"));
        }
        if self.json {
            let enrolled = Enrolled {
                study: membership.study,
                slot: membership.slot,
                agent: membership.agent,
                config: membership.digest.to_string(),
                space: space_display::parameters(&federation.space),
                protection,
                in_plain_words,
            };
            console::result(&serde_json::to_string_pretty(&enrolled)?)?;
            return Ok(Exit::Done);
        }
        let home = self.home.display();
        console::result(&format!(
            "{:?} has slot {} of study {:?}; its key and its data are in {home}\n{protection}\n{in_plain_words}",
            membership.agent, membership.slot, membership.study
        ))?;
        let parameters: Vec<&str> =
            federation.space.parameters().iter().map(fedbo_space::Parameter::name).collect();
        let limit = limit(Home::open(&self.home)?.budget()?, &federation);
        let arguments: Vec<String> =
            parameters.iter().map(|name| format!("\"{{{name}}}\"")).collect();
        let choices = choices_to_write(&federation.space).map_or_else(String::new, |lines| {
            format!(
                "\n# if your command accepts all of these unchanged:\n[choices]\n{}",
                lines.trim_end()
            )
        });
        console::remark(&format!(
            "its parameters are {}. Write agent.toml, then run it with `fedbo agent run agent.toml`:\n\n[agent]\nhome = {:?}\n\
             [objective]\ncommand = [\"./evaluate\", {}]{choices}{limit}",
            parameters.join(", "),
            self.home,
            arguments.join(", ")
        ));
        Ok(Exit::Done)
    }

    fn helper(&self) -> anyhow::Result<Option<ServerCard>> {
        let card = self.helper.as_deref().map(str::parse::<ServerCard>).transpose();
        Ok(card.map_err(|error| BadInput(format!("--helper: {error}")))?)
    }

    fn token(&self) -> anyhow::Result<EnrolmentToken> {
        let mut text = self.token.clone(); // INV-26: this copy is overwritten too

        if *text == "-" {
            text.clear();
            std::io::stdin()
                .read_line(&mut text)
                .map_err(|error| BadInput(format!("the token cannot be read: {error}")))?;
        }
        let token = text.trim().parse();
        Ok(token.map_err(|error: fedbo_wire::TokenUnreadable| BadInput(error.to_string()))?)
    }
}

/// Returns the `[privacy]` table for the agent's file, which limits the spending over all studies.
///
/// The budget is the one recorded in the agent's home (INV-25). If none is recorded, it is the
/// study's budget, if the study charges.
fn limit(known: Option<Budget>, federation: &Federation) -> String {
    let budget = known.or_else(|| Some(federation.privacy()?.budget()));
    budget.map_or_else(String::new, |budget| {
        format!(
            "\n[privacy]\nepsilon_max = {:?}\ndelta = {:e}",
            budget.epsilon(),
            budget.delta().get()
        )
    })
}

impl Run {
    fn run(&self) -> anyhow::Result<Exit> {
        FileKind::Agent.check(&self.file)?;
        let file = AgentFile::load(&self.file)?;
        let watcher = ConsoleObserver {
            n_trials: Cell::new(0),
            n_failed: Cell::new(0),
            over_budget: Cell::new(false),
        };
        let stop = interrupt::stop_flag(
            "stopping: the running trial is abandoned and runs again next time (once more to exit at once)",
        );
        let options = RunOptions { file: &file, stop, observer: &watcher };
        let ended = fedbo_agent::run(&options)?;
        let (n_trials, n_failed) = (watcher.n_trials.get(), watcher.n_failed.get());
        let storage = format!("sqlite:{}/trials.db", file.home.display());
        if self.json {
            console::result(&serde_json::to_string_pretty(&RunSummary {
                schema_version: SCHEMA_VERSION,
                ended: match ended {
                    Ended::Complete => "complete",
                    Ended::StudyOver => "study-over",
                    Ended::Interrupted => "interrupted",
                },
                told_by_this_run: n_trials,
                failed: n_failed,
                budget_reached: watcher.over_budget.get(),
                storage,
            })?)?;
        } else {
            console::result(&match ended {
                Ended::Complete => format!("done; the trials are in {storage}"),
                Ended::StudyOver => format!(
                    "the coordinator ended the study before this agent's plan was complete; the trials are in {storage}"
                ),
                Ended::Interrupted => "interrupted; run it again to continue".to_owned(),
            })?;
        }
        Ok(match ended {
            Ended::Interrupted => Exit::Interrupted,
            _ if watcher.over_budget.get() => Exit::BudgetSpent,
            _ if n_trials > 0 && n_failed == n_trials => Exit::NoTrial,
            _ => Exit::Done,
        })
    }
}

impl Status {
    fn document(&self) -> anyhow::Result<StatusDocument> {
        let status = fedbo_agent::status(&self.home)?;
        Ok(StatusDocument {
            studies: status
                .memberships
                .into_iter()
                .map(|study| {
                    let UploadCounts { acknowledged, missed, .. } = study.uploads;
                    StudyStatus {
                        study: study.study,
                        agent: study.agent,
                        slot: study.slot,
                        coordinator: study.url,
                        round: study.round,
                        rounds: study.rounds,
                        ledger_head: study.head.map(|head| head.to_string()),
                        trials: study.n_trials,
                        best: study.best,
                        trust_percent: study.trust_percent,
                        alignment: study.alignment.as_ref().map(AlignmentRecord::from),
                        alignment_sentence: study.alignment.as_ref().map(alignment::sentence),
                        uploads_acknowledged: acknowledged,
                        uploads_missed: missed,
                        finished: study.finished,
                        in_plain_words: study.in_plain_words,
                    }
                })
                .collect(),
            privacy: status.privacy.map(PrivacyStatus::from),
        })
    }

    fn run(&self) -> anyhow::Result<Exit> {
        let document = self.document()?;
        if self.json {
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        let mut text = String::new();
        for study in &document.studies {
            let round = study.round.map_or_else(
                || "no round has begun".to_owned(),
                |round| format!("round {round} of {}", study.rounds),
            );
            let state = if study.finished { "finished" } else { &round };
            let mut best = study
                .best
                .map_or_else(|| "no value yet".to_owned(), |best| format!("best {best:?}"));
            if let Some(trust) = study.trust_percent {
                let negated = if trust < 0 { ", negated," } else { "" };
                let trust = trust.unsigned_abs();
                best += &format!(", trusted the others{negated} by {trust} % when last asked");
            }
            text += &format!(
                "{} (slot {}, {:?} at {}): {state}; {} trials, {best}; {} uploads, {} missed\n",
                study.study,
                study.slot,
                study.agent,
                study.coordinator,
                study.trials,
                study.uploads_acknowledged,
                study.uploads_missed
            );
            text += &format!("  {}\n", study.in_plain_words);
            if let Some(head) = &study.ledger_head {
                text += &format!(
                    "  its ledger ends at {head}: other agents of the study have the same hash at that number\n"
                );
            }
            if let Some(sentence) = &study.alignment_sentence {
                text += &format!("  {sentence}\n");
            }
        }
        if document.studies.is_empty() {
            text += "no study yet\n";
        }
        if let Some(privacy) = &document.privacy {
            text += &privacy.sentence();
        }
        console::result(&text)?;
        Ok(Exit::Done)
    }
}

impl Rotate {
    fn run(&self) -> anyhow::Result<Exit> {
        let key = fedbo_agent::rotate(&self.home)?;
        if self.json {
            console::result(&serde_json::json!({ "key": key.to_string() }).to_string())?;
            return Ok(Exit::Done);
        }
        console::result(&format!("the agent's key is now {key}"))?;
        Ok(Exit::Done)
    }
}

impl Move {
    fn run(&self) -> anyhow::Result<Exit> {
        let moved = fedbo_agent::move_to(&MoveOptions {
            home: self.home.clone(),
            study: self.study.clone(),
            coordinator_url: self.coordinator.clone(),
            ca: self.ca.clone(),
            allow_plain_http: self.plain_http,
        })?;
        let studies: Vec<&str> = moved.iter().map(|membership| membership.study.as_str()).collect();
        if self.json {
            let moved = serde_json::json!({ "coordinator": self.coordinator, "studies": studies });
            console::result(&moved.to_string())?;
            return Ok(Exit::Done);
        }
        let names: Vec<String> = studies.iter().map(|study| format!("{study:?}")).collect();
        console::result(&format!(
            "the coordinator of {} is now at {}; the server there proved that it holds the coordinator's key",
            names.join(", "),
            self.coordinator
        ))?;
        Ok(Exit::Done)
    }
}

#[derive(Serialize)]
struct ReconciledStudy {
    study: String,
    /// Last request counter recorded in the folder. The agent continues after `counter`.
    counter_before: u64,
    counter: u64,
    /// Number of releases in the study's ledger, and the head of the ledger as `SEQ:HASH`.
    releases: u64,
    ledger_head: Option<String>,
    /// Rounds charged by this command, by study.
    charged: Vec<ChargedRounds>,
}

#[derive(Serialize)]
struct ChargedRounds {
    study: String,
    rounds: Vec<u64>,
}

#[derive(Serialize)]
struct ReconcileDocument {
    schema_version: u32,
    studies: Vec<ReconciledStudy>,
    privacy: Option<PrivacyStatus>,
}

impl Reconcile {
    fn run(&self) -> anyhow::Result<Exit> {
        let studies = fedbo_agent::reconcile(&self.home, self.study.as_deref())?;
        let privacy = fedbo_agent::status(&self.home)?.privacy.map(PrivacyStatus::from);
        let studies: Vec<ReconciledStudy> = studies
            .into_iter()
            .map(|found| ReconciledStudy {
                study: found.study,
                counter_before: found.counter_before,
                counter: found.counter,
                releases: found.n_releases,
                ledger_head: found.head.map(|head| head.to_string()),
                charged: found
                    .charged
                    .into_iter()
                    .map(|(study, rounds)| ChargedRounds { study, rounds })
                    .collect(),
            })
            .collect();
        if self.json {
            let document = ReconcileDocument { schema_version: SCHEMA_VERSION, studies, privacy };
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        let mut text = String::new();
        for found in &studies {
            text += &format!(
                "{}: {} releases in its ledger; the agent continues after request {} (its folder had recorded {})\n",
                found.study, found.releases, found.counter, found.counter_before
            );
            for new in &found.charged {
                let rounds: Vec<String> = new.rounds.iter().map(u64::to_string).collect();
                text += &format!(
                    "  charged now for study {}: {} rounds ({})\n",
                    new.study,
                    new.rounds.len(),
                    rounds.join(", ")
                );
            }
        }
        if studies.is_empty() {
            text += "no active study to ask; use --study NAME for a study that has ended\n";
        }
        if let Some(privacy) = &privacy {
            text += &privacy.sentence();
        }
        console::result(&text)?;
        Ok(Exit::Done)
    }
}

/// Reports events on standard error.
struct ConsoleObserver {
    n_trials: Cell<u64>,
    n_failed: Cell<u64>,
    over_budget: Cell<bool>,
}

impl Observer for ConsoleObserver {
    fn trial_ended(&self, trial: &Trial, _point: &Point, told: &Told) {
        self.n_trials.set(self.n_trials.get() + 1);
        match told {
            Told::Value(value) => console::remark(&format!("trial {}: {value:?}", trial.index)),
            Told::Failed { kind, message } => {
                self.n_failed.set(self.n_failed.get() + 1);
                console::note(&format!("trial {} failed ({kind}): {message}", trial.index));
            }
            // An agent's trials do not report epochs, so they are never stopped early. Each has a
            // single value, and none can be discarded.
            Told::Stopped { .. } | Told::Numbers(_) | Told::Discarded => {}
        }
    }

    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::UploadSent(_) => {}
            Notice::RoundBegan(..) | Notice::UploadResent(_) | Notice::StudyWaits(_) => {
                console::remark(&notice.to_string());
            }
            Notice::StudyOpened(_)
            | Notice::UploadMissed(..)
            | Notice::Retrying(..)
            | Notice::HelperAwaited(_) => {
                console::note(&notice.to_string());
            }
            Notice::RoundsAreShort(_)
            | Notice::WeakProtection(_)
            | Notice::TakenOver(_)
            | Notice::CoordinatorSetBack(..)
            | Notice::AccountUnchecked(..)
            | Notice::Refused(_)
            | Notice::CoordinatorRefused(_) => {
                console::note(&format!("warning: {notice}"));
            }
            Notice::WaitsToDeliver => {
                console::note(&format!("{notice} (Ctrl-C ends the wait, and no trial is lost)"));
            }
            Notice::BudgetReached(_) => {
                self.over_budget.set(true);
                console::note(&format!(
                    "{notice}; the agent continues with the releases of others"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_privacy::accounting::Delta;

    use super::*;

    /// INV-25: the proposed file contains the budget recorded in the home, whatever the study
    /// charges.
    #[test]
    fn a_home_with_a_budget_is_proposed_files_with_it() {
        let study = |algorithm: &str, more: &str| {
            let text = format!(
                "[federation]\nname = \"a\"\nalgorithm = \"{algorithm}\"\nrounds = 2\n[features]\ncount = 8\n{more}\n\
                 [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
                 [[agents]]\nname = \"north\"\n[[agents]]\nname = \"south\"\n"
            );
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("federation.toml");
            std::fs::write(&path, text).unwrap();
            Federation::thaw(
                &Federation::freeze(&path, "key", &fedbo_objective::NoProblems).unwrap().1,
            )
            .unwrap()
        };
        let relayed = study("fts", "");
        let charged = study("dp-fts-de", "[privacy]\nepsilon = 2.0\nreleases = 1\n");
        let known = Budget::new(2.7, Delta::new(1e-6).unwrap()).ok();
        let of_home = "\n[privacy]\nepsilon_max = 2.7\ndelta = 1e-6";
        assert_eq!(limit(None, &relayed), "");
        assert_eq!(limit(known, &relayed), of_home);
        assert_eq!(limit(known, &charged), of_home);
        assert!(limit(None, &charged).starts_with("\n[privacy]\nepsilon_max = 2.0\ndelta = "));
    }
}
