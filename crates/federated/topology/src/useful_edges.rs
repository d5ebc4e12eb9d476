//! Edges that would enlarge the largest clique.

use crate::search::{Subgraph, Work};
use crate::{Clique, Edge, Graph};

/// Maximum number of bit-set words and neighbours that a search processes. The limit corresponds to
/// a few seconds.
const WORK_MAX: u64 = 1_000_000_000;
/// Maximum number of agents for which the whole graph is searched as one bit matrix (2 MB).
const N_MATRIX_MAX: u32 = 4_096;

/// Edges that would each enlarge the largest clique by one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnlargingEdges {
    /// The edges found, in ascending order.
    pub edges: Vec<Edge>,
    /// True if there are no other such edges. False if there are more than the requested number, or
    /// if the work limit was reached.
    pub is_complete: bool,
}

/// An agent that could join a clique, and the edges that it would need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The agent.
    pub agent: u32,
    /// The missing edges between the agent and members of the clique, each with the smaller agent
    /// number first.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// Finds edges {a, b} that would give a clique with more agents than `clique`. Returns at most
    /// `limit` edges.
    ///
    /// A clique that contains the new edge consists of a, b and a clique among their common
    /// neighbours. If a largest clique has ω agents, the edge therefore enlarges it if and only if
    /// the common neighbours contain a clique of ω − 1 agents. No edge adds more than one agent. If
    /// `clique` is not known to be a largest one ([`Clique::is_exact`]), each edge still gives a
    /// clique larger than `clique`.
    pub fn edges_that_enlarge(&self, clique: &Clique, limit: usize) -> EnlargingEdges {
        self.edges_that_raise_within(clique, limit, WORK_MAX)
    }

    fn edges_that_raise_within(&self, clique: &Clique, limit: usize, words: u64) -> EnlargingEdges {
        let needed = clique.size() - 1;
        let mut work = Work::new(words);
        let mut edges = Vec::new();
        let mut inside = Inside::of(self, needed, &mut work);
        let mut n_common = vec![0_u32; self.n_agents() as usize];
        for a in self.agents() {
            for b in self.partners(a, needed, &mut n_common, &mut work) {
                let raises = inside.common_clique(a, b, &mut work);
                if work.is_spent() || (raises && edges.len() == limit) {
                    return EnlargingEdges { edges, is_complete: false };
                }
                if raises {
                    edges.push((a, b));
                }
            }
        }
        EnlargingEdges { edges, is_complete: !work.is_spent() }
    }

    /// Returns the agents after `a`, in ascending order, that are not adjacent to `a` but have at
    /// least `needed` neighbours in common with it. `n_common` is scratch space, which must be all
    /// zeros and is all zeros again on return.
    fn partners(&self, a: u32, needed: usize, n_common: &mut [u32], work: &mut Work) -> Vec<u32> {
        if needed == 0 {
            return (a + 1..self.n_agents()).collect(); // the graph has no edges
        }
        let mut met = Vec::new();
        if self.degree(a) < needed || work.is_spent() {
            return met;
        }
        for &middle in self.neighbours(a) {
            let beyond = self.neighbours(middle);
            let beyond = &beyond[beyond.partition_point(|b| *b <= a)..];
            work.spend(beyond.len());
            for &b in beyond {
                if n_common[b as usize] == 0 {
                    met.push(b);
                }
                n_common[b as usize] += 1;
            }
        }
        met.sort_unstable();
        let counts: Vec<u32> =
            met.iter().map(|b| std::mem::take(&mut n_common[*b as usize])).collect();
        let suits = |(b, count): (u32, u32)| {
            (count as usize >= needed && !self.has_edge(a, b)).then_some(b)
        };
        met.into_iter().zip(counts).filter_map(suits).collect()
    }

    fn common_neighbours(&self, a: u32, b: u32) -> Vec<u32> {
        let (short, long) = match self.degree(a) < self.degree(b) {
            true => (self.neighbours(a), self.neighbours(b)),
            false => (self.neighbours(b), self.neighbours(a)),
        };
        let is_common = |agent: &&u32| long.binary_search(agent).is_ok();
        short.iter().filter(is_common).copied().collect()
    }

    /// Finds the agent outside a clique that needs the fewest edges to join it. The first such
    /// agent wins a tie. Returns `None` if the clique contains all agents.
    ///
    /// Extending a different clique of the same size might need fewer edges.
    pub fn nearest_extension(&self, clique: &Clique) -> Option<Extension> {
        let members = clique.members();
        let mut n_joined = vec![0_usize; self.n_agents() as usize];
        for neighbour in members.iter().flat_map(|member| self.neighbours(*member)) {
            n_joined[*neighbour as usize] += 1;
        }
        let outside = self.agents().filter(|agent| members.binary_search(agent).is_err());
        let agent = outside.min_by_key(|agent| usize::MAX - n_joined[*agent as usize])?;
        let missing = members.iter().filter(|member| !self.has_edge(agent, **member));
        let edges = missing.map(|member| (agent.min(*member), agent.max(*member)));
        Some(Extension { agent, edges: edges.collect() })
    }
}

