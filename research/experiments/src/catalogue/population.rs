//! Sessions of many DP-FTS-DE agents in one process, with simulated noise. None of their results
//! are private.
//!
//! [`CollaborationMode`] contains the differences between the arms of an experiment. The experiment
//! defines the agents' objectives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_federated::dp_fts_de::{
    AggregateUse, DpFtsDe, DpFtsDeSettings, ExplorationWeights, Memory, region_sizes,
};
use fedbo_gp::{FeatureMap, FeatureSampling};
use fedbo_objective::Outcome;
use fedbo_privacy::accounting::{Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, PaperMechanism, PaperSampling, PaperSettings, SimNoise, WeightMax,
};
use fedbo_protocol::{Aggregator, LatticeRounds, PaperRounds, ReleaseSchedule, RoundMechanism};
use fedbo_report::Row;
use fedbo_space::Point;
use fedbo_strategies::{
    Domain, LocalProb, MessageContent, MessageSettings, Partition, Source, ThompsonSettings,
};
use fedbo_streams::Seed;

use fedbo_runner::RowLabels;
use fedbo_runner::UnchargedReleases;
use fedbo_runner::{Ended, Member, Observer, TrialRecord, run_session};

/// The mechanism of the releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Release {
    /// The paper's mechanism (Algorithm 1 lines 5-11), in floating point. z = 0 with q = 1 is
    /// FTS-DE, or FTS with one region.
    Paper {
        /// q, and the sampling scheme of agents.
        sampling: PaperSampling,
        /// z ≥ 0.
        noise_multiplier: f64,
        /// S.
        max_norm: f64,
    },
    /// Region sums on the lattice.
    Lattice {
        /// q.
        sampling_rate: f64,
        /// z > 0.
        noise_multiplier: f64,
        /// S.
        max_norm: f64,
    },
}

impl Release {
    /// Returns q.
    pub(super) fn sampling_rate(&self) -> f64 {
        match self {
            Self::Paper { sampling, .. } => sampling.rate().get(),
            Self::Lattice { sampling_rate, .. } => *sampling_rate,
        }
    }
}

/// A mode of collaboration between agents, which defines an arm.
#[derive(Clone, Debug)]
pub(super) struct CollaborationMode {
    /// P.
    pub n_regions: u32,
    /// True if initial points are in the agent's region, false if they can be anywhere.
    pub regional_start: bool,
    /// M.
    pub n_features: usize,
    /// The method that samples the features' frequencies.
    pub sampling: FeatureSampling,
    /// φ_n^(i).
    pub emphasis: ExplorationWeights,
    /// p_t.
    pub local_prob: LocalProb,
    /// The rule that adapts p_t.
    pub trust: AggregateUse,
    /// The settings of a message.
    pub message: MessageSettings,
    /// The weights of past releases.
    pub memory: Memory,
    /// The mechanism of the releases.
    pub release: Release,
    /// Number of releases, in rounds 0, k, 2k, ….
    pub n_releases: u64,
    /// k.
    pub every: u64,
}

impl CollaborationMode {
    /// Returns the same mode without received data: Thompson sampling alone, with the same initial
    /// points.
    pub(super) fn alone(self) -> Self {
        let n_releases = 1; // unused
        Self { local_prob: LocalProb::Constant(1.0), n_releases, ..self }
    }

    /// Returns the same mode with a different message content.
    pub(super) fn with_content(&self, content: MessageContent) -> Self {
        Self { message: MessageSettings { content, ..self.message }, ..self.clone() }
    }

    /// Returns the same mode with messages that are all zero, so that a release is pure noise.
    pub(super) fn silent(&self) -> Self {
        self.with_content(MessageContent::Zero)
    }

    /// Returns the sizes of the regions for slots 0 to N − 1. Slot n belongs to region n mod P.
    pub(super) fn region_sizes(&self, n_agents: usize) -> Vec<usize> {
        region_sizes(n_agents, self.n_regions as usize)
    }

