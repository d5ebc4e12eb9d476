//! Tests of sessions in one process: stored and repeated releases of DP-FTS-DE, independence of the
//! number of threads, and control arms.

#![expect(clippy::unwrap_used, reason = "a panic in a test helper fails the test")]

mod arms;
mod free;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory,
};
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Hyperparameters, Kernel, LengthscaleLaw, Prior,
};
use fedbo_objective::{Direction, Objective, Outcome, TrialId};
use fedbo_optim::MultiStart;
use fedbo_privacy::accounting::{NoiseMultiplier, PrivacyEvent, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, NoiseSource, SecureNoise, SimNoise};
use fedbo_protocol::{Agent, AgentPlan, Aggregator, LatticeRounds, ReleaseSchedule};
use fedbo_runner::{
    Ended, Evaluation, Member, Observer, ReleaseStore, SessionError, TrialRecord,
    UnchargedReleases, run_session,
};
use fedbo_space::{Point, Value};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageSettings, OwnQuery, OwnSampler,
    Partition, Points, Repeats, SampleSearch, SurrogateSettings, ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed};

const N_AGENTS: u32 = 6;
const N_REGIONS: u32 = 2;
const N_FEATURES: u32 = 8;
const N_POINTS: u32 = 40;
const N_INITIAL: usize = 2;
const N_ROUNDS: u64 = 7;

/// An objective with a different maximum for each agent.
struct Bump;

impl Objective for Bump {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        let x = point.number("x");
        let top = 0.3 + 0.05 * f64::from(u32::try_from(trial.agent).unwrap());
        Outcome::Value((-20.0 * (x - top) * (x - top)).exp())
    }
}

fn map() -> Arc<FeatureMap> {
    let description =
        FeatureDescription::random(N_FEATURES as usize, 1, LengthscaleLaw::Fixed(0.2));
    let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    Arc::new(FeatureMap::draw(&description, &mut stream).unwrap())
}

fn strategy(map: &Arc<FeatureMap>) -> DpFtsDe {
    let grid = (0..N_POINTS).map(|i| f64::from(i) / f64::from(N_POINTS - 1));
    let hyperparameters = Hyperparameters {
        kernel: Kernel::isotropic(Family::SquaredExponential, 1, 0.2, 1.0).unwrap(),
        noise_variance: 1e-2,
    };
    let settings = DpFtsDeSettings {
        own: ThompsonSettings {
            surrogate: SurrogateSettings {
                hyperparameters: HyperparameterPolicy::Fixed(hyperparameters),
                standardize: true,
                sampler: OwnSampler::Exact(Prior::default()),
            },
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(1)),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Avoid,
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        },
        local_prob: LocalProb::Constant(0.3),
        trust: AggregateUse::Schedule,
        message: MessageSettings::default(),
        partition: Partition::of_cube(1, N_REGIONS).unwrap(),
        region_sizes: vec![3, 3],
        emphasis: ExplorationWeights::UNIFORM,
        sampling_rate: 0.5,
        memory: Memory::Latest,
    };
    let domain = Domain::Finite(Arc::new(Points::from_flat(1, grid.collect())));
    DpFtsDe::new(domain, settings, Arc::clone(map), Seed::new(2)).unwrap()
}

fn members(rounds_of: impl Fn(u32) -> u64) -> Vec<Member<DpFtsDe>> {
    let map = map();
    let member = |id: u32| {
        let mut stream = Seed::new(3).stream(Purpose::INITIAL_DESIGN, u64::from(id), 0);
        let mut point =
            || vec![f64::from(u32::try_from(stream.below(40)).unwrap()) / f64::from(N_POINTS - 1)];
        let plan = AgentPlan {
            id,
            history: Vec::new(),
            initial: (0..N_INITIAL).map(|_| point()).collect(),
            n_rounds: rounds_of(id),
        };
        Member {
            agent: Agent::new(strategy(&map), plan, Seed::new(4)).unwrap(),
            evaluation: Evaluation {
                objective: Arc::new(Bump),
                decoder: Arc::new(|unit: &[f64]| {
                    Point::new(vec![("x".to_owned(), Value::Float(unit[0]))])
                }),
                direction: Direction::Maximize,
            },
        }
    };
    (0..N_AGENTS).map(member).collect()
}

