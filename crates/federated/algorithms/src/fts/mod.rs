//! Federated Thompson sampling (Dai, Low, Jaillet 2020). Agents send functions drawn from their
//! posteriors, as weights of shared features, and query the maximizers of each other's functions.

mod agent;
mod agent_sampling;
mod options;
pub mod regret_bound;

use std::sync::Arc;

use fedbo_protocol::{Broadcast, UsesHandouts};
use fedbo_strategies::{
    Domain, LocalProb, LogEiSettings, MessageContent, StrategyError, ThompsonSettings,
};

pub use agent::{Fts, FtsSettings};
pub use agent_sampling::AgentSampling;
pub use options::FtsTable;

use crate::{AgentSetup, Algorithm, Alone, Arm, Exchange, Relayed, Role};

/// The registry entry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fts",
    summary: "agents learn from each other",
    exchange: Exchange::Relayed,
    role: Role::Own,
    name_without_noise: None,
    tables: &["fts"],
    compared_with: None,
    controls: &[Arm::LOG_EI],
    read: options::read,
};

/// FTS with p_t = 1, which is standalone Thompson sampling.
pub const ALONE: Algorithm = Algorithm {
    name: "ts",
    summary: "each alone",
    role: Role::Alone,
    compared_with: Some(ALGORITHM.name),
    ..ALGORITHM
};

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    settings: FtsSettings,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
    /// Settings for standalone log expected improvement.
    log_ei: LogEiSettings,
}

impl Relayed for Federated {
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        let mut settings = self.settings.clone();
        match setup.role {
            Role::WarmStart => return Err(setup.role.not_of_this_algorithm()),
            Role::LogEi => {
                let message_len = setup.map.n_features();
                return Ok(Box::new(Alone::log_ei(setup, &self.log_ei, message_len)?));
            }
            Role::Own => {}
            Role::Alone => {
                settings.local_prob = LocalProb::Constant(1.0);
                settings.own = self.alone.clone();
                settings.own.ucb_multiplier = setup.alone_ucb_multiplier;
            }
            Role::Placebo => settings.message.content = MessageContent::Placebo,
        }
        let domain = Domain::Space(setup.space.clone());
        let agent = Fts::new(domain, settings, Arc::clone(setup.map), setup.seed)?;
        Ok(Box::new(agent))
    }
}
