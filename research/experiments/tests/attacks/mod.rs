//! With all other agents Byzantine, an honest agent loses at most the queries that it spends on
//! their messages.
//!
//! With probability 1 − p_t, the agent queries a point chosen by the others, and learns about that
//! point regardless of their intent. After T queries, it is therefore no worse off than plain
//! Thompson sampling after T − Σ(1 − p_t). Both run on the same functions, with the same initial
//! points, seeds and observation noise.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod breakdown;

use std::collections::VecDeque;
use std::sync::Arc;

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory,
};
use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Hyperparameters, Kernel, LengthscaleLaw, Prior,
    WeightSpaceSample,
};
use fedbo_optim::{Function as _, MultiStart};
use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, SimNoise};
use fedbo_protocol::{
    Agent, AgentEffect, AgentEvent, AgentPlan, AgentUpdate, Aggregator, Coordinator, Effect,
    LatticeRounds, Relay, ReleaseSchedule, UsesHandouts,
};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageSettings, OwnQuery, OwnSampler,
    Partition, Points, Repeats, SampleSearch, Source, SurrogateSettings, ThompsonSettings,
    UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed};

const N_AGENTS: u32 = 10;
const N_REGIONS: u32 = 2;
const N_FEATURES: u32 = 40;
const N_POINTS: u32 = 150;
const N_ROUNDS: u64 = 30;
const N_INITIAL: usize = 2;
const N_SEEDS: u64 = 20;
const LENGTHSCALE: f64 = 0.05;
const TIMEOUT: u64 = 10;

/// p_t of an honest agent.
const SCHEDULE: LocalProb = LocalProb::InverseSqrt;

/// The messages of all other agents.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A function with its maximum at the minimum of the honest agent's objective.
    WorstPoint,
    /// Like `WorstPoint`, with the largest possible numbers.
    Huge,
    /// The honest agent's own negated function, which all of the attackers know.
    TurnedAround,
    Zeros,
    NotANumber,
}

const ATTACKS: [Attack; 5] =
    [Attack::WorstPoint, Attack::Huge, Attack::TurnedAround, Attack::Zeros, Attack::NotANumber];

fn grid() -> Points {
    let points = (0..N_POINTS).map(|i| f64::from(i) / f64::from(N_POINTS - 1));
    Points::from_flat(1, points.collect())
}

fn map(dim: usize, lengthscale: f64, n_features: u32, seed: u64) -> Arc<FeatureMap> {
    let description =
        FeatureDescription::random(n_features as usize, dim, LengthscaleLaw::Fixed(lengthscale));
    let mut stream = Seed::new(seed).stream(Purpose::SHARED_FEATURES, 0, 0);
    Arc::new(FeatureMap::draw(&description, &mut stream).unwrap())
}

/// An honest agent's objective: a function on finitely many points.
struct Objective {
    seed: u64,
    points: Arc<Points>,
    values: Vec<f64>,
}

impl Objective {
    /// Returns the noise-free value at one of the points.
    fn at(&self, unit: &[f64]) -> f64 {
        let place = self.points.rows().position(|point| point == unit);
        self.values[place.unwrap()]
    }

    fn best(&self) -> f64 {
        self.values.iter().copied().fold(f64::MIN, f64::max)
    }

    fn plan(&self, n_initial: usize, n_rounds: u64) -> AgentPlan {
        let mut stream = Seed::new(self.seed).stream(Purpose::INITIAL_DESIGN, 0, 0);
        let mut point = || self.points.row(stream.below(self.points.len())).to_vec();
        let initial = (0..n_initial).map(|_| point()).collect();
        AgentPlan { id: 0, history: Vec::new(), initial, n_rounds }
    }
}

/// An honest agent's problem, and the data for attacks on it.
struct Problem {
    objective: Objective,
    shared: Arc<FeatureMap>,
    /// Features of the lowest point.
    lowest: Vec<f64>,
    turned_around: Vec<f64>,
}

