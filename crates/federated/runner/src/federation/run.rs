//! Runs a federation's arms, one after the other, and writes the results folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fedbo_ledger::Statement;
use fedbo_objective::{FailureCounter, FailuresMax, Objective, Outcome};
use fedbo_protocol::UpdateRejected;
use fedbo_report::{FolderLock, PrivacySpent, RESULTS_FILE, Row, Summary, write_team_regret};
use fedbo_space::Direction;

use super::arm::{self, ArmRun};
use super::arm_rows::ArmRowBuilders;
use super::outcome::{failures, report};
use super::replay::{PendingRows, RecordedObjective};
use super::results_file::{ArmWriter, ResultsFile};
use super::run_error::RunError;
use super::study_ledger::{self, StudyLedger};
use crate::session::Ended;
use fedbo_federation::PrivacyPlan;
use fedbo_federation::{Arm, Collaboration, Federation, FederationAgent, Role};

/// Handling of existing results in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingResults {
    /// Keep the results and return an error.
    Refuse,
    /// Remove the results.
    Overwrite,
    /// Resume from the results, or return an error if there are none.
    Resume,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The arms, in order. The first arm is compared with the others. If empty, only the file's own
    /// algorithm runs.
    pub arms: Vec<Arm>,
    /// The number of repetitions, each with a different child of the seed. `None` for a single run
    /// with the seed itself.
    pub runs: Option<u32>,
    /// The results folder.
    pub out: PathBuf,
    /// Handling of existing results in this folder.
    pub existing: ExistingResults,
    /// True to allow overwriting results that have a ledger, which spends budget on the same agents
    /// again. The old ledger is kept next to the new one.
    pub spend_again: bool,
    /// Number of worker threads, which does not affect results. `None` for the number of hardware
    /// threads.
    pub threads: Option<usize>,
    /// Maximum number of consecutive failed trials of an agent before the run ends. Replayed trials
    /// of a resumed run do not count.
    pub failures_max: FailuresMax,
}

/// Describes an arm that is about to run.
#[derive(Clone, Debug)]
pub struct ArmStarted<'a> {
    /// The arm.
    pub arm: Arm,
    /// The index of the run, counted from 0, and the number of runs. `None` for a single run with
    /// the seed itself.
    pub run: Option<(u32, u32)>,
    /// Names of the agents that make queries.
    pub agents: &'a [String],
    /// The number of agents that only contribute earlier observations.
    pub n_contributors: usize,
    /// Number of initial points per agent.
    pub n_initial: usize,
    /// Number of queries per agent after the initial points.
    pub rounds: u64,
    /// The direction of the objective.
    pub direction: Direction,
    /// Number of trials in this arm that are replayed instead of evaluated.
    pub n_recorded: usize,
}

/// Receives the progress of a run.
pub trait RunProgress: Sync {
    /// Called when results are overwritten, with the path at which the previous ledger is kept.
    fn ledger_kept(&self, path: &Path) {
        let _ = path;
    }

    /// Called before the first round of a charged arm, with the privacy guarantee and the spending
    /// of earlier sessions.
    fn charging(&self, plan: &PrivacyPlan, spent: &Statement) {
        let _ = (plan, spent);
    }

    /// Called when an arm starts.
    fn arm_started(&self, start: &ArmStarted<'_>) {
        let _ = start;
    }

    /// Called when a trial of this agent has ended. The order of calls is not deterministic.
    /// `agent` is an index among the agents that make queries.
    fn trial_ended(&self, agent: usize, outcome: &Outcome) {
        let _ = (agent, outcome);
    }

    /// Called when a wave of at most one trial per agent has ended, before its rows are written to
    /// the results file. `iteration` is ≤ 0 for initial points.
    fn wave_ended(&self, iteration: i64, rows: &[Row]) {
        let _ = (iteration, rows);
    }

    /// Called when a message was refused. The run continues.
    fn refused(&self, rejected: &UpdateRejected) {
        let _ = rejected;
    }
}

/// Ignores all progress.
pub struct Quiet;

impl RunProgress for Quiet {}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The summary, which is also written to the results folder.
    pub summary: Summary,
    /// The reason that the run ended.
    pub ended: Ended,
    /// Number of finished trials.
    pub n_trials: usize,
    /// Number of finished trials without a value.
    pub n_failed: usize,
    /// Agents with failed trials.
    pub failures: Vec<AgentFailures>,
    /// The agent that interrupted the run with its failures, if any.
    pub failing: Option<FailingAgent>,
    /// The statement of releases and spent budget; `None` if nothing is charged.
    pub statement: Option<Statement>,
}

/// Failed trials of an agent over all arms.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFailures {
    /// The agent's name.
    pub agent: String,
    /// The agent's number of finished trials.
    pub n_trials: usize,
    /// The agent's number of finished trials without a value.
    pub n_failed: usize,
    /// The reason for the last failure.
    pub last: String,
}

