//! Distributed Thompson sampling (Zerefa et al.), in which agents on a graph share their
//! observations with their neighbours.
//!
//! Raw observations are shared, so nothing here is private. The protocol crate delivers the
//! reports. This module implements how an agent uses the reports that have arrived.

mod agent;
mod independent_draws;
mod options;
pub mod regret_bound;

use fedbo_protocol::Neighbour;
use fedbo_strategies::{Domain, LogEi, LogEiSettings, StrategyError};

pub use agent::{DistributedTs, DistributedTsSettings, Query};
pub use independent_draws::IndependentDraws;
pub use options::DistributedTsTable;
pub(crate) use options::exchange_alone;

use crate::{AgentSetup, Algorithm, Alone, Arm, Exchange, NeighbourSettings, Neighbours, Role};

/// The registry entry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "distributed-ts",
    summary: "neighbours share observations",
    exchange: Exchange::Neighbours,
    role: Role::Own,
    name_without_noise: None,
    tables: &["distributed-ts"],
    compared_with: None,
    controls: &[Arm::LOG_EI],
    read: options::read,
};

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    exchange: NeighbourSettings,
    settings: DistributedTsSettings,
    /// Settings for standalone log expected improvement.
    log_ei: LogEiSettings,
}

impl Neighbours for Federated {
    fn exchange(&self) -> NeighbourSettings {
        self.exchange
    }

    fn agent(&self, setup: &AgentSetup<'_>) -> Result<Box<dyn Neighbour>, StrategyError> {
        let mut settings = self.settings.clone();
        match setup.role {
            Role::WarmStart => return Err(setup.role.not_of_this_algorithm()),
            Role::LogEi => {
                return Ok(Box::new(Alone::<LogEi, ()>::log_ei(setup, &self.log_ei, 0)?));
            }
            Role::Alone => settings.own.ucb_multiplier = setup.alone_ucb_multiplier,
            Role::Own | Role::Placebo => {}
        }
        let domain = Domain::Space(setup.space.clone());
        Ok(Box::new(DistributedTs::new(domain, settings, setup.seed)?))
    }
}
