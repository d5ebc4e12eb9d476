//! Specifications of graphs: regular graphs, random graphs, and edge lists.

use std::fmt;

use fedbo_streams::Stream;

use crate::graph::{check_agents, check_edges};
use crate::{Edge, Graph, GraphError, random};

/// A rule that builds a graph for a given number of agents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GraphSpec {
    /// Agent 0 in the centre, adjacent to all others.
    Star,
    /// Each agent adjacent to the next, and the last to the first.
    Ring,
    /// All pairs of agents adjacent.
    Complete,
    /// No edges.
    Edgeless,
    /// Agents laid out row by row, each adjacent to its horizontal and vertical neighbours. The
    /// last row can be incomplete.
    Grid {
        /// Number of agents per row, from 1 to n. The default is ⌈√n⌉.
        columns: Option<u32>,
    },
    /// Each pair of agents is adjacent independently, with the same probability. Graphs are drawn
    /// until one is connected.
    ErdosRenyi {
        /// Probability of an edge, above 0 and at most 1.
        edge_prob: f64,
    },
    /// A ring in which each agent is adjacent to its nearest agents, with some edges rewired to
    /// random agents (Watts & Strogatz 1998). Graphs are drawn until one is connected.
    SmallWorld {
        /// Number of neighbours of each agent before rewiring: even, at least 2, and below n.
        degree: u32,
        /// Probability that an edge is rewired, from 0 to 1.
        rewiring: f64,
    },
    /// The given edges.
    Edges(Vec<Edge>),
}

impl GraphSpec {
    /// Builds the graph for `n_agents` agents. Only random graphs draw from `stream`.
    ///
    /// # Errors
    /// If a parameter is out of range, if there would be too many edges, or if no connected random
    /// graph was drawn.
    pub fn build(&self, n_agents: u32, stream: &mut Stream) -> Result<Graph, GraphError> {
        check_agents(n_agents)?;
        let edges = match self {
            Self::Star => (1..n_agents).map(|agent| (0, agent)).collect(),
            Self::Ring => ring(n_agents),
            Self::Complete => {
                let n = u64::from(n_agents);
                check_edges(n * (n - 1) / 2)?;
                let earlier = |b| (0..b).map(move |a| (a, b));
                (0..n_agents).flat_map(earlier).collect()
            }
            Self::Edgeless => Vec::new(),
            Self::Grid { columns } => grid(n_agents, *columns)?,
            Self::ErdosRenyi { edge_prob } => random::erdos_renyi(n_agents, *edge_prob, stream)?,
            Self::SmallWorld { degree, rewiring } => {
                random::small_world(n_agents, *degree, *rewiring, stream)?
            }
            Self::Edges(edges) => return Graph::from_edges(n_agents, edges),
        };
        Graph::from_edges(n_agents, &edges)
    }

    /// Returns true if the graph depends on the random stream.
    pub fn is_random(&self) -> bool {
        matches!(self, Self::ErdosRenyi { .. } | Self::SmallWorld { .. })
    }
}

impl fmt::Display for GraphSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star => f.write_str("star"),
            Self::Ring => f.write_str("ring"),
            Self::Complete => f.write_str("complete"),
            Self::Edgeless => f.write_str("edgeless"),
            Self::Grid { columns: None } => f.write_str("grid"),
            Self::Grid { columns: Some(columns) } => write!(f, "grid of {columns} columns"),
            Self::ErdosRenyi { edge_prob } => {
                write!(f, "Erdős–Rényi with edge probability {edge_prob}")
            }
            Self::SmallWorld { degree, rewiring } => {
                write!(f, "small world of degree {degree} with rewiring {rewiring}")
            }
            Self::Edges(_) => f.write_str("list of edges"),
        }
    }
}

fn ring(n_agents: u32) -> Vec<Edge> {
    let mut edges: Vec<Edge> = (1..n_agents).map(|agent| (agent - 1, agent)).collect();
    if n_agents > 2 {
        edges.push((0, n_agents - 1));
    }
    edges
}

