//! Runs independent sessions in parallel, and writes their rows in a fixed order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use fedbo_federated::fts::{Fts, FtsSettings};
use fedbo_gp::{FeatureMap, MapHash};
use fedbo_protocol::{Agent, AgentEffect, AgentPlan, AgentUpdate, Broadcast, UsesHandouts};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_strategies::Domain;
use fedbo_streams::{Purpose, Seed};
use rayon::prelude::*;

use super::Progress;
use fedbo_report::{PrimaryComparison, ResultsWriter, Row};
use fedbo_runner::{Ended, Member, Observer, TrialRecord, run_relayed};
use fedbo_runner::{RowBuilder, RowLabels};

/// A job's rows, and the reason why it ended.
pub(super) type JobResult = anyhow::Result<(Vec<Row>, Ended)>;

/// The work of a job, with a flag that stops it.
type Work<'a> = dyn Fn(&RowLabels, &AtomicBool) -> JobResult + Send + Sync + 'a;

/// Independent work: one configuration, arm and repetition.
pub(super) struct Job<'a> {
    /// Configuration (the `experiment` column), arm, agent and run.
    unit: RowLabels,
    /// The work, called on a worker thread.
    work: Box<Work<'a>>,
}

impl<'a> Job<'a> {
    /// Creates a job with arbitrary work.
    pub(super) fn new(
        unit: RowLabels,
        work: impl Fn(&RowLabels, &AtomicBool) -> JobResult + Send + Sync + 'a,
    ) -> Self {
        let work = Box::new(work);
        Self { unit, work }
    }

    /// Creates a job that runs a session of agents, created by `build`.
    pub(super) fn session(
        unit: RowLabels,
        build: impl Fn() -> anyhow::Result<Session> + Send + Sync + 'a,
    ) -> Self {
        Self::new(unit, move |unit, stop| run_session_of(unit, build()?, stop))
    }

    /// Wraps the job so that its rows have all `columns`. Spaces differ between jobs, so parameters
    /// outside the job's space are empty.
    pub(super) fn in_columns(self, columns: &'a [String]) -> Self {
        let Self { unit, work } = self;
        Self::new(unit, move |unit, stop| {
            let (mut rows, ended) = work(unit, stop)?;
            for row in &mut rows {
                let known = std::mem::take(&mut row.parameters);
                let value = |name: &String| {
                    let found = known.iter().find(|(known, _)| known == name);
                    (name.clone(), found.map_or_else(String::new, |(_, v)| v.clone()))
                };
                row.parameters = columns.iter().map(value).collect();
            }
            Ok((rows, ended))
        })
    }
}

/// Returns the parameters of all spaces, without duplicates.
pub(super) fn columns_of<'s>(spaces: impl IntoIterator<Item = &'s Space>) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for parameter in spaces.into_iter().flat_map(Space::parameters) {
        if !columns.iter().any(|known| known == parameter.name()) {
            columns.push(parameter.name().to_owned());
        }
    }
    columns
}

/// The noise-free objective.
pub(super) type TrueObjective = Box<dyn Fn(&Point) -> Option<f64> + Send + Sync>;

/// The strategy of an agent that receives all messages.
pub(super) type AnyAgent = Box<dyn UsesHandouts<Handout = Broadcast>>;

/// The session that a job runs.
pub(super) struct Session {
    /// Optimizing agents with their names.
    pub members: Vec<(String, Member<AnyAgent>)>,
    /// Additional optimizing agents, which send messages but have no rows.
    pub others: Vec<Member<AnyAgent>>,
    /// Messages of contributors.
    pub contributions: Vec<AgentUpdate>,
    /// Length of a message.
    pub message_len: usize,
    /// Hash of the shared map.
    pub map: MapHash,
    /// Number of initial points per member.
    pub n_initial: usize,
    /// Best true value, if known.
    pub optimum: Option<f64>,
    /// The noise-free objective, if known.
    pub truth: Option<TrueObjective>,
    /// Returns the name of a message's sender.
    pub name_of: fn(u32) -> String,
}

/// Returns the message of a contributor, drawn from its history by the agent's own state machine.
///
/// # Errors
/// If the history cannot be modelled.
pub(super) fn contribute(
    map: &Arc<FeatureMap>,
    settings: &FtsSettings,
    plan: AgentPlan,
    seed: &Seed,
) -> anyhow::Result<AgentUpdate> {
    // The agent proposes nothing, so any domain of the right dimension works.
    let unit = ParameterSpec::float(0.0, 1.0);
    let names: Vec<String> = (0..map.dim()).map(|i| format!("x{i}")).collect();
    let space = Space::from_specs(names.iter().map(|name| (name.as_str(), &unit)))?;
    let own_seed = seed.child(Purpose::AGENT, u64::from(plan.id));
    let fts = Fts::new(Domain::Space(space), settings.clone(), Arc::clone(map), own_seed)?;
    message_of(Box::new(fts), plan, seed)
}

