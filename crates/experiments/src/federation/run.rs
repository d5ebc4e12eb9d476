//! A run of a federation: its arms one after the other, and the results folder that they leave.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use fedbo_algorithms::{Domain, Fts, StrategyError};
use fedbo_gp::{FeatureMap, GpError};
use fedbo_objective::{CommandError, Outcome};
use fedbo_protocol::{Agent, AgentError, AgentPlan, UpdateRejected};
use fedbo_space::Direction;
use fedbo_streams::{Purpose, Seed};

use super::checked::{Arm, Federation};
use super::replay::{Recorded, Replayed, Staging};
use crate::session::{Ended, Member, Observer, SessionError, TrialRecord, run_session};
use crate::tally::{Tally, Unit};
use fedbo_report::{
    Clusters, Figure, FigureSpec, FolderLock, Metric, PanelBy, ReportError, ResultsWriter, Row,
    Scale, Summary, SummaryRequest, check_folder, summarize,
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
            // What our own observer answered comes back as it was.
            stalled @ SessionError::Stalled => Self::Other(stalled.into()),
            SessionError::Observer(error) => error.downcast::<Self>().unwrap_or_else(Self::Other),
        }
    }
}

/// Runs the arms of a federation and writes `results.csv` as it goes, then `summary.json` and the pictures.
///
/// Equal files give equal results, whatever the number of threads. When `stop` is set, running trials are abandoned and
/// everything finished is kept, summarised and drawn.
///
/// # Errors
/// If the folder cannot be written, holds other results, or an agent fails.
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
        if arm.exchanges() && federation.agents.len() < 2 {
            return Err(RunError::TooFewAgents { arm: *arm });
        }
    }
    let mut builder = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = options.threads {
        builder = builder.num_threads(threads);
    }
    let pool = builder
        .build()
        .map_err(|error| RunError::Threads(error.to_string()))?;

    let _held = FolderLock::acquire(&options.out)?;
    let mut book = Book::open(federation, options, &arms)?;
    let names: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
    let mut wall_seconds = BTreeMap::new();
    let mut ended = Ended::Complete;
    for &arm in &arms {
        let n_recorded = book
            .recorded
            .as_ref()
            .map_or(0, |recorded| recorded.n_of(arm));
        progress.arm_started(&ArmStart {
            arm,
            agents: &names,
            n_initial: federation.n_initial,
            rounds: federation.rounds,
            direction: federation.direction,
            n_recorded,
        });
        let started = Instant::now();
        ended = pool.install(|| run_arm(federation, arm, &names, &mut book, progress, stop))?;
        if n_recorded == 0 {
            wall_seconds.insert(arm.name().to_owned(), started.elapsed().as_secs_f64());
        }
        if ended == Ended::Interrupted {
            break;
        }
    }
    let rows = book.close(&options.out)?;
    let summary = report(federation, options, &arms, &rows, wall_seconds, ended)?;
    Ok(RunReport {
        summary,
        ended,
        n_trials: rows.len(),
        n_failed: rows.iter().filter(|row| row.is_failed()).count(),
        failures: failures(&names, &rows),
    })
}

fn run_arm(
    federation: &Federation,
    arm: Arm,
    names: &[String],
    book: &mut Book,
    progress: &dyn RunProgress,
    stop: &Arc<AtomicBool>,
) -> Result<Ended, RunError> {
    let seed = Seed::new(federation.seed);
    let mut stream = seed.stream(Purpose::SharedFeatures, 0, 0);
    let map = FeatureMap::draw(&federation.features, &mut stream).map_err(RunError::Features)?;
    let map = Arc::new(map);
    let mut members = Vec::with_capacity(names.len());
    let mut tallies = Vec::with_capacity(names.len());
    for (id, agent) in (0_u32..).zip(&federation.agents) {
        let objective = federation
            .objective(agent, stop)
            .map_err(|source| RunError::Command {
                agent: agent.name.clone(),
                source,
            })?;
        let recorded = book.recorded.as_ref();
        let values = recorded.map(|rows| rows.values(arm, &agent.name, federation.n_initial));
        let strategy = Fts::new(
            Domain::Space(federation.space.clone()),
            federation.settings(arm),
            Arc::clone(&map),
            seed.child(Purpose::Agent, u64::from(id)),
        )?;
        let plan = AgentPlan {
            id,
            history: Vec::new(),
            initial: federation.initial_points(u64::from(id)),
            n_rounds: federation.rounds,
        };
        members.push(Member {
            agent: Agent::new(strategy, plan, seed)?,
            objective: match values {
                Some(values) if !values.is_empty() => Arc::new(Replayed::new(objective, values)),
                _ => objective,
            },
            decoder: federation.decoder(),
            direction: federation.direction,
        });
        let unit = Unit {
            experiment: federation.name.clone(),
            arm: arm.name().to_owned(),
            agent: agent.name.clone(),
            run: 0,
        };
        let optimum = agent.objective.optimum();
        tallies.push(Tally::new(
            unit,
            federation.direction,
            federation.n_initial,
            optimum,
        ));
    }
    let mut scribe = Scribe {
        federation,
        names,
        tallies,
        book,
        progress,
    };
    let ended = run_session(
        &mut members,
        Vec::new(),
        map.n_features(),
        map.hash(),
        &mut scribe,
        stop,
    )?;
    Ok(ended)
}