fn grid(n_agents: u32, columns: Option<u32>) -> Result<Vec<Edge>, GraphError> {
    let columns = columns.unwrap_or_else(|| {
        let root = n_agents.isqrt();
        if root * root < n_agents { root + 1 } else { root }
    });
    if !(1..=n_agents).contains(&columns) {
        return Err(GraphError::Columns { columns, n_agents });
    }
    let mut edges = Vec::new();
    for agent in 0..n_agents {
        if agent % columns > 0 {
            edges.push((agent - 1, agent));
        }
        if agent >= columns {
            edges.push((agent - columns, agent));
        }
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;

    fn build(spec: &GraphSpec, n_agents: u32) -> Graph {
        let mut stream = Seed::new(5).stream(Purpose::TEST, 0, 0);
        spec.build(n_agents, &mut stream).expect("a graph")
    }

    /// Compares edge counts and diameters with their closed forms.
    #[test]
    fn regular_graphs_have_their_edges_and_diameters() {
        for n in 1..=40_u32 {
            let facts = |spec| {
                let graph = build(&spec, n);
                (graph.n_edges() as u64, graph.diameter())
            };
            let (edges, size) = (u64::from(n) - 1, u64::from(n));
            assert_eq!(facts(GraphSpec::Star), (edges, Some((n - 1).min(2))));
            let complete = (size * edges / 2, Some((n - 1).min(1)));
            assert_eq!(facts(GraphSpec::Complete), complete);
            let ring = (if n > 2 { size } else { edges }, Some(n / 2));
            assert_eq!(facts(GraphSpec::Ring), ring);
            assert_eq!(facts(GraphSpec::Edgeless), (0, (n == 1).then_some(0)));
            for columns in 1..=n {
                // An incomplete row adds one vertical edge per agent, and one fewer horizontal
                // edges.
                let (rows, rest) = (n / columns, n % columns);
                let along = rows * (columns - 1) + rest.saturating_sub(1);
                let expected = along + (n - columns);
                let (n_edges, diameter) = facts(GraphSpec::Grid { columns: Some(columns) });
                assert_eq!(n_edges, u64::from(expected), "{n} in {columns} columns");
                if rest == 0 {
                    assert_eq!(diameter, Some(rows - 1 + columns - 1));
                }
            }
        }
        let square = build(&GraphSpec::Grid { columns: None }, 7); // three rows of 3, 3 and 1
        let edges: Vec<Edge> = square.edges().collect();
        let expected = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (3, 6), (4, 5)];
        assert_eq!(edges, expected);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let mut stream = Seed::new(5).stream(Purpose::TEST, 0, 0);
        let grid = |columns| GraphSpec::Grid { columns: Some(columns) };
        let world = |degree, rewiring| GraphSpec::SmallWorld { degree, rewiring };
        let random = |edge_prob| GraphSpec::ErdosRenyi { edge_prob };
        for (spec, word) in [
            (grid(0), "columns = 0, expected 1 to 9"),
            (grid(10), "columns = 10"),
            (world(3, 0.1), "degree = 3, expected an even number"),
            (world(0, 0.1), "degree = 0"),
            (world(10, 0.1), "degree = 10"),
            (world(2, -0.1), "rewiring = -0.1"),
            (world(2, f64::NAN), "rewiring = NaN"),
            (random(0.0), "edge_prob = 0, expected a number above 0"),
            (random(f64::NAN), "edge_prob = NaN"),
            (random(1.5), "edge_prob = 1.5"),
        ] {
            let error = spec.build(9, &mut stream).unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
        let large = GraphSpec::Complete.build(100_000, &mut stream);
        assert!(matches!(large, Err(GraphError::TooManyEdges { .. })));
        let none = GraphSpec::Star.build(0, &mut stream);
        assert!(matches!(none, Err(GraphError::Agents { n_agents: 0 })));
    }
}
