//! Counts of the releases that include each agent, for sessions that limit them.

/// Counts the releases that include each slot, and enforces a limit per slot (k of T).
///
/// A release costs only the agents that it includes, because an absent vector changes nothing. An
/// agent therefore pays for at most k releases, even if there are T (`fedbo-privacy`,
/// ACCOUNTING.md, "k of T"). The participants of each release are public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participations {
    most: u64,
    /// For each slot, the number of releases so far and the round of the last one.
    slots: Vec<(u64, Option<u64>)>,
}

impl Participations {
    /// Creates counts of zero for `n_slots` slots, with a limit of `most` releases per slot.
    pub fn new(n_slots: u32, most: u64) -> Self {
        Self { most, slots: vec![(0, None); n_slots as usize] }
    }

    /// Returns the maximum number of releases per slot.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns true if a slot can be included in a round's release, because it is already counted
    /// for that round or is below the limit.
    pub fn allows(&self, slot: u32, round: u64) -> bool {
        let found = self.slots.get(slot as usize);
        found.is_some_and(|(count, last)| *last == Some(round) || *count < self.most)
    }

    /// Counts a slot as included in a round's release. Repeated calls have no effect. Rounds must
    /// be passed in order.
    pub fn count(&mut self, slot: u32, round: u64) {
        if let Some((count, last)) = self.slots.get_mut(slot as usize)
            && *last != Some(round)
        {
            *count += 1;
            *last = Some(round);
        }
    }

    /// Returns the number of releases that include a slot.
    pub fn of(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |(count, _)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_counted_once_a_round_and_refused_beyond_the_last() {
        let mut counts = Participations::new(2, 2);
        for round in [0, 0, 3] {
            assert!(counts.allows(1, round));
            counts.count(1, round);
        }
        assert_eq!((counts.of(0), counts.of(1), counts.most()), (0, 2, 2));
        assert!(counts.allows(1, 3), "it is in this one");
        assert!(!counts.allows(1, 4) && counts.allows(0, 4));
        assert!(!counts.allows(2, 0), "no such slot");
    }
}
