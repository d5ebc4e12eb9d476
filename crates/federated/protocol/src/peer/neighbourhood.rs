//! The neighbours that a peer shares with, round by round.

use std::collections::BTreeSet;

/// A peer's neighbours in every round: a graph that changes with time, as one of its agents sees it.
///
/// Edges are those of the paper's N(i), with a time: to begin round t an agent uses what its neighbours *of that round* observed in
/// the rounds before, and it sends its reports to the neighbours of the round that it is about to begin. So somebody who becomes a
/// neighbour gets all of the past, and what was received stays known when an edge ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbourhood {
    /// From this round on, these; in ascending order of rounds, the first from round 0.
    spans: Vec<(u64, BTreeSet<u32>)>,
}

impl Neighbourhood {
    /// The same neighbours in all rounds.
    #[must_use]
    pub fn fixed(neighbours: impl IntoIterator<Item = u32>) -> Self {
        Self { spans: vec![(0, neighbours.into_iter().collect())] }
    }

    /// With other neighbours from a round on. A round at or before the last change replaces what was said of it.
    #[must_use]
    pub fn from_round(mut self, round: u64, neighbours: impl IntoIterator<Item = u32>) -> Self {
        self.spans.retain(|(from, _)| *from < round);
        self.spans.push((round, neighbours.into_iter().collect()));
        self
    }

    /// Those of a round.
    #[must_use]
    pub fn at(&self, round: u64) -> &BTreeSet<u32> {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        let span = self.spans.iter().rev().find(|(from, _)| *from <= round);
        span.map_or(&NONE, |(_, neighbours)| neighbours)
    }

    /// Those of this round or one before it.
    #[must_use]
    pub fn up_to(&self, round: u64) -> BTreeSet<u32> {
        let begun = self.spans.iter().filter(|(from, _)| *from <= round);
        let all = begun.flat_map(|(_, neighbours)| neighbours);
        all.copied().collect()
    }

    /// Those of any round.
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