/// The results file, and the rows in it.
struct Book {
    writer: ResultsWriter,
    folder: PathBuf,
    rows: Vec<Row>,
    recorded: Option<Recorded>,
    staging: Option<Staging>,
}

impl Book {
    fn open(federation: &Federation, options: &RunOptions, arms: &[Arm]) -> Result<Self, RunError> {
        let folder = options.out.clone();
        let parameters: Vec<String> = federation
            .space
            .parameters()
            .iter()
            .map(|parameter| parameter.name().to_owned())
            .collect();
        let recorded = match options.existing {
            Existing::Resume => {
                check_folder(&folder, true)?;
                let recorded = Recorded::read(&folder, federation, arms)?;
                if recorded.is_some() {
                    federation.settings_record.compare(&folder)?;
                }
                recorded
            }
            Existing::Refuse | Existing::Overwrite => None,
        };
        let (writer, staging) = if recorded.is_some() {
            let (staging, writer) = Staging::create(&folder, &parameters)?;
            (writer, Some(staging))
        } else {
            // With `Resume` there are no results here, at most an empty file.
            let overwrite = options.existing != Existing::Refuse;
            let writer = ResultsWriter::create(&folder, &parameters, overwrite)?;
            federation.settings_record.write(&folder)?;
            (writer, None)
        };
        let mut book = Self {
            writer,
            folder,
            rows: Vec::new(),
            recorded,
            staging,
        };
        book.promote_when_caught_up()?;
        Ok(book)
    }

    fn write(&mut self, rows: Vec<Row>) -> Result<(), RunError> {
        for row in &rows {
            self.writer.append(row)?;
        }
        self.writer.commit()?;
        self.rows.extend(rows);
        self.promote_when_caught_up()
    }

    /// Puts the new file in place once it has everything that the old one has.
    fn promote_when_caught_up(&mut self) -> Result<(), RunError> {
        if self.recorded.as_ref().is_some_and(|rows| rows.len() == 0)
            && let Some(staging) = self.staging.take()
        {
            staging.promote(&self.folder)?;
        }
        Ok(())
    }

    /// All rows that are in the folder now. Where the replay was interrupted, those are the old ones.
    fn close(self, folder: &std::path::Path) -> Result<Vec<Row>, RunError> {
        if self.staging.is_some() {
            let path = folder.join(fedbo_report::RESULTS_FILE);
            return Ok(fedbo_report::read_results(&path)?);
        }
        Ok(self.rows)
    }
}

/// Writes the trials of an arm into the book.
struct Scribe<'a> {
    federation: &'a Federation,
    names: &'a [String],
    tallies: Vec<Tally>,
    book: &'a mut Book,
    progress: &'a dyn RunProgress,
}

impl Observer for Scribe<'_> {
    fn trial_ended(&self, record: &TrialRecord) {
        self.progress
            .trial_ended(record.agent as usize, &record.outcome);
    }

    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            let index = record.agent as usize;
            let agent = &self.federation.agents[index];
            let truth = agent.objective.truth(&record.point);
            let name_of = |sender: u32| self.names[sender as usize].clone();
            let mut row = self.tallies[index].row(record, truth, name_of);
            if let Some(recorded) = &mut self.book.recorded {
                recorded.settle(&mut row)?;
            }
            rows.push(row);
        }
        if let Some(first) = rows.first() {
            self.progress.wave_ended(first.iteration, &rows);
        }
        Ok(self.book.write(rows)?)
    }

    fn refused(&self, rejected: &UpdateRejected) {
        self.progress.refused(rejected);
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
        private: false,
        privacy: BTreeMap::new(),
        wall_seconds,
        figure: Some(figure.clone()),
    };
    let mut summary = summarize(rows, &request);
    summary.interrupted = ended == Ended::Interrupted;
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