impl Problem {
    fn new(seed: u64) -> Self {
        let truth = map(1, LENGTHSCALE, 200, 100 + seed);
        let mut stream = Seed::new(seed).stream(Purpose::TEST, 0, 0);
        let weights = stream.normals(200);
        let function = WeightSpaceSample::new(&truth, &weights).unwrap();
        let values = function.values(&grid());
        let shared = map(1, LENGTHSCALE, N_FEATURES, 1);
        // φ_j(x) is the function with weight 1 at j.
        let columns: Vec<Vec<f64>> = (0..N_FEATURES as usize)
            .map(|feature| {
                let mut unit = vec![0.0; N_FEATURES as usize];
                unit[feature] = 1.0;
                let one = WeightSpaceSample::new(&shared, &unit).unwrap();
                one.values(&grid())
            })
            .collect();
        let order = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        let lowest = (0..values.len()).min_by(order).unwrap();
        Self {
            lowest: columns.iter().map(|column| column[lowest]).collect(),
            turned_around: columns
                .iter()
                .map(|column| -column.iter().zip(&values).map(|(a, b)| a * b).sum::<f64>())
                .collect(),
            objective: Objective { seed, points: Arc::new(grid()), values },
            shared,
        }
    }

    /// Returns the message of agent `sender` in a round.
    fn attack(&self, attack: Attack, sender: u32, round: u64) -> AgentUpdate {
        let sized = |weights: &[f64], norm: f64| {
            let own = weights.iter().map(|x| x * x).sum::<f64>().sqrt();
            weights.iter().map(|x| x / own * norm).collect()
        };
        let n = N_FEATURES as usize;
        let weights: Vec<f64> = match attack {
            Attack::WorstPoint => sized(&self.lowest, 10.0),
            Attack::Huge => self.lowest.iter().map(|x| x.signum() * 1e300).collect(),
            Attack::TurnedAround => sized(&self.turned_around, 10.0),
            Attack::Zeros => vec![0.0; n],
            Attack::NotANumber => vec![f64::NAN; n],
        };
        let map = self.shared.hash();
        AgentUpdate { sender, round, map, weights: weights.into() }
    }
}

fn own(dim: usize, lengthscale: f64, sampler: OwnSampler) -> ThompsonSettings {
    let hyperparameters = Hyperparameters {
        kernel: Kernel::isotropic(Family::SquaredExponential, dim, lengthscale, 1.0).unwrap(),
        noise_variance: 1e-2,
    };
    ThompsonSettings {
        surrogate: SurrogateSettings {
            hyperparameters: HyperparameterPolicy::Fixed(hyperparameters),
            standardize: true,
            sampler,
        },
        maximizer: Maximizer::MultiStart(MultiStart::for_dim(dim)),
        ucb_multiplier: UcbMultiplier::Constant(1.0),
        repeats: Repeats::Avoid,
        search: SampleSearch::Global,
        own_query: OwnQuery::Sample,
    }
}

/// Creates the attacked agent, in slot 0.
fn victim(
    objective: &Objective,
    shared: &Arc<FeatureMap>,
    settings: FtsSettings,
    (n_initial, n_rounds): (usize, u64),
) -> Agent<Fts> {
    let seed = Seed::new(objective.seed);
    let domain = Domain::Finite(Arc::clone(&objective.points));
    let strategy = Fts::new(domain, settings, Arc::clone(shared), seed).unwrap();
    Agent::new(strategy, objective.plan(n_initial, n_rounds), seed).unwrap()
}

fn fts(problem: &Problem, local_prob: LocalProb, n_rounds: u64) -> Agent<Fts> {
    let settings = FtsSettings {
        own: own(1, LENGTHSCALE, OwnSampler::Exact(Prior::default())),
        local_prob,
        agent_sampling: AgentSampling::Uniform,
        message: MessageSettings::default(),
    };
    victim(&problem.objective, &problem.shared, settings, (N_INITIAL, n_rounds))
}

fn relay(shared: &FeatureMap, n_agents: u32) -> Relay {
    let (n_features, map) = (shared.n_features(), shared.hash());
    Relay::new((0..n_agents).collect(), Vec::new(), n_features, map, Some(TIMEOUT), 0)
}

fn dp_fts_de(problem: &Problem, local_prob: LocalProb) -> Agent<DpFtsDe> {
    let settings = DpFtsDeSettings {
        own: own(1, LENGTHSCALE, OwnSampler::Exact(Prior::default())),
        local_prob,
        trust: AggregateUse::Schedule,
        message: MessageSettings::default(),
        partition: Partition::of_cube(1, N_REGIONS).unwrap(),
        region_sizes: vec![5, 5],
        emphasis: ExplorationWeights::UNIFORM,
        sampling_rate: 1.0,
        memory: Memory::Latest,
    };
    let seed = Seed::new(problem.objective.seed);
    let domain = Domain::Finite(Arc::clone(&problem.objective.points));
    let strategy = DpFtsDe::new(domain, settings, Arc::clone(&problem.shared), seed).unwrap();
    Agent::new(strategy, problem.objective.plan(N_INITIAL, N_ROUNDS), seed).unwrap()
}

