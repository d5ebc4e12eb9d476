//! The agent of federated Thompson sampling (Algorithm 1).

use std::sync::Arc;

use fedbo_gp::{FeatureMap, MapHash, WeightSpaceSample};
use fedbo_protocol::{Broadcast, Inbox, MessageRejected, UpdateRejected, UsesHandouts, Weights};
use fedbo_strategies::{
    Collaborator, Domain, LocalProb, MessageSettings, Observation, Points, Proposal, Source,
    Strategy, StrategyError, Surrogate, ThompsonSampling, ThompsonSettings, in_range,
};
use fedbo_streams::{Seed, Stream};

use super::AgentSampling;

/// Settings of an [`Fts`] strategy.
#[derive(Clone, Debug)]
pub struct FtsSettings {
    /// The agent's own model and queries. The paper uses Thompson sampling.
    pub own: ThompsonSettings,
    /// p_t.
    pub local_prob: LocalProb,
    /// P_N.
    pub agent_sampling: AgentSampling,
    /// Settings of the agent's own messages.
    pub message: MessageSettings,
}

/// One agent of federated Thompson sampling.
///
/// In step t, with probability p_t, a sample from the agent's own posterior determines the query
/// (line 4). Otherwise, an agent n is drawn from P_N, and x_t = argmax φ(x)·ω_n (line 6). A used
/// message is removed, and P_N is renormalized until that agent sends a new message (section 3.1,
/// last paragraphs). An agent without a message, for example a straggler, has probability 0.
///
/// If no message is left, the agent's own posterior is sampled. The paper does not specify this
/// case. As an extension of the paper, with [`OwnQuery::LogEi`](fedbo_strategies::OwnQuery) the log
/// expected improvement is maximized wherever the posterior would be sampled.
#[derive(Clone, Debug)]
pub struct Fts {
    own: ThompsonSampling,
    local_prob: LocalProb,
    agent_sampling: AgentSampling,
    message: MessageSettings,
    map: Arc<FeatureMap>,
    inbox: Inbox,
    /// Number of steps passed to `tell` so far, without initial points.
    n_steps: u64,
}

impl Fts {
    /// Creates an agent without observations. `map` is the federation's shared feature map.
    /// Hyperparameter fits use `seed`.
    ///
    /// # Errors
    /// If a setting is out of range, or the dimensions of the map and the domain differ.
    pub fn new(
        domain: Domain,
        settings: FtsSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        domain.check_features(&map)?;
        Ok(Self {
            own: ThompsonSampling::new(domain, settings.own, seed)?,
            local_prob: settings.local_prob.validate()?,
            agent_sampling: settings.agent_sampling.validate()?,
            message: settings.message.validate()?,
            inbox: Inbox::new(map.n_features(), map.hash()),
            map,
            n_steps: 0,
        })
    }

    /// Receives a message ω_n (M numbers), computed with the feature map that has the given hash. A
    /// newer message replaces an older one.
    ///
    /// # Errors
    /// If the hash or the length does not match this agent's map, or a number is not finite. On an
    /// error, the inbox is unchanged.
    pub fn receive(
        &mut self,
        sender: u32,
        map: MapHash,
        weights: impl Into<Weights>,
    ) -> Result<(), MessageRejected> {
        self.inbox.receive(sender, map, weights)
    }

    /// Drops the message of a sender that has become a straggler.
    pub fn forget(&mut self, sender: u32) {
        self.inbox.remove(sender);
    }

    /// Returns the messages that were received and have not been used yet.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

impl Collaborator for Fts {
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

impl Strategy for Fts {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let local = stream.bernoulli(self.local_prob.at(self.n_steps + 1));
        if !local {
            let probabilities =
                self.agent_sampling.probabilities(&self.inbox, &self.map, self.own.surrogate())?;
            let (senders, weights): (Vec<u32>, Vec<f64>) = probabilities.into_iter().unzip();
            if let Some(index) = stream.choose(&weights) {
                let sender = senders[index];
                let omega = self
                    .inbox
                    .get(sender)
                    .unwrap_or_else(|| unreachable!("{sender} has a probability"));
                let sample = WeightSpaceSample::new(&self.map, &in_range(omega))?;
                return self.own.propose_maximum(
                    &sample,
                    Source::Message { sender },
                    pending,
                    stream,
                );
            }
        }
        self.own.propose_own(pending, stream)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.own.surrogate())
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.own.tell(observed)?;
        for observation in observed {
            if observation.source != Source::Initial {
                self.n_steps += 1;
            }
            if let Source::Message { sender } | Source::RandomInstead { sender } =
                observation.source
            {
                self.inbox.remove(sender);
            }
        }
        Ok(())
    }
}

impl UsesHandouts for Fts {
    type Handout = Broadcast;

    fn take(&mut self, broadcast: Broadcast, own_id: u32) -> Vec<UpdateRejected> {
        for straggler in broadcast.stragglers {
            self.forget(straggler);
        }
        broadcast
            .messages
            .iter()
            .filter(|message| message.sender != own_id)
            .filter_map(|message| self.receive(message.sender, message.map, &message.weights).err())
            .map(UpdateRejected::from)
            .collect()
    }
}
