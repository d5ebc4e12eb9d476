//! The shared prior. All agents share a set of functions and send statistics of their observations
//! in terms of them. Each agent fits a prior for its own surrogate to the others' messages. In
//! private federations, the prior is fitted to noisy sums of directions, and between neighbours to
//! the neighbours' observations. See `papers/shared-prior.md`.

mod neighbours;
mod options;
mod private;

use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Broadcast, UsesHandouts};
use fedbo_strategies::{
    Domain, OthersUse, SharedAcquisition, SharedMessage, SharedPrior, SharedPriorSettings,
    StrategyError, ThompsonSettings,
};
use fedbo_streams::Seed;

pub use neighbours::{NEIGHBOURS, NeighbourPriorAgent};
pub(crate) use options::{outputs_are_standardized, rank};
pub use private::{PRIVATE, PrivatePriorAgent, PrivatePriorSettings};

use crate::transfer_ensemble::STATISTICS_REVEAL;
use crate::{AgentSetup, Algorithm, Alone, Arm, Exchange, MessageAgent, Relayed, Role};

/// The registry entry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "shared-prior",
    summary: "agents learn a prior from each other, and drop it where it misleads",
    exchange: Exchange::Relayed,
    role: Role::Own,
    name_without_noise: None,
    tables: &["shared-prior"],
    compared_with: None,
    controls: &[Arm::LOG_EI, Arm::WARM_START],
    read: options::read,
};

/// An agent with a shared prior.
pub type SharedPriorAgent = MessageAgent<SharedPrior>;

impl SharedPriorAgent {
    /// Creates an agent without observations.
    ///
    /// # Errors
    /// Same as [`SharedPrior::new`].
    pub fn new(
        domain: Domain,
        settings: SharedPriorSettings,
        is_placebo: bool,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        Ok(Self::of(SharedPrior::new(domain, settings, map, seed)?, is_placebo))
    }
}

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    settings: SharedPriorSettings,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
}

/// Maximum number of the others' best points that a warm start tries first.
const N_WARM: usize = 10;

/// Returns the settings of an agent with this role. Controls without the prior run the same code.
fn for_role(settings: &SharedPriorSettings, role: Role) -> SharedPriorSettings {
    let mut settings = settings.clone();
    if matches!(role, Role::LogEi | Role::WarmStart) {
        settings.acquisition = SharedAcquisition::LogEi;
    }
    match role {
        Role::LogEi => settings.others = OthersUse::Nothing,
        Role::WarmStart => {
            (settings.others, settings.n_best_first) = (OthersUse::BestPoints, N_WARM);
            settings.sends_best = true;
        }
        Role::Own | Role::Alone | Role::Placebo => {}
    }
    settings
}

impl Relayed for Federated {
    fn message_len(&self, n_features: usize, dim: usize) -> usize {
        SharedMessage::n_numbers(self.settings.rank.min(n_features), dim)
    }

    fn messages_are(&self) -> &'static str {
        match self.settings.sends_best {
            true => "statistics of observations, with the best point of each agent,",
            false => "statistics of observations",
        }
    }

    fn messages_reveal(&self) -> &'static str {
        match self.settings.sends_best {
            true => {
                "statistics of its results and its best setting, which reveal most of the settings that it tried"
            }
            false => STATISTICS_REVEAL,
        }
    }

    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        let domain = || Domain::Space(setup.space.clone());
        let map = || Arc::clone(setup.map);
        let message_len = self.message_len(setup.map.n_features(), setup.map.dim());
        if setup.role == Role::Alone {
            let alone = Alone::thompson_sampling(setup, &self.alone, message_len)?;
            return Ok(Box::new(alone));
        }
        let settings = for_role(&self.settings, setup.role);
        let is_placebo = setup.role == Role::Placebo;
        let agent = SharedPriorAgent::new(domain(), settings, is_placebo, map(), setup.seed)?;
        Ok(Box::new(agent))
    }
}