/// Samples all agents and uses little noise, so that the others' vectors are not blurred.
fn aggregator(problem: &Problem) -> Aggregator<LatticeRounds<SimNoise>> {
    let mechanism = Mechanism::new(MechanismSettings {
        n_slots: N_AGENTS,
        n_regions: N_REGIONS,
        n_features: N_FEATURES,
        max_norm: 1.1 * f64::from(N_REGIONS * N_FEATURES).sqrt(),
        sampling_rate: SamplingRate::ALL,
        noise_multiplier: NoiseMultiplier::new(0.01).unwrap(),
    });
    let schedule = ReleaseSchedule::new(N_ROUNDS + 1, 1, N_ROUNDS / 2).unwrap();
    let rounds = LatticeRounds::new(mechanism.unwrap(), schedule, SimNoise::new([3; 32]));
    Aggregator::new(rounds, schedule, problem.shared.hash(), None)
}

/// Results of an honest agent.
struct Reached {
    /// Difference between the maximum and the value of the agent's best query.
    regret: f64,
    /// Mean regret of the agent's queries, without initial points.
    regret_a_query: f64,
    /// Number of queries at points chosen by others.
    n_followed: usize,
    /// Senders of used messages, query by query.
    senders: Vec<u32>,
    /// Number of other agents' messages that were rejected.
    n_refused: usize,
}

/// Plays an honest agent to the end of its plan. In the round of its upload, `others` returns the
/// uploads of all other agents, which may depend on that upload.
fn play<S: UsesHandouts, C: Coordinator<Handout = S::Handout>>(
    objective: &Objective,
    mut agent: Agent<S>,
    mut coordinator: C,
    mut others: impl FnMut(&AgentUpdate) -> Vec<AgentUpdate>,
) -> Reached {
    let mut noise = Seed::new(objective.seed).stream(Purpose::TEST, 1, 0);
    let (mut best, mut sum, mut n_queries) = (f64::MIN, 0.0, 0_u32);
    let (mut n_followed, mut n_refused, mut now) = (0, 0, 0);
    let mut senders = Vec::new();
    let mut asked: VecDeque<Effect<S::Handout>> = coordinator.start(now).into();
    let mut to_do: VecDeque<AgentEffect> = VecDeque::new();
    let mut begins = true;
    loop {
        while let Some(effect) = asked.pop_front() {
            let answer = match effect {
                Effect::Recall { round } => coordinator.recalled(round, None, now).unwrap(),
                Effect::Commit { round, .. } => coordinator.committed(round, now).unwrap(),
                Effect::Broadcast(handout) => {
                    to_do.extend(agent.handle(AgentEvent::Broadcast(handout)).unwrap());
                    Vec::new()
                }
                Effect::Fail(error) => panic!("{error}"),
                // Rejected messages of other agents do not end the round.
                Effect::Refuse(_) => {
                    n_refused += 1;
                    Vec::new()
                }
            };
            asked.extend(answer);
        }
        if std::mem::take(&mut begins) {
            to_do.extend(agent.start().unwrap());
        }
        match to_do.pop_front().unwrap() {
            AgentEffect::Evaluate(trial) => {
                let value = objective.at(&trial.unit);
                best = best.max(value);
                if trial.source != Source::Initial {
                    (sum, n_queries) = (sum + value, n_queries + 1);
                    n_followed += usize::from(trial.source != Source::Own);
                    if let Source::Message { sender } = trial.source {
                        senders.push(sender);
                    }
                }
                let (trial, value) = (trial.index, Some(value + 0.1 * noise.normal()));
                let event = AgentEvent::Evaluated { trial, value };
                to_do.extend(agent.handle(event).unwrap());
            }
            AgentEffect::Upload(update) => {
                let round = update.round;
                let others = others(&update);
                asked.extend(coordinator.receive(update, now));
                for update in others {
                    asked.extend(coordinator.receive(update, now));
                }
                // The round does not wait for agents without a valid message.
                if let Some(deadline) =
                    coordinator.deadline().filter(|_| coordinator.round() == round)
                {
                    now = deadline;
                    asked.extend(coordinator.tick(now));
                }
                asked.extend(coordinator.idle(now));
            }
            AgentEffect::Finished => {
                let regret = objective.best() - best;
                let regret_a_query = objective.best() - sum / f64::from(n_queries);
                return Reached { regret, regret_a_query, n_followed, senders, n_refused };
            }
            AgentEffect::Refused(rejected) => panic!("{rejected}"),
        }
    }
}

