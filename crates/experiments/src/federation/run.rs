//! A run of a federation: its arms one after the other, and the results folder that they leave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fedbo_algorithms::StrategyError;
use fedbo_config::FileError;
use fedbo_gp::GpError;
use fedbo_ledger::{LedgerError, Statement};
use fedbo_objective::{CommandError, Outcome};
use fedbo_protocol::{AgentError, UpdateRejected};
use fedbo_space::Direction;

use super::arm;
use super::book::Book;
use super::checked::{Arm, Collaboration, Federation, names};
use super::privacy::PrivacyPlan;
use super::replay::Recorded;
use super::study_ledger::{self, StudyLedger};
use crate::session::{Ended, SessionError};
use fedbo_report::{
    Clusters, Figure, FigureSpec, FolderLock, Metric, PanelBy, PrivacySpent, ReportError, Row,
    Scale, Summary, SummaryRequest, summarize,
};

/// Most agents that get a panel each.
const PANELS_MAX: usize = 12;

/// What to do about results that stand in the folder already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave them alone: an error.
    Refuse,
    /// Remove them.
    Overwrite,
    /// Go on from them; where there are none, begin.
    Resume,
}

/// What a run may choose.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The arms, in order; the first is compared with the others. Empty for the file's own algorithm alone.
    pub arms: Vec<Arm>,
    /// The results folder.
    pub out: PathBuf,
    /// Results that stand there.
    pub existing: Existing,
    /// Whether the budget may be spent once more on the same agents when results with a ledger are overwritten: the old ledger
    /// is kept beside the new one.
    pub spend_again: bool,
    /// Worker threads; results do not depend on it. None for as many as the machine runs at once.
    pub threads: Option<usize>,
}

/// What begins when an arm begins.
#[derive(Clone, Debug)]
pub struct ArmStart<'a> {
    /// The arm.
    pub arm: Arm,
    /// Names of the agents.
    pub agents: &'a [String],
    /// Initial points of each agent.
    pub n_initial: usize,
    /// Queries of each agent after them.
    pub rounds: u64,
    /// Which values are better.
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
    fn arm_started(&self, start: &ArmStart<'_>) {
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

/// What a run came to.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Also in the results folder.
    pub summary: Summary,
    /// Whether it ran to its end.
    pub ended: Ended,
    /// Finished trials.
    pub n_trials: usize,
    /// Those without a value.
    pub n_failed: usize,
    /// Agents with failed trials.
    pub failures: Vec<AgentFailures>,
    /// What was released and spent; none where nothing is charged.
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

/// Why a run could not go on. What was finished before is in the results folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An arm in which agents learn from each other has one agent.
    #[error(
        "arm {arm} needs at least 2 agents that learn from each other; add an [[agents]] table, or run ts"
    )]
    TooFewAgents {
        /// The arm.
        arm: Arm,
    },
    /// The file has no such arm.
    #[error("arm {arm} is none of this file's, which are {}", names(known))]
    UnknownArm {
        /// The arm.
        arm: Arm,
        /// What there is.
        known: [Arm; 3],
    },
    /// An arm is named twice.
    #[error("arm {arm} is named twice; name each arm once")]
    RepeatedArm {
        /// The arm.
        arm: Arm,
    },
    /// The results to go on from are those of another file or command.
    #[error("cannot go on from {}: {message}", path.display())]
    AnotherRun {
        /// The results.
        path: PathBuf,
        /// The difference.
        message: String,
    },
    /// The budget pays for no release at all.
    #[error(transparent)]
    NotPaid(FileError),
    /// A folder's ledger would be overwritten, or mixed with another run's results.
    #[error(
        "{} records what releases have cost, which stays spent whatever becomes of it; go on with --resume, choose another \
         folder with --out DIR, or give --overwrite --spend-again, which keeps it under another name and spends anew", path.display()
    )]
    LedgerExists {
        /// The ledger.
        path: PathBuf,
    },
    /// The ledger ends before what is known to have been released.
    #[error(
        "{} holds {found} releases, and the results beside it rest on {expected}: it was set back or replaced, so what was \
         spent is not known from it; put back the ledger of these results, as it was last", path.display()
    )]
    LedgerSetBack {
        /// The ledger.
        path: PathBuf,
        /// Releases in it.
        found: u64,
        /// Releases that there were at least.
        expected: u64,
    },
    /// The ledger cannot be used, or refuses.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No initial point was found in an agent's region.
    #[error(
        "agent {agent:?}: no point of its region was found to begin with; set exploration.start = \"anywhere\", or fewer regions"
    )]
    NoStart {
        /// The agent's name.
        agent: String,
    },
    /// The results folder cannot be used.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A command that was there when the file was checked is not there any more.
    #[error("agent {agent:?}: {source}")]
    Command {
        /// The agent's name.
        agent: String,
        /// What is wrong with it.
        source: CommandError,
    },
    /// The shared features cannot be drawn.
    #[error("the shared features cannot be drawn: {0}")]
    Features(GpError),
    /// An agent's strategy cannot be built.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// An agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// Threads cannot be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
    /// Something that should not happen.
    #[error(transparent)]
    Other(anyhow::Error),
}

