//! The federation file, which is the same for all peers.

use std::path::Path;

use fedbo_config::{FileError, TomlFile};
use fedbo_federated::{Exchange, named};
use fedbo_federation::{
    ALGORITHMS, Algorithm, Collaboration, Federation, FederationFile, Objectives,
};
use fedbo_objective::Problems;
use fedbo_protocol::Peer;
use fedbo_wire::{Digest, digest};

use crate::{Member, PeerError};

/// The federation file, as read by one peer.
pub(crate) struct SharedFile {
    pub(crate) federation: Federation,
    pub(crate) member: Member,
    pub(crate) machine: Peer,
    /// Path of the file, for messages.
    pub(crate) path: String,
}

impl SharedFile {
    /// Reads the file for the agent with this name.
    ///
    /// Commands of other agents are not checked, since their programs are on other machines. If the
    /// peer has its own objective (`has_objective`), the command for it in this file is not checked
    /// either.
    pub(crate) fn load(
        path: &Path,
        name: &str,
        has_objective: bool,
        problems: &dyn Problems,
    ) -> Result<Self, PeerError> {
        let file = TomlFile::read(path)?;
        let mut read: FederationFile = file.parse()?;
        for agent in &mut read.agents {
            if has_objective || agent.name.as_deref() != Some(name) {
                agent.command = None;
                agent.directory = None;
                agent.timeout_s = None;
            }
        }
        let federation = read.validate(&file, Objectives::Elsewhere, problems, ALGORITHMS)?;
        let unfit = |message: String| PeerError::Unfit(format!("{}: {message}", path.display()));
        let Collaboration::Neighbours(neighbours) = &federation.collaboration else {
            return Err(unfit(has_coordinator(federation.algorithm)));
        };
        if !neighbours.topology.changes.is_empty() {
            return Err(unfit(
                "[[topology.changes]] apply to `fedbo run` only: over a network the graph is fixed; remove them".to_owned(),
            ));
        }
        let names: Vec<String> = federation.agents.iter().map(|a| a.name.clone()).collect();
        let place = names.iter().position(|known| known == name);
        let Some(slot) = place.and_then(|place| u32::try_from(place).ok()) else {
            let known = names.join(", ");
            return Err(unfit(format!(
                "{name:?} is not one of its agents, which are {known}; correct the peer's name, or add it in the files of all peers"
            )));
        };
        let machine = federation.peer(neighbours, federation.own_arm(), slot);
        let machine = machine.map_err(|error| unfit(error.to_string()))?;
        let Some(machine) = machine else {
            return Err(unfit("no initial point was found in its space".to_owned()));
        };
        let member = Member {
            federation: federation.name.clone(),
            digest: hash(&federation, &file)?,
            slot,
            neighbours: machine.recipients().clone(),
            dim: federation.space.dim(),
            rounds: federation.rounds,
            n_initial: federation.n_initial,
            direction: federation.direction,
            names,
        };
        Ok(Self { member, machine, path: path.display().to_string(), federation })
    }
}

fn has_coordinator(algorithm: Algorithm) -> String {
    let word = algorithm.name;
    let of_peers = named(&[Exchange::Neighbours]);
    format!(
        "federation.algorithm = {word:?} is not an algorithm for peers, which share observations with neighbours: set \
         {of_peers}, or run it with `fedbo run` or `fedbo coordinator`"
    )
}

/// Hashes everything on which peers must agree: the file without the peers' individual settings,
/// and the graph, which may be in a separate file.
fn hash(federation: &Federation, file: &TomlFile) -> Result<Digest, FileError> {
    let text = federation.text_of_peers(file)?;
    let mut edges = Vec::new();
    if let Some(topology) = federation.topology() {
        let n_agents = u32::try_from(federation.agents.len()).unwrap_or(u32::MAX);
        for agent in 0..n_agents {
            for neighbour in topology.graph.neighbours(agent) {
                edges.extend(agent.to_le_bytes());
                edges.extend(neighbour.to_le_bytes());
            }
        }
    }
    Ok(digest("fedbo federation of peers, version 1", &[text.as_bytes(), &edges]))
}
