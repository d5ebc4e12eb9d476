//! `fedbo agent`: one party of a federation over a network.

use std::cell::Cell;
use std::path::PathBuf;

use fedbo_agent::{
    AgentFile, Ended, EnrolOptions, HOME, Home, Notice, Observer, RunOptions, UploadCounts,
};
use fedbo_config::choices_to_write;
use fedbo_federation::Federation;
use fedbo_privacy::accounting::Budget;
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{EnrolmentToken, ServerCard};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::alignment::{self, AlignmentRecord};
use crate::console;
use crate::exit::{BadInput, Exit};
use crate::file_kind::FileKind;
use crate::interrupt;
use crate::space_display::{self, ShownParameter};
use crate::trial_record::SCHEMA_VERSION;

/// Take part in a federation: tune an objective of your own, and learn from others'
#[derive(clap::Subcommand)]
pub(crate) enum Agent {
    Enrol(Enrol),
    Run(Run),
    Status(Status),
    Rotate(Rotate),
}

/// Join a study with the token that its operator gave you
///
/// Makes the agent's folder and its key, takes the agent's place in the study, and keeps the study's frozen configuration. Doing
/// it again is harmless.
#[derive(clap::Args)]
pub(crate) struct Enrol {
    /// Address of the coordinator: `https://HOST:PORT`
    #[arg(long, value_name = "URL")]
    coordinator: String,
    /// The token; - reads it from standard input
    #[arg(
        long,
        value_name = "TOKEN",
        env = "FEDBO_TOKEN",
        hide_env_values = true,
        value_parser = secret
    )]
    token: Zeroizing<String>,
    /// Card of the other party's server, as that party says (`fedbo helper card`): where two servers sum, the coordinator alone sees nothing
    #[arg(long, value_name = "CARD")]
    helper: Option<String>,
    /// The agent's folder
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Authority of the coordinator's certificate (PEM), besides those that the system trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Speak plain HTTP also beyond this machine: everybody on the way can read and change what is sent
    #[arg(long)]
    plain_http: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Run an agent as its file says, until its plan is done
///
/// Interrupted in any way, it goes on where it was when it is run again. What it measures stays in its folder.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The agent's file, for instance agent.toml
    file: PathBuf,
    /// Print a JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Show where an agent stands in its studies, and what it has spent; asks nobody
