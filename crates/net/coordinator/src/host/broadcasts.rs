//! Broadcasts of earlier rounds of a relayed study.

use fedbo_gp::MapHash;
use fedbo_protocol::{AgentUpdate, Broadcast, Handout as _};
use fedbo_wire::{Content, Handout, Limits, SigningKey};

use super::error::HostError;
use crate::store::Store;
use crate::study::Study;

/// Returns the broadcast sent at the start of a round of a relayed study, or an empty one if none
/// is stored.
pub(super) fn broadcast(
    store: &dyn Store,
    study: &Study,
    key: &SigningKey,
    round: u64,
) -> Result<Broadcast, HostError> {
    let Some(bytes) = store.broadcast(study.key, round)? else {
        return Ok(Broadcast { round, messages: Vec::new(), stragglers: Vec::new() });
    };
    let limits =
        Limits { n_features: study.n_features, n_slots: study.n_slots, release_bytes_max: 0 };
    let unreadable = |source| HostError::Broadcast { round, source };
    let handout = Handout::from_bytes(&bytes, &key.public(), limits).map_err(unreadable)?;
    let (messages, stragglers) = match handout.content {
        Content::Messages { messages, stragglers } => (messages, stragglers),
        Content::Releases(_) | Content::Shares { .. } => (Vec::new(), Vec::new()),
    };
    let map: MapHash = study.map;
    Ok(Broadcast {
        round,
        messages: messages
            .into_iter()
            .map(|message| AgentUpdate {
                sender: message.sender,
                round: message.round,
                map,
                weights: message.weights.into(),
            })
            .collect(),
        stragglers,
    })
}

/// Joins a relayed study's broadcasts for the rounds after `after`, up to and including `last`.
pub(crate) fn broadcasts_since(
    store: &dyn Store,
    study: &Study,
    key: &SigningKey,
    after: u64,
    last: &Broadcast,
) -> Result<Broadcast, String> {
    let mut joined = Broadcast { round: after, messages: Vec::new(), stragglers: Vec::new() };
    for round in after + 1..last.round {
        let next = broadcast(store, study, key, round).map_err(|error| error.to_string())?;
        joined.join(next);
    }
    joined.join(last.clone());
    Ok(joined)
}