/// Plays an honest agent in a federation whose other members are all attackers.
fn play_against<S: UsesHandouts, C: Coordinator<Handout = S::Handout>>(
    problem: &Problem,
    attack: Attack,
    agent: Agent<S>,
    coordinator: C,
) -> Reached {
    let others = |update: &AgentUpdate| {
        (1..N_AGENTS).map(|sender| problem.attack(attack, sender, update.round)).collect()
    };
    let reached = play(&problem.objective, agent, coordinator, others);
    assert!(reached.n_refused == 0 || matches!(attack, Attack::NotANumber));
    reached
}

/// Returns mean and standard error.
fn mean(of: &[f64]) -> (f64, f64) {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let variance = of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Returns the regret under attack minus that of plain Thompson sampling with Σ(1 − p_t) fewer
/// queries, in paired runs, and the share of queries that followed others.
fn worse_by(run: impl Fn(&Problem) -> Reached) -> ((f64, f64), f64) {
    let steps = 1..=u32::try_from(N_ROUNDS).unwrap();
    let fewer = steps.map(|t| 1.0 / f64::from(t).sqrt()).sum::<f64>();
    let n_own = (0..N_ROUNDS).rfind(|n| *n as f64 <= N_ROUNDS as f64 - fewer).unwrap();
    let mut followed = 0;
    let differences: Vec<f64> = (0..N_SEEDS)
        .map(|seed| {
            let problem = Problem::new(seed);
            let agent = fts(&problem, LocalProb::Constant(1.0), n_own);
            let relay = relay(&problem.shared, N_AGENTS);
            let plain = play(&problem.objective, agent, relay, |_| Vec::new());
            assert_eq!(plain.n_followed, 0);
            let attacked = run(&problem);
            followed += attacked.n_followed;
            attacked.regret - plain.regret
        })
        .collect();
    let share = followed as f64 / (N_SEEDS * N_ROUNDS) as f64;
    (mean(&differences), share)
}

#[test]
fn attacks() {
    for attack in ATTACKS {
        let ((worse, error), followed) = worse_by(|problem| {
            play_against(problem, attack, dp_fts_de(problem, SCHEDULE), aggregator(problem))
        });
        eprintln!("DP-FTS-DE, {attack:?}: {worse:.3} ± {error:.3}, followed {followed:.2}");
        assert!(worse <= 2.0 * error, "DP-FTS-DE, {attack:?}: {worse} ± {error}");
        let ((worse, error), followed) = worse_by(|problem| {
            let agent = fts(problem, SCHEDULE, N_ROUNDS);
            play_against(problem, attack, agent, relay(&problem.shared, N_AGENTS))
        });
        eprintln!("FTS, {attack:?}: {worse:.3} ± {error:.3}, followed {followed:.2}");
        assert!(worse <= 2.0 * error, "FTS, {attack:?}: {worse} ± {error}");
    }
}

/// Shows that the other tests can fail: an agent that always follows the others is misled.
#[test]
fn who_always_follows_is_led_astray() {
    let credulous = || LocalProb::Constant(0.0);
    let ((worse, error), followed) = worse_by(|problem| {
        let agent = dp_fts_de(problem, credulous());
        play_against(problem, Attack::WorstPoint, agent, aggregator(problem))
    });
    eprintln!("DP-FTS-DE, credulous: {worse:.3} ± {error:.3}, followed {followed:.2}");
    assert!(worse > 2.0 * error, "{worse} ± {error}");
    let ((worse, error), followed) = worse_by(|problem| {
        let agent = fts(problem, credulous(), N_ROUNDS);
        play_against(problem, Attack::WorstPoint, agent, relay(&problem.shared, N_AGENTS))
    });
    eprintln!("FTS, credulous: {worse:.3} ± {error:.3}, followed {followed:.2}");
    assert!(worse > 2.0 * error, "{worse} ± {error}");
}