/// Like [`contribute`], for an agent with any strategy.
///
/// # Errors
/// If the history cannot be modelled.
pub(super) fn message_of(
    strategy: AnyAgent,
    plan: AgentPlan,
    seed: &Seed,
) -> anyhow::Result<AgentUpdate> {
    let id = plan.id;
    let effects = Agent::new(strategy, plan, *seed)?.start()?;
    let upload = effects.into_iter().find_map(|effect| match effect {
        AgentEffect::Upload(update) => Some(update),
        _ => None,
    });
    upload.with_context(|| {
        format!("agent {id} has initial points or rounds, so it is more than a contributor")
    })
}

/// Runs all jobs. The rows of a job are written once all preceding jobs are done, so the file has
/// the order of the jobs.
///
/// # Errors
/// If a job fails or the file cannot be written. Rows that have already been written are kept.
pub(super) fn run_jobs(
    jobs: &[Job<'_>],
    writer: ResultsWriter,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<Row>, Ended)> {
    let queue =
        Mutex::new(Queue { writer, next: 0, waiting: BTreeMap::new(), written: Vec::new() });
    let results: Vec<anyhow::Result<Ended>> = jobs
        .par_iter()
        .enumerate()
        .map(|(index, job)| {
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            let (rows, ended) = (job.work)(&job.unit, stop)?;
            let rows = if ended == Ended::Complete { rows } else { Vec::new() };
            let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            queue.put(index, rows)?;
            progress.job_ended(&format!(
                "{} {} run {}",
                job.unit.experiment, job.unit.arm, job.unit.run
            ));
            Ok(ended)
        })
        .collect();
    let mut queue = queue.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    queue.flush_rest()?;
    let mut ended = Ended::Complete;
    for result in results {
        if result? == Ended::Interrupted {
            ended = Ended::Interrupted;
        }
    }
    Ok((queue.written, ended))
}

/// Checks, before a long run, that the arms and checkpoints of the primary comparisons exist.
///
/// # Errors
/// If an arm or a checkpoint is missing.
pub(super) fn check_primary(
    primary: &[PrimaryComparison],
    jobs: &[Job<'_>],
    checkpoints: &[i64],
) -> anyhow::Result<()> {
    for each in primary {
        let PrimaryComparison { experiment, arm, control, iteration } = each;
        for arm in [arm, control] {
            let mut units = jobs.iter().map(|job| &job.unit);
            anyhow::ensure!(
                units.any(|unit| (&unit.experiment, &unit.arm) == (experiment, arm)),
                "a primary comparison needs the arm {arm} of {experiment}, which is not run"
            );
        }
        anyhow::ensure!(
            checkpoints.contains(iteration),
            "a primary comparison of {experiment} is at iteration {iteration}, which is not a checkpoint"
        );
    }
    Ok(())
}

/// Rows that are waiting for earlier jobs.
struct Queue {
    writer: ResultsWriter,
    next: usize,
    waiting: BTreeMap<usize, Vec<Row>>,
    written: Vec<Row>,
}

impl Queue {
    fn put(&mut self, index: usize, rows: Vec<Row>) -> anyhow::Result<()> {
        self.waiting.insert(index, rows);
        while let Some(rows) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.write(rows)?;
        }
        Ok(())
    }

    /// Writes the remaining rows after an interruption: those that were waiting for unfinished
    /// jobs.
    fn flush_rest(&mut self) -> anyhow::Result<()> {
        for rows in std::mem::take(&mut self.waiting).into_values() {
            self.write(rows)?;
        }
        Ok(())
    }

    fn write(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        for row in &rows {
            self.writer.append(row)?;
        }
        self.writer.commit()?;
        self.written.extend(rows);
        Ok(())
    }
}

fn run_session_of(unit: &RowLabels, session: Session, stop: &AtomicBool) -> JobResult {
    let Session {
        members,
        others,
        contributions,
        message_len,
        map,
        n_initial,
        optimum,
        truth,
        name_of,
    } = session;
    let mut tallies = BTreeMap::new();
    let mut all = Vec::with_capacity(members.len());
    for (name, member) in members {
        let unit = RowLabels { agent: name, ..unit.clone() };
        tallies.insert(
            member.agent.id(),
            (RowBuilder::new(unit, member.evaluation.direction, n_initial, optimum), Vec::new()),
        );
        all.push(member);
    }
    all.extend(others);
    let mut collector = Collector { tallies, truth, name_of };
    let ended = run_relayed(&mut all, contributions, message_len, map, &mut collector, stop)?;
    let rows = collector.tallies.into_values().flat_map(|(_, rows)| rows).collect();
    Ok((rows, ended))
}

struct Collector {
    tallies: BTreeMap<u32, (RowBuilder, Vec<Row>)>,
    truth: Option<TrueObjective>,
    name_of: fn(u32) -> String,
}

impl Observer for Collector {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        for record in records {
            let truth = self.truth.as_ref().and_then(|truth| truth(&record.point));
            if let Some((tally, rows)) = self.tallies.get_mut(&record.agent) {
                rows.push(tally.row(record, truth, self.name_of));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fedbo_federated::fts::AgentSampling;
    use fedbo_gp::{FeatureDescription, LengthscaleLaw};
    use fedbo_research_problems::{Function, Problem as _, TestFunction};
    use fedbo_runner::Evaluation;
    use fedbo_strategies::{
        LocalProb, MessageSettings, Observation, Source, ThompsonSettings, UcbMultiplier,
    };

    use super::*;

    /// Creates an agent on Branin's function that always uses the others' messages (p_t = 0), or
    /// never (1).
    fn strategy(id: u32, local_prob: f64, map: &Arc<FeatureMap>) -> AnyAgent {
        let own = ThompsonSettings {
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            ..ThompsonSettings::default_for(2)
        };
        let settings = FtsSettings {
            own,
            local_prob: LocalProb::Constant(local_prob),
            agent_sampling: AgentSampling::Uniform,
            message: MessageSettings::default(),
        };
        let domain = Domain::Space(branin().space().clone());
        let seed = Seed::new(5).child(Purpose::AGENT, u64::from(id));
        Box::new(Fts::new(domain, settings, Arc::clone(map), seed).unwrap())
    }

    fn branin() -> TestFunction {
        TestFunction::new(Function::Branin, 0.0, Seed::new(0)).unwrap()
    }

    const SEEN: [[f64; 2]; 3] = [[0.1, 0.7], [0.6, 0.2], [0.9, 0.9]];

    /// Returns the plan of the target, with three initial points.
    fn of_target(n_rounds: u64) -> AgentPlan {
        let initial = SEEN.map(|x| x.to_vec()).into();
        AgentPlan { id: 0, history: Vec::new(), initial, n_rounds }
    }

    /// Returns the plan of another agent, with three observations.
    fn of_other(n_rounds: u64) -> AgentPlan {
        let observed = |(unit, value): ([f64; 2], f64)| {
            Observation::new(unit.to_vec(), Some(value), Source::Initial)
        };
        let history = SEEN.into_iter().zip([-3.0, -1.0, -2.0]).map(observed).collect();
        AgentPlan { id: 1, history, initial: Vec::new(), n_rounds }
    }

    fn member(strategy: AnyAgent, plan: AgentPlan) -> Member<AnyAgent> {
        Member {
            agent: Agent::new(strategy, plan, Seed::new(5)).unwrap(),
            evaluation: Evaluation::of(Arc::new(branin())),
        }
    }

    /// An agent that runs with the target sends a message before each of the target's queries. It
    /// therefore serves all queries of a target that uses each message once, and has no rows. A
    /// contributor serves only the first query; the target makes the others on its own.
    #[test]
    fn others_send_before_every_query_and_leave_no_rows() {
        const N_ROUNDS: u64 = 4;
        let description = FeatureDescription::random(20, 2, LengthscaleLaw::Fixed(0.3));
        let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
        let map = Arc::new(FeatureMap::draw(&description, &mut stream).unwrap());
        let sources = |others, contributions| -> Vec<String> {
            let target = member(strategy(0, 0.0, &map), of_target(N_ROUNDS));
            let session = Session {
                members: vec![("target".into(), target)],
                others,
                contributions,
                message_len: map.n_features(),
                map: map.hash(),
                n_initial: SEEN.len(),
                optimum: None,
                truth: None,
                name_of: |id| format!("agent {id}"),
            };
            let unit = RowLabels::new("e", "a", "", 0);
            let (rows, ended) = run_session_of(&unit, session, &AtomicBool::new(false)).unwrap();
            assert_eq!(ended, Ended::Complete);
            assert!(rows.iter().all(|row| row.agent == "target"));
            rows.iter().filter(|row| row.iteration > 0).map(|row| row.source.clone()).collect()
        };
        let continues = member(strategy(1, 1.0, &map), of_other(N_ROUNDS));
        assert_eq!(sources(vec![continues], Vec::new()), vec!["message:agent 1"; 4]);
        let sent = message_of(strategy(1, 1.0, &map), of_other(0), &Seed::new(5)).unwrap();
        let once = sources(Vec::new(), vec![sent]);
        assert_eq!(once, ["message:agent 1", "own", "own", "own"]);
    }
}
