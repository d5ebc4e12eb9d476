//! The status of a peer, read from its folder without asking anybody.

use std::path::Path;

use fedbo_party::{HomeError, look as look_at_trials};
use fedbo_space::Direction;
use fedbo_wire::PublicKey;
use serde::Serialize;

use crate::records::look;
use crate::{OtherHome, PeerError};

/// The status of a peer; `fedbo peer status --json` prints it as JSON, under these names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// Name of the federation.
    pub federation: String,
    /// The peer's own name.
    #[serde(rename = "peer")]
    pub name: String,
    /// Its key, which neighbours may name in their files.
    pub key: PublicKey,
    /// Reports that it has made; the first is that of round 0.
    pub reports: u64,
    /// The last round.
    pub rounds: u64,
    /// Trials that have ended.
    #[serde(rename = "trials")]
    pub n_trials: u64,
    /// The best value.
    pub best: Option<f64>,
    /// Rounds of which somebody has signed two reports.
    #[serde(rename = "conflicts")]
    pub n_conflicts: u64,
    /// Those that it shares with.
    pub neighbours: Vec<NeighbourStatus>,
}

/// The status of a peer's exchange with a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeighbourStatus {
    /// Its name.
    pub name: String,
    /// The address at which it was found last.
    pub url: String,
    /// Its key, once it is known.
    pub key: Option<PublicKey>,
    /// Reports that it has confirmed.
    pub confirmed: u64,
    /// Reports of it that have come.
    pub received: u64,
    /// The time at which it last confirmed something, in milliseconds since 1970.
    pub contact_at_ms: Option<u64>,
}

/// Returns the status of the peer in a folder; none if it has not begun. Asks nobody, changes nothing.
///
/// # Errors
/// If what is stored cannot be read.
pub fn status(home: &Path) -> Result<Option<PeerStatus>, PeerError> {
    let found = match look(home) {
        Err(HomeError::Absent { .. }) => return Ok(None),
        found => found.map_err(|error| PeerError::Home(OtherHome::Home(error)))?,
    };
    let Some(found) = found else { return Ok(None) };
    let direction = match found.owner.maximizes {
        true => Direction::Maximize,
        false => Direction::Minimize,
    };
    let trials = look_at_trials(home, &found.owner.study, direction)?;
    let received = |slot: u32| found.received.get(&slot).copied().unwrap_or(0);
    let neighbours = found.neighbours.iter().map(|known| NeighbourStatus {
        name: known.name.clone(),
        url: known.url.clone(),
        key: known.key,
        confirmed: known.confirmed,
        received: received(known.slot),
        contact_at_ms: known.contact_at_ms,
    });
    Ok(Some(PeerStatus {
        neighbours: neighbours.collect(),
        federation: found.owner.study,
        name: found.owner.name,
        key: found.owner.key,
        reports: found.n_outgoing,
        rounds: found.owner.rounds,
        n_trials: trials.n_told,
        best: trials.best,
        n_conflicts: found.n_conflicts,
    }))
}
