//! Attendance of agents since this coordinator started: the senders of messages in each round, and
//! the time of each agent's last request.
//!
//! Both are public, since an observer of the network sees them too. Message contents are not
//! recorded (INV-4).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of rounds to remember.
const ROUNDS: usize = 200;
/// Maximum number of deliveries to remember. With many agents, this limits the number of rounds.
const DELIVERIES: usize = 2_000_000;

/// Attendance of a study's agents.
pub(crate) struct Attendance {
    n_slots: usize,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Delivery flags of all slots, by round.
    rounds: BTreeMap<u64, Vec<bool>>,
    /// Time of the last signed request from each slot.
    heard: BTreeMap<u32, Instant>,
}

impl Attendance {
    /// Returns an empty record for a study with `n_slots` slots.
    pub(crate) fn new(n_slots: u32) -> Self {
        Self { n_slots: n_slots as usize, seen: Mutex::default() }
    }

    /// Records a signed request from a slot.
    pub(crate) fn heard(&self, slot: u32) {
        self.seen().heard.insert(slot, Instant::now());
    }

    /// Records an accepted message.
    pub(crate) fn delivered(&self, slot: u32, round: u64) {
        let kept = (DELIVERIES / self.n_slots.max(1)).clamp(2, ROUNDS);
        let mut seen = self.seen();
        let n_slots = self.n_slots;
        let deliveries = seen.rounds.entry(round).or_insert_with(|| vec![false; n_slots]);
        if let Some(has) = deliveries.get_mut(slot as usize) {
            *has = true;
        }
        while seen.rounds.len() > kept {
            seen.rounds.pop_first();
        }
    }

    /// Returns true if a message from this slot was accepted in this round.
    pub(crate) fn has_delivered(&self, slot: u32, round: u64) -> bool {
        let seen = self.seen();
        let deliveries = seen.rounds.get(&round);
        deliveries.and_then(|slots| slots.get(slot as usize)).is_some_and(|has| *has)
    }

    /// Returns the delivery flags of all slots, by remembered round.
    pub(crate) fn rounds(&self) -> BTreeMap<u64, Vec<bool>> {
        self.seen().rounds.clone()
    }

    /// Returns the time since the last signed request from each slot.
    pub(crate) fn silences(&self) -> Vec<Option<Duration>> {
        let seen = self.seen();
        let slots = 0..u32::try_from(self.n_slots).unwrap_or(u32::MAX);
        slots.map(|slot| seen.heard.get(&slot).map(Instant::elapsed)).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rounds_are_remembered_and_fewer_of_many_agents() {
        let few = Attendance::new(2);
        for round in 0..ROUNDS as u64 + 5 {
            few.delivered(1, round);
        }
        let rounds = few.rounds();
        assert_eq!((rounds.len(), rounds.keys().next()), (ROUNDS, Some(&5)));
        assert!(rounds.values().all(|deliveries| deliveries == &[false, true]));
        let many = Attendance::new(500_000);
        for round in 0..10 {
            many.delivered(499_999, round);
        }
        assert_eq!(many.rounds().len(), 4);
    }

    #[test]
    fn a_slot_that_is_none_changes_nothing_that_is_shown() {
        let seen = Attendance::new(1);
        seen.delivered(7, 3);
        seen.heard(7);
        assert_eq!(seen.rounds()[&3], [false]);
        assert_eq!(seen.silences(), [None]);
    }
}
