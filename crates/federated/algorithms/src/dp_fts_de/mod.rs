//! Differentially private federated Thompson sampling with distributed exploration (Dai, Low,
//! Jaillet 2021). Agents send vectors, and their sums are released, one per region of the space.
//!
//! This module implements the agent's side (Algorithm 2). The mechanism and the cost of releases
//! are determined elsewhere.

mod agent;
pub mod clipping;
mod exploration;
mod exploration_weights;
mod options;
pub mod regret_bound;

use std::sync::Arc;

use fedbo_gp::FeatureDescription;
use fedbo_protocol::{Aggregate, AggregateHandout, UsesHandouts};
use fedbo_space::Space;
use fedbo_strategies::{
    Domain, LocalProb, LogEiSettings, MessageContent, MessageSettings, ReleasedFunction,
    StrategyError, ThompsonSettings,
};
use fedbo_streams::Stream;

pub use crate::belief::Memory;
pub use agent::{AggregateUse, DpFtsDe, DpFtsDeSettings};
pub use exploration::ExplorationTable;
pub use exploration_weights::{ExplorationWeightLaw, ExplorationWeights, region_sizes};
pub use options::DpFtsDeTable;

use crate::{
    AgentSetup, Algorithm, Alignment, Alone, Arm, Exchange, PublicConfig, ReleaseShape, Released,
    Role,
};
use exploration::Exploration;

/// The registry entry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "dp-fts-de",
    summary: "agents learn from noisy sums, with differential privacy",
    exchange: Exchange::Released,
    role: Role::Own,
    name_without_noise: Some("fts-de"),
    tables: &["dp-fts-de", "exploration"],
    compared_with: None,
    controls: &[Arm::LOG_EI],
    read: options::read,
};

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    own: ThompsonSettings,
    local_prob: LocalProb,
    trust: AggregateUse,
    message: MessageSettings,
    memory: Memory,
    exploration: Exploration,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
    /// Settings for standalone log expected improvement.
    log_ei: LogEiSettings,
}

impl Federated {
    fn dp_fts_de(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<DpFtsDe, StrategyError> {
        let mut settings = DpFtsDeSettings {
            own: self.own.clone(),
            local_prob: self.local_prob.clone(),
            trust: self.trust,
            message: self.message,
            partition: self.exploration.partition.clone(),
            region_sizes: self.exploration.region_sizes(),
            emphasis: self.exploration.emphasis,
            sampling_rate,
            memory: self.memory,
        };
        match setup.role {
            Role::LogEi | Role::WarmStart => return Err(setup.role.not_of_this_algorithm()),
            Role::Own => {}
            Role::Alone => {
                settings.local_prob = LocalProb::Constant(1.0);
                settings.own = self.alone.clone();
                settings.own.ucb_multiplier = setup.alone_ucb_multiplier;
                settings.message.content = MessageContent::Zero;
            }
            Role::Placebo if has_noise => settings.message.content = MessageContent::Zero,
            Role::Placebo => settings.message.content = MessageContent::Placebo,
        }
        let domain = Domain::Space(setup.space.clone());
        DpFtsDe::new(domain, settings, Arc::clone(setup.map), setup.seed)
    }
}

impl Released for Federated {
    fn shape(&self) -> ReleaseShape {
        ReleaseShape {
            n_regions: u32::try_from(self.exploration.n_regions()).unwrap_or(u32::MAX), // fits into a u32
            uniform_from: self.exploration.emphasis.uniform_from(),
            content: self.message.content,
        }
    }

    fn agent(
        &self,
        setup: &AgentSetup<'_>,
        sampling_rate: f64,
        has_noise: bool,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError> {
        if setup.role == Role::LogEi {
            let message_len = setup.map.n_features();
            return Ok(Box::new(Alone::log_ei(setup, &self.log_ei, message_len)?));
        }
        Ok(Box::new(self.dp_fts_de(setup, sampling_rate, has_noise)?))
    }

    fn start(&self, agent: usize, space: &Space, stream: &mut Stream) -> Option<Vec<f64>> {
        self.exploration.start(agent, space, stream)
    }

    fn agent_weights(&self, round: u64) -> Vec<Vec<f64>> {
        self.exploration.agent_weights(round)
    }

    fn describe(&self, config: &mut PublicConfig) {
        self.exploration.describe(config);
        config.local_prob(&self.local_prob);
        let trust = match self.trust {
            AggregateUse::Schedule => "schedule",
            AggregateUse::Signal => "signal",
        };
        config.line("trust", trust);
        config.message(&self.message);
        match self.memory {
            Memory::Latest => config.line("memory", "latest"),
            Memory::Mean { discount } => config.line("memory", &format!("mean {discount:?}")),
        }
    }

    fn released_function(
        &self,
        releases: &[Aggregate],
        setup: &AgentSetup<'_>,
        (sampling_rate, max_norm): (f64, f64),
        features: FeatureDescription,
        seed: u64,
    ) -> Result<Option<(ReleasedFunction, Alignment)>, StrategyError> {
        let mut agent = self.dp_fts_de(setup, sampling_rate, true)?;
        for release in releases {
            agent.receive(release);
        }
        let Some(weights) = agent.region_weights() else {
            return Ok(None);
        };
        let alignment = agent.alignment(max_norm);
        let function = ReleasedFunction {
            features,
            seed,
            map: setup.map.hash().to_string(),
            n_regions: u32::try_from(weights.len()).unwrap_or(u32::MAX), // fits into a u32
            weights,
            signal_share: agent.signal_share(),
        };
        Ok(Some((function, alignment)))
    }
}
