//! The share of hostile agents that misleads a sum, or an agent that reads messages in the clear.

use std::sync::Arc;

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory,
};
use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{FeatureMap, WeightSpaceSample};
use fedbo_optim::Function as _;
use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Lattice, Mechanism, MechanismSettings, SimNoise};
use fedbo_protocol::{AgentUpdate, Aggregate, LatticeRounds, ReleaseSchedule, RoundMechanism};
use fedbo_secure_sum::{Proof, SecureSumRounds, Sharing};
use fedbo_strategies::{
    Collaborator as _, Domain, LocalProb, MessageContent, MessageSettings, Observation, OwnSampler,
    Partition, Points, Repeats, Source, Strategy as _, ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed, Stream};

use super::{Objective, SCHEDULE, map, mean, own, play, relay, victim};

const DIM: usize = 2;
const LENGTHSCALE: f64 = 0.2;
/// M.
const N_FEATURES: u32 = 100;
/// Number of features of the functions themselves, which differ from the shared features.
const N_TRUE_FEATURES: u32 = 200;
/// Factor of the individual part that is added to the common function. Both parts have the same
/// distribution.
const ALIKE: f64 = 0.3;
const UNLIKE: f64 = 1.0;

/// Similar functions.
struct Family {
    truth: Arc<FeatureMap>,
    shared: Arc<FeatureMap>,
    common: Vec<f64>,
    points: Arc<Points>,
    stream: Stream,
}

impl Family {
    /// Builds the functions from the shared features, or from different features that the shared
    /// ones can represent only in part.
    fn new(seed: u64, n_points: usize, is_expressed: bool) -> Self {
        let mut stream = Seed::new(seed).stream(Purpose::TEST, 2, 0);
        let coordinates = (0..n_points * DIM).map(|_| stream.uniform());
        let points = Arc::new(Points::from_flat(DIM, coordinates.collect()));
        let shared = map(DIM, LENGTHSCALE, N_FEATURES, 2000 + seed);
        let truth = match is_expressed {
            true => Arc::clone(&shared),
            false => map(DIM, LENGTHSCALE, N_TRUE_FEATURES, 1000 + seed),
        };
        Self { common: stream.normals(truth.n_features()), points, truth, shared, stream }
    }

    fn values(&self, weights: &[f64]) -> Vec<f64> {
        WeightSpaceSample::new(&self.truth, weights).unwrap().values(&self.points)
    }

    /// Returns the values of an agent's function at all points.
    fn member(&mut self, difference: f64) -> Vec<f64> {
        let own = self.stream.normals(self.common.len());
        let weights = self.common.iter().zip(own).map(|(common, own)| common + difference * own);
        self.values(&weights.collect::<Vec<f64>>())
    }