fn mechanism() -> Mechanism {
    Mechanism::new(MechanismSettings {
        n_slots: N_AGENTS,
        n_regions: N_REGIONS,
        n_features: N_FEATURES,
        max_norm: 1.1 * 4.0,
        sampling_rate: SamplingRate::new(0.5).unwrap(),
        noise_multiplier: NoiseMultiplier::new(0.1).unwrap(),
    })
    .unwrap()
}

fn aggregator<S: NoiseSource>(
    schedule: ReleaseSchedule,
    source: S,
) -> Aggregator<LatticeRounds<S>> {
    let rounds = LatticeRounds::new(mechanism(), schedule, source);
    Aggregator::new(rounds, schedule, map().hash(), None)
}

/// Three releases in rounds 0, 2 and 4: regions, regions and one total.
fn schedule() -> ReleaseSchedule {
    ReleaseSchedule::new(3, 2, 4).unwrap()
}

/// A store that records its calls, and can fail to store the release of one round.
#[derive(Default)]
struct Memo {
    releases: BTreeMap<u64, Vec<u8>>,
    events: Vec<Option<PrivacyEvent>>,
    asked: Vec<u64>,
    full_in: Option<u64>,
}

impl ReleaseStore for Memo {
    fn stored(&mut self, round: u64) -> anyhow::Result<Option<Vec<u8>>> {
        self.asked.push(round);
        Ok(self.releases.get(&round).cloned())
    }

    fn commit(
        &mut self,
        round: u64,
        event: Option<&PrivacyEvent>,
        release: &[u8],
    ) -> anyhow::Result<()> {
        anyhow::ensure!(self.full_in != Some(round), "the disk is full");
        let before = self.releases.insert(round, release.to_vec());
        anyhow::ensure!(before.is_none(), "two releases of round {round}");
        self.events.push(event.copied());
        Ok(())
    }
}

/// An observer that logs everything about trials except timings, and sets `stop` after some waves.
struct TrialLog<'a> {
    lines: Vec<String>,
    waves: usize,
    stop: Option<(usize, &'a AtomicBool)>,
    refused: AtomicUsize,
}

impl TrialLog<'_> {
    fn new() -> Self {
        Self { lines: Vec::new(), waves: 0, stop: None, refused: AtomicUsize::new(0) }
    }
}

impl Observer for TrialLog<'_> {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        for record in records {
            let TrialRecord { agent, trial, outcome, .. } = record;
            self.lines.push(format!("{agent} {trial:?} {outcome:?}"));
        }
        self.waves += 1;
        if let Some((wave, stop)) = self.stop
            && wave == self.waves
        {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn refused(&self, _rejected: &fedbo_protocol::UpdateRejected) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a session to its end on `threads` threads, and returns its trials.
fn run<S: NoiseSource + Send>(
    source: S,
    store: &mut (impl ReleaseStore + Send),
    threads: usize,
) -> Result<Vec<String>, SessionError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut diary = TrialLog::new();
        let ended = run_session(
            &mut members(|_| N_ROUNDS),
            Vec::new(),
            &mut aggregator(schedule(), source),
            store,
            &mut diary,
            &AtomicBool::new(false),
        );
        assert_eq!(diary.refused.load(Ordering::Relaxed), 0);
        assert_eq!(ended?, Ended::Complete);
        Ok(diary.lines)
    })
}

fn from_regions(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains("Region")).count()
}

/// Every agent completes its plan and uses the releases. The store is queried before each releasing
/// round and receives each release once, even with rounds in between that collect nothing.
#[test]
fn a_session_releases_by_its_schedule() {
    let mut store = Memo::default();
    let lines = run(SimNoise::new([1; 32]), &mut store, 2).unwrap();
    assert_eq!(lines.len(), 6 * (N_INITIAL + 7));
    assert!(from_regions(&lines) >= 10, "{lines:#?}");
    assert_eq!(store.asked, [0, 2, 4]);
    let sizes: Vec<u64> = store.releases.values().map(|bytes| bytes.len() as u64).collect();
    let shapes = [0, 2, 4].map(|round| mechanism().release_size(schedule().shape(round)));
    assert_eq!(sizes, shapes);
    assert!(sizes[2] < sizes[1]);
    assert_eq!(store.events, [None; 3]); // simulated: not private (INV-10)
}