#[derive(clap::Args)]
pub(crate) struct Status {
    /// The agent's folder
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Replace the agent's key at all of its coordinators
#[derive(clap::Args)]
pub(crate) struct Rotate {
    /// The agent's folder
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// A text that is overwritten when it is dropped.
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
    /// The parameters that its commands will be given.
    space: Vec<ShownParameter>,
    /// The study's promise for what is sent, in one sentence.
    protection: String,
}

/// The summary of a run.
#[derive(Serialize)]
struct RunSummary {
    schema_version: u32,
    /// `complete`, `study-over` or `interrupted`.
    ended: &'static str,
    /// Trials that this run told, the failed ones included.
    told_by_this_run: u64,
    failed: u64,
    /// The agent's budget allows no further upload.
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
    /// The end of the ledger, as `SEQ:HASH`.
    ledger_head: Option<String>,
    trials: u64,
    best: Option<f64>,
    /// The trust in the others, where the algorithm weighs them; below 0 the weight of their negated functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_percent: Option<i8>,
    /// The alignment of all agents' vectors, where sums of them are released.
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<AlignmentRecord>,
    #[serde(skip)]
    alignment_sentence: Option<String>,
    uploads_acknowledged: u64,
    uploads_missed: u64,
    finished: bool,
}

#[derive(Serialize)]
struct PrivacyStatus {
    epsilon_max: f64,
    delta: f64,
    epsilon: Option<f64>,
    releases: u64,
}

impl Agent {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        crate::core_dumps::turn_off();
        match self {
            Self::Enrol(command) => command.run(),
            Self::Run(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Rotate(command) => command.run(),
        }
    }
}

impl Agent {
    /// The document that it prints with `--json`; none of commands that do more than to compute one.
    pub(crate) fn answer(&self) -> Option<anyhow::Result<String>> {
        match self {
            Self::Status(command) => {
                let document = command.document();
                Some(document.and_then(|document| Ok(serde_json::to_string_pretty(&document)?)))
            }
            Self::Enrol(_) | Self::Run(_) | Self::Rotate(_) => None,
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
            helper: self.helper()?,
            allow_plain_http: self.plain_http,
        };
        let quiet = self.json;
        let membership = fedbo_agent::enrol(&options, &mut |federation| {
            if !quiet {
                // INV-24: seen before anything of it is stored.
                console::note(&space_display::lines(&federation.space));
            }
        })?;
        let federation = membership.federation()?;
        let protection = fedbo_agent::protection(&federation);
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
            };
            console::result(&serde_json::to_string_pretty(&enrolled)?)?;
            return Ok(Exit::Done);
        }
        let home = self.home.display();
        console::result(&format!(
            "{:?} has slot {} of study {:?}; its key and its data are in {home}\n{protection}",
            membership.agent, membership.slot, membership.study
        ))?;
        let parameters: Vec<&str> =
            federation.space.parameters().iter().map(fedbo_space::Parameter::name).collect();
        let limit = limit(Home::open(&self.home)?.budget()?, &federation);
        let arguments: Vec<String> =
            parameters.iter().map(|name| format!("\"{{{name}}}\"")).collect();
        let choices = choices_to_write(&federation.space).map_or_else(String::new, |lines| {
            format!(
                "\n# if your command takes all of these as they are:\n[choices]\n{}",
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
        let mut text = self.token.clone(); // INV-26: each copy of ours is overwritten

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

/// The table of a file that says what may be spent over all studies: what the agent's home knows of it (INV-25), else what a study
/// that charges takes.
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
                    "the coordinator has ended the study before this agent's plan was done; the trials are in {storage}"
                ),
                Ended::Interrupted => "interrupted; run it again to go on".to_owned(),
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
                    }
                })
                .collect(),
            privacy: status.privacy.map(|privacy| PrivacyStatus {
                epsilon_max: privacy.cap.epsilon(),
                delta: privacy.cap.delta().get(),
                epsilon: privacy.spent.as_ref().ok().map(|claim| claim.epsilon),
                releases: privacy.spent.as_ref().map_or(0, |claim| claim.n_releases),
            }),
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
            if let Some(head) = &study.ledger_head {
                text += &format!(
                    "  its ledger ends at {head}: other agents of the study with that number have that hash\n"
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
            let spent = privacy.epsilon.map_or_else(
                || "nothing finite is proved of what it has spent".to_owned(),
                |epsilon| format!("epsilon {epsilon:?} is spent"),
            );
            text += &format!(
                "over all studies {spent}, on {} uploads, of {:?} at delta {:?}\n",
                privacy.releases, privacy.epsilon_max, privacy.delta
            );
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
        console::result(&format!("the agent's key is {key} from now on"))?;
        Ok(Exit::Done)
    }
}

/// Says on standard error what happens.
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
            // An agent's trials report nothing, so none is stopped, and have one number.
            Told::Stopped { .. } | Told::Numbers(_) => {}
        }
    }

    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::UploadSent(_) => {}
            Notice::RoundBegan(..) | Notice::UploadResent(_) | Notice::StudyWaits(_) => {
                console::remark(&notice.to_string());
            }
            Notice::StudyOpened(_) | Notice::UploadMissed(..) | Notice::Retrying(..) => {
                console::note(&notice.to_string());
            }
            Notice::RoundsAreShort(_) | Notice::Refused(_) | Notice::CoordinatorRefused(_) => {
                console::note(&format!("warning: {notice}"));
            }
            Notice::WaitsToDeliver => {
                console::note(&format!("{notice} (Ctrl-C ends the wait, and no trial is lost)"));
            }
            Notice::BudgetReached(_) => {
                self.over_budget.set(true);
                console::note(&format!("{notice}; the agent goes on with what others release"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_privacy::accounting::Delta;

    use super::*;

    /// INV-25: what a home may spend is in each file that is proposed for it, whatever the study charges.
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
