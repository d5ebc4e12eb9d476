//! Whole rounds of DP-FTS-DE with all agents in one process, excluding the cost of objectives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory, region_sizes,
};
use fedbo_gp::FeatureMap;
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, SecureNoise};
use fedbo_protocol::{Agent, AgentPlan, Aggregator, LatticeRounds, ReleaseSchedule};
use fedbo_runner::{Evaluation, Member, Observer, TrialRecord, UnchargedReleases, run_session};
use fedbo_space::{Direction, ParameterSpec, Point, Space, Value};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, MessageSettings, OwnSampler, Partition,
    ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value as Json, json};

use crate::measure::rounded;
use crate::memory::peak_mib;
use crate::message::feature_map;

const N_REGIONS: u32 = 4;
const N_FEATURES: usize = 100;
const N_INITIAL: usize = 10;
const RATE: f64 = 0.35;

/// A smooth, hill-shaped objective that is evaluated in negligible time.
struct Hill;

impl Objective for Hill {
    fn evaluate(&self, point: &Point, _trial: TrialId) -> Outcome {
        let at = |name| point.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let (x, z) = (at("x1") - 0.3, at("x2") - 0.7);
        Outcome::Value((-4.0 * (x * x + z * z)).exp())
    }
}

/// Observer that records the end times of waves.
struct Waves {
    begin: Instant,
    ends_s: Vec<f64>,
}

impl Observer for Waves {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> Result<()> {
        if !records.is_empty() {
            self.ends_s.push(self.begin.elapsed().as_secs_f64());
        }
        Ok(())
    }
}

/// Returns one row. The federation has two dimensions, 100 features, 4 regions and 10 initial
/// points per agent. Hyperparameters are fitted on the default schedule, and a release is made in
/// every round (q = 0.35, z = 1, secure noise, 1 − p_t = 1/t).
///
/// `fixed` keeps the hyperparameters and draws each agent's own functions from 100 features, as in
/// the authors' rounds between two fits.
pub(crate) fn rows(
    n_agents: u32,
    n_rounds: u64,
    n_threads: usize,
    fixed: bool,
) -> Result<Vec<Json>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build()?;
    let before = peak_mib()?;
    let map = Arc::new(feature_map(N_FEATURES, 2)?);
    let mut members = members(n_agents, n_rounds, fixed, &map)?;
    let mechanism = Mechanism::new(MechanismSettings {
        n_slots: n_agents,
        n_regions: N_REGIONS,
        n_features: u32::try_from(N_FEATURES)?,
        max_norm: 22.0,
        sampling_rate: SamplingRate::new(RATE)?,
        noise_multiplier: NoiseMultiplier::new(1.0)?,
    })?;
    let uniform_from = ExplorationWeights::REAL.uniform_from().unwrap_or(u64::MAX);
    let schedule = ReleaseSchedule::new(n_rounds, 1, uniform_from)?;
    let rounds = LatticeRounds::new(mechanism, schedule, SecureNoise::new());
    let mut coordinator = Aggregator::new(rounds, schedule, map.hash(), None);
    let mut waves = Waves { begin: Instant::now(), ends_s: Vec::new() };
    pool.install(|| {
        let (store, stop) = (&mut UnchargedReleases, AtomicBool::new(false));
        run_session(&mut members, Vec::new(), &mut coordinator, store, &mut waves, &stop)
    })?;
    // The measurement starts after the initial points, so that a round consists of proposal,
    // evaluation, message and release.
    let start = waves.ends_s[N_INITIAL - 1];
    let seconds = waves.ends_s.last().copied().unwrap_or(start) - start;
    let per_round = seconds / n_rounds as f64;
    Ok(vec![json!({
        "peer": "fedbo",
        "agents": n_agents,
        "rounds": n_rounds,
        "threads": n_threads,
        "hyperparameters": if fixed { "fixed" } else { "fitted" },
        "seconds": rounded(seconds, 3),
        "round_s": rounded(per_round, 6),
        "agent_round_s": rounded(per_round / f64::from(n_agents), 9),
        "start_mib": rounded(before, 1),
        "peak_mib": rounded(peak_mib()?, 1),
    })])
}

fn members(
    n_agents: u32,
    n_rounds: u64,
    fixed: bool,
    map: &Arc<FeatureMap>,
) -> Result<Vec<Member<DpFtsDe>>> {
    let unit = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs([("x1", &unit), ("x2", &unit)])?;
    let partition = Partition::of_space(&space, N_REGIONS)?;
    let mut own = ThompsonSettings::default_for(2);
    if fixed {
        let given = own.surrogate.initial().clone();
        own.surrogate.hyperparameters = HyperparameterPolicy::Fixed(given);
        own.surrogate.sampler = OwnSampler::Features(N_FEATURES);
    }
    let settings = DpFtsDeSettings {
        own,
        local_prob: LocalProb::Power(1.0),
        trust: AggregateUse::Schedule,
        message: MessageSettings::default(),
        partition: partition.clone(),
        region_sizes: region_sizes(n_agents as usize, N_REGIONS as usize),
        emphasis: ExplorationWeights::REAL,
        sampling_rate: RATE,
        memory: Memory::Latest,
    };
    let seed = Seed::new(1);
    let evaluation = Evaluation::new(space.clone(), Arc::new(Hill), Direction::Maximize);
    let mut members = Vec::with_capacity(n_agents as usize);
    for id in 0..n_agents {
        let own_seed = seed.child(Purpose::AGENT, u64::from(id));
        let domain = Domain::Space(space.clone());
        let strategy = DpFtsDe::new(domain, settings.clone(), Arc::clone(map), own_seed)?;
        let mut stream = own_seed.stream(Purpose::INITIAL_DESIGN, 0, 0);
        let mut point =
            || partition.place((id % N_REGIONS) as usize, &[stream.uniform(), stream.uniform()]);
        let plan = AgentPlan {
            id,
            history: Vec::new(),
            initial: (0..N_INITIAL).map(|_| point()).collect(),
            n_rounds,
        };
        members.push(Member {
            agent: Agent::new(strategy, plan, seed)?,
            evaluation: evaluation.clone(),
        });
    }
    Ok(members)
}
