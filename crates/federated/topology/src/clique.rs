//! Search for the largest clique, whose size determines the regret bound.

use crate::Graph;
use crate::search::{Subgraph, Work};

/// Maximum number of bit-set words that a search processes. The limit corresponds to a few seconds.
const WORK_MAX: u64 = 1_000_000_000;

/// A clique (complete subgraph), with an upper bound on the size of the largest clique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clique {
    pub(crate) members: Vec<u32>,
    pub(crate) upper_bound: usize,
}

impl Clique {
    /// Returns the agents in the clique, in ascending order. Every pair is adjacent.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Returns the number of agents.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns an upper bound on the size of any clique in the graph.
    pub fn upper_bound(&self) -> usize {
        self.upper_bound
    }

    /// Returns true if the clique is known to be a largest one.
    pub fn is_exact(&self) -> bool {
        self.members.len() == self.upper_bound
    }
}

impl Graph {
    /// Finds a largest complete subgraph G_max. If the work limit is reached, returns the largest
    /// clique found so far, with an upper bound.
    ///
    /// Agents are removed in order of their degree among the remaining agents (degeneracy order).
    /// Each agent is searched together with the agents removed after it, unless a colouring rules
    /// out an improvement. The result is exact for a few hundred agents at any density, and for far
    /// more agents in sparse graphs. The work limit is reached after a few seconds.
    pub fn max_clique(&self) -> Clique {
        self.max_clique_within(WORK_MAX)
    }

    /// Adds agents that are adjacent to all members until none is left, so that the clique from an
    /// interrupted search is maximal.
    fn grow(&self, members: &mut Vec<u32>) {
        let Some(&least) = members.iter().min_by_key(|agent| self.degree(**agent)) else {
            return;
        };
        for &agent in self.neighbours(least) {
            let fits = |member: &u32| *member != agent && self.has_edge(*member, agent);
            if members.iter().all(fits) {
                members.push(agent);
            }
        }
    }

    pub(crate) fn max_clique_within(&self, words: u64) -> Clique {
        let order = self.degeneracy_order();
        let mut rank = vec![0_usize; order.len()];
        for (index, agent) in order.iter().enumerate() {
            rank[*agent as usize] = index;
        }
        let later = |agent: u32| -> Vec<u32> {
            let later = |other: &&u32| rank[**other as usize] > rank[agent as usize];
            self.neighbours(agent).iter().filter(later).copied().collect()
        };
        let colors = self.colors(&order);
        let mut seen = vec![u32::MAX; order.len() + 1];
        // Upper bound on the size of a clique in which this agent comes first in the order.
        let mut bound = |agent: u32, later: &[u32]| -> usize {
            let mut is_new = |other: &&u32| {
                let color = colors[**other as usize];
                std::mem::replace(&mut seen[color], agent) != agent
            };
            1 + later.iter().filter(|other| is_new(other)).count()
        };

        let mut work = Work::new(words);
        let mut places = vec![u32::MAX; order.len()];
        let mut members = self.greedy_clique(&order, &rank);
        let mut upper_bound = 1;
        for &agent in order.iter().rev() {
            let later = later(agent);
            let bound = bound(agent, &later);
            if bound <= members.len() {
                continue;
            }
            if !work.is_spent() {
                let subgraph = Subgraph::of(self, &later, &mut places, &mut work);
                let all = subgraph.all();
                let found = subgraph.clique_above(all, members.len() - 1, bound - 1, &mut work);
                if let Some(mut found) = found {
                    found.push(agent);
                    members = found;
                }
            }
            if work.is_spent() {
                upper_bound = upper_bound.max(bound);
            }
        }
        self.grow(&mut members);
        members.sort_unstable();
        upper_bound = upper_bound.max(members.len());
        Clique { members, upper_bound }
    }

