//! RGPE and TAF between agents. Each agent models every other agent from its message, and weights
//! these models by how well they rank the agent's own outputs. See `papers/robust-meta.md`.

mod options;

use std::sync::Arc;

use fedbo_protocol::{Broadcast, UsesHandouts};
use fedbo_strategies::meta::{
    MessageEnsemble, ModelEnsemble, Rgpe, RgpeSettings, Taf, TafSettings,
};
use fedbo_strategies::{
    Domain, LogEiSettings, MessageTerms, SharedMessage, StrategyError, ThompsonSettings,
};

use crate::{AgentSetup, Algorithm, Alone, Arm, Exchange, MessageAgent, Relayed, Role};

/// A plain description of messages that contain statistics.
pub(crate) const STATISTICS_REVEAL: &str =
    "statistics of its results, which reveal most of the settings that it tried";

/// The registry entry for RGPE.
pub const RGPE: Algorithm = Algorithm {
    name: "rgpe",
    summary: "agents weigh each other's models by how well they rank their own values",
    exchange: Exchange::Relayed,
    role: Role::Own,
    name_without_noise: None,
    tables: &["rgpe"],
    compared_with: None,
    controls: &[Arm::LOG_EI],
    read: options::rgpe,
};

/// The registry entry for TAF.
pub const TAF: Algorithm = Algorithm {
    name: "taf",
    summary: "the same, with a mean of the improvements that each promises",
    tables: &["taf"],
    read: options::taf,
    ..RGPE
};

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    rule: Rule,
    /// r, the number of shared functions.
    rank: usize,
    terms: MessageTerms,
    /// Settings for standalone log expected improvement.
    log_ei: LogEiSettings,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
}

/// The rule for weighting models and choosing queries.
#[derive(Clone, Debug)]
enum Rule {
    Rgpe(RgpeSettings),
    Taf(TafSettings),
}

impl Federated {
    fn party<S: ModelEnsemble + 'static>(
        &self,
        strategy: S,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        let map = Arc::clone(setup.map);
        let party = MessageEnsemble::new(strategy, map, self.rank, self.terms)?;
        Ok(Box::new(MessageAgent::of(party, setup.role == Role::Placebo)))
    }
}

impl Relayed for Federated {
    fn message_len(&self, n_features: usize, dim: usize) -> usize {
        SharedMessage::n_numbers(self.rank.min(n_features), dim)
    }

    fn messages_are(&self) -> &'static str {
        "statistics of observations"
    }

    fn messages_reveal(&self) -> &'static str {
        STATISTICS_REVEAL
    }

    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        let (domain, seed) = (Domain::Space(setup.space.clone()), setup.seed);
        let message_len = self.message_len(setup.map.n_features(), setup.map.dim());
        match setup.role {
            Role::WarmStart => Err(setup.role.not_of_this_algorithm()),
            Role::Alone => Ok(Box::new(Alone::thompson_sampling(setup, &self.alone, message_len)?)),
            Role::LogEi => Ok(Box::new(Alone::log_ei(setup, &self.log_ei, message_len)?)),
            Role::Own | Role::Placebo => match &self.rule {
                Rule::Rgpe(settings) => {
                    let none = Vec::new();
                    self.party(Rgpe::with_models(domain, none, settings.clone(), seed)?, setup)
                }
                Rule::Taf(settings) => {
                    let none = Vec::new();
                    self.party(Taf::with_models(domain, none, settings.clone(), seed)?, setup)
                }
            },
        }
    }
}
