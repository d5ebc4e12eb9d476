//! The agent's state machine, independent of the algorithm.

use fedbo_federation::{Collaboration, Federation};
use fedbo_gp::MapHash;
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentEvent, AgentUpdate, AggregateHandout, Broadcast,
    UsesHandouts,
};
use fedbo_streams::Seed;
use fedbo_wire::Digest;

use crate::RunError;
use crate::follower::{VerifiedContent, VerifiedHandout};

/// An agent's state machine, which maps events to effects deterministically.
pub(crate) trait Machine {
    fn start(&mut self) -> Result<Vec<AgentEffect>, AgentError>;
    fn receive(&mut self, handout: VerifiedHandout) -> Result<Vec<AgentEffect>, AgentError>;
    fn proceed(&mut self) -> Result<Vec<AgentEffect>, AgentError>;
    fn evaluated(&mut self, trial: u64, value: Option<f64>)
    -> Result<Vec<AgentEffect>, AgentError>;
    fn has_upload(&self) -> bool;
    fn upload(&mut self, window: u64) -> Result<Option<AgentUpdate>, AgentError>;
}

/// Creates the machine for the agent in a slot, with random draws from the seed `root`. Also
/// returns the hash of the shared random features.
///
/// With the federation's own seed, the machine requests the same effects as the same agent in a
/// federation that runs in one process. `made` is the number of earlier uploads, and the number of
/// finished trials at the last one.
pub(crate) fn machine(
    federation: &Federation,
    slot: u32,
    root: u64,
    made: (u64, Option<u64>),
) -> Result<(Box<dyn Machine>, Digest), RunError> {
    let map = federation.feature_map()?;
    let hash = map.hash();
    // The random features are shared. All other draws come from the agent's own seed.
    let mut own = federation.clone();
    own.seed = root;
    let arm = federation.own_arm();
    let seed = own.agent_seed(slot);
    let machine: Box<dyn Machine> = match &federation.collaboration {
        Collaboration::Relayed(settings) => {
            let strategy = own.relayed_agent(settings.as_ref(), arm, &map, seed)?;
            playing(&own, slot, strategy, made, broadcast)?
        }
        Collaboration::Released(releases) => {
            let strategy = own.released_agent(releases, arm, &map, seed)?;
            playing(&own, slot, strategy, made, aggregate)?
        }
        Collaboration::Neighbours(_) => return Err(RunError::Neighbours),
    };
    Ok((machine, Digest(hash.0)))
}

fn playing<S: UsesHandouts + 'static>(
    own: &Federation,
    slot: u32,
    strategy: S,
    (n_made, n_told): (u64, Option<u64>),
    convert: fn(VerifiedHandout, MapHash) -> S::Handout,
) -> Result<Box<dyn Machine>, RunError> {
    let map = strategy.map().hash();
    let plan = own.agent_plan(slot).ok_or(RunError::NoStart)?;
    let mut agent = Agent::new(strategy, plan, Seed::new(own.seed))?;
    if let Some(pace) = own.free_pace() {
        agent = agent.at_free_pace(pace).with_uploads(n_made, n_told);
    }
    Ok(Box::new(Playing { agent, map, convert }))
}

struct Playing<S: UsesHandouts> {
    agent: Agent<S>,
    map: MapHash,
    convert: fn(VerifiedHandout, MapHash) -> S::Handout,
}

impl<S: UsesHandouts> Machine for Playing<S> {
    fn start(&mut self) -> Result<Vec<AgentEffect>, AgentError> {
        self.agent.start()
    }

    fn receive(&mut self, handout: VerifiedHandout) -> Result<Vec<AgentEffect>, AgentError> {
        let handout = (self.convert)(handout, self.map);
        self.agent.handle(AgentEvent::Broadcast(handout))
    }

    fn proceed(&mut self) -> Result<Vec<AgentEffect>, AgentError> {
        self.agent.handle(AgentEvent::Proceed)
    }

    fn evaluated(
        &mut self,
        trial: u64,
        value: Option<f64>,
    ) -> Result<Vec<AgentEffect>, AgentError> {
        self.agent.handle(AgentEvent::Evaluated { trial, value })
    }

    fn has_upload(&self) -> bool {
        self.agent.has_upload()
    }

    fn upload(&mut self, window: u64) -> Result<Option<AgentUpdate>, AgentError> {
        self.agent.upload(window)
    }
}

/// Converts a handout into a relay's broadcast. The coordinator refuses messages with different
/// random features.
fn broadcast(handout: VerifiedHandout, map: MapHash) -> Broadcast {
    let (messages, stragglers) = match handout.content {
        VerifiedContent::Messages { messages, stragglers } => (messages, stragglers),
        VerifiedContent::Releases(_) => {
            unreachable!("the follower of a relayed study accepts only messages")
        }
    };
    let update = |message: fedbo_wire::RelayedMessage| AgentUpdate {
        sender: message.sender,
        round: message.round,
        map,
        weights: message.weights.into(),
    };
    Broadcast {
        round: handout.round,
        messages: messages.into_iter().map(update).collect(),
        stragglers,
    }
}

fn aggregate(handout: VerifiedHandout, _map: MapHash) -> AggregateHandout {
    let releases = match handout.content {
        VerifiedContent::Releases(releases) => releases,
        VerifiedContent::Messages { .. } => {
            unreachable!("the follower of a study with releases accepts only releases")
        }
    };
    AggregateHandout { round: handout.round, releases, collects: handout.collects }
}
