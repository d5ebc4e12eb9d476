//! The agent of DP-FTS-DE (Algorithm 2).

use std::fmt;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Aggregate, AggregateHandout, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, LocalProb, Maximizer, MessageSettings, Observation, Partition, Points,
    Proposal, RegionFunction, Source, Strategy, StrategyError, Surrogate, ThompsonSampling,
    ThompsonSettings,
};
use fedbo_streams::{Seed, Stream};

use super::{ExplorationWeights, Memory};
use crate::Alignment;
use crate::belief::Belief;

/// The rule for how often the aggregate is used, given p_t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateUse {
    /// With probability 1 − p_t (Algorithm 2, lines 5–8).
    Schedule,
    /// With probability (1 − p_t) s, where s is the fraction of the belief's energy that is not
    /// noise. s is computed from the releases and the announced noise, so it has no privacy cost.
    /// Releases with less signal are used less often.
    Signal,
}

/// Settings of a [`DpFtsDe`] agent.
#[derive(Clone, Debug)]
pub struct DpFtsDeSettings {
    /// The agent's own model and queries. The paper uses Thompson sampling.
    pub own: ThompsonSettings,
    /// p_t. The paper's schedules are [`LocalProb::Power`].
    pub local_prob: LocalProb,
    /// The rule that adapts p_t to the signal in the releases.
    pub trust: AggregateUse,
    /// Settings of the agent's messages.
    pub message: MessageSettings,
    /// The sub-regions. With P = 1, the algorithm is DP-FTS.
    pub partition: Partition,
    /// Number of agents on the roster that are assigned to each region (P entries).
    pub region_sizes: Vec<usize>,
    /// φ_n^(i).
    pub emphasis: ExplorationWeights,
    /// q, the divisor of sums.
    pub sampling_rate: f64,
    /// The weighting of past releases.
    pub memory: Memory,
}

/// One agent of DP-FTS-DE.
///
/// In step t, with probability p_t, a sample from the agent's own posterior determines the query
/// (Algorithm 2, line 6). Otherwise, x_t = argmax φ(x)·ω^(i) over all regions i and x in region i
/// (line 8). Before the first release, and if a release is uninformative (all weights are 0), the
/// agent's own posterior is sampled. As an extension of the paper, with
/// [`OwnQuery::LogEi`](fedbo_strategies::OwnQuery) the log expected improvement is maximized
/// instead of sampling the posterior.
///
/// Deviations: the weights and normalizers are applied here, to region sums. Because each agent is
/// assigned to exactly one region, the region sums contain the same information as the paper's P
/// weighted copies, and their noise is smaller by a factor of √P. A coordinator in the paper's mode
/// sends [`Weighted`](fedbo_protocol::AggregateContent::Weighted).
#[derive(Clone)]
pub struct DpFtsDe {
    own: ThompsonSampling,
    local_prob: LocalProb,
    trust: AggregateUse,
    message: MessageSettings,
    maximizer: Maximizer,
    partition: Partition,
    map: Arc<FeatureMap>,
    belief: Belief,
    n_steps: u64,
}

impl fmt::Debug for DpFtsDe {
    /// Prints only counts, so that observations and weights never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DpFtsDe {{ steps: {}, regions: {}, newest release: {:?} }}",
            self.n_steps,
            self.partition.n_regions(),
            self.belief.round()
        )
    }
}

