//! Defects of a graph.

use crate::graph::{N_AGENTS_MAX, N_EDGES_MAX};

/// A graph that cannot be built. Agents are named by their numbers, from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// No agent, or too many.
    #[error("a graph has 1 to {N_AGENTS_MAX} agents, not {n_agents}")]
    Agents {
        /// The number of agents that was asked for.
        n_agents: u64,
    },
    /// More edges than are held in memory.
    #[error(
        "about {n_edges} edges are more than the {N_EDGES_MAX} that a graph holds; take fewer agents, or a sparser graph"
    )]
    TooManyEdges {
        /// The number of edges that there would be, for a random graph the mean.
        n_edges: u64,
    },
    /// An edge from an agent to itself.
    #[error(
        "agent {agent} is joined to itself; an agent always has its own observations, so remove the edge"
    )]
    SelfLoop {
        /// The agent.
        agent: u32,
    },
    /// An edge names an agent that is not there.
    #[error(
        "an edge names agent {agent}, but the {n_agents} agents are numbered from 0; correct the edge"
    )]
    UnknownAgent {
        /// The number in the edge.
        agent: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// An edge stands twice; its direction does not matter.
    #[error("the edge between agents {a} and {b} is named twice; remove one of the two")]
    RepeatedEdge {
        /// The agent with the smaller number.
        a: u32,
        /// The other one.
        b: u32,
    },
    /// A number of columns that makes no grid.
    #[error("columns = {columns}, expected 1 to {n_agents}, the number of agents")]
    Columns {
        /// The number of columns that was given.
        columns: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// A probability of edges out of its range.
    #[error("edge_prob = {edge_prob}, expected a number above 0 and at most 1")]
    EdgeProb {
        /// The probability that was given.
        edge_prob: f64,
    },
    /// A degree from which no small world can be made.
    #[error(
        "degree = {degree}, expected an even number from 2 that is smaller than the number of agents, {n_agents}"
    )]
    Degree {
        /// The degree that was given.
        degree: u32,
        /// Number of agents.
        n_agents: u32,
    },
    /// A probability of rewiring out of its range.
    #[error("rewiring = {rewiring}, expected a number from 0 to 1")]
    Rewiring {
        /// The probability that was given.
        rewiring: f64,
    },
    /// Random edges so rare that agents without a neighbour are certain.
    #[error(
        "with edge_prob = {edge_prob} about {isolated} of {n_agents} agents would have no neighbour, so no draw can be expected to \
         be connected; from edge_prob = {enough} on most are"
    )]
    TooSparse {
        /// The probability that was given.
        edge_prob: f64,
        /// Mean number of agents without a neighbour, rounded.
        isolated: u64,
        /// Number of agents.
        n_agents: u32,
        /// A probability with which draws are likely to be connected.
        enough: f64,
    },
    /// None of many random graphs was connected.
    #[error("none of {n_draws} random graphs was connected; {remedy}")]
    NotConnected {
        /// The number of graphs that were drawn.
        n_draws: u32,
        /// The change that would help.
        remedy: String,
    },
}
