//! The benefit of joining a private federation: a party joins others whose noisy sum was released
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory,
};
use fedbo_federated::shared_prior::{PrivatePriorAgent, PrivatePriorSettings};
use fedbo_gp::FeatureMap;
use fedbo_objective::Problem;
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, NoiseMultiplier, Sampling, SamplingRate, smallest_multiplier,
};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, SimNoise};
use fedbo_protocol::{Aggregate, LatticeRounds, ReleaseSchedule, RoundMechanism};
use fedbo_report::{Clusters, Metric, PrimaryComparison, SummaryRequest};
use fedbo_runner::RowLabels;
use fedbo_strategies::{
    Collaborator, Domain, LocalProb, LogEiSettings, MessageContent, MessageNoise, MessageSettings,
    OthersUse, Partition, SharedPrior, SharedPriorSettings, Strategy, ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};

use super::families::{self, Family};
use super::{
    N_FEATURES, N_ROUNDS, alone, everything_known, feature_map, figure, member, past, session_of,
    unit_seed,
};
use crate::catalogue::jobs::{AnyAgent, Job, check_primary, columns_of};
use crate::catalogue::{Call, ExperimentResult};

/// The families from which the joining parties come.
const FAMILIES: [&str; 2] = ["landmine", "digits"];
/// ε of the release at [`DELTA`].
const EPSILONS: [f64; 2] = [2.0, 4.0];
const DELTA: f64 = 1e-5;
/// N, the number of parties in a release.
const SIZES: [usize; 5] = [12, 25, 50, 100, 200];
/// The values of N at which every arm runs. At the other values, only the shared prior runs, to
/// find the smallest federation with a benefit.
const COMPARED: [usize; 2] = [50, 200];
/// M of DP-FTS-DE. Its noise grows with √M, that of the shared prior with √r.
const N_FEATURES_FTS: usize = 40;

/// A party's use of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    SharedPrior,
    DpFtsDe,
}

/// A release: its algorithm, its cost and its number of parties.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Released {
    algorithm: Algorithm,
    epsilon: f64,
    n_parties: usize,
    /// True if all vectors are zero, which is a control of pure noise.
    is_null: bool,
}

/// The strategy of the joining party.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arm {
    Joins(Released),
    /// Log expected improvement alone after `n_random` random points.
    LogEi {
        n_random: usize,
    },
    Ts,
}

/// The parties alone.
const ALONE: [Arm; 3] = [Arm::LogEi { n_random: 3 }, Arm::LogEi { n_random: 1 }, Arm::Ts];

impl Arm {
    /// Returns the arms of a panel. There is one panel per ε.
    fn of(epsilon: f64) -> Vec<Self> {
        let mut arms = ALONE.to_vec();
        for n_parties in SIZES {
            let released =
                Released { algorithm: Algorithm::SharedPrior, epsilon, n_parties, is_null: false };
            arms.push(Self::Joins(released));
            if COMPARED.contains(&n_parties) {
                arms.push(Self::Joins(Released { is_null: true, ..released }));
                arms.push(Self::Joins(Released { algorithm: Algorithm::DpFtsDe, ..released }));
            }
        }
        arms
    }

    fn name(self) -> String {
        match self {
            Self::LogEi { n_random: 1 } => "log-ei-1".into(),
            Self::LogEi { .. } => "log-ei".into(),
            Self::Ts => "ts".into(),
            Self::Joins(Released { algorithm, n_parties, is_null, .. }) => {
                let name = match (algorithm, is_null) {
                    (_, true) => "placebo",
                    (Algorithm::SharedPrior, false) => "dp-shared-prior",
                    (Algorithm::DpFtsDe, false) => "dp-fts-de",
                };
                format!("{name}, N = {n_parties}")
            }
        }
    }
}

/// The shared features of an algorithm in a repetition, and each party's vector for its task and
/// its own evaluations.
struct Known {
    map: Arc<FeatureMap>,
    /// Vectors by task and copy. Parties with the same task have different evaluations.
    vectors: BTreeMap<(usize, usize), Vec<f64>>,
}

