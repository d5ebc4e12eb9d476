//! `fedbo run`: a whole federation in one process.

use std::path::{Path, PathBuf};

use fedbo_federation::{Arm, Collaboration, Federation, Protection, Role};
use fedbo_gp::FeatureError;
use fedbo_objective::FailuresMax;
use fedbo_runner::Ended;
use fedbo_runner::federation::{
    AgentFailures, ExistingResults, FailingAgent, RunOptions, RunReport, default_arms,
    run_federation,
};

use super::{add_remedies, parse_threads, print_summary};
use crate::advice;
use crate::progress::RunDisplay;
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::interrupt;
use fedbo_console::text::one_line;
use fedbo_console::text::{quoted, whole};
use fedbo_documents::file_kind::FileKind;

/// Number of runs suggested if a single run is not conclusive.
const RUNS_ADVISED: u32 = 20;

/// Run a whole federation in one process
///
/// Writes results.csv during the run, then summary.json, curves.svg and curves.png. Equal files
/// give equal results, unless releases are charged to a privacy budget, because their noise has no
/// seed. After an interruption, finished trials are kept; --resume continues from there, with the
/// releases in ledger.db of the results folder. A single run is one random sample. With --runs N,
/// the run is repeated, and the closing table shows which differences between arms are significant.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The federation, for instance examples/digits.toml
    file: PathBuf,
    /// Results folder [default: results/NAME, where NAME is the federation]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace existing results
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// With --overwrite, also replace results that have a ledger of spending. The ledger is kept as
    /// ledger-1.db, and the spending of both runs adds up for agents that are in both
    #[arg(long, requires = "overwrite")]
    spend_again: bool,
    /// Continue from the results of an interrupted run of the same file
    #[arg(long)]
    resume: bool,
    /// Number of repetitions of all arms, each with different random numbers, which are the same in
    /// every arm [default: one run with the seed itself]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Seed of all random numbers [default: the file's seed]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = whole::<u64>)]
    seed: Option<u64>,
    /// Number of concurrent trials and agents; results do not depend on it [default: the number of
    /// cores]
    #[arg(long, short = 'j', visible_alias = "jobs", value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Arms to run with the same seeds; the first is compared with the others. Arms are the file's
    /// algorithm by its name (fts-de and shared-mean if releases have no noise), ts (each agent
    /// alone by Thompson sampling), log-ei (each agent alone by expected improvement), placebo
    /// (messages without information), and for shared-prior and distributed-shared-prior also
    /// warm-start (the others' best points first) [default: the file's algorithm; with --runs also
    /// its controls]
    #[arg(long, value_name = "ARMS", value_delimiter = ',')]
    arms: Vec<Arm>,
    /// End the run after N consecutive failed trials of an agent; 0: never [default: 5 before the
    /// agent's first value]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
    failures_max: Option<u64>,
    /// Print the summary as JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        FileKind::Federation.check(&self.file)?;
        let federation = Federation::load_with_seed(&self.file, self.seed, super::problems())?;
        if federation.privacy().is_some() {
            crate::core_dumps::turn_off();
        }
        let out =
            self.out.clone().unwrap_or_else(|| PathBuf::from("results").join(&federation.name));
        let arms = self.arms_of(&federation);
        let options = RunOptions {
            arms: arms.clone(),
            runs: self.runs,
            out: out.clone(),
            existing: match (self.overwrite, self.resume) {
                (true, _) => ExistingResults::Overwrite,
                (_, true) => ExistingResults::Resume,
                _ => ExistingResults::Refuse,
            },
            spend_again: self.spend_again,
            threads: self.threads,
            failures_max: FailuresMax::from_key(self.failures_max),
        };
        if !console::is_quiet()
            && let Some(note) = unprotected(&federation, &arms)
        {
            console::note(&note);
        }
        if !console::is_quiet() {
            for note in advice_on(&federation, &arms)? {
                console::note(&note);
            }
        }
        let stop = interrupt::stop_flag(interrupt::ABANDONS);
        let display = RunDisplay::new();
        let ran = run_federation(&federation, &options, &display, &stop);
        display.finish();
        let report = ran.map_err(|error| {
            let ways = "continue it with --resume, replace it with --overwrite, or choose another folder with --out DIR";
            add_remedies(error.into(), ways)
        })?;
        self.conclude(&report, &out)
    }

    /// Returns the arms to run.
    fn arms_of(&self, federation: &Federation) -> Vec<Arm> {
        match self.arms.is_empty() {
            true => default_arms(federation, self.runs),
            false => self.arms.clone(),
        }
    }

    fn conclude(&self, report: &RunReport, out: &Path) -> anyhow::Result<Exit> {
        for failures in &report.failures {
            console::note(&warning(failures));
        }
        let all_failed = report.n_failed == report.n_trials;
        if self.json || !all_failed {
            print_summary(&report.summary, self.json)?;
        }
        if let Some(statement) = &report.statement
            && !self.json
        {
            console::result(&format!("spent: {}", statement.claim))?;
        }
        let folder = out.display();
        if report.ended == Ended::Interrupted {
            let again = self.resume_command();
            let kept = match report.n_trials {
                1 => "1 finished trial is".to_owned(),
                n => format!("{n} finished trials are"),
            };
            if let Some(failing) = &report.failing {
                console::note(&format!(
                    "error: {}\n{kept} kept in {folder}; fix the cause, then continue with: {again}\nthe trials that failed \
                     stay failed: --overwrite instead of --resume starts over, --failures-max 0 continues regardless of failures",
                    ended_by(failing)
                ));
                return Ok(Exit::NoTrial);
            }
            console::note(&format!("interrupted: {kept} kept in {folder}; continue with: {again}"));
            return Ok(Exit::Interrupted);
        }
        if all_failed {
            console::note(&format!(
                "error: all {} trials failed; {folder}/results.csv has the reasons",
                report.n_trials
            ));
            return Ok(Exit::NoTrial);
        }
        if !console::is_quiet() {
            if !report.summary.differences.is_empty() && self.runs.is_none_or(|runs| runs < 3) {
                let few = match self.runs {
                    None | Some(1) => "one run is".to_owned(),
                    Some(runs) => format!("{runs} runs are"),
                };
                let how = match report.statement {
                    // Every repetition would spend the agents' privacy budget again.
                    Some(_) => "no difference is established".to_owned(),
                    None => format!(
                        "before relying on a difference, repeat it with: {}",
                        self.repeat_command(&report.summary.experiment)
                    ),
                };
                console::note(&format!(
                    "{few} not enough to tell a difference from the noise between runs: {how}"
                ));
            }
            let ledger = match report.statement {
                Some(_) => ", ledger.db",
                None => "",
            };
            console::note(&format!(
                "results are in {folder}: results.csv, summary.json, curves.svg, curves.png{ledger}"
            ));
        }
        Ok(Exit::Done)
    }

    fn resume_command(&self) -> String {
        let mut words = self.words(self.out.as_deref());
        if let Some(runs) = self.runs {
            words.extend(["--runs".to_owned(), runs.to_string()]);
        }
        words.push("--resume".to_owned());
        words.join(" ")
    }

    /// Returns the command that repeats the run often enough to show differences, with a separate
    /// folder.
    fn repeat_command(&self, name: &str) -> String {
        let folder = self
            .out
            .as_ref()
            .map_or_else(|| PathBuf::from("results").join(name), |out| out.clone());
        let mut beside = folder.into_os_string();
        beside.push("-runs");
        let mut words = self.words(Some(Path::new(&beside)));
        words.extend(["--runs".to_owned(), RUNS_ADVISED.to_string()]);
        words.join(" ")
    }

    /// Returns the command with the options that determine the run.
    fn words(&self, out: Option<&Path>) -> Vec<String> {
        let mut words = vec!["fedbo".to_owned(), "run".to_owned(), quoted_path(&self.file)];
        if let Some(out) = out {
            words.extend(["--out".to_owned(), quoted_path(out)]);
        }
        if !self.arms.is_empty() {
            let arms: Vec<&str> = self.arms.iter().map(|arm| arm.name()).collect();
            words.extend(["--arms".to_owned(), arms.join(",")]);
        }
        if let Some(seed) = self.seed {
            words.extend(["--seed".to_owned(), seed.to_string()]);
        }
        if let Some(failures_max) = self.failures_max {
            words.extend(["--failures-max".to_owned(), failures_max.to_string()]);
        }
        words
    }
}