/// Results depend only on seeds, not on the number of threads or on whether releases are stored.
#[test]
fn threads_change_nothing() {
    let one = run(SimNoise::new([1; 32]), &mut Memo::default(), 1).unwrap();
    let four = run(SimNoise::new([1; 32]), &mut UnchargedReleases, 4).unwrap();
    assert_eq!(one, four);
    let other = run(SimNoise::new([2; 32]), &mut Memo::default(), 1).unwrap();
    assert_ne!(one, other);
}

/// INV-2: a session with secure noise that restarts with its stored releases repeats itself bit for
/// bit. It creates no new release and charges nothing.
#[test]
fn a_session_repeats_itself_from_its_stored_releases() {
    let mut store = Memo::default();
    let first = run(SecureNoise::new(), &mut store, 2).unwrap();
    assert_eq!(store.events, [Some(mechanism().event()); 3]);
    let kept = store.releases.clone();
    let again = run(SecureNoise::new(), &mut store, 2).unwrap();
    assert_eq!(first, again);
    assert_eq!((store.releases, store.events.len()), (kept, 3));
    let fresh = run(SecureNoise::new(), &mut Memo::default(), 2).unwrap();
    assert_ne!(first, fresh); // the noise was different
}

/// INV-1: a release that cannot be made durable ends the session, and no agent has used it.
#[test]
fn a_store_that_fails_ends_the_session() {
    let mut store = Memo { full_in: Some(0), ..Memo::default() };
    let mut diary = TrialLog::new();
    let error = run_session(
        &mut members(|_| N_ROUNDS),
        Vec::new(),
        &mut aggregator(schedule(), SimNoise::new([1; 32])),
        &mut store,
        &mut diary,
        &AtomicBool::new(false),
    )
    .unwrap_err();
    assert!(matches!(error, SessionError::Store { round: 0, .. }));
    let told = format!("{:#}", anyhow::Error::from(error));
    assert!(told.contains("round 0") && told.contains("the disk is full"), "{told}");
    assert_eq!(diary.lines.len(), 6 * N_INITIAL);
    assert_eq!(from_regions(&diary.lines), 0);
}

/// A stopped session has released its closed rounds, and resumes from them to the same result.
#[test]
fn a_stopped_session_goes_on() {
    let stop = AtomicBool::new(false);
    let mut store = Memo::default();
    let mut diary = TrialLog { stop: Some((N_INITIAL + 3, &stop)), ..TrialLog::new() };
    let ended = run_session(
        &mut members(|_| N_ROUNDS),
        Vec::new(),
        &mut aggregator(schedule(), SecureNoise::new()),
        &mut store,
        &mut diary,
        &stop,
    );
    assert_eq!(ended.unwrap(), Ended::Interrupted);
    assert_eq!(store.releases.keys().copied().collect::<Vec<_>>(), [0, 2]);
    let kept = store.releases.clone();
    let lines = run(SecureNoise::new(), &mut store, 2).unwrap();
    assert_eq!(lines[..diary.lines.len()], diary.lines);
    assert_eq!(store.releases.len(), 3);
    assert!(kept.iter().all(|(round, bytes)| store.releases[round] == *bytes));
}

/// INV-3: agents that end early are missing from then on, and the others continue with releases
/// that count the missing agents as zero.
#[test]
fn agents_that_end_early_do_not_hold_up_the_rest() {
    let mut store = Memo::default();
    let mut diary = TrialLog::new();
    let every_round = ReleaseSchedule::new(N_ROUNDS, 1, 0).unwrap();
    let ended = run_session(
        &mut members(|id| if id < 3 { 2 } else { N_ROUNDS }),
        Vec::new(),
        &mut aggregator(every_round, SimNoise::new([1; 32])),
        &mut store,
        &mut diary,
        &AtomicBool::new(false),
    );
    assert_eq!(ended.unwrap(), Ended::Complete);
    assert_eq!(diary.lines.len(), 6 * N_INITIAL + 3 * 2 + 3 * 7);
    assert_eq!(store.releases.len(), 7);
}
