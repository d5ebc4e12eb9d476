//! A simple undirected graph of agents.

use crate::GraphError;

/// Maximum number of agents in a graph.
pub const N_AGENTS_MAX: u32 = 100_000;
/// Maximum number of edges in a graph (160 MB).
pub const N_EDGES_MAX: usize = 20_000_000;

/// A pair of distinct, adjacent agents. This crate returns edges with the smaller number first.
pub type Edge = (u32, u32);

/// An immutable simple undirected graph of n agents, which are numbered from 0.
///
/// G = (V, E), |V| = n from 1 to [`N_AGENTS_MAX`], at most [`N_EDGES_MAX`] edges, no self-loops.
/// N(i) is [`Graph::neighbours`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Offset of each agent's neighbours in `neighbours` (n + 1 entries).
    starts: Vec<usize>,
    /// The neighbours of all agents, concatenated. Each agent's neighbours are in ascending order.
    neighbours: Vec<u32>,
}

impl Graph {
    /// Builds a graph from edges in any order and direction.
    ///
    /// # Errors
    /// If the number of agents or edges is out of range, or an edge is a self-loop, names an
    /// unknown agent, or is repeated.
    pub fn from_edges(n_agents: u32, edges: &[Edge]) -> Result<Self, GraphError> {
        check_agents(n_agents)?;
        check_edges(edges.len() as u64)?;
        let mut starts = vec![0_usize; n_agents as usize + 1];
        for &(a, b) in edges {
            if let Some(agent) = [a, b].into_iter().find(|agent| *agent >= n_agents) {
                return Err(GraphError::UnknownAgent { agent, n_agents });
            }
            if a == b {
                return Err(GraphError::SelfLoop { agent: a });
            }
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for agent in 1..starts.len() {
            starts[agent] += starts[agent - 1];
        }
        let mut next = starts.clone();
        let mut neighbours = vec![0; 2 * edges.len()];
        for (from, to) in edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]) {
            neighbours[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        for agent in 0..n_agents {
            let of_agent = starts[agent as usize]..starts[agent as usize + 1];
            let of_agent = &mut neighbours[of_agent];
            of_agent.sort_unstable();
            if let Some(pair) = of_agent.windows(2).find(|pair| pair[0] == pair[1]) {
                let (a, b) = (agent.min(pair[0]), agent.max(pair[0]));
                return Err(GraphError::RepeatedEdge { a, b });
            }
        }
        Ok(Self { starts, neighbours })
    }

    /// Returns n, the number of agents.
    pub fn n_agents(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).expect("from_edges takes at most N_AGENTS_MAX agents")
    }

    /// Returns the number of edges.
    pub fn n_edges(&self) -> usize {
        self.neighbours.len() / 2
    }

    /// Returns all agents.
    pub fn agents(&self) -> std::ops::Range<u32> {
        0..self.n_agents()
    }

    /// Returns N(i): the agent's neighbours in ascending order, without the agent itself.
    ///
    /// # Panics
    /// If there is no such agent.
    pub fn neighbours(&self, agent: u32) -> &[u32] {
        let agent = agent as usize;
        &self.neighbours[self.starts[agent]..self.starts[agent + 1]]
    }

    /// |N(i)|, the agent's number of neighbours.
    ///
    /// # Panics
    /// If there is no such agent.
    pub fn degree(&self, agent: u32) -> usize {
        self.neighbours(agent).len()
    }

    /// Returns true if two agents are adjacent, and false if either does not exist.
    pub fn has_edge(&self, a: u32, b: u32) -> bool {
        a < self.n_agents() && self.neighbours(a).binary_search(&b).is_ok()
    }

    /// Returns all edges, in ascending order.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        self.agents().flat_map(move |a| {
            let later = self.neighbours(a).iter().filter(move |b| a < **b);
            later.map(move |b| (a, *b))
        })
    }

    /// Returns this graph with one more edge.
    ///
    /// # Errors
    /// Same as [`Graph::from_edges`].
    pub fn with_edge(&self, edge: Edge) -> Result<Self, GraphError> {
        let edges: Vec<Edge> = self.edges().chain([edge]).collect();
        Self::from_edges(self.n_agents(), &edges)
    }
}

pub(crate) fn check_agents(n_agents: u32) -> Result<(), GraphError> {
    match n_agents {
        1..=N_AGENTS_MAX => Ok(()),
        _ => Err(GraphError::Agents { n_agents: n_agents.into() }),
    }
}

pub(crate) fn check_edges(n_edges: u64) -> Result<(), GraphError> {
    if n_edges <= N_EDGES_MAX as u64 { Ok(()) } else { Err(GraphError::TooManyEdges { n_edges }) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns all graphs with n agents, where n(n − 1)/2 is at most 15.
    pub(crate) fn all_graphs(n_agents: u32) -> impl Iterator<Item = Graph> {
        let pairs: Vec<Edge> = (0..n_agents).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        (0_u32..1 << pairs.len()).map(move |chosen| {
            let chosen = pairs.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1);
            let edges: Vec<Edge> = chosen.map(|(_, edge)| *edge).collect();
            Graph::from_edges(n_agents, &edges).expect("pairs of different agents")
        })
    }

    #[test]
    fn neighbours_are_those_of_the_edges_in_either_direction() {
        let graph = Graph::from_edges(5, &[(3, 1), (0, 3), (4, 3)]).unwrap();
        assert_eq!(graph.neighbours(3), [0, 1, 4]);
        assert_eq!(graph.neighbours(1), [3]);
        assert!(graph.neighbours(2).is_empty());
        assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 3), (1, 3), (3, 4)]);
        assert_eq!((graph.n_agents(), graph.n_edges()), (5, 3));
        assert!(graph.has_edge(1, 3) && graph.has_edge(3, 1) && !graph.has_edge(0, 1));
        assert!(!graph.has_edge(9, 1) && !graph.has_edge(1, 9));
        let more = graph.with_edge((2, 0)).unwrap();
        assert_eq!((more.n_edges(), more.neighbours(0)), (4, [2, 3].as_slice()));
    }

    #[test]
    fn what_is_no_simple_graph_is_refused() {
        let refused = |n, edges: &[Edge]| Graph::from_edges(n, edges).unwrap_err();
        assert_eq!(refused(3, &[(1, 1)]), GraphError::SelfLoop { agent: 1 });
        let unknown = GraphError::UnknownAgent { agent: 3, n_agents: 3 };
        assert_eq!(refused(3, &[(0, 1), (3, 1)]), unknown);
        let repeated = refused(3, &[(1, 2), (0, 1), (2, 1)]);
        assert_eq!(repeated, GraphError::RepeatedEdge { a: 1, b: 2 });
        assert!(repeated.to_string().contains("agents 1 and 2"));
        assert!(matches!(refused(0, &[]), GraphError::Agents { .. }));
        assert!(matches!(refused(N_AGENTS_MAX + 1, &[]), GraphError::Agents { .. }));
        assert!(Graph::from_edges(N_AGENTS_MAX, &[]).is_ok());
    }
}
