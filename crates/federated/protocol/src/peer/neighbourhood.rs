//! The neighbours of a peer in each round.

use std::collections::BTreeSet;

/// A peer's neighbours in every round. This is one agent's view of a graph that changes over time.
///
/// The neighbours are the paper's N(i), except that edges can change between rounds. To begin round
/// t, an agent uses the earlier observations of its neighbours *in that round*. It sends its
/// reports to its neighbours in the round that it is about to begin. A new neighbour therefore
/// receives all earlier reports, and reports remain in use after an edge is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    /// Sets of neighbours, each with the first round in which it applies, in ascending order. The
    /// first set applies from round 0.
    spans: Vec<(u64, BTreeSet<u32>)>,
}

impl Neighbourhood {
    /// Creates a neighbourhood with the same neighbours in all rounds.
    #[must_use]
    pub fn fixed(neighbours: impl IntoIterator<Item = u32>) -> Self {
        Self { spans: vec![(0, neighbours.into_iter().collect())] }
    }

    /// Changes the neighbours from `round` on. Replaces any previous setting for this and later
    /// rounds.
    #[must_use]
    pub fn from_round(mut self, round: u64, neighbours: impl IntoIterator<Item = u32>) -> Self {
        self.spans.retain(|(from, _)| *from < round);
        self.spans.push((round, neighbours.into_iter().collect()));
        self
    }

    /// Returns the neighbours in a round.
    #[must_use]
    pub fn at(&self, round: u64) -> &BTreeSet<u32> {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        let span = self.spans.iter().rev().find(|(from, _)| *from <= round);
        span.map_or(&NONE, |(_, neighbours)| neighbours)
    }

    /// Returns all neighbours in this round or any earlier round.
    #[must_use]
    pub fn up_to(&self, round: u64) -> BTreeSet<u32> {
        let begun = self.spans.iter().filter(|(from, _)| *from <= round);
        let all = begun.flat_map(|(_, neighbours)| neighbours);
        all.copied().collect()
    }

    /// Returns all neighbours in any round.
    #[must_use]
    pub fn ever(&self) -> BTreeSet<u32> {
        self.up_to(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_holds_from_its_round_on() {
        let changing = Neighbourhood::fixed([1, 2]).from_round(3, [2, 5]).from_round(7, []);
        let at = |round| changing.at(round).iter().copied().collect::<Vec<_>>();
        assert_eq!(at(0), [1, 2]);
        assert_eq!(at(2), [1, 2]);
        assert_eq!(at(3), [2, 5]);
        assert_eq!(at(6), [2, 5]);
        assert!(at(7).is_empty() && at(u64::MAX).is_empty());
        assert_eq!(changing.up_to(2).into_iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(changing.ever().into_iter().collect::<Vec<_>>(), [1, 2, 5]);
        let replaced = changing.from_round(3, [9]);
        assert_eq!(replaced.at(8).iter().copied().collect::<Vec<_>>(), [9]);
    }
}