    /// Returns an agent's trials at random points.
    fn trials(&mut self, values: &[f64], n: usize, noise_std: f64) -> Vec<Observation> {
        let mut trial = || {
            let index = self.stream.below(values.len());
            let value = values[index] + noise_std * self.stream.normal();
            let unit = self.points.row(index).to_vec();
            Observation::new(unit, Some(value), Source::Initial)
        };
        (0..n).map(|_| trial()).collect()
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn index_of_largest(values: &[f64]) -> usize {
    let order = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
    (0..values.len()).max_by(order).unwrap()
}

/// Returns the mean of the vectors, and the standard deviation of each coordinate.
fn moments(vectors: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let n = vectors.len() as f64;
    let mean_of = |j: usize| vectors.iter().map(|v| v[j]).sum::<f64>() / n;
    let means: Vec<f64> = (0..vectors[0].len()).map(mean_of).collect();
    let spread =
        |j: usize| (vectors.iter().map(|v| (v[j] - means[j]).powi(2)).sum::<f64>() / n).sqrt();
    let spreads = (0..means.len()).map(spread).collect();
    (means, spreads)
}

/// Returns the mean and standard error of the paired differences between `values` and `times` times
/// `others`.
fn beyond(values: &[f64], others: &[f64], times: f64) -> (f64, f64) {
    let differences: Vec<f64> = values.iter().zip(others).map(|(a, b)| a - times * b).collect();
    mean(&differences)
}

mod private {
    //! Private sums: hostile agents collude, and know the honest vectors.

    use super::*;

    const N_AGENTS: u32 = 60;
    const N_TRIALS: usize = 10;
    const N_POINTS: usize = 1500;
    const N_REPEATS: u64 = 40;
    /// Numbers of hostile agents among 60.
    const HOSTILE: [usize; 6] = [0, 6, 12, 18, 24, 27];
    /// z of five releases at ε = 4.
    const NOISE: f64 = 2.418;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Attack {
        /// The negated mean of the honest vectors.
        Flip,
        /// A function with its peak at the worst point.
        Spike,
        /// "A little is enough": the mean minus 1.2 standard deviations of each coordinate (Baruch,
        /// Baruch and Goldberg 2019).
        Alie,
    }

    const ATTACKS: [Attack; 3] = [Attack::Flip, Attack::Spike, Attack::Alie];

    /// The mechanism of the sum.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Sum {
        /// The mechanism on a lattice, with this z.
        Noise(f64),
        /// Two servers that check proofs of the norm, with almost no noise.
        Proved,
    }

    impl Sum {
        const fn name(self) -> &'static str {
            match self {
                Self::Proved => "proofs",
                Self::Noise(multiplier) if multiplier < 0.1 => "no noise",
                Self::Noise(_) => "noise",
            }
        }
    }

    /// Almost no noise.
    const EXACT: Sum = Sum::Noise(Lattice::MULTIPLIERS.0);
    const NOISY: Sum = Sum::Noise(NOISE);
    const SUMS: [Sum; 3] = [EXACT, NOISY, Sum::Proved];

    /// The vectors of the agents in one repetition, and their common function.
    struct Crowd {
        seed: u64,
        shared: Arc<FeatureMap>,
        points: Arc<Points>,
        common: Vec<f64>,
        /// The honest vectors, before clipping.
        vectors: Vec<Vec<f64>>,
    }

    fn agent(points: &Arc<Points>, shared: &Arc<FeatureMap>, n_agents: u32) -> DpFtsDe {
        let settings = DpFtsDeSettings {
            own: own(DIM, LENGTHSCALE, OwnSampler::Features(100)),
            local_prob: SCHEDULE,
            trust: AggregateUse::Schedule,
            message: MessageSettings { content: MessageContent::Mean, ..Default::default() },
            partition: Partition::of_cube(DIM, 1).unwrap(),
            region_sizes: vec![n_agents as usize],
            emphasis: ExplorationWeights::UNIFORM,
            sampling_rate: 1.0,
            memory: Memory::Latest,
        };
        let domain = Domain::Finite(Arc::clone(points));
        DpFtsDe::new(domain, settings, Arc::clone(shared), Seed::new(0)).unwrap()
    }

    impl Crowd {
        fn new(seed: u64, difference: f64) -> Self {
            let mut family = Family::new(seed, N_POINTS, false);
            let vectors = (0..N_AGENTS).map(|_| {
                let values = family.member(difference);
                let mut agent = agent(&family.points, &family.shared, N_AGENTS);
                agent.tell(&family.trials(&values, N_TRIALS, 0.05)).unwrap();
                agent.weight_sample(&mut family.stream).unwrap()
            });
            let vectors = vectors.collect();
            let common = family.values(&family.common);
            Self { seed, vectors, common, points: family.points, shared: family.shared }
        }

