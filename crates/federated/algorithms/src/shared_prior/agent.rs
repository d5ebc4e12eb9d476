//! One agent of a federation with a shared prior.

use std::fmt;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Broadcast, MessageRejected, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, Observation, Points, Proposal, SharedMessage, SharedPrior,
    SharedPriorSettings, Strategy, StrategyError, Surrogate, meta::Transfer,
};
use fedbo_streams::{Seed, Stream};

/// One agent of a federation with a shared prior: a [`SharedPrior`] whose messages travel.
///
/// A message of an earlier round stays until its sender sends another; that of a straggler is forgotten.
#[derive(Clone)]
pub struct SharedPriorAgent {
    party: SharedPrior,
    map: Arc<FeatureMap>,
    rank: usize,
    /// True if what it sends says nothing of its objective.
    is_placebo: bool,
}

impl fmt::Debug for SharedPriorAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedPriorAgent").field(&self.party).finish()
    }
}

impl SharedPriorAgent {
    /// An agent without observations.
    ///
    /// # Errors
    /// As [`SharedPrior::new`].
    pub fn new(
        domain: Domain,
        settings: SharedPriorSettings,
        is_placebo: bool,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let rank = settings.rank.min(map.n_features());
        let party = SharedPrior::new(domain, settings, Arc::clone(&map), seed)?;
        Ok(Self { party, map, rank, is_placebo })
    }

    /// The strategy, with the messages at hand.
    pub fn party(&self) -> &SharedPrior {
        &self.party
    }

    /// Takes the numbers of a message that was made with this map.
    ///
    /// # Errors
    /// If they are no message of anybody's observations; the sender's older one then stays.
    pub fn receive(&mut self, sender: u32, numbers: &[f64]) -> Result<(), MessageRejected> {
        let expected = SharedMessage::n_numbers(self.rank, self.map.dim());
        if numbers.len() != expected {
            return Err(MessageRejected::WrongLength { sender, found: numbers.len(), expected });
        }
        if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
            return Err(MessageRejected::NotFinite { sender, index });
        }
        let message = SharedMessage::from_numbers(self.rank, self.map.dim(), numbers);
        let taken = message.and_then(|message| self.party.receive(sender, message));
        taken.map_err(|reason| MessageRejected::Implausible { sender, reason: reason.to_string() })
    }
}

impl Strategy for SharedPriorAgent {
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

impl Collaborator for SharedPriorAgent {
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
        let message =
            if self.is_placebo { self.party.placebo(stream)? } else { self.party.message()? };
        Ok(message.numbers(self.map.dim()))
    }
}

impl UsesHandouts for SharedPriorAgent {
    type Handout = Broadcast;

    fn take(&mut self, broadcast: Broadcast, own_id: u32) -> Vec<UpdateRejected> {
        for straggler in &broadcast.stragglers {
            self.party.forget(*straggler);
        }
        let others = broadcast.messages.iter().filter(|message| message.sender != own_id);
        let refused = others.filter_map(|message| {
            let sender = message.sender;
            if message.map != self.map.hash() {
                let (found, expected) = (message.map, self.map.hash());
                return Some(MessageRejected::WrongMap { sender, found, expected });
            }
            self.receive(sender, &message.weights).err()
        });
        refused.map(UpdateRejected::from).collect()
    }
}