    /// Returns the agents in the order in which they are removed: always the agent with the fewest
    /// remaining neighbours.
    fn degeneracy_order(&self) -> Vec<u32> {
        let mut degrees: Vec<usize> = self.agents().map(|agent| self.degree(agent)).collect();
        let n_buckets = degrees.iter().max().map_or(1, |most| most + 1);
        let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); n_buckets];
        for agent in self.agents().rev() {
            buckets[degrees[agent as usize]].push(agent);
        }
        let mut is_taken = vec![false; degrees.len()];
        let mut order = Vec::with_capacity(degrees.len());
        let mut fewest = 0;
        while order.len() < degrees.len() {
            let Some(agent) = buckets[fewest].pop() else {
                fewest += 1;
                continue;
            };
            // An agent stays in the bucket of every degree that it has had. Its smallest degree is
            // found first.
            if std::mem::replace(&mut is_taken[agent as usize], true) {
                continue;
            }
            order.push(agent);
            for &other in self.neighbours(agent) {
                if !is_taken[other as usize] {
                    let degree = &mut degrees[other as usize];
                    *degree -= 1;
                    buckets[*degree].push(other);
                    fewest = fewest.min(*degree);
                }
            }
        }
        order
    }

    /// Finds an initial clique. Starts from the agents with the most later neighbours, and adds
    /// adjacent agents, latest in the order first.
    fn greedy_clique(&self, order: &[u32], rank: &[usize]) -> Vec<u32> {
        const N_STARTS: usize = 16;
        let later = |agent: u32| {
            let later = move |other: &&u32| rank[**other as usize] > rank[agent as usize];
            self.neighbours(agent).iter().filter(later)
        };
        let mut starts = order.to_vec();
        starts.sort_by_cached_key(|agent| usize::MAX - later(*agent).count());
        let mut best = Vec::new();
        for &start in starts.iter().take(N_STARTS) {
            if best.len() > later(start).count() {
                break; // neither this start nor the remaining ones can do better
            }
            let mut candidates: Vec<u32> = later(start).copied().collect();
            candidates.sort_unstable_by_key(|agent| usize::MAX - rank[*agent as usize]);
            let mut clique = vec![start];
            for agent in candidates {
                if clique.iter().all(|member| self.has_edge(*member, agent)) {
                    clique.push(agent);
                }
            }
            if clique.len() > best.len() {
                best = clique;
            }
        }
        best
    }

    /// Colours the agents greedily, from the end of the order. Each agent gets the smallest colour,
    /// counted from 0, that none of its neighbours has.
    fn colors(&self, order: &[u32]) -> Vec<usize> {
        const NONE: usize = usize::MAX;
        let mut colors = vec![NONE; order.len()];
        let mut taken_by = vec![u32::MAX; order.len() + 1];
        for &agent in order.iter().rev() {
            for other in self.neighbours(agent) {
                let color = colors[*other as usize];
                if color != NONE {
                    taken_by[color] = agent;
                }
            }
            let free = taken_by.iter().position(|by| *by != agent);
            colors[agent as usize] = free.expect("there are more colours than agents");
        }
        colors
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::GraphSpec;
    use crate::graph::tests::all_graphs;

    /// Returns the size of the largest clique, by enumerating all subsets.
    pub(crate) fn brute_force(graph: &Graph) -> usize {
        let n = graph.n_agents();
        let members = |set: u32| (0..n).filter(move |agent| set >> agent & 1 == 1);
        let complete = |set: &u32| {
            members(*set).all(|a| members(*set).all(|b| a == b || graph.has_edge(a, b)))
        };
        let sizes = (1_u32..1 << n).filter(complete).map(u32::count_ones);
        sizes.max().unwrap_or(0) as usize
    }

    fn check(graph: &Graph, clique: &Clique) {
        for (index, a) in clique.members().iter().enumerate() {
            for b in &clique.members()[..index] {
                assert!(b < a && graph.has_edge(*a, *b), "{clique:?}");
            }
        }
    }

    /// Covers every graph with at most 6 agents, and random graphs with 7 to 12 agents.
    #[test]
    fn the_largest_clique_is_that_of_brute_force() {
        let mut stream = Seed::new(1).stream(Purpose::TEST, 0, 0);
        let random = (0..120).map(|index| {
            let n_agents = 7 + index % 6;
            let p = 0.2 + 0.7 * stream.uniform();
            let pairs = (0..n_agents).flat_map(|b| (0..b).map(move |a| (a, b)));
            let edges: Vec<_> = pairs.filter(|_| stream.bernoulli(p)).collect();
            Graph::from_edges(n_agents, &edges).unwrap()
        });
        for graph in (1..=6).flat_map(all_graphs).chain(random) {
            let clique = graph.max_clique();
            assert!(clique.is_exact());
            assert_eq!(clique.size(), brute_force(&graph), "{graph:?}");
            check(&graph, &clique);
        }
    }

    /// If the work limit is reached, the bounds still hold and the result is a clique.
    #[test]
    fn a_search_that_is_cut_short_brackets_the_truth() {
        let mut stream = Seed::new(2).stream(Purpose::TEST, 0, 0);
        let spec = GraphSpec::ErdosRenyi { edge_prob: 0.6 };
        let graph = spec.build(60, &mut stream).unwrap();
        let truth = graph.max_clique();
        assert!(truth.is_exact());
        let mut sizes = Vec::new();
        for words in [0, 100, 1_000, 10_000, 100_000, 100_000_000] {
            let clique = graph.max_clique_within(words);
            check(&graph, &clique);
            assert!(clique.size() <= truth.size() && truth.size() <= clique.upper_bound());
            sizes.push((clique.size(), clique.is_exact()));
        }
        assert!(!sizes[0].1);
        assert_eq!(sizes[5], (truth.size(), true));
        assert!(sizes.is_sorted_by_key(|(size, _)| *size), "{sizes:?}");
    }

    /// In G(300, 1/2), the expected number of k-cliques, C(300, k) 2^(−k(k−1)/2), is 2.6 for k = 12
    /// and 0.03 for k = 13.
    #[test]
    fn dense_and_large_graphs_are_exact_in_seconds() {
        let mut stream = Seed::new(3).stream(Purpose::TEST, 0, 0);
        let mut timed = |spec: GraphSpec, n_agents| {
            let graph = spec.build(n_agents, &mut stream).unwrap();
            let start = Instant::now();
            let clique = graph.max_clique();
            check(&graph, &clique);
            assert!(clique.is_exact(), "{spec:?}: {clique:?}");
            (clique.size(), start.elapsed().as_secs_f64())
        };
        let half = GraphSpec::ErdosRenyi { edge_prob: 0.5 };
        let (size, seconds) = timed(half, 300);
        assert!((11..=14).contains(&size) && seconds < 20.0, "{size} {seconds}");
        assert_eq!(timed(GraphSpec::Complete, 1_000).0, 1_000);
        assert_eq!(timed(GraphSpec::Star, 100_000).0, 2);
        assert_eq!(timed(GraphSpec::Grid { columns: None }, 100_000).0, 2);
    }
}