impl DpFtsDe {
    /// Creates an agent without observations. `map` is the federation's shared feature map.
    /// Hyperparameter fits use `seed`.
    ///
    /// # Errors
    /// If a setting is out of range, or if dimensions or numbers of regions do not match.
    pub fn new(
        domain: Domain,
        settings: DpFtsDeSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        StrategyError::ensure(
            map.dim() == domain.dim() && settings.partition.dim() == domain.dim(),
            "dimension of the shared features and regions",
            map.dim(),
            "the dimension of the domain",
        )?;
        let sizes = &settings.region_sizes;
        StrategyError::ensure(
            sizes.len() == settings.partition.n_regions() && sizes.iter().any(|n| *n > 0),
            "number of region sizes",
            sizes.len(),
            "one per region, not all 0",
        )?;
        StrategyError::ensure(
            settings.sampling_rate > 0.0 && settings.sampling_rate <= 1.0,
            "sampling_rate",
            settings.sampling_rate,
            "above 0 and at most 1",
        )?;
        if let Memory::Mean { discount } = settings.memory
            && !(discount > 0.0 && discount <= 1.0)
        {
            return Err(StrategyError::setting(
                "discount of past releases",
                discount,
                "above 0 and at most 1",
            ));
        }
        let belief = Belief::new(
            settings.emphasis.validate()?,
            settings.memory,
            settings.sampling_rate,
            settings.region_sizes,
            map.n_features(),
        );
        Ok(Self {
            maximizer: settings.own.maximizer.clone(),
            own: ThompsonSampling::new(domain, settings.own, seed)?,
            local_prob: settings.local_prob.validate()?,
            trust: settings.trust,
            message: settings.message.validate()?,
            partition: settings.partition,
            map,
            belief,
            n_steps: 0,
        })
    }

    /// Adds a release. Returns false and changes nothing if the release has the wrong shape,
    /// contains a number that is far out of range or not finite, or is not newer than the last
    /// release.
    pub fn receive(&mut self, aggregate: &Aggregate) -> bool {
        self.belief.take(aggregate)
    }

    /// Returns the weights ω^(i) of each region's function (P×M), or `None` before the first
    /// release.
    pub fn region_weights(&self) -> Option<Vec<Vec<f64>>> {
        self.belief.weights()
    }

    /// Returns the fraction of the releases' energy that is not noise, in `[0, 1]`:
    /// 1 − E‖noise‖²/‖ω‖².
    pub fn signal_share(&self) -> f64 {
        self.belief.energy().signal_share()
    }

    /// Estimates the alignment of all agents' vectors from the releases, where S = `max_norm`.
    pub fn alignment(&self, max_norm: f64) -> Alignment {
        self.belief.energy().alignment(max_norm)
    }

    /// Returns the sub-regions.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns p_t for the next step, adapted to the signal if the settings require it.
    fn local_probability(&self) -> f64 {
        let scheduled = self.local_prob.at(self.n_steps + 1);
        match self.trust {
            AggregateUse::Schedule => scheduled,
            AggregateUse::Signal => 1.0 - (1.0 - scheduled) * self.signal_share(),
        }
    }
}

impl Collaborator for DpFtsDe {
    fn domain(&self) -> &Domain {
        self.own.domain()
    }

    fn own(&self) -> &Surrogate {
        self.own.surrogate()
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        self.message.draw(&self.map, self.own.surrogate(), stream)
    }
}

impl Strategy for DpFtsDe {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let local = stream.bernoulli(self.local_probability());
        let weights = self.belief.weights().filter(|_| !local);
        if let Some(weights) = weights
            && weights.iter().flatten().any(|w| *w != 0.0)
        {
            let function = RegionFunction::new(&self.map, &self.partition, &weights)?;
            let domain = self.own.domain();
            let candidates = function.candidates(domain, &self.maximizer, stream)?;
            let mut proposal = self.own.propose_among(
                candidates,
                Source::Region { region: 0 },
                pending,
                stream,
            )?;
            if let Source::Region { region } = &mut proposal.source {
                *region = self.partition.region_of(&proposal.unit);
            }
            return Ok(proposal);
        }
        self.own.propose_own(pending, stream)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.own.surrogate())
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.own.tell(observed)?;
        let queries = observed.iter().filter(|each| each.source != Source::Initial);
        self.n_steps += queries.count() as u64;
        Ok(())
    }
}

impl UsesHandouts for DpFtsDe {
    type Handout = AggregateHandout;

    /// Uses all releases, including those from rounds that the agent missed.
    fn take(&mut self, handout: AggregateHandout, own_id: u32) -> Vec<UpdateRejected> {
        let mut refused = Vec::new();
        for release in &handout.releases {
            if !self.receive(&release.aggregate) {
                refused
                    .push(UpdateRejected::Unfit { agent: own_id, round: release.aggregate.round });
            }
        }
        refused
    }
}
