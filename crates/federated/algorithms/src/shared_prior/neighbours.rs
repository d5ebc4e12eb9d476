//! The shared prior between neighbours. Agents share raw observations on a graph, and each agent
//! computes the messages that its neighbours would have sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use fedbo_config::FileError;
use fedbo_gp::FeatureMap;
use fedbo_protocol::{Neighbour, ReportRejected};
use fedbo_strategies::{
    Domain, Observation, OthersUse, Points, Proposal, SharedPrior, SharedPriorSettings, Source,
    Strategy, StrategyError, Surrogate, SurrogateSettings, ThompsonSampling, ThompsonSettings,
    meta::{MetaTask, Transfer},
};
use fedbo_streams::{Seed, Stream};

use super::{for_role, options};
use crate::{
    AgentSetup, Algorithm, Alone, Arm, Exchange, NeighbourSettings, Neighbours, Read, Reading,
    Role, Settings, distributed_ts,
};

/// The registry entry.
pub const NEIGHBOURS: Algorithm = Algorithm {
    name: "distributed-shared-prior",
    summary: "neighbours share observations, and learn a prior from each other",
    exchange: Exchange::Neighbours,
    role: Role::Own,
    name_without_noise: None,
    tables: &["shared-prior", "distributed-ts", "features"],
    compared_with: None,
    controls: &[Arm::LOG_EI, Arm::WARM_START],
    read,
};

/// An agent with a shared prior that receives its neighbours' observations.
///
/// The agent keeps each neighbour's observations separate, fits hyperparameters to them and
/// computes the message that the neighbour would send with [`super::SharedPriorAgent`]. Neighbours
/// can therefore have different units, means and functions, whereas `distributed-ts` treats all
/// observations as those of one function. With a study's hyperparameter policy
/// ([`fedbo_strategies::HyperparameterPolicy::Scheduled`]) and one seed for all agents, the message
/// equals the neighbour's own message bit for bit, provided that the neighbour shares all its
/// observations.
///
/// A neighbour's message is recomputed after each of its reports, which costs O(n³) if the
/// neighbour has n observations.
#[derive(Clone)]
pub struct NeighbourPriorAgent {
    party: SharedPrior,
    /// False for a standalone agent.
    learns: bool,
    /// The model for a neighbour's observations, with the party's own settings.
    surrogate: SurrogateSettings,
    seed: Seed,
    /// The successful observations of each neighbour, in the order of its reports.
    neighbours: BTreeMap<u32, MetaTask>,
}

impl fmt::Debug for NeighbourPriorAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NeighbourPriorAgent").field(&self.party).finish()
    }
}

impl NeighbourPriorAgent {
    /// Creates an agent without observations. Hyperparameter fits use `seed`, so agents with the
    /// same seed fit equal data equally.
    ///
    /// # Errors
    /// Same as [`SharedPrior::new`].
    pub fn new(
        domain: Domain,
        settings: SharedPriorSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let surrogate = settings.own.surrogate.clone();
        let learns = settings.others != OthersUse::Nothing;
        let party = SharedPrior::new(domain, settings, map, seed)?;
        Ok(Self { party, learns, surrogate, seed, neighbours: BTreeMap::new() })
    }

    /// Returns the strategy, including the messages received so far.
    pub fn party(&self) -> &SharedPrior {
        &self.party
    }

    /// Adds the observations of neighbours. Returns the neighbours with new values.
    fn keep(&mut self, all: &[Observation]) -> BTreeSet<u32> {
        let mut reported = BTreeSet::new();
        for observation in all {
            let (Source::Message { sender }, Some(value)) =
                (&observation.source, observation.value)
            else {
                continue;
            };
            let task = self.neighbours.entry(*sender).or_insert_with(|| MetaTask {
                name: format!("agent {sender}"),
                inputs: Points::new(observation.unit.len()),
                outputs: Vec::new(),
            });
            task.inputs.push(&observation.unit);
            task.outputs.push(value);
            reported.insert(*sender);
        }
        reported
    }

    /// Replaces a neighbour's message with one computed from all its reports.
    fn learn_from(&mut self, neighbour: u32) -> Result<(), StrategyError> {
        let task = &self.neighbours[&neighbour];
        let message = self.party.message_of_task(task, &self.surrogate, self.seed)?;
        self.party.receive(neighbour, message)
    }
}

impl Neighbour for NeighbourPriorAgent {
    fn domain(&self) -> &Domain {
        self.party.domain()
    }

    fn own(&self) -> &Surrogate {
        self.party.surrogate()
    }

    /// Rejects a neighbour whose observations do not give a plausible message. The neighbour's
    /// older message is kept until it reports again.
    fn tell_all(
        &mut self,
        own: &[Observation],
        all: &[Observation],
    ) -> Result<Vec<ReportRejected>, StrategyError> {
        self.party.tell(own)?;
        let mut refused = Vec::new();
        if !self.learns {
            return Ok(refused);
        }
        for sender in self.keep(all) {
            if let Err(reason) = self.learn_from(sender) {
                refused.push(ReportRejected::NoModel { sender, reason: reason.to_string() });
            }
        }
        Ok(refused)
    }
}

impl Strategy for NeighbourPriorAgent {
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

/// The settings of all agents in a federation.
#[derive(Clone, Debug)]
struct Federated {
    exchange: NeighbourSettings,
    settings: SharedPriorSettings,
    /// Settings for standalone Thompson sampling.
    alone: ThompsonSettings,
}

impl Neighbours for Federated {
    fn exchange(&self) -> NeighbourSettings {
        self.exchange
    }

    fn agent(&self, setup: &AgentSetup<'_>) -> Result<Box<dyn Neighbour>, StrategyError> {
        if setup.role == Role::Alone {
            let alone = Alone::<ThompsonSampling, ()>::thompson_sampling(setup, &self.alone, 0)?;
            return Ok(Box::new(alone));
        }
        let domain = Domain::Space(setup.space.clone());
        let settings = for_role(&self.settings, setup.role);
        let map = Arc::clone(setup.map);
        Ok(Box::new(NeighbourPriorAgent::new(domain, settings, map, setup.seed)?))
    }
}

/// Reads `[shared-prior]`, and the exchange settings in `[distributed-ts]`.
fn read(reading: &Reading<'_>) -> Result<Read, FileError> {
    let settings = options::with_best_points(reading)?;
    let exchange = distributed_ts::exchange_alone(reading)?;
    let alone = reading.own.clone();
    let ucb_multiplier = alone.ucb_multiplier;
    let federated = Federated { exchange, settings, alone };
    Ok(Read { settings: Settings::Neighbours(Arc::new(federated)), ucb_multiplier })
}