pub(in crate::catalogue) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let folder = call.data_folder()?;
    let runs = call.runs();
    let mut families = families::all(folder)?;
    families.retain(|family| FAMILIES.contains(&family.name));
    let seed = call.seed();
    let known = everything_known(call, &families, vectors)?;
    let mut noise = Vec::new();
    for epsilon in EPSILONS {
        let budget = Budget::new(epsilon, Delta::new(DELTA)?)?;
        let sampling = Sampling::Poisson(SamplingRate::ALL);
        let found = smallest_multiplier(AccountantKind::Pld, sampling, 1, budget)?;
        noise.push((epsilon, found.value));
    }
    let columns = columns_of(families.iter().map(|family| family.tasks[0].space()));
    let writer = call.writer(&columns)?;
    let mut jobs = Vec::new();
    for (index, family) in families.iter().enumerate() {
        for (epsilon, multiplier) in &noise {
            for arm in Arm::of(*epsilon) {
                for run in 0..runs {
                    for task in 0..family.tasks.len() {
                        let unit = RowLabels::new(panel(family, *epsilon), arm.name(), "", run);
                        let (known, seed) = (&known, unit_seed(seed, index, run));
                        let job = Job::session(unit, move || {
                            // This code runs only if nothing was stopped, so all of `known` is
                            // present.
                            let [own, fts] = &known[&(index, run)];
                            let maps = |algorithm| match algorithm {
                                Algorithm::SharedPrior => own,
                                Algorithm::DpFtsDe => fts,
                            };
                            let (agent, map) =
                                joining(family, task, arm, *multiplier, &maps, seed)?;
                            let message_len = map.n_features();
                            let member = member(family, task, agent, N_ROUNDS, seed)?;
                            Ok(session_of(vec![member], Vec::new(), message_len, &map))
                        });
                        jobs.push(job.in_columns(&columns));
                    }
                }
            }
        }
    }
    let (primary, checkpoints) =
        (families.iter().flat_map(primary).collect::<Vec<_>>(), vec![3, 5, 10]);
    check_primary(&primary, &jobs, &checkpoints)?;
    let (rows, ended) = call.play("shared-prior-private", &jobs, writer)?;
    let request = SummaryRequest {
        checkpoints,
        primary,
        clusters: Clusters::Agents,
        private: Some(false),
        figure: Some(figure("A party joins others whose noisy sum was released once")),
        ..call.summary_request(
            "shared-prior-private",
            families[0].tasks[0].direction(),
            Metric::Best,
        )
    };
    call.conclude(&rows, ended, request, |_| pairs())
}

fn panel(family: &Family, epsilon: f64) -> String {
    format!("{}, epsilon = {epsilon}", family.name)
}

/// Returns the comparisons of a panel: every federation with a party alone and, if present, with
/// its pure noise and DP-FTS-DE.
fn pairs() -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for n_parties in SIZES {
        let own = format!("dp-shared-prior, N = {n_parties}");
        pairs.extend(ALONE[..2].iter().map(|alone| (own.clone(), alone.name())));
        if COMPARED.contains(&n_parties) {
            pairs.push((own.clone(), format!("placebo, N = {n_parties}")));
            pairs.push((own, format!("dp-fts-de, N = {n_parties}")));
        }
    }
    pairs
}

/// Returns the primary claims of the experiment: federations of both compared sizes beat `log-ei`,
/// their pure noise and DP-FTS-DE, at five and ten queries.
fn primary(family: &Family) -> Vec<PrimaryComparison> {
    let mut found = Vec::new();
    for epsilon in EPSILONS {
        for n_parties in COMPARED {
            let arm = format!("dp-shared-prior, N = {n_parties}");
            let of_arm = pairs().into_iter().filter(|(first, _)| *first == arm);
            for (arm, control) in of_arm.filter(|(_, control)| control != "log-ei-1") {
                found.extend([5, 10].map(|iteration| PrimaryComparison {
                    experiment: panel(family, epsilon),
                    arm: arm.clone(),
                    control: control.clone(),
                    iteration,
                }));
            }
        }
    }
    found
}

/// Computes shared features and the vectors of all parties, for a shared prior and for DP-FTS-DE.
/// Each task has as many parties as the largest federation needs.
fn vectors(family: &Family, seed: Seed) -> anyhow::Result<[Known; 2]> {
    let dim = family.tasks[0].space().dim();
    let map = |n_features| {
        anyhow::Ok(Known { map: feature_map(dim, n_features, seed)?, vectors: BTreeMap::new() })
    };
    let mut known = [map(N_FEATURES)?, map(N_FEATURES_FTS)?];
    let n_others = family.tasks.len() - 1;
    let n_copies = SIZES.into_iter().max().unwrap_or(0).div_ceil(n_others);
    for (task, problem) in family.tasks.iter().enumerate() {
        let problem = problem.as_ref();
        for copy in 0..n_copies {
            let seed = seed.child(Purpose::HISTORY, task as u64).child(Purpose::RUN, copy as u64);
            let history = past(problem, seed)?;
            let mut own = private_agent(problem, n_others, &known[0].map, seed)?;
            let mut fts = dp_fts_de(problem, n_others, &known[1].map, seed)?;
            let told: [&mut dyn Strategy; 2] = [&mut own, &mut fts];
            for each in told {
                each.tell(&history)?;
            }
            let senders: [&dyn Collaborator; 2] = [&own, &fts];
            for (known, sender) in known.iter_mut().zip(senders) {
                let mut stream = seed.stream(fedbo_protocol::WEIGHT_SAMPLE, 0, 0);
                known.vectors.insert((task, copy), sender.weight_sample(&mut stream)?);
            }
        }
    }
    Ok(known)
}

/// Returns the settings of a party's own model and search.
fn party(problem: &dyn Problem) -> SharedPriorSettings {
    let space = problem.space();
    SharedPriorSettings {
        own: LogEiSettings::for_agent(space, false),
        ..SharedPriorSettings::default_for(space.dim(), false)
    }
}

