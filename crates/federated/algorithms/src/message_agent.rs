//! Agents that send statistics of their observations.

use std::fmt;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Broadcast, MessageRejected, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, MessageParty, Observation, Points, Proposal, SharedMessage, Strategy,
    StrategyError, Surrogate, meta::Transfer,
};
use fedbo_streams::Stream;

/// An agent that wraps a strategy and exchanges messages with the other agents.
///
/// A message from an earlier round is kept until its sender sends a new one. A straggler's message
/// is dropped.
#[derive(Clone)]
pub struct MessageAgent<P> {
    party: P,
    /// True if the messages contain no information about the agent's objective.
    is_placebo: bool,
}

impl<P: fmt::Debug> fmt::Debug for MessageAgent<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MessageAgent").field(&self.party).finish()
    }
}

impl<P: MessageParty> MessageAgent<P> {
    /// Creates an agent that wraps the given strategy.
    pub fn of(party: P, is_placebo: bool) -> Self {
        Self { party, is_placebo }
    }

    /// Returns the strategy, including the messages received so far.
    pub fn party(&self) -> &P {
        &self.party
    }

    /// Receives the numbers of a message that was computed with this agent's map.
    ///
    /// # Errors
    /// If the numbers are not a valid message about observations. In this case, the sender's older
    /// message is kept.
    pub fn receive(&mut self, sender: u32, numbers: &[f64]) -> Result<(), MessageRejected> {
        let (rank, dim) = (self.party.basis().rank(), self.map().dim());
        let expected = SharedMessage::n_numbers(rank, dim);
        if numbers.len() != expected {
            return Err(MessageRejected::WrongLength { sender, found: numbers.len(), expected });
        }
        if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
            return Err(MessageRejected::NotFinite { sender, index });
        }
        let message = SharedMessage::from_numbers(rank, dim, numbers);
        let taken = message.and_then(|message| self.party.receive(sender, message));
        taken.map_err(|reason| MessageRejected::Implausible { sender, reason: reason.to_string() })
    }
}

impl<P: MessageParty> Strategy for MessageAgent<P> {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.party.ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.party.tell(observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.party.own())
    }

    fn transfer(&self) -> Option<Transfer> {
        self.party.transfer()
    }
}

impl<P: MessageParty> Collaborator for MessageAgent<P> {
    fn domain(&self) -> &Domain {
        self.party.domain()
    }

    fn own(&self) -> &Surrogate {
        self.party.own()
    }

    fn map(&self) -> &FeatureMap {
        self.party.basis().map()
    }

    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        let message =
            if self.is_placebo { self.party.placebo(stream)? } else { self.party.message()? };
        Ok(message.numbers(self.map().dim()))
    }
}

impl<P: MessageParty> UsesHandouts for MessageAgent<P> {
    type Handout = Broadcast;

    fn take(&mut self, broadcast: Broadcast, own_id: u32) -> Vec<UpdateRejected> {
        for straggler in &broadcast.stragglers {
            self.party.forget(*straggler);
        }
        let others = broadcast.messages.iter().filter(|message| message.sender != own_id);
        let refused = others.filter_map(|message| {
            let sender = message.sender;
            if message.map != self.map().hash() {
                let (found, expected) = (message.map, self.map().hash());
                return Some(MessageRejected::WrongMap { sender, found, expected });
            }
            self.receive(sender, &message.weights).err()
        });
        refused.map(UpdateRejected::from).collect()
    }
}
