//! A coordinator's studies, as listed by commands and pages.

use fedbo_coordinator::Home;
use fedbo_coordinator::store::{SlotRecord, StudyRecord};
use fedbo_federation::Federation;
use serde::Serialize;

/// A study in the list.
#[derive(Serialize)]
pub struct ListedStudy {
    /// The study's name.
    pub study: String,
    /// The study's state, in one word.
    pub state: &'static str,
    /// Number of finished rounds.
    pub round: u64,
    /// Total number of rounds.
    pub rounds: u64,
    /// Number of slots for agents.
    pub agents: usize,
    /// Number of slots claimed by an agent.
    pub enrolled: usize,
}

/// Returns a study's entry in the list.
pub fn listed(home: &Home, record: &StudyRecord) -> anyhow::Result<ListedStudy> {
    let slots = home.store().slots(record.key)?;
    let rounds = Federation::thaw(&record.config)?.n_rounds();
    Ok(ListedStudy {
        study: record.name.clone(),
        state: record.state.name(),
        round: record.round.min(rounds),
        rounds,
        agents: slots.len(),
        enrolled: slots.iter().filter(|slot| slot.key.is_some()).count(),
    })
}

/// Returns the state of a slot in one word.
pub fn slot_state(slot: &SlotRecord) -> &'static str {
    match (&slot.key, slot.is_revoked) {
        (_, true) => "revoked",
        (Some(_), false) => "enrolled",
        (None, false) => "waiting",
    }
}
