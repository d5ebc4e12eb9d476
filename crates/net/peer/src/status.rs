//! Status of a peer, read from its folder.

use std::path::Path;

use fedbo_party::{HomeError, look as look_at_trials};
use fedbo_space::Direction;
use fedbo_wire::PublicKey;
use serde::Serialize;

use crate::records::look;
use crate::{OtherHome, PeerError};

/// Status of a peer. `fedbo peer status --json` prints it as JSON with these field names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerStatus {
    /// Name of the federation.
    pub federation: String,
    /// The peer's own name.
    #[serde(rename = "peer")]
    pub name: String,
    /// The peer's key, which neighbours can add to their files.
    pub key: PublicKey,
    /// Number of the peer's reports. The first one is for round 0.
    pub reports: u64,
    /// The last round.
    pub rounds: u64,
    /// Number of finished trials.
    #[serde(rename = "trials")]
    pub n_trials: u64,
    /// Best value so far.
    pub best: Option<f64>,
    /// Number of rounds with conflicting signed reports, counted per sender.
    #[serde(rename = "conflicts")]
    pub n_conflicts: u64,
    /// Status of the exchange with each neighbour.
    pub neighbours: Vec<NeighbourStatus>,
}

/// Status of a peer's exchange with a neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeighbourStatus {
    /// Name of the neighbour.
    pub name: String,
    /// Last known address of the neighbour.
    pub url: String,
    /// The neighbour's key, once known.
    pub key: Option<PublicKey>,
    /// Number of this peer's reports that the neighbour has confirmed.
    pub confirmed: u64,
    /// Number of reports received from the neighbour.
    pub received: u64,
    /// Time of the last confirmation, in milliseconds since 1970.
    pub contact_at_ms: Option<u64>,
}

/// Returns the status of the peer in a folder, or `None` if it has not started. Read-only, without
/// network access.
///
/// # Errors
/// If the stored data cannot be read.
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