impl From<SessionError> for RunError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Agent(error) => Self::Agent(error),
            // What our own observer or ledger answered comes back as it was.
            SessionError::Observer(error) | SessionError::Store { source: error, .. } => {
                error.downcast::<Self>().unwrap_or_else(Self::Other)
            }
            other => Self::Other(other.into()),
        }
    }
}

/// Runs the arms of a federation and writes `results.csv` as it goes, then `summary.json` and the pictures.
///
/// Equal files give equal results, whatever the number of threads, unless releases are charged: their noise has no seed, and
/// only a resumed run equals the one that it goes on from. When `stop` is set, running trials are abandoned and
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
    let arms = if options.arms.is_empty() {
        vec![federation.own_arm()]
    } else {
        options.arms.clone()
    };
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
    let plan = federation
        .privacy()
        .filter(|_| arms.contains(&Arm::DpFtsDe));
    if let Some(Err(refusal)) = plan.map(|plan| &plan.claim) {
        return Err(RunError::NotPaid(refusal.clone()));
    }
    let mut builder = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = options.threads {
        builder = builder.num_threads(threads);
    }
    let pool = builder
        .build()
        .map_err(|error| RunError::Threads(error.to_string()))?;

    let _held = FolderLock::acquire(&options.out)?;
    let recorded = Book::recorded(federation, options, &arms)?;
    // The ledger is there before the first result: where there are results, a ledger that is not there was lost.
    make_way(options, plan.is_some(), progress)?;
    let mut ledger = match plan {
        Some(plan) => Some(open_ledger(federation, plan, options, recorded.as_ref())?),
        None => None,
    };
    let mut book = Book::open(federation, options, recorded)?;
    let names: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
    let mut wall_seconds = BTreeMap::new();
    let mut ended = Ended::Complete;
    for &arm in &arms {
        let n_recorded = book
            .recorded
            .as_ref()
            .map_or(0, |recorded| recorded.n_of(arm));
        let ledger = ledger.as_mut().filter(|_| arm == Arm::DpFtsDe);
        if let (Some(plan), Some(ledger)) = (plan, &ledger) {
            progress.charging(plan, &ledger.statement()?);
        }
        progress.arm_started(&ArmStart {
            arm,
            agents: &names,
            n_initial: federation.n_initial,
            rounds: federation.rounds,
            direction: federation.direction,
            n_recorded,
        });
        let started = Instant::now();
        let run = arm::Run {
            federation,
            arm,
            book: &mut book,
            ledger,
            progress,
            stop,
        };
        ended = pool.install(|| run.run())?;
        if n_recorded == 0 {
            wall_seconds.insert(arm.name().to_owned(), started.elapsed().as_secs_f64());
        }
        if ended == Ended::Interrupted {
            break;
        }
    }
    let rows = book.close(&options.out)?;
    let statement = ledger.map(|ledger| ledger.statement()).transpose()?;
    let privacy = plan.zip(statement.as_ref());
    let privacy = privacy.map(|(plan, statement)| spent(plan, statement));
    let summary = report(
        federation,
        options,
        &arms,
        &rows,
        wall_seconds,
        ended,
        privacy,
    )?;
    Ok(RunReport {
        summary,
        ended,
        n_trials: rows.len(),
        n_failed: rows.iter().filter(|row| row.is_failed()).count(),
        failures: failures(&names, &rows),
        statement,
    })
}

/// Makes sure that no ledger in the folder is lost or mixed with this run's results.
fn make_way(
    options: &RunOptions,
    is_charged: bool,
    progress: &dyn RunProgress,
) -> Result<(), RunError> {
    let folder = &options.out;
    let goes_on = options.existing == Existing::Resume && is_charged;
    if goes_on || !study_ledger::is_present(folder) {
        return Ok(());
    }
    let may_go = options.spend_again || !study_ledger::has_charges(folder);
    if options.existing != Existing::Overwrite || !may_go {
        let path = folder.join(study_ledger::LEDGER_FILE);
        return Err(RunError::LedgerExists { path });
    }
    progress.ledger_kept(&study_ledger::set_aside(folder)?);
    Ok(())
}