/// Returns a note about an arm with unprotected messages, if there is one.
fn unprotected(federation: &Federation, arms: &[Arm]) -> Option<String> {
    let arm = arms.iter().find(|arm| arm.role == Role::Own)?;
    let shared = match &federation.collaboration {
        Collaboration::Relayed(settings) => {
            format!("messages are {} that every agent can read", settings.messages_are())
        }
        Collaboration::Neighbours(_) => {
            "neighbours share raw observations, points and values".to_owned()
        }
        Collaboration::Released(made) => match made.releases.protection {
            Protection::Off => "releases are exact averages of weight samples".to_owned(),
            Protection::Simulated => {
                return Some(
                    "simulation: the noise comes from the seed and protects nobody; nothing is promised and nothing is charged"
                        .to_owned(),
                );
            }
            Protection::Charged(_) => return None,
        },
    };
    Some(format!("{arm}: {shared}; no differential privacy is applied"))
}

/// Returns notes if there are too few features for the agents' messages, or if the norm of their
/// vectors is too small.
fn advice_on(federation: &Federation, arms: &[Arm]) -> anyhow::Result<Vec<String>> {
    let sends = arms.iter().any(|arm| arm.role == Role::Own);
    if !(sends && federation.algorithm.has_features()) {
        return Ok(Vec::new());
    }
    let names = ("features.count", "features.lengthscale");
    let description = &federation.features;
    let map = federation.feature_map()?;
    let error = FeatureError::on_unit_cube(&map, description)?;
    let mut notes: Vec<String> =
        advice::features(names, description.n_features, &error).into_iter().collect();
    if let Collaboration::Released(plan) = &federation.collaboration
        && let Some((max_norm, n_regions)) = plan.norm_of_draws()
    {
        let n_features = u32::try_from(description.n_features)?;
        notes.extend(advice::clipping("privacy.max_norm", max_norm, n_regions, n_features));
    }
    Ok(notes)
}

/// Returns a message about the agent that ended the run, and the reason.
fn ended_by(failing: &FailingAgent) -> String {
    let FailingAgent { agent, arm, n_consecutive, last } = failing;
    let last = one_line(last);
    format!(
        "the run was ended because {n_consecutive} trials in a row of agent {agent:?} failed (arm {arm}), the last one because {last}"
    )
}

fn warning(failures: &AgentFailures) -> String {
    let AgentFailures { agent, n_trials, n_failed, last } = failures;
    let last = one_line(last);
    format!(
        "warning: agent {agent:?}: {n_failed} of {n_trials} trials failed, the last one because {last}"
    )
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}
