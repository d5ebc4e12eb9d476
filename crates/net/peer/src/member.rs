//! A peer's static knowledge of its federation.

use std::collections::BTreeSet;

use fedbo_space::Direction;
use fedbo_wire::{Digest, PeerReport};

/// A peer's membership in its federation. All fields are public. Only the slot and its neighbours
/// differ between peers.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the federation.
    pub federation: String,
    /// Hash of the configuration shared by all peers. A peer with a different hash is not accepted
    /// as a neighbour.
    pub digest: Digest,
    /// Names on the roster, by slot.
    pub names: Vec<String>,
    /// The peer's own slot.
    pub slot: u32,
    /// Slots of the peer's neighbours.
    pub neighbours: BTreeSet<u32>,
    /// Dimension of the search space.
    pub dim: usize,
    /// Number of queries of each peer after its initial points (T). The peer's reports are numbered
    /// 0 to T.
    pub rounds: u64,
    /// Number of initial points of each peer.
    pub n_initial: usize,
    /// Direction of optimization.
    pub direction: Direction,
}

impl Member {
    /// Returns the peer's own name.
    pub fn name(&self) -> &str {
        self.name_of(self.slot)
    }

    /// Returns the name of the peer with this slot, or `?` if the roster has no such slot.
    pub fn name_of(&self, slot: u32) -> &str {
        self.names.get(slot as usize).map_or("?", String::as_str)
    }

    /// Returns the slot of the peer with this name.
    pub fn slot_of(&self, name: &str) -> Option<u32> {
        let place = self.names.iter().position(|known| known == name)?;
        u32::try_from(place).ok()
    }

    /// Returns the maximum number of observations in a report for this round.
    pub fn observations_max(&self, round: u64) -> usize {
        if round == 0 { self.n_initial } else { 1 }
    }

    /// Returns the maximum size of a report for this round in bytes.
    pub fn report_bytes_max(&self, round: u64) -> usize {
        PeerReport::n_bytes(self.dim, self.observations_max(round))
    }
}
