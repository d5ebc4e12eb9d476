//! The shared prior from noisy sums. Agents learn what their functions have in common, with
//! differential privacy.

use std::fmt;
use std::sync::Arc;

use fedbo_config::FileError;
use fedbo_gp::{FeatureDescription, FeatureMap, WeightPrior};
use fedbo_protocol::{Aggregate, AggregateHandout, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, MessageContent, Observation, OthersUse, Points, Proposal,
    ReleasedFunction, SharedPrior, SharedPriorSettings, Strategy, StrategyError, Surrogate,
    ThompsonSettings, meta::Transfer,
};
use fedbo_streams::{Seed, Stream};
use serde::Deserialize;

use super::{for_role, options};
use crate::alignment::Energy;
use crate::belief::Belief;
use crate::dp_fts_de::{ExplorationWeights, Memory};
use crate::{
    AgentSetup, Algorithm, Alignment, Alone, Arm, Exchange, PublicConfig, Read, Reading,
    ReleaseShape, Released, Role, Settings,
};

/// The registry entry.
pub const PRIVATE: Algorithm = Algorithm {
    name: "dp-shared-prior",
    summary: "agents learn a prior from noisy sums, with differential privacy",
    exchange: Exchange::Released,
    role: Role::Own,
    name_without_noise: Some("shared-mean"),
    tables: &["shared-prior"],
    compared_with: None,
    controls: &[Arm::LOG_EI],
    read: read_private,
};

/// Settings of a [`PrivatePriorAgent`].
#[derive(Clone, Debug)]
pub struct PrivatePriorSettings {
    /// Settings of the strategy. No messages are received, so best points and the probe do not
    /// apply.
    pub party: SharedPriorSettings,
    /// The content of vectors: [`MessageContent::Mean`] for the direction of the agent's estimate,
    /// or [`MessageContent::Zero`] or [`MessageContent::Placebo`] for a control.
    pub content: MessageContent,
    /// N.
    pub n_agents: usize,
    /// q, the divisor of sums.
    pub sampling_rate: f64,
}

/// An agent that learns a shared prior from released sums.
///
/// The agent sends the direction R w̄/‖w̄‖ of its estimate (M numbers with norm 1, see
/// [`SharedPrior::direction`]). A release contains the noisy sums of these directions over agents.
/// From the mean u of all releases, the agent computes the coefficients Rᵀ u (r numbers) and the
/// prior
///
/// m = c a Rᵀ u,   a = max(0, 1 − E‖noise‖²/‖Rᵀ u‖²),   Λ = λ I
///
/// The factor a corrects the length of the mean for noise (James & Stein 1961). a Rᵀu is limited to
/// length 1, because a mean of directions cannot be longer. Releases contain no second moment and
/// no best point, which would cost more privacy. A mean that is only noise (a = 0) is not used.
#[derive(Clone)]
pub struct PrivatePriorAgent {
    party: SharedPrior,
    map: Arc<FeatureMap>,
    content: MessageContent,
    belief: Belief,
}

impl fmt::Debug for PrivatePriorAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let newest = self.belief.round();
        write!(f, "PrivatePriorAgent {{ {:?}, newest release: {newest:?} }}", self.party)
    }
}

impl PrivatePriorAgent {
    /// S, the norm of a vector.
    pub const NORM: f64 = 1.0;
    /// c, the length of an agent's estimated coefficients before they are normalized to a
    /// direction.
    pub const MEAN_LENGTH: f64 = 4.0;
    /// λ.
    pub const VARIANCE: f64 = 0.5;

