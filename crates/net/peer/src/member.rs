//! A peer's knowledge of its federation before anything has happened.

use std::collections::BTreeSet;

use fedbo_space::Direction;
use fedbo_wire::{Digest, PeerReport};

/// A peer's place in its federation. All of it is public, and equal at all peers but for the place itself.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the federation.
    pub federation: String,
    /// Hash of what all peers know of it: who is not of the same is no neighbour.
    pub digest: Digest,
    /// The roster.
    pub names: Vec<String>,
    /// The peer's own place on it.
    pub slot: u32,
    /// Places of those it shares with.
    pub neighbours: BTreeSet<u32>,
    /// Dimension of the space.
    pub dim: usize,
    /// Queries of each peer after its initial points (T): its reports are 0 to T.
    pub rounds: u64,
    /// Initial points of each peer.
    pub n_initial: usize,
    /// The direction in which values get better.
    pub direction: Direction,
}

impl Member {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.name_of(self.slot)
    }

    /// The name in a place.
    pub fn name_of(&self, slot: u32) -> &str {
        self.names.get(slot as usize).map_or("?", String::as_str)
    }

    /// The place of a name.
    pub fn slot_of(&self, name: &str) -> Option<u32> {
        let place = self.names.iter().position(|known| known == name)?;
        u32::try_from(place).ok()
    }

    /// Observations that a report of this round has at most.
    pub fn observations_max(&self, round: u64) -> usize {
        if round == 0 { self.n_initial } else { 1 }
    }

    /// Bytes of a report of this round at most.
    pub fn report_bytes_max(&self, round: u64) -> usize {
        PeerReport::n_bytes(self.dim, self.observations_max(round))
    }
}