    /// Returns the privacy event of one release as if its noise were not simulated, or `None`
    /// without noise.
    pub(super) fn event(&self, n_agents: usize) -> anyhow::Result<Option<PrivacyEvent>> {
        let (sampling, multiplier) = match self.release {
            Release::Paper { sampling, noise_multiplier, .. } => (sampling, noise_multiplier),
            Release::Lattice { sampling_rate, noise_multiplier, .. } => {
                let rate = SamplingRate::new(sampling_rate)?;
                (PaperSampling::Poisson(rate), noise_multiplier)
            }
        };
        if multiplier <= 0.0 {
            return Ok(None);
        }
        let noise = Noise::Gaussian(NoiseMultiplier::new(multiplier)?);
        let n_agents = u32::try_from(n_agents)?;
        let sampling = match sampling {
            PaperSampling::Poisson(rate) => Sampling::Poisson(rate),
            PaperSampling::FixedSize(rate) => Sampling::WithoutReplacement {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at most n_agents"
                )]
                n_sampled: (rate.get() * f64::from(n_agents)) as u32,
                n_agents,
            },
        };
        Ok(Some(PrivacyEvent { sampling, noise }))
    }

    /// Returns the ratio of the norm of the noise in one region of a release to the largest norm of
    /// its signal: √M z C over q N_i C for sums, and √M z φ_max S over C for weighted averages
    /// (C = S/√P).
    pub(super) fn noise_to_signal(&self, n_agents: usize) -> f64 {
        let root = (self.n_features as f64).sqrt();
        let sizes = self.region_sizes(n_agents);
        let size = sizes.iter().copied().min().unwrap_or(0) as f64;
        match self.release {
            Release::Lattice { sampling_rate, noise_multiplier, .. } => {
                root * noise_multiplier / (sampling_rate * size)
            }
            Release::Paper { sampling, noise_multiplier, .. } => {
                let weight = |size| self.emphasis.weights(0, size, n_agents).0;
                let largest = sizes.iter().map(|size| weight(*size)).fold(0.0, f64::max);
                let regions = f64::from(self.n_regions).sqrt();
                root * noise_multiplier * largest * regions / sampling.rate().get()
            }
        }
    }

    /// Returns the partition of the cube into the regions that agents explore at the start.
    pub(super) fn start_partition(&self, dim: usize) -> anyhow::Result<Partition> {
        let n_regions = if self.regional_start { self.n_regions } else { 1 };
        Ok(Partition::of_cube(dim, n_regions)?)
    }

    /// Creates a strategy for this mode.
    pub(super) fn strategy(
        &self,
        domain: Domain,
        own: ThompsonSettings,
        map: Arc<FeatureMap>,
        n_agents: usize,
        seed: Seed,
    ) -> anyhow::Result<DpFtsDe> {
        let settings = DpFtsDeSettings {
            own,
            local_prob: self.local_prob.clone(),
            trust: self.trust,
            message: self.message,
            partition: Partition::of_cube(domain.dim(), self.n_regions)?,
            region_sizes: self.region_sizes(n_agents),
            emphasis: self.emphasis,
            sampling_rate: self.release.sampling_rate(),
            memory: self.memory,
        };
        Ok(DpFtsDe::new(domain, settings, map, seed)?)
    }

    /// Runs members to the end of their plans. `seed` determines noise and sampling.
    pub(super) fn run(
        &self,
        members: &mut [Member<DpFtsDe>],
        map: &FeatureMap,
        seed: &Seed,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> anyhow::Result<Ended> {
        let n_slots = u32::try_from(members.len())?;
        let n_features = u32::try_from(self.n_features)?;
        let mut bytes = [0; 32];
        let mut stream = seed.stream(fedbo_protocol::SIMULATED_NOISE, 0, 0);
        for chunk in bytes.chunks_exact_mut(4) {
            chunk.copy_from_slice(&stream.bits().to_le_bytes());
        }
        let source = SimNoise::new(bytes);
        let uniform_from = self.emphasis.uniform_from().unwrap_or(u64::MAX);
        let schedule = ReleaseSchedule::new(self.n_releases, self.every, uniform_from)?;
        match self.release {
            Release::Paper { sampling, noise_multiplier, max_norm } => {
                let mechanism = PaperMechanism::new(PaperSettings {
                    n_slots,
                    n_regions: self.n_regions,
                    n_features,
                    max_norm,
                    sampling,
                    noise_multiplier,
                    weight_max: WeightMax::Overall,
                })?;
                let (emphasis, n_regions) = (self.emphasis, self.n_regions as usize);
                let n_agents = members.len();
                let weights = move |round| emphasis.agent_weights(round, n_agents, n_regions);
                let rounds = PaperRounds::new(mechanism, weights, source);
                drive(members, rounds, schedule, map, observer, stop)
            }
            Release::Lattice { sampling_rate, noise_multiplier, max_norm } => {
                let mechanism = Mechanism::new(MechanismSettings {
                    n_slots,
                    n_regions: self.n_regions,
                    n_features,
                    max_norm,
                    sampling_rate: SamplingRate::new(sampling_rate)?,
                    noise_multiplier: NoiseMultiplier::new(noise_multiplier)?,
                })?;
                let rounds = LatticeRounds::new(mechanism, schedule, source);
                drive(members, rounds, schedule, map, observer, stop)
            }
        }
    }
}

