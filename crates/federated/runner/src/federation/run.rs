//! A run of a federation: its arms one after the other, and the results folder that they leave.

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

/// The treatment of existing results in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingResults {
    /// Keep them and return an error.
    Refuse,
    /// Remove them.
    Overwrite,
    /// Resume from them; an error if there are none.
    Resume,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The arms, in order; the first is compared with the others. If empty, only the file's own
    /// algorithm.
    pub arms: Vec<Arm>,
    /// The number of repetitions, each with another child of the seed; `None` for one run with the
    /// seed itself.
    pub runs: Option<u32>,
    /// The results folder.
    pub out: PathBuf,
    /// The treatment of existing results in this folder.
    pub existing: ExistingResults,
    /// True if overwriting results with a ledger may spend the budget again on the same agents. The
    /// old ledger is kept beside the new one.
    pub spend_again: bool,
    /// Worker threads; results do not depend on their number. `None` for the machine's number of
    /// hardware threads.
    pub threads: Option<usize>,
    /// Maximum number of consecutive failed trials of an agent before the run ends. Trials of
    /// resumed runs do not count.
    pub failures_max: FailuresMax,
}

/// An arm at its start, and its run.
#[derive(Clone, Debug)]
pub struct ArmStarted<'a> {
    /// The arm.
    pub arm: Arm,
    /// The number of the run, from 0, and the number of runs; `None` for one run with the seed
    /// itself.
    pub run: Option<(u32, u32)>,
    /// Names of the agents that make queries.
    pub agents: &'a [String],
    /// The number of other agents, which only contribute earlier observations.
    pub n_contributors: usize,
    /// Initial points of each agent.
    pub n_initial: usize,
    /// Queries of each agent after the initial points.
    pub rounds: u64,
    /// The direction of the objective.
    pub direction: Direction,
    /// Trials of this arm that are replayed instead of evaluated.
    pub n_recorded: usize,
}

/// Receives the progress of a run.
pub trait RunProgress: Sync {
    /// The results are overwritten, and their previous ledger is kept at this path.
    fn ledger_kept(&self, path: &Path) {
        let _ = path;
    }

    /// Called before the first round of a charged arm, with the privacy guarantee and the spending
    /// of earlier sessions.
    fn charging(&self, plan: &PrivacyPlan, spent: &Statement) {
        let _ = (plan, spent);
    }

    /// An arm begins.
    fn arm_started(&self, start: &ArmStarted<'_>) {
        let _ = start;
    }

    /// A trial of this agent has ended. The order of calls is not deterministic. `agent` is an
    /// index among the agents that make queries.
    fn trial_ended(&self, agent: usize, outcome: &Outcome) {
        let _ = (agent, outcome);
    }

    /// One trial per agent has ended and is in the results file. `iteration` is ≤ 0 for initial
    /// points.
    fn wave_ended(&self, iteration: i64, rows: &[Row]) {
        let _ = (iteration, rows);
    }

    /// A message was refused; the run continues.
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
    /// The summary, which is also in the results folder.
    pub summary: Summary,
    /// The reason why the run ended.
    pub ended: Ended,
    /// Finished trials.
    pub n_trials: usize,
    /// Finished trials without a value.
    pub n_failed: usize,
    /// Agents with failed trials.
    pub failures: Vec<AgentFailures>,
    /// The agent with too many failures, if that interrupted the run.
    pub failing: Option<FailingAgent>,
    /// The statement of releases and spent budget; `None` if nothing is charged.
    pub statement: Option<Statement>,
}

/// Failed trials of one agent over all arms.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFailures {
    /// The agent's name.
    pub agent: String,
    /// Its finished trials.
    pub n_trials: usize,
    /// Finished trials without a value.
    pub n_failed: usize,
    /// The reason of the last failure.
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
    pub n_in_a_row: u64,
    /// The reason of the last failure.
    pub last: String,
}

/// Returns the default arms of a run: the federation's own arm, and its controls for repeated runs,
/// which serve comparisons.
#[must_use]
pub fn default_arms(federation: &Federation, runs: Option<u32>) -> Vec<Arm> {
    let own = federation.own_arm();
    if runs.is_some() && own.exchanges() { federation.arms() } else { vec![own] }
}

/// Runs the arms of a federation and writes `results.csv` during the run, then `summary.json` and
/// the figures.
///
/// In repeated runs, all arms of a run share their seeds. The runs of a declared experiment on the
/// same federation have the same seeds too.
///
/// Equal files give equal results for any number of threads, unless releases are charged: their
/// noise has no seed, and only a resumed run equals the run that it continues. If an agent fails
/// [`RunOptions::failures_max`] times in a row, the run ends after the running trials, as if it
/// were interrupted. If `stop` is set, running trials are abandoned, and all finished trials are
/// kept, summarised and plotted.
///
/// # Errors
/// If the folder cannot be written, or contains other results or a ledger that does not match them,
/// if the budget pays for no release, or if an agent fails.
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
    // The ledger is created before the first result: if there are results but no ledger, it was
    // lost.
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
    // All arms of a run come before the next run, so that the finished trials of an interrupted run
    // are paired.
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
    // The duration of a replay is not the duration of the arm.
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

/// Returns true if a run has begun in a folder: it contains results, or a ledger, which is created
/// before them.
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

/// Ensures that no ledger in the folder is lost or mixed with this run's results.
fn secure_existing_ledger(
    options: &RunOptions,
    is_charged: bool,
    progress: &dyn RunProgress,
) -> Result<(), RunError> {
    let folder = &options.out;
    let goes_on = options.existing == ExistingResults::Resume && is_charged;
    if goes_on || !study_ledger::is_present(folder) {
        return Ok(());
    }
    // A ledger without charges, for example of a run that did not reach its first release, can be
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
    // A query of round t depends on the releases of the rounds before t. At a free pace it depends
    // on those that the agent happened to have.
    let n_rounds = match federation.free {
        None => last.map_or(0, |last| u64::try_from(last).unwrap_or(0)),
        Some(_) => 0,
    };
    StudyLedger::open(&options.out, plan, &releases.schedule(), n_rounds)
}

/// A ledger's statement, for the summary.
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