/// An agent with too many consecutive failures.
#[derive(Clone, Debug, PartialEq)]
pub struct FailingAgent {
    /// The agent's name.
    pub agent: String,
    /// The running arm.
    pub arm: Arm,
    /// Number of consecutive failures.
    pub n_consecutive: u64,
    /// The reason for the last failure.
    pub last: String,
}

/// Returns the default arms of a run: the federation's own arm. Repeated runs are meant for
/// comparisons, so they also include the controls.
#[must_use]
pub fn default_arms(federation: &Federation, runs: Option<u32>) -> Vec<Arm> {
    let own = federation.own_arm();
    if runs.is_some() && own.exchanges() { federation.arms() } else { vec![own] }
}

/// Runs the arms of a federation. Writes `results.csv` during the run, then `summary.json` and the
/// figures.
///
/// In repeated runs, all arms of a run share their seeds. A declared experiment on the same
/// federation uses the same seeds for its runs.
///
/// Equal files give equal results for any number of threads, unless releases are charged. The noise
/// of charged releases has no seed, so only a resumed run reproduces the run that it continues. If
/// an agent fails [`RunOptions::failures_max`] times in a row, the run ends after the running
/// trials, as if it had been interrupted. If `stop` is set, running trials are abandoned, and all
/// finished trials are kept, summarised and plotted.
///
/// # Errors
/// If the folder cannot be written, if it contains other results or a ledger that does not match
/// its results, if the budget does not cover a single release, or if an agent fails.
pub fn run_federation(
    federation: &Federation,
    options: &RunOptions,
    progress: &dyn RunProgress,
    stop: &Arc<AtomicBool>,
) -> Result<RunReport, RunError> {
    let arms =
        if options.arms.is_empty() { vec![federation.own_arm()] } else { options.arms.clone() };
    for (index, arm) in arms.iter().enumerate() {
        if arms[..index].contains(arm) {
            return Err(RunError::RepeatedArm { arm: *arm });
        }
        let known = federation.arms();
        if !known.contains(arm) {
            return Err(RunError::UnknownArm { arm: *arm, known });
        }
        if arm.exchanges() && federation.agents.len() < 2 {
            return Err(RunError::TooFewAgents { arm: *arm });
        }
    }
    let plan = federation.privacy().filter(|_| arms.contains(&federation.own_arm()));
    if let Some(Err(refusal)) = plan.map(|plan| &plan.claim) {
        return Err(RunError::NotPaid(refusal.clone()));
    }
    if let (Some(runs @ 2..), true) = (options.runs, plan.is_some()) {
        let arm = federation.own_arm();
        return Err(RunError::RunsSpend { runs, arm });
    }
    if options.existing == ExistingResults::Resume && !is_begun(&options.out) {
        let path = options.out.clone();
        return Err(RunError::NothingToResume { path });
    }
    let mut builder = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = options.threads {
        builder = builder.num_threads(threads);
    }
    let pool = builder.build().map_err(|error| RunError::Threads(error.to_string()))?;

    let _held = FolderLock::acquire(&options.out)?;
    let recorded = ResultsFile::recorded(federation, options, &arms)?;
    // The ledger is created before the first result. If there are results but no ledger, the ledger
    // was lost.
    secure_existing_ledger(options, plan.is_some(), progress)?;
    let mut ledger = match plan {
        Some(plan) => Some(open_ledger(federation, plan, options, recorded.as_ref())?),
        None => None,
    };
    let mut results_file = ResultsFile::open(federation, options, recorded)?;
    let names: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
    let tuning: Vec<String> = federation.tuning().map(|(_, a)| a.name.clone()).collect();
    let mut wall_seconds = BTreeMap::new();
    let mut replayed = BTreeSet::new();
    let mut ended = Ended::Complete;
    let runs: Vec<Option<u32>> = match options.runs {
        None => vec![None],
        Some(runs) => (0..runs).map(Some).collect(),
    };
    // All arms of a run complete before the next run begins, so that the finished trials of an
    // interrupted run are paired.
    'runs: for run in runs {
        let repetition = run.map(|run| federation.repetition(run));
        let federation = repetition.as_ref().unwrap_or(federation);
        for &arm in &arms {
            let n_recorded = results_file
                .recorded
                .as_ref()
                .map_or(0, |recorded| recorded.n_of(arm, run.unwrap_or(0)));
            let ledger = ledger.as_mut().filter(|_| arm.role == Role::Own);
            if let (Some(plan), Some(ledger)) = (plan, &ledger) {
                progress.charging(plan, &ledger.statement()?);
            }
            progress.arm_started(&ArmStarted {
                arm,
                run: run.zip(options.runs),
                agents: &tuning,
                n_contributors: names.len() - tuning.len(),
                n_initial: federation.n_initial,
                rounds: federation.rounds,
                direction: federation.direction,
                n_recorded,
            });
            let started = Instant::now();
            let objectives = objectives(federation, arm, &results_file, stop)?;
            let mut writer = ArmWriter {
                federation,
                arm,
                row_builders: ArmRowBuilders::new(federation, &federation.name, arm),
                tuning: federation.tuning().map(|(id, _)| id).collect(),
                failures: vec![FailureCounter::new(options.failures_max, false); names.len()],
                results_file: &mut results_file,
                progress,
            };
            let run = ArmRun { federation, arm, objectives, ledger, observer: &mut writer, stop };
            ended = pool.install(|| run.run())?;
            *wall_seconds.entry(arm.name().to_owned()).or_insert(0.0) +=
                started.elapsed().as_secs_f64();
            if n_recorded > 0 {
                replayed.insert(arm.name());
            }
            if ended == Ended::Interrupted {
                break 'runs;
            }
        }
    }
    // The duration of a replayed arm is not the duration of the arm itself.
    wall_seconds.retain(|arm, _| !replayed.contains(arm.as_str()));
    if federation.topology().is_some() && federation.knows_regret() {
        let runs = results_file.team_runs(&federation.name);
        if !runs.is_empty() {
            write_team_regret(&options.out, &runs)?;
        }
    }
    let failing = results_file.failing.take();
    let rows = results_file.close(&options.out)?;
    let statement = ledger.map(|ledger| ledger.statement()).transpose()?;
    let privacy = plan.zip(statement.as_ref());
    let privacy = privacy.map(|(plan, statement)| spent(plan, statement, federation.n_rounds()));
    let summary = report(federation, options, &arms, &rows, wall_seconds, ended, privacy)?;
    Ok(RunReport {
        summary,
        ended,
        n_trials: rows.len(),
        n_failed: rows.iter().filter(|row| row.is_failed()).count(),
        failures: failures(&names, &rows),
        failing,
        statement,
    })
}

