//! Errors when building graphs.

use crate::graph::{N_AGENTS_MAX, N_EDGES_MAX};

/// An error when building a graph. Agents are numbered from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The number of agents is 0 or too large.
    #[error("a graph has 1 to {N_AGENTS_MAX} agents, not {n_agents}")]
    Agents {
        /// The requested number of agents.
        n_agents: u64,
    },
    /// There are more than [`N_EDGES_MAX`] edges.
    #[error(
        "about {n_edges} edges are more than the {N_EDGES_MAX} that a graph holds; take fewer agents, or a sparser graph"
    )]
    TooManyEdges {
        /// The number of edges. For a random graph, the expected number.
        n_edges: u64,
    },
    /// An edge joins an agent to itself.
    #[error(
        "agent {agent} is joined to itself; an agent always has its own observations, so remove the edge"
    )]
    SelfLoop {
        /// The agent.
        agent: u32,
    },
    /// An edge names an agent that does not exist.
    #[error(
        "an edge names agent {agent}, but the {n_agents} agents are numbered from 0; correct the edge"
    )]
    UnknownAgent {
        /// The agent number in the edge.
        agent: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// An edge is listed twice, in the same or the opposite direction.
    #[error("the edge between agents {a} and {b} is named twice; remove one of the two")]
    RepeatedEdge {
        /// The agent with the smaller number.
        a: u32,
        /// The other agent.
        b: u32,
    },
    /// The number of columns is not valid for a grid.
    #[error("columns = {columns}, expected 1 to {n_agents}, the number of agents")]
    Columns {
        /// The given number of columns.
        columns: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// The edge probability is out of range.
    #[error("edge_prob = {edge_prob}, expected a number above 0 and at most 1")]
    EdgeProb {
        /// The given probability.
        edge_prob: f64,
    },
    /// The degree is not valid for a small-world graph.
    #[error(
        "degree = {degree}, expected an even number from 2 that is smaller than the number of agents, {n_agents}"
    )]
    Degree {
        /// The given degree.
        degree: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// The rewiring probability is out of range.
    #[error("rewiring = {rewiring}, expected a number from 0 to 1")]
    Rewiring {
        /// The given probability.
        rewiring: f64,
    },
    /// The edge probability is so low that isolated agents are practically certain.
    #[error(
        "with edge_prob = {edge_prob} about {isolated} of {n_agents} agents would have no neighbour, so no draw can be expected to \
         be connected; most are if edge_prob = {enough} or more"
    )]
    TooSparse {
        /// The given probability.
        edge_prob: f64,
        /// Expected number of isolated agents, rounded.
        isolated: u64,
        /// Number of agents.
        n_agents: u32,
        /// A probability at which connected graphs are likely.
        enough: f64,
    },
    /// None of the random graphs drawn was connected.
    #[error("none of {n_draws} random graphs was connected; {remedy}")]
    NotConnected {
        /// The number of graphs drawn.
        n_draws: u32,
        /// Advice for the user.
        remedy: String,
    },
}