    /// Creates an agent without observations. All agents share `map`. Hyperparameter fits use
    /// `seed`.
    ///
    /// # Errors
    /// If [`SharedPrior::new`] fails, q is out of range, or there are no agents.
    pub fn new(
        domain: Domain,
        settings: PrivatePriorSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let PrivatePriorSettings { mut party, content, n_agents, sampling_rate } = settings;
        let is_rate = sampling_rate > 0.0 && sampling_rate <= 1.0;
        StrategyError::ensure(
            is_rate && n_agents > 0,
            "sampling rate and number of agents",
            format!("{sampling_rate}, {n_agents}"),
            "a rate above 0 and at most 1, and at least one agent",
        )?;
        (party.n_best_first, party.probes, party.sends_best) = (0, false, false);
        party.compares_units = false;
        let memory = Memory::Mean { discount: 1.0 };
        let emphasis = ExplorationWeights::UNIFORM;
        let sizes = vec![n_agents];
        let belief = Belief::new(emphasis, memory, sampling_rate, sizes, map.n_features());
        let party = SharedPrior::new(domain, party, Arc::clone(&map), seed)?;
        Ok(Self { party, map, content, belief })
    }

    /// Returns the strategy.
    pub fn party(&self) -> &SharedPrior {
        &self.party
    }

    /// Adds a release. Returns false and changes nothing if the release has the wrong shape,
    /// contains a number that is far out of range or not finite, or is not newer than the last
    /// release.
    pub fn receive(&mut self, aggregate: &Aggregate) -> bool {
        self.belief.take(aggregate) && self.party.set_prior(self.prior()).is_ok()
    }

    /// Returns Rᵀ u and its energy, or `None` before the first release.
    fn mean(&self) -> Option<(Vec<f64>, Energy)> {
        let weights = self.belief.weights()?;
        let noise_variance = self.belief.noise_variances()?[0];
        let mean = self.party.basis().coefficients(&weights[0]);
        #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
        let noise = mean.len() as f64 * noise_variance;
        let total = mean.iter().map(|c| c * c).sum();
        let energy = Energy { total, noise, n_numbers: mean.len(), ..self.belief.energy() };
        Some((mean, energy))
    }

    /// Estimates the alignment of all agents' vectors from the releases, or returns `None` before
    /// the first release. The estimate uses the r coefficients, which fully determine an honest
    /// vector.
    pub fn alignment(&self) -> Option<Alignment> {
        Some(self.mean()?.1.alignment(Self::NORM))
    }

    /// Returns (m, Λ), or `None` if the releases contain no signal.
    pub fn prior(&self) -> Option<WeightPrior> {
        let (mut mean, energy) = self.mean()?;
        let share = energy.signal_share();
        let length = mean.iter().map(|c| c * c).sum::<f64>().sqrt();
        if !(share > 0.0 && length.is_finite()) {
            return None;
        }
        let factor = Self::MEAN_LENGTH * share.min(1.0 / length);
        mean.iter_mut().for_each(|c| *c *= factor);
        WeightPrior::with_mean(mean, Self::VARIANCE).ok()
    }
}

impl Strategy for PrivatePriorAgent {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.party.ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.party.tell(observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.party.surrogate())
    }

    fn transfer(&self) -> Option<Transfer> {
        self.party.transfer()
    }
}

impl Collaborator for PrivatePriorAgent {
    fn domain(&self) -> &Domain {
        self.party.domain()
    }

    fn own(&self) -> &Surrogate {
        self.party.surrogate()
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        match self.content {
            MessageContent::Mean | MessageContent::Posterior => self.party.direction(),
            MessageContent::Zero => Ok(vec![0.0; self.map.n_features()]),
            MessageContent::Placebo => {
                let mut draw = stream.normals(self.party.basis().rank());
                let length = draw.iter().map(|w| w * w).sum::<f64>().sqrt();
                draw.iter_mut().for_each(|w| *w /= length);
                Ok(self.party.basis().weights(&draw))
            }
        }
    }
}

impl UsesHandouts for PrivatePriorAgent {
    type Handout = AggregateHandout;

    /// Uses all releases, including those from rounds that the agent missed.
    fn take(&mut self, handout: AggregateHandout, own_id: u32) -> Vec<UpdateRejected> {
        let mut refused = Vec::new();
        for release in &handout.releases {
            if !self.receive(&release.aggregate) {
                let round = release.aggregate.round;
                refused.push(UpdateRejected::Unfit { agent: own_id, round });
            }
        }
        refused
    }
}

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    party: SharedPriorSettings,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
    n_agents: usize,
}

