//! What travels between agents and the relay.

use std::fmt;

use fedbo_gp::MapHash;

/// A weight sample ω_n on its way from an agent to the relay: all that leaves an agent (INV-12).
#[derive(Clone, PartialEq)]
pub struct AgentUpdate {
    /// Index of the sender.
    pub sender: u32,
    /// Round it belongs to; 0 is the exchange before the first query.
    pub round: u64,
    /// Feature map that it was made with.
    pub map: MapHash,
    /// The M weights.
    pub weights: Vec<f64>,
}

impl fmt::Debug for AgentUpdate {
    /// Prints lengths only: weights stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AgentUpdate {{ sender: {}, round: {}, {} weights }}",
            self.sender,
            self.round,
            self.weights.len()
        )
    }
}

/// What the relay hands out when a round closes.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// The round that this starts: 1 is the first with a query by Thompson sampling.
    pub round: u64,
    /// Messages that arrived since the last broadcast, by sender. An agent skips its own.
    pub messages: Vec<AgentUpdate>,
    /// Participants whose message did not arrive in time; their older messages must not be used.
    pub stragglers: Vec<u32>,
}