fn open_ledger(
    federation: &Federation,
    plan: &PrivacyPlan,
    options: &RunOptions,
    recorded: Option<&Recorded>,
) -> Result<StudyLedger, RunError> {
    let Collaboration::Distributed(distributed) = &federation.collaboration else {
        unreachable!("only releases are charged")
    };
    let last = recorded.and_then(|recorded| recorded.last_iteration(Arm::DpFtsDe));
    // A query of round t rests on the releases of the rounds before t.
    let n_rounds = last.map_or(0, |last| u64::try_from(last).unwrap_or(0));
    StudyLedger::open(&options.out, plan, &distributed.schedule(), n_rounds)
}

/// A ledger's statement, for the summary.
fn spent(plan: &PrivacyPlan, statement: &Statement) -> PrivacySpent {
    let claim = &statement.claim;
    PrivacySpent {
        epsilon: claim.epsilon,
        delta: claim.delta,
        adjacency: claim.adjacency.to_string(),
        releases: claim.n_releases,
        planned_releases: plan.n_planned(),
        accountant: claim.accountant.to_string(),
        mode: claim.mode.to_string(),
        budget_epsilon: statement.budget.epsilon(),
        ledger_head: statement.head.to_string(),
    }
}

/// Writes the summary and the pictures.
fn report(
    federation: &Federation,
    options: &RunOptions,
    arms: &[Arm],
    rows: &[Row],
    wall_seconds: BTreeMap<String, f64>,
    ended: Ended,
    privacy: Option<PrivacySpent>,
) -> Result<Summary, RunError> {
    let by_regret = federation.knows_regret();
    let metric = if by_regret {
        Metric::Regret
    } else {
        Metric::Best
    };
    // Agents differ more than arms do: a mean over agents is drawn only where there are too many of them.
    let by_agent = federation.agents.len() <= PANELS_MAX;
    let figure = FigureSpec {
        title: federation.name.clone(),
        x_label: "queries of each agent".to_owned(),
        y_label: match (by_regret, by_agent) {
            (true, _) => "simple regret".to_owned(),
            (false, true) => "best value so far".to_owned(),
            (false, false) => "best value so far, mean over agents".to_owned(),
        },
        scale: if by_regret { Scale::Log } else { Scale::Linear },
        panel_by: if by_agent {
            PanelBy::Agent
        } else {
            PanelBy::None
        },
        ..FigureSpec::default()
    };
    let (first, controls) = arms
        .split_first()
        .unwrap_or_else(|| unreachable!("there is at least one arm"));
    let rounds = i64::try_from(federation.rounds).unwrap_or(i64::MAX);
    let mut checkpoints = vec![rounds / 6, rounds / 3];
    checkpoints.retain(|iteration| *iteration > 0);
    checkpoints.dedup();
    let request = SummaryRequest {
        experiment: federation.name.clone(),
        seed: federation.seed,
        direction: federation.direction,
        metric,
        checkpoints,
        pairs: controls
            .iter()
            .map(|control| (first.name().to_owned(), control.name().to_owned()))
            .collect(),
        // Agents that learn from each other are one value together: a single run has no standard error.
        clusters: Clusters::Runs,
        private: privacy.is_some(),
        privacy: privacy
            .map(|spent| (Arm::DpFtsDe.name().to_owned(), spent))
            .into_iter()
            .collect(),
        wall_seconds,
        figure: Some(figure.clone()),
    };
    let mut summary = summarize(rows, &request);
    summary.interrupted = ended == Ended::Interrupted;
    if federation.is_simulation() {
        summary.private = Some(false); // INV-10
    }
    summary.write(&options.out)?;
    Figure::from_rows(rows, metric, &figure).write(&options.out)?;
    Ok(summary)
}

fn failures(names: &[String], rows: &[Row]) -> Vec<AgentFailures> {
    let of = |name: &String| {
        let own = || rows.iter().filter(|row| row.agent == *name);
        let last = own().rfind(|row| row.is_failed())?;
        let reason = last.status.strip_prefix("failed: ").unwrap_or(&last.status);
        Some(AgentFailures {
            agent: name.clone(),
            n_trials: own().count(),
            n_failed: own().filter(|row| row.is_failed()).count(),
            last: reason.to_owned(),
        })
    };
    names.iter().filter_map(of).collect()
}
