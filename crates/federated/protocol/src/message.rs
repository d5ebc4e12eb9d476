//! The messages between agents and their coordinator.

use std::collections::BTreeSet;
use std::fmt;

use fedbo_gp::MapHash;

use crate::{Handout, KnownMessages, Weights};

/// A message from an agent to the coordinator, for example a weight sample ω_n. Nothing else leaves
/// an agent (INV-12).
#[derive(Clone, PartialEq)]
pub struct AgentUpdate {
    /// Index of the sender.
    pub sender: u32,
    /// Round of the message. Round 0 is the exchange before the first query.
    pub round: u64,
    /// Hash of the feature map that the weights refer to.
    pub map: MapHash,
    /// The numbers. These are M feature weights, unless the algorithm sends something else.
    pub weights: Weights,
}

impl fmt::Debug for AgentUpdate {
    /// Prints only the number of weights, so that the values stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, round, weights, .. } = self;
        write!(f, "AgentUpdate {{ sender: {sender}, round: {round}, {weights:?} }}")
    }
}

/// A handout from the relay, sent when a round closes.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// The round that this handout starts. Round 1 is the first with a query by Thompson sampling.
    pub round: u64,
    /// Messages that arrived since the last broadcast, ordered by sender. An agent skips its own
    /// message.
    pub messages: Vec<AgentUpdate>,
    /// Participants that did not deliver a message in time. Their older messages must not be used.
    pub stragglers: Vec<u32>,
}

impl Handout for Broadcast {
    fn round(&self) -> u64 {
        self.round
    }

    /// Always true, because every round collects messages.
    fn wants_upload(&self) -> bool {
        true
    }

    /// Keeps the newest message of each sender, unless the sender has since become a straggler.
    fn join(&mut self, newer: Self) {
        if newer.round <= self.round {
            return; // delivered again, or out of order
        }
        self.round = newer.round;
        let replaced: BTreeSet<u32> = newer
            .stragglers
            .iter()
            .copied()
            .chain(newer.messages.iter().map(|message| message.sender))
            .collect();
        self.messages.retain(|message| !replaced.contains(&message.sender));
        self.messages.extend(newer.messages);
        let stragglers: BTreeSet<u32> =
            std::mem::take(&mut self.stragglers).into_iter().chain(newer.stragglers).collect();
        self.stragglers = stragglers.into_iter().collect();
    }

    /// Keeps only new messages, and adds the senders of expired messages to the stragglers.
    fn settle(&mut self, known: &mut KnownMessages) {
        let now = self.round;
        self.stragglers.extend(known.expired(now));
        self.messages.retain(|message| known.takes(message.sender, message.round, now));
    }
}
