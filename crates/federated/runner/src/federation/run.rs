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

/// The treatment of results that stand in the folder already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingResults {
    /// Leave them alone: an error.
    Refuse,
    /// Remove them.
    Overwrite,
    /// Go on from them; where there are none: an error.
    Resume,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The arms, in order; the first is compared with the others. Empty for the file's own algorithm alone.
    pub arms: Vec<Arm>,
    /// The number of repetitions, each from another child of the seed; none for one run from the seed itself.
    pub runs: Option<u32>,
    /// The results folder.
    pub out: PathBuf,
    /// Results that stand there.
    pub existing: ExistingResults,
    /// True if the budget may be spent once more on the same agents when results with a ledger are overwritten: the old
    /// ledger is kept beside the new one.
    pub spend_again: bool,
    /// Worker threads; results do not depend on it. None for as many as the machine runs at once.
    pub threads: Option<usize>,
    /// The number of trials in a row that an agent may fail before the run ends; those of runs that it resumes do not count.
    pub failures_max: FailuresMax,
}

/// The arm that begins, and its run.
#[derive(Clone, Debug)]
pub struct ArmStarted<'a> {
    /// The arm.
    pub arm: Arm,
    /// The number of the run, from 0, and the number of runs; none where there is one from the seed itself.
    pub run: Option<(u32, u32)>,
    /// Names of the agents.
    pub agents: &'a [String],
    /// Initial points of each agent.
    pub n_initial: usize,
    /// Queries of each agent after them.
    pub rounds: u64,
    /// The direction in which values are better.
    pub direction: Direction,
    /// Trials of this arm that are replayed, not evaluated.
    pub n_recorded: usize,
}

/// Hears how far a run is.
pub trait RunProgress: Sync {
    /// The results are overwritten, and the ledger that stood with them is kept at this path.
    fn ledger_kept(&self, path: &Path) {
        let _ = path;
    }

    /// Before the first round of an arm that is charged: what is promised, and what was spent in earlier sessions.
    fn charging(&self, plan: &PrivacyPlan, spent: &Statement) {
        let _ = (plan, spent);
    }

    /// An arm begins.
    fn arm_started(&self, start: &ArmStarted<'_>) {
        let _ = start;
    }

    /// A trial of this agent has ended, in whatever order trials end.
    fn trial_ended(&self, agent: usize, outcome: &Outcome) {
        let _ = (agent, outcome);
    }

    /// One trial an agent has ended and is in the results file. `iteration` is ≤ 0 for initial points.
    fn wave_ended(&self, iteration: i64, rows: &[Row]) {
        let _ = (iteration, rows);
    }

    /// A message was refused; the run goes on.
    fn refused(&self, rejected: &UpdateRejected) {
        let _ = rejected;
    }
}

/// Progress that nobody hears.
pub struct Quiet;

impl RunProgress for Quiet {}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Also in the results folder.
    pub summary: Summary,
    /// The way in which it ended.
    pub ended: Ended,
    /// Finished trials.
    pub n_trials: usize,
    /// Those without a value.
    pub n_failed: usize,
    /// Agents with failed trials.
    pub failures: Vec<AgentFailures>,
    /// The agent whose failures have ended the run, if that is why it was interrupted.
    pub failing: Option<FailingAgent>,
    /// The statement of releases and spent budget; none where nothing is charged.
    pub statement: Option<Statement>,
}

/// Failed trials of one agent over all arms.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentFailures {
    /// The agent's name.
    pub agent: String,
    /// Its finished trials.
    pub n_trials: usize,
    /// Those without a value.
    pub n_failed: usize,
    /// The reason of the last one.
    pub last: String,
}

/// An agent whose trials failed one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct FailingAgent {
    /// The agent's name.
    pub agent: String,
    /// The arm that was at work.
    pub arm: Arm,
    /// Trials that failed in a row.
    pub n_in_a_row: u64,
    /// The reason of the last one.
    pub last: String,
}

/// Returns the arms that a run takes unless others are named: the federation's own, and of repeated runs, which are for comparing,
/// also its controls.
#[must_use]
pub fn default_arms(federation: &Federation, runs: Option<u32>) -> Vec<Arm> {
    let own = federation.own_arm();
    if runs.is_some() && own.exchanges() { federation.arms() } else { vec![own] }
}

/// Runs the arms of a federation and writes `results.csv` as it goes, then `summary.json` and the pictures.
///
/// Repeated, all arms of a run share their seeds, and so do the runs of a declared experiment on the same federation.
///
/// Equal files give equal results, whatever the number of threads, unless releases are charged: their noise has no seed, and
/// only a resumed run equals the one that it goes on from. When an agent fails [`RunOptions::failures_max`] times in a row, the run
/// ends after the trials that are at work, as if it were interrupted. When `stop` is set, running trials are abandoned and
/// everything finished is kept, summarised and drawn.
///
/// # Errors
/// If the folder cannot be written, holds other results or a ledger that does not fit them, the budget pays for nothing, or
/// an agent fails.
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
    // The ledger is there before the first result: where there are results, a ledger that is not there was lost.
    secure_existing_ledger(options, plan.is_some(), progress)?;
    let mut ledger = match plan {
        Some(plan) => Some(open_ledger(federation, plan, options, recorded.as_ref())?),
        None => None,
    };
    let mut results_file = ResultsFile::open(federation, options, recorded)?;
    let names: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
    let mut wall_seconds = BTreeMap::new();
    let mut replayed = BTreeSet::new();
    let mut ended = Ended::Complete;
    let runs: Vec<Option<u32>> = match options.runs {
        None => vec![None],
        Some(runs) => (0..runs).map(Some).collect(),
    };
    // All arms of a run before the next one: what is finished when a run is interrupted is paired.
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
                agents: &names,
                n_initial: federation.n_initial,
                rounds: federation.rounds,
                direction: federation.direction,
                n_recorded,
            });
            let started = Instant::now();
            let objectives = objectives(federation, arm, &results_file, stop)?;
            let mut scribe = ArmWriter {
                federation,
                arm,
                row_builders: ArmRowBuilders::new(federation, &federation.name, arm),
                failures: vec![FailureCounter::new(options.failures_max, false); names.len()],
                results_file: &mut results_file,
                progress,
            };
            let run = ArmRun { federation, arm, objectives, ledger, observer: &mut scribe, stop };
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
    // What a replay takes says nothing of the arm.
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

/// Returns true if a run was begun in a folder: its results are there, or a ledger that was begun before them.
fn is_begun(folder: &Path) -> bool {
    folder.join(RESULTS_FILE).exists() || study_ledger::is_present(folder)
}

/// Returns the objectives of the agents of an arm; recorded values stand in for them.
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
    federation.agents.iter().map(of).collect()
}

/// Makes sure that no ledger in the folder is lost or mixed with this run's results.
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
    // One that has charged nothing, as of a run that did not come to its first release, is in nobody's way.
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
    // A query of round t rests on the releases of the rounds before t; at a free pace on those that it happened to know.
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
