//! The messages between agents and their coordinator.

use std::collections::BTreeSet;
use std::fmt;

use fedbo_gp::MapHash;

use crate::{Handout, KnownMessages, Weights};

/// A message on its way from an agent to the coordinator, such as a weight sample ω_n: all that leaves an agent (INV-12).
#[derive(Clone, PartialEq)]
pub struct AgentUpdate {
    /// Index of the sender.
    pub sender: u32,
    /// Round it belongs to; 0 is the exchange before the first query.
    pub round: u64,
    /// Feature map that it was made with.
    pub map: MapHash,
    /// The numbers: M weights of features, unless the algorithm sends something else.
    pub weights: Weights,
}

impl fmt::Debug for AgentUpdate {
    /// Prints the number of weights only: they stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, round, weights, .. } = self;
        write!(f, "AgentUpdate {{ sender: {sender}, round: {round}, {weights:?} }}")
    }
}

/// A handout of the relay when a round closes.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// The round that this starts: 1 is the first with a query by Thompson sampling.
    pub round: u64,
    /// Messages that arrived since the last broadcast, by sender. An agent skips its own.
    pub messages: Vec<AgentUpdate>,
    /// Participants whose message did not arrive in time; their older messages must not be used.
    pub stragglers: Vec<u32>,
}

impl Handout for Broadcast {
    fn round(&self) -> u64 {
        self.round
    }

    /// In every round.
    fn wants_upload(&self) -> bool {
        true
    }

    /// The newest message of each sender counts, unless the sender has become a straggler since.
    fn join(&mut self, newer: Self) {
        if newer.round <= self.round {
            return; // delivered again, or overtaken
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

    /// Each message is taken once, and its sender is named when it has become too old.
    fn settle(&mut self, known: &mut KnownMessages) {
        let now = self.round;
        self.stragglers.extend(known.expired(now));
        self.messages.retain(|message| known.takes(message.sender, message.round, now));
    }
}