fn private_agent(
    problem: &dyn Problem,
    n_agents: usize,
    map: &Arc<FeatureMap>,
    seed: Seed,
) -> anyhow::Result<PrivatePriorAgent> {
    let settings = PrivatePriorSettings {
        party: party(problem),
        content: MessageContent::Mean,
        n_agents,
        sampling_rate: 1.0,
    };
    let domain = Domain::Space(problem.space().clone());
    Ok(PrivatePriorAgent::new(domain, settings, Arc::clone(map), seed)?)
}

/// Creates DP-FTS-DE as in the helpful setting of `dp-landmine`, with one region: few features,
/// means under large noise, one release.
fn dp_fts_de(
    problem: &dyn Problem,
    n_agents: usize,
    map: &Arc<FeatureMap>,
    seed: Seed,
) -> anyhow::Result<DpFtsDe> {
    let space = problem.space();
    let settings = DpFtsDeSettings {
        own: ThompsonSettings::default_for(space.dim()),
        local_prob: LocalProb::Power(1.0),
        trust: AggregateUse::Schedule,
        message: MessageSettings {
            content: MessageContent::Mean,
            noise_variance: MessageNoise::Given(1.0),
            standardize: true,
        },
        partition: Partition::whole(space.dim()),
        region_sizes: vec![n_agents],
        emphasis: ExplorationWeights::UNIFORM,
        sampling_rate: 1.0,
        memory: Memory::Latest,
    };
    Ok(DpFtsDe::new(Domain::Space(space.clone()), settings, Arc::clone(map), seed)?)
}

/// Creates the joining party with the release, and the features of the release.
fn joining<'a>(
    family: &Family,
    task: usize,
    arm: Arm,
    noise: NoiseMultiplier,
    known: &dyn Fn(Algorithm) -> &'a Known,
    seed: Seed,
) -> anyhow::Result<(AnyAgent, Arc<FeatureMap>)> {
    let problem = family.tasks[task].as_ref();
    let own_seed = seed.child(Purpose::AGENT, task as u64);
    let domain = Domain::Space(problem.space().clone());
    match arm {
        Arm::LogEi { n_random } => {
            let map = Arc::clone(&known(Algorithm::SharedPrior).map);
            let settings = SharedPriorSettings {
                others: OthersUse::Nothing,
                n_random_first: n_random,
                ..party(problem)
            };
            let agent = SharedPrior::new(domain.clone(), settings, Arc::clone(&map), own_seed)?;
            Ok((alone(agent, domain, &map), map))
        }
        Arm::Ts => {
            let map = Arc::clone(&known(Algorithm::DpFtsDe).map);
            let agent = dp_fts_de(problem, 1, &map, own_seed)?; // without a release: Thompson sampling
            Ok((alone(agent, domain, &map), map))
        }
        Arm::Joins(released) => {
            let known = known(released.algorithm);
            let map = Arc::clone(&known.map);
            let sum = release(family, task, released, noise, known, seed)?;
            let n = released.n_parties;
            let agent = match released.algorithm {
                Algorithm::SharedPrior => {
                    let mut agent = private_agent(problem, n, &map, own_seed)?;
                    anyhow::ensure!(agent.receive(&sum), "the release does not fit");
                    alone(agent, domain, &map)
                }
                Algorithm::DpFtsDe => {
                    let mut agent = dp_fts_de(problem, n, &map, own_seed)?;
                    anyhow::ensure!(agent.receive(&sum), "the release does not fit");
                    alone(agent, domain, &map)
                }
            };
            Ok((agent, map))
        }
    }
}

/// Returns the noisy sum of the vectors of N parties, taken cyclically from all tasks except one.
fn release(
    family: &Family,
    task: usize,
    released: Released,
    noise_multiplier: NoiseMultiplier,
    known: &Known,
    seed: Seed,
) -> anyhow::Result<Aggregate> {
    let n_features = known.map.n_features();
    let schedule = ReleaseSchedule::new(1, 1, 0)?;
    let mechanism = Mechanism::new(MechanismSettings {
        n_slots: u32::try_from(released.n_parties)?,
        n_regions: 1,
        n_features: u32::try_from(n_features)?,
        max_norm: 1.0,
        sampling_rate: SamplingRate::ALL,
        noise_multiplier,
    })?;
    let mut bytes = [0; 32];
    let mut stream = seed.stream(fedbo_protocol::SIMULATED_NOISE, task as u64, 0);
    for chunk in bytes.chunks_exact_mut(4) {
        chunk.copy_from_slice(&stream.bits().to_le_bytes());
    }
    let mut rounds = LatticeRounds::new(mechanism, schedule, SimNoise::new(bytes));
    let mut round = rounds.open(0)?;
    let others: Vec<usize> = (0..family.tasks.len()).filter(|other| *other != task).collect();
    let zeros = vec![0.0; n_features];
    for slot in 0..released.n_parties {
        let (copy, other) = (slot / others.len(), others[slot % others.len()]);
        let vector = if released.is_null { &zeros } else { &known.vectors[&(other, copy)] };
        rounds.receive(&mut round, u32::try_from(slot)?, vector)?;
    }
    let pending = rounds.close(round)?;
    Ok(rounds.restore(0, &pending.bytes)?)
}