        /// Returns the vector of hostile agents, given the honest ones. The vector is longer than
        /// any bound, except for ALIE, which imitates honest vectors.
        fn attack(&self, attack: Attack, honest: &[Vec<f64>]) -> Vec<f64> {
            let (mean, spread) = moments(honest);
            match attack {
                Attack::Flip => mean.iter().map(|x| -1e3 * x).collect(),
                Attack::Spike => {
                    let negative: Vec<f64> = self.common.iter().map(|v| -v).collect();
                    let worst = self.points.row(index_of_largest(&negative));
                    self.shared.features(worst).iter().map(|x| 1e3 * x).collect()
                }
                Attack::Alie => {
                    mean.iter().zip(spread).map(|(x, s)| x - 1.2 * s * x.signum()).collect()
                }
            }
        }

        /// Returns the loss at the maximizer of the function with these weights: 0 at the best
        /// point, and 1 for the mean of all points.
        fn loss(&self, weights: &[f64]) -> f64 {
            let function = WeightSpaceSample::new(&self.shared, weights).unwrap();
            let found = self.common[index_of_largest(&function.values(&self.points))];
            let best = self.common.iter().copied().fold(f64::MIN, f64::max);
            let average = self.common.iter().sum::<f64>() / self.common.len() as f64;
            (best - found) / (best - average)
        }

        /// Creates an agent that has read a release.
        fn reader(&self, aggregate: &Aggregate) -> DpFtsDe {
            let mut agent = agent(&self.points, &self.shared, N_AGENTS);
            assert!(agent.receive(aggregate));
            agent
        }

        /// Returns the loss of a release, clipped at `max_norm`, with the vectors of the last
        /// `n_hostile` agents replaced by the attack's.
        fn loss_of(&self, sum: Sum, max_norm: f64, attack: Attack, n_hostile: usize) -> f64 {
            let vectors = with_hostile(self, attack, n_hostile);
            let reader = self.reader(&release(sum, max_norm, &vectors, self.seed));
            self.loss(&reader.region_weights().unwrap()[0])
        }
    }