fn drive<M: RoundMechanism>(
    members: &mut [Member<DpFtsDe>],
    rounds: M,
    schedule: ReleaseSchedule,
    map: &FeatureMap,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> anyhow::Result<Ended> {
    let mut coordinator = Aggregator::new(rounds, schedule, map.hash(), None);
    let store = &mut UnchargedReleases;
    Ok(run_session(members, Vec::new(), &mut coordinator, store, observer, stop)?)
}

/// Function that returns an agent's true value at a point.
pub(super) type TrueObjective<'a> = Box<dyn Fn(u32, &Point) -> f64 + Sync + 'a>;

/// Means over agents for each wave, which replace the agents' single trials in the results.
pub(super) struct PopulationMean<'a> {
    unit: RowLabels,
    /// Best value of each agent so far.
    best: BTreeMap<u32, f64>,
    /// The best possible true value of each agent, the true value at a point, and each agent's
    /// smallest regret so far.
    truth: Option<(Vec<f64>, TrueObjective<'a>)>,
    regret: BTreeMap<u32, f64>,
    iteration: i64,
    rows: Vec<Row>,
}

impl<'a> PopulationMean<'a> {
    /// Creates a mean over agents with `n_initial` initial points. `unit.agent` is the label of the
    /// mean. With `truth` (optima by agent, and the value of an agent at a point), regret is
    /// recorded.
    pub(super) fn new(
        unit: RowLabels,
        n_initial: usize,
        truth: Option<(Vec<f64>, TrueObjective<'a>)>,
    ) -> Self {
        Self {
            unit,
            best: BTreeMap::new(),
            truth,
            regret: BTreeMap::new(),
            iteration: 1 - i64::try_from(n_initial).unwrap_or(i64::MAX),
            rows: Vec::new(),
        }
    }

    /// Returns one row per wave.
    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

impl Observer for PopulationMean<'_> {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (mut sum, mut seconds, mut from_aggregate, mut n_values) = (0.0, 0.0, 0_usize, 0_usize);
        for record in records {
            seconds += record.ask_seconds;
            from_aggregate += usize::from(matches!(record.trial.source, Source::Region { .. }));
            let Outcome::Value(value) = record.outcome else {
                continue;
            };
            sum += value;
            n_values += 1;
            let best = self.best.entry(record.agent).or_insert(f64::NEG_INFINITY);
            *best = best.max(value);
            if let Some((optima, truth)) = &self.truth {
                let regret = optima[record.agent as usize] - truth(record.agent, &record.point);
                let least = self.regret.entry(record.agent).or_insert(f64::INFINITY);
                *least = least.min(regret);
            }
        }
        let mean = |sum: f64, n: usize| (n > 0).then(|| sum / n as f64);
        self.rows.push(Row {
            experiment: self.unit.experiment.clone(),
            arm: self.unit.arm.clone(),
            agent: self.unit.agent.clone(),
            run: self.unit.run,
            iteration: self.iteration,
            source: if self.iteration <= 0 {
                Source::Initial.to_string()
            } else {
                format!("{from_aggregate} of {} from aggregates", records.len())
            },
            parameters: Vec::new(),
            value: mean(sum, n_values),
            best: mean(self.best.values().sum(), self.best.len()),
            regret: mean(self.regret.values().sum(), self.regret.len()),
            ask_seconds: seconds / records.len() as f64,
            status: Row::ok_status(),
        });
        self.iteration += 1;
        Ok(())
    }
}