/// Searches the common neighbours of two agents for cliques of a given size.
struct Inside<'a> {
    graph: &'a Graph,
    needed: usize,
    /// The whole graph, if it is small; `places` then holds the position of each agent. For a
    /// larger graph, a subgraph is built for each pair.
    whole: Option<Subgraph>,
    places: Vec<u32>,
}

impl<'a> Inside<'a> {
    fn of(graph: &'a Graph, needed: usize, work: &mut Work) -> Self {
        let mut places = vec![u32::MAX; graph.n_agents() as usize];
        let whole = (graph.n_agents() <= N_MATRIX_MAX).then(|| {
            let agents: Vec<u32> = graph.agents().collect();
            let whole = Subgraph::of(graph, &agents, &mut places, work);
            for (place, agent) in (0..).zip(whole.agents()) {
                places[*agent as usize] = place;
            }
            whole
        });
        Self { graph, needed, whole, places }
    }

    /// Returns true if the common neighbours of both agents contain a clique of `needed` agents.
    fn common_clique(&mut self, a: u32, b: u32, work: &mut Work) -> bool {
        let needed = self.needed;
        if needed == 0 {
            return true;
        }
        let found = if let Some(whole) = &self.whole {
            let common = whole.common(self.places[a as usize], self.places[b as usize]);
            whole.clique_above(common, needed - 1, needed, work)
        } else {
            let common = self.graph.common_neighbours(a, b);
            let subgraph = Subgraph::of(self.graph, &common, &mut self.places, work);
            subgraph.clique_above(subgraph.all(), needed - 1, needed, work)
        };
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::GraphSpec;
    use crate::graph::tests::all_graphs;

    const ALL: usize = usize::MAX;

    /// Finds the edges directly from the definition: recomputes the largest clique with each
    /// missing edge added.
    fn brute_force(graph: &Graph) -> Vec<Edge> {
        let size = graph.max_clique().size();
        let pairs = graph.agents().flat_map(|a| (a + 1..graph.n_agents()).map(move |b| (a, b)));
        let missing = pairs.filter(|(a, b)| !graph.has_edge(*a, *b));
        let raises = |edge: &Edge| {
            let more = graph.with_edge(*edge).expect("a missing edge").max_clique();
            assert!(more.size() <= size + 1);
            more.size() == size + 1
        };
        missing.filter(raises).collect()
    }

    #[test]
    fn the_edges_are_those_of_the_definition() {
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let random = (0..60).map(|index| {
            let edge_prob = 0.35 + 0.5 * stream.uniform();
            let spec = GraphSpec::ErdosRenyi { edge_prob };
            spec.build(7 + index % 6, &mut stream).expect("a graph")
        });
        for graph in (1..=5).flat_map(all_graphs).chain(random) {
            let clique = graph.max_clique();
            let expected = brute_force(&graph);
            let found = graph.edges_that_enlarge(&clique, ALL);
            assert!(found.is_complete);
            assert_eq!(found.edges, expected, "{graph:?}");
            if let Some(first) = expected.first() {
                let one = graph.edges_that_enlarge(&clique, 1);
                assert_eq!(one.edges, [*first]);
                assert_eq!(one.is_complete, expected.len() == 1);
            }
            let short = graph.edges_that_raise_within(&clique, ALL, 5);
            assert!(short.edges.iter().all(|edge| expected.contains(edge)));
            assert!(!short.is_complete || short.edges == expected);
        }
    }

    #[test]
    fn an_extension_names_the_fewest_edges_to_the_clique() {
        // In a triangle with a tail, the first agent of the tail needs two edges.
        let graph = Graph::from_edges(5, &[(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)]).unwrap();
        let clique = graph.max_clique();
        assert_eq!(clique.members(), [0, 1, 2]);
        let extension = graph.nearest_extension(&clique).expect("agents outside");
        assert_eq!((extension.agent, extension.edges), (3, vec![(0, 3), (1, 3)]));
        let whole = Graph::from_edges(2, &[(0, 1)]).unwrap();
        assert_eq!(whole.nearest_extension(&whole.max_clique()), None);
    }

    #[test]
    fn a_dense_graph_and_a_wide_star_are_searched_in_seconds() {
        let mut stream = Seed::new(5).stream(Purpose::TEST, 0, 0);
        let dense = GraphSpec::ErdosRenyi { edge_prob: 0.5 };
        let dense = dense.build(200, &mut stream).unwrap();
        let start = Instant::now();
        let found = dense.edges_that_enlarge(&dense.max_clique(), ALL);
        assert!(found.is_complete);
        let star = GraphSpec::Star.build(100_000, &mut stream).unwrap();
        let found = star.edges_that_enlarge(&star.max_clique(), 1_000);
        assert_eq!((found.edges.len(), found.is_complete), (1_000, false));
        assert_eq!(found.edges[0], (1, 2));
        assert!(start.elapsed().as_secs_f64() < 20.0);
    }
}