impl Federated {
    fn private_agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        content: MessageContent,
        others: OthersUse,
    ) -> Result<PrivatePriorAgent, StrategyError> {
        let settings = PrivatePriorSettings {
            party: SharedPriorSettings { others, ..for_role(&self.party, setup.role) },
            content,
            n_agents: self.n_agents,
            sampling_rate,
        };
        let domain = Domain::Space(setup.space.clone());
        PrivatePriorAgent::new(domain, settings, Arc::clone(setup.map), setup.seed)
    }
}

impl Released for Federated {
    fn shape(&self) -> ReleaseShape {
        ReleaseShape { n_regions: 1, uniform_from: Some(0), content: MessageContent::Mean }
    }

    fn agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError> {
        let (content, others) = match setup.role {
            Role::WarmStart => return Err(setup.role.not_of_this_algorithm()),
            Role::Alone => {
                let message_len = setup.map.n_features();
                let alone = Alone::thompson_sampling(setup, &self.alone, message_len)?;
                return Ok(Box::new(alone));
            }
            Role::LogEi => (MessageContent::Zero, OthersUse::Nothing),
            Role::Own => (MessageContent::Mean, OthersUse::Prior),
            Role::Placebo if has_noise => (MessageContent::Zero, OthersUse::Prior),
            Role::Placebo => (MessageContent::Placebo, OthersUse::Prior),
        };
        Ok(Box::new(self.private_agent(setup, sampling_rate, content, others)?))
    }

    fn agent_weights(&self, _: u64) -> Vec<Vec<f64>> {
        #[expect(clippy::cast_precision_loss, reason = "numbers of agents are far below 2^53")]
        let share = 1.0 / self.n_agents as f64;
        vec![vec![share; self.n_agents]]
    }

    fn describe(&self, config: &mut PublicConfig) {
        config.line("algorithm", PRIVATE.name);
        config.count("rank", self.party.rank as u64);
        config.number("trust", self.party.trust_before);
    }

    fn released_function(
        &self,
        releases: &[Aggregate],
        setup: &AgentSetup<'_>,
        (sampling_rate, max_norm): (f64, f64),
        features: FeatureDescription,
        seed: u64,
    ) -> Result<Option<(ReleasedFunction, Alignment)>, StrategyError> {
        let (content, others) = (MessageContent::Mean, OthersUse::Prior);
        let mut agent = self.private_agent(setup, sampling_rate, content, others)?;
        for release in releases {
            agent.receive(release);
        }
        Ok(agent.mean().map(|(mean, energy)| {
            let function = ReleasedFunction {
                features,
                seed,
                map: setup.map.hash().to_string(),
                n_regions: 1,
                weights: vec![agent.party.basis().weights(&mean)],
                signal_share: energy.signal_share(),
            };
            (function, energy.alignment(max_norm))
        }))
    }
}

/// The tables that this algorithm reads in addition to `[shared-prior]`.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    privacy: Clipping,
}

/// The key of `[privacy]` that must be 1 if it is set, because vectors have norm 1.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Clipping {
    max_norm: Option<f64>,
}

/// Reads `[shared-prior]`.
fn read_private(reading: &Reading<'_>) -> Result<Read, FileError> {
    let party = options::private(reading)?;
    let Tables { privacy } = reading.check.file.parse()?;
    if privacy.max_norm.is_some_and(|norm| norm.to_bits() != 1.0_f64.to_bits()) {
        let expected = format!("1 with algorithm \"{}\", the length of its vectors", PRIVATE.name);
        return Err(reading.check.file.value_error(&["privacy", "max_norm"], expected));
    }
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    let settings = Federated { party, alone, n_agents: reading.n_agents };
    Ok(Read { settings: Settings::Released(Arc::new(settings)), ucb_multiplier })
}