/// Returns true if a run has begun in a folder, which then contains results or a ledger. The ledger
/// is created first.
fn is_begun(folder: &Path) -> bool {
    folder.join(RESULTS_FILE).exists() || study_ledger::is_present(folder)
}

/// Returns the objectives of an arm's agents, wrapped so that recorded values replace evaluations.
fn objectives(
    federation: &Federation,
    arm: Arm,
    results_file: &ResultsFile,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Arc<dyn Objective>>, RunError> {
    let of = |agent: &FederationAgent| {
        let objective = arm::objective(federation, agent, stop)?;
        let (run, n_initial) = (federation.run.unwrap_or(0), federation.n_initial);
        let recorded = results_file.recorded.as_ref();
        let values = recorded.map(|rows| rows.values(arm, run, &agent.name, n_initial));
        Ok(match values {
            Some(values) if !values.is_empty() => {
                Arc::new(RecordedObjective::new(objective, values))
            }
            _ => objective,
        })
    };
    federation.tuning().map(|(_, agent)| of(agent)).collect()
}

/// Ensures that no existing ledger is lost, or mixed with this run's results.
fn secure_existing_ledger(
    options: &RunOptions,
    is_charged: bool,
    progress: &dyn RunProgress,
) -> Result<(), RunError> {
    let folder = &options.out;
    let continues = options.existing == ExistingResults::Resume && is_charged;
    if continues || !study_ledger::is_present(folder) {
        return Ok(());
    }
    // A ledger without charges, for example from a run that did not reach its first release, can be
    // replaced.
    let has_charges = study_ledger::has_charges(folder);
    if has_charges && !(options.existing == ExistingResults::Overwrite && options.spend_again) {
        let path = folder.join(study_ledger::LEDGER_FILE);
        return Err(RunError::LedgerExists { path });
    }
    if let (Some(kept), true) = (study_ledger::archive_ledger(folder)?, has_charges) {
        progress.ledger_kept(&kept);
    }
    Ok(())
}

fn open_ledger(
    federation: &Federation,
    plan: &PrivacyPlan,
    options: &RunOptions,
    recorded: Option<&PendingRows>,
) -> Result<StudyLedger, RunError> {
    let Collaboration::Released(releases) = &federation.collaboration else {
        unreachable!("only releases are charged")
    };
    let last = recorded.and_then(|recorded| recorded.last_iteration(federation.own_arm()));
    // A query in round t depends on the releases of the rounds before t. At a free pace, the query
    // depends on the releases that the agent happened to have.
    let n_rounds = match federation.free {
        None => last.map_or(0, |last| u64::try_from(last).unwrap_or(0)),
        Some(_) => 0,
    };
    StudyLedger::open(&options.out, plan, &releases.schedule(), n_rounds)
}

/// Converts a ledger's statement for the summary.
fn spent(plan: &PrivacyPlan, statement: &Statement, n_rounds: u64) -> PrivacySpent {
    let claim = &statement.claim;
    PrivacySpent {
        epsilon: claim.epsilon,
        delta: claim.delta,
        adjacency: claim.adjacency.to_string(),
        releases: statement.n_releases(),
        planned_releases: match statement.participations {
            Some(_) => n_rounds,
            None => plan.n_planned(),
        },
        participations: statement.participations,
        accountant: claim.accountant.to_string(),
        mode: claim.mode.to_string(),
        budget_epsilon: statement.budget.epsilon(),
        ledger_head: statement.head.to_string(),
    }
}