    /// Releases the sum of vectors, clipped at `max_norm`.
    fn release(sum: Sum, max_norm: f64, vectors: &[Vec<f64>], seed: u64) -> Aggregate {
        let settings = MechanismSettings {
            n_slots: u32::try_from(vectors.len()).unwrap(),
            n_regions: 1,
            n_features: N_FEATURES,
            max_norm,
            sampling_rate: SamplingRate::ALL,
            noise_multiplier: NoiseMultiplier::new(match sum {
                Sum::Noise(multiplier) => multiplier,
                Sum::Proved => Lattice::MULTIPLIERS.0,
            })
            .unwrap(),
        };
        let schedule = ReleaseSchedule::new(1, 1, 0).unwrap();
        let mut key = [7; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let noise = SimNoise::new(key);
        if sum == Sum::Proved {
            let bits = 12;
            let mechanism = Mechanism::for_secure_sum(settings, bits).unwrap();
            let sharing = Sharing::new(mechanism, 0, bits, Proof::L2).unwrap();
            return released(SecureSumRounds::new(sharing, schedule, noise), vectors);
        }
        let mechanism = Mechanism::new(settings).unwrap();
        released(LatticeRounds::new(mechanism, schedule, noise), vectors)
    }

    fn released<M: RoundMechanism>(mut mechanism: M, vectors: &[Vec<f64>]) -> Aggregate {
        let mut round = mechanism.open(0).unwrap();
        for (slot, vector) in (0_u32..).zip(vectors) {
            mechanism.receive(&mut round, slot, vector).unwrap();
        }
        let pending = mechanism.close(round).unwrap();
        mechanism.restore(0, &pending.bytes).unwrap()
    }

    /// Returns the honest vectors, with the last `n_hostile` replaced by hostile ones.
    fn with_hostile(crowd: &Crowd, attack: Attack, n_hostile: usize) -> Vec<Vec<f64>> {
        let honest = &crowd.vectors[..crowd.vectors.len() - n_hostile];
        let hostile = crowd.attack(attack, &directions(honest));
        let hostile = std::iter::repeat_n(hostile, n_hostile);
        honest.iter().cloned().chain(hostile).collect()
    }

    fn directions(vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let direction = |v: &Vec<f64>| v.iter().map(|x| x / norm(v)).collect();
        vectors.iter().map(direction).collect()
    }

    /// Returns ρ, the norm of the mean of the vectors' directions.
    fn likeness(vectors: &[Vec<f64>]) -> f64 {
        norm(&moments(&directions(vectors)).0)
    }

    /// Returns the losses of a sum with `n_hostile` hostile agents, one per repetition.
    fn losses(crowds: &[Crowd], sum: Sum, attack: Attack, n_hostile: usize) -> Vec<f64> {
        crowds.iter().map(|crowd| crowd.loss_of(sum, 1.0, attack, n_hostile)).collect()
    }

    /// The sum tolerates one fifth of hostile agents if vectors are clipped at the honest vectors'
    /// median norm or below, and the estimated breakdown point is above a fifth. Clipped at ten
    /// times that norm, a hostile vector weighs as much as ten honest ones, and the estimate
    /// reflects this.
    #[test]
    fn the_bound_on_vectors_is_what_withstands() {
        const N_HOSTILE: usize = 12;
        let crowds: Vec<Crowd> = (0..12).map(|seed| Crowd::new(seed, ALIKE)).collect();
        for (times, is_withstood) in [(0.1, true), (1.0, true), (10.0, false)] {
            let (mut clean, mut attacked) = (Vec::new(), Vec::new());
            for crowd in &crowds {
                let mut norms: Vec<f64> = crowd.vectors.iter().map(|v| norm(v)).collect();
                norms.sort_by(f64::total_cmp);
                let max_norm = times * norms[norms.len() / 2];
                let honest = crowd.reader(&release(EXACT, max_norm, &crowd.vectors, 0));
                let found = honest.alignment(max_norm).breakdown();
                assert_eq!(found > 0.2, is_withstood, "{times}: {found}");
                clean.push(crowd.loss_of(EXACT, max_norm, Attack::Flip, 0));
                attacked.push(crowd.loss_of(EXACT, max_norm, Attack::Flip, N_HOSTILE));
            }
            let (above, error) = beyond(&attacked, &clean, 2.0);
            eprintln!("{times}: {:.2}, attacked {:.2}", mean(&clean).0, mean(&attacked).0);
            assert_eq!(above <= 2.0 * error, is_withstood, "{times}: {above} ± {error}");
        }
    }

    /// Below 0.8 b, with b = ρ/(1 + ρ), the loss is less than twice that without an attack. Beyond
    /// b it is not, except for ALIE. A share s of hostile agents leaves 1 − s/b of the signal. An
    /// attack on a noisy sum costs no more than a noise multiplier of z/(1 − s/b) without an
    /// attack.
    #[test]
    #[ignore = "long: run by cargo xtask test --long"]
    fn breakdown_of_private_sums() {
        let mut failed = Vec::new();
        for difference in [ALIKE, UNLIKE] {
            let crowds: Vec<Crowd> =
                (0..N_REPEATS).map(|seed| Crowd::new(seed, difference)).collect();
            let likeness: Vec<f64> = crowds.iter().map(|c| likeness(&c.vectors)).collect();
            let (rho, error) = mean(&likeness);
            let breakdown = rho / (1.0 + rho);
            eprintln!("rho = {rho:.3} ± {error:.3}, rho/(1 + rho) = {breakdown:.3}");
            eprintln!("| attack | sum | 0 | .1 | .2 | .3 | .4 | .45 |");
            for (attack, sum) in ATTACKS.into_iter().flat_map(|a| SUMS.map(|s| (a, s))) {
                let clean = losses(&crowds, sum, attack, 0);
                let mut row = format!("| {attack:?} | {} |", sum.name());
                for n_hostile in HOSTILE {
                    let attacked = losses(&crowds, sum, attack, n_hostile);
                    let (loss, error) = mean(&attacked);
                    row += &format!(" {loss:.2} ± {error:.2}");
                    let share = n_hostile as f64 / f64::from(N_AGENTS);
                    let left = 1.0 - share / breakdown;
                    let (bound, times) = match sum {
                        Sum::Noise(z) if sum == NOISY && left > 0.0 => {
                            (losses(&crowds, Sum::Noise(z / left), attack, 0), 1.0)
                        }
                        _ => (clean.clone(), 2.0),
                    };
                    if sum == NOISY && left > 0.0 {
                        row += &format!(" ({:.2})", mean(&bound).0);
                    }
                    row += " |";
                    let (beyond, error) = beyond(&attacked, &bound, times);
                    if share < 0.8 * breakdown && beyond > 2.0 * error {
                        failed.push(format!("{row} {beyond:.3} ± {error:.3}"));
                    }
                    let breaks = attack != Attack::Alie && share > breakdown;
                    if breaks && beyond <= 2.0 * error {
                        failed.push(format!("{row} does not break: {beyond:.3} ± {error:.3}"));
                    }
                }
                eprintln!("{row}");
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }
}

mod clear {
    //! FTS, where all agents read all messages. One agent is attacked, and uses others' messages
    //! with probability 1/√t.

    use super::*;

    const N_SENDERS: u32 = 20;
    const N_POINTS: usize = 800;
    const N_INITIAL: usize = 3;
    const N_ROUNDS: u64 = 30;
    const N_REPEATS: u64 = 100;
    /// Number of earlier trials of the other agents.
    const N_TRIALS: usize = 30;
    const HOSTILE: [u32; 4] = [0, 4, 10, 16];

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Attack {
        /// An honest agent's negated message.
        Flip,
        /// The attacked agent's last message, which all agents received, with a peak at the worst
        /// point.
        Mimic,
        /// Like `Mimic`, with the message of the current round, which only the relay has.
        MimicByRelay,
    }

    /// An attacked agent, the other agents, and the worst point.
    struct Scene {
        objective: Objective,
        shared: Arc<FeatureMap>,
        honest: Vec<Fts>,
        /// φ at the worst point.
        worst: Vec<f64>,
        stream: Stream,
    }

    fn settings(local_prob: LocalProb, agent_sampling: AgentSampling) -> FtsSettings {
        FtsSettings {
            own: ThompsonSettings {
                repeats: Repeats::for_study(true),
                ..own(DIM, LENGTHSCALE, OwnSampler::Features(N_FEATURES as usize))
            },
            local_prob,
            agent_sampling,
            message: MessageSettings::default(),
        }
    }

    impl Scene {
        fn new(seed: u64, is_expressed: bool) -> Self {
            let mut family = Family::new(seed, N_POINTS, is_expressed);
            let values = family.member(ALIKE);
            let honest = (0..N_SENDERS).map(|_| {
                let values = family.member(ALIKE);
                let domain = Domain::Finite(Arc::clone(&family.points));
                let settings = settings(SCHEDULE, AgentSampling::Uniform);
                let seed = Seed::new(0);
                let mut agent =
                    Fts::new(domain, settings, Arc::clone(&family.shared), seed).unwrap();
                agent.tell(&family.trials(&values, N_TRIALS, 0.1)).unwrap();
                agent
            });
            let honest = honest.collect();
            let negative: Vec<f64> = family.values(&family.common).iter().map(|v| -v).collect();
            let worst = family.shared.features(family.points.row(index_of_largest(&negative)));
            let objective = Objective { seed, points: family.points, values };
            Self { objective, honest, worst, shared: family.shared, stream: family.stream }
        }

        /// Plays the attacked agent. With `None` it works alone.
        fn play(mut self, how: Option<&(AgentSampling, Attack, u32)>) -> Cost {
            let alone = (AgentSampling::Uniform, Attack::Flip, 0);
            let (sampling, attack, n_hostile) = how.unwrap_or(&alone).clone();
            let local_prob = if how.is_none() { LocalProb::Constant(1.0) } else { SCHEDULE };
            let plan = (N_INITIAL, N_ROUNDS);
            let agent = victim(&self.objective, &self.shared, settings(local_prob, sampling), plan);
            let n_honest = N_SENDERS - n_hostile;
            let (honest, stream) = (&self.honest, &mut self.stream);
            let draw = |sender: u32, stream: &mut Stream| {
                honest[sender as usize].weight_sample(stream).unwrap()
            };
            let mut known = draw(0, stream);
            let others = |update: &AgentUpdate| -> Vec<AgentUpdate> {
                let sent = std::mem::replace(&mut known, update.weights.to_vec());
                let copied = if attack == Attack::Mimic { &sent } else { &update.weights };
                let points = &self.objective.points;
                let peak = spiked(&self.shared, points, copied, &self.worst);
                let message = |sender: u32| {
                    let weights = match attack {
                        _ if sender < n_honest => draw(sender, stream),
                        Attack::Flip => draw(sender, stream).iter().map(|w| -w).collect(),
                        Attack::Mimic | Attack::MimicByRelay => peak.clone(),
                    };
                    AgentUpdate { sender: sender + 1, weights: weights.into(), ..update.clone() }
                };
                (0..N_SENDERS).map(message).collect()
            };
            let relay = relay(&self.shared, N_SENDERS + 1);
            let reached = play(&self.objective, agent, relay, others);
            assert_eq!(reached.n_refused, 0);
            let values = &self.objective.values;
            let n = values.len() as f64;
            let average = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / n;
            let misled = reached.senders.iter().filter(|sender| **sender > n_honest);
            let n_misled = misled.count() as f64;
            Cost { regret: reached.regret_a_query / variance.sqrt(), n_misled }
        }
    }

    /// Cost of an agent's queries.
    struct Cost {
        /// Regret per query, in standard deviations of the agent's function.
        regret: f64,
        /// Number of queries at points chosen by hostile agents.
        n_misled: f64,
    }

    /// Returns the function with these weights, raised around the worst point to three times its
    /// largest value.
    fn spiked(map: &FeatureMap, points: &Points, weights: &[f64], worst: &[f64]) -> Vec<f64> {
        let values = WeightSpaceSample::new(map, weights).unwrap().values(points);
        let largest = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
        let there: f64 = worst.iter().zip(weights).map(|(a, b)| a * b).sum();
        let size = (3.0 * largest - there) / norm(worst).powi(2);
        weights.iter().zip(worst).map(|(w, x)| w + size * x).collect()
    }

    /// Returns the regret per query in each repetition, and the mean number of queries at points
    /// chosen by hostile agents.
    fn regrets(n: u64, how: Option<&(AgentSampling, Attack, u32)>) -> (Vec<f64>, f64) {
        regrets_where(false, n, how)
    }

    /// Like `regrets`, with shared features that represent the functions exactly or in part.
    fn regrets_where(
        is_expressed: bool,
        n: u64,
        how: Option<&(AgentSampling, Attack, u32)>,
    ) -> (Vec<f64>, f64) {
        let costs = (0..n).map(|seed| Scene::new(seed, is_expressed).play(how));
        let costs: Vec<Cost> = costs.collect();
        let n_misled = costs.iter().map(|cost| cost.n_misled).sum::<f64>() / n as f64;
        (costs.iter().map(|cost| cost.regret).collect(), n_misled)
    }

    const LEARNED: AgentSampling = AgentSampling::Learned { sharpness: 2.0 };

    /// Four fifths of all senders copy the attacked agent's message and add a peak. With learned
    /// P_N, the regret is less than twice that without an attack. With uniform P_N, it is larger.
    #[test]
    fn a_mimic_is_withstood_by_learned_sampling() {
        const N_SHORT: u64 = 20;
        for (sampling, is_withstood) in [(LEARNED, true), (AgentSampling::Uniform, false)] {
            let how = |n_hostile| (sampling.clone(), Attack::Mimic, n_hostile);
            let (clean, _) = regrets(N_SHORT, Some(&how(0)));
            let (attacked, n_misled) = regrets(N_SHORT, Some(&how(16)));
            let times = if is_withstood { 2.0 } else { 1.5 };
            let (above, error) = beyond(&attacked, &clean, times);
            let figures = format!("{sampling:?}: {above:.2} ± {error:.2}, misled {n_misled:.1}");
            eprintln!("{figures}");
            let holds = if is_withstood { above < -2.0 * error } else { above > 2.0 * error };
            assert!(holds, "{figures}");
        }
    }

    /// With a fifth of hostile senders, the regret per query is less than twice that without an
    /// attack. With learned P_N this also holds for four fifths, for all attacks: negated messages
    /// leave the agent no worse off than alone, and copies of its own message with a peak mislead
    /// it in fewer than two of 30 queries. With uniform P_N, four fifths leave it worse off than
    /// alone.
    #[test]
    #[ignore = "long: run by cargo xtask test --long"]
    fn breakdown_of_messages_in_clear() {
        let (alone, _) = regrets(N_REPEATS, None);
        let (regret, error) = mean(&alone);
        eprintln!("alone: {regret:.2} ± {error:.2}");
        eprintln!("| P_N | attack | 0 | 4 of 20 | 10 | 16 | 16 less alone | 16 less 0 | misled |");
        let mut failed = Vec::new();
        for sampling in [AgentSampling::Uniform, LEARNED] {
            let (clean, _) = regrets(N_REPEATS, Some(&(sampling.clone(), Attack::Flip, 0)));
            for attack in [Attack::Flip, Attack::Mimic, Attack::MimicByRelay] {
                let name = if sampling == LEARNED { "learned" } else { "uniform" };
                let mut row = format!("| {name} | {attack:?} |");
                let mut is_so = |holds: bool, row: &str, what: &str| {
                    if !holds {
                        failed.push(format!("{row}: {what}"));
                    }
                };
                for n_hostile in HOSTILE {
                    let how = (sampling.clone(), attack, n_hostile);
                    let (attacked, n_misled) = regrets(N_REPEATS, Some(&how));
                    let (regret, error) = mean(&attacked);
                    row += &format!(" {regret:.2} ± {error:.2} |");
                    let (above, error) = beyond(&attacked, &clean, 2.0);
                    let is_learned = sampling == LEARNED;
                    if is_learned || n_hostile == 4 {
                        is_so(above <= 2.0 * error, &row, "more than twice as much as without");
                    }
                    if n_hostile < 16 {
                        continue;
                    }
                    let (lost, lost_error) = beyond(&attacked, &alone, 1.0);
                    let (cost, cost_error) = beyond(&attacked, &clean, 1.0);
                    row += &format!(
                        " {lost:+.2} ± {lost_error:.2} | {cost:+.2} ± {cost_error:.2} | {n_misled:.1} |"
                    );
                    match (is_learned, attack) {
                        (true, Attack::Flip) => {
                            is_so(lost <= 2.0 * lost_error, &row, "worse than alone");
                        }
                        (true, _) => is_so(n_misled < 2.0, &row, "two queries of 30 or more"),
                        (false, _) => is_so(lost > 2.0 * lost_error, &row, "it does not break"),
                    }
                }
                eprintln!("{row}");
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
        // If features represent all functions, a mimic removes the benefit of the others and
        // nothing more.
        let (alone, _) = regrets_where(true, N_REPEATS, None);
        let of = |n_hostile| {
            let how = (LEARNED, Attack::Mimic, n_hostile);
            regrets_where(true, N_REPEATS, Some(&how))
        };
        let ((clean, _), (attacked, n_misled)) = (of(0), of(16));
        let figures = [&alone, &clean, &attacked].map(|values| mean(values));
        let (lost, error) = beyond(&attacked, &alone, 1.0);
        eprintln!(
            "features that express the functions: alone, nobody hostile, 16 of 20: {figures:.2?}"
        );
        eprintln!("16 less alone: {lost:+.2} ± {error:.2}, misled {n_misled:.1}");
        assert!(lost <= 2.0 * error, "{lost} ± {error}");
    }
}
