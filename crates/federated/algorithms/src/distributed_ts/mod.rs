//! Distributed Thompson sampling (Zerefa et al.): agents on a graph share what they observe with their neighbours.
//!
//! Raw observations are shared, so nothing here is private. How reports travel between agents is the protocol's concern; here
//! is what one agent does with what has arrived.

mod agent;
mod independent_draws;
mod options;
pub mod regret_bound;

use fedbo_protocol::Neighbour;
use fedbo_space::Space;
use fedbo_strategies::{Domain, StrategyError, UcbMultiplier};
use fedbo_streams::Seed;

pub use agent::{DistributedTs, DistributedTsSettings, Query};
pub use independent_draws::IndependentDraws;
pub use options::DistributedTsTable;

use crate::{Algorithm, Exchange, NeighbourSettings, Neighbours, Role};

/// The registry's entry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "distributed-ts",
    summary: "neighbours share observations",
    exchange: Exchange::Neighbours,
    role: Role::Own,
    name_without_noise: None,
    tables: &["distributed-ts"],
    compared_with: None,
    controls: &[],
    read: options::read,
};

/// The settings of all agents of a federation.
#[derive(Clone, Debug)]
struct Federated {
    exchange: NeighbourSettings,
    settings: DistributedTsSettings,
}

impl Neighbours for Federated {
    fn exchange(&self) -> NeighbourSettings {
        self.exchange
    }

    fn agent(
        &self,
        role: Role,
        alone_ucb_multiplier: UcbMultiplier,
        space: &Space,
        seed: Seed,
    ) -> Result<Box<dyn Neighbour>, StrategyError> {
        let mut settings = self.settings.clone();
        if matches!(role, Role::LogEi | Role::WarmStart) {
            return Err(role.not_of_this_algorithm());
        }
        if role == Role::Alone {
            settings.own.ucb_multiplier = alone_ucb_multiplier;
        }
        let domain = Domain::Space(space.clone());
        Ok(Box::new(DistributedTs::new(domain, settings, seed)?))
    }
}
