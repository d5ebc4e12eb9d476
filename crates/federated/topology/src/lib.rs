//! Communication graphs between agents: specifications, random graphs and connectivity measures.
//!
//! This crate also computes a layout for drawing a graph. It does not depend on Gaussian processes,
//! rounds or sockets. Start at [`Graph`] and [`GraphSpec`], then read [`Clique`].

mod clique;
mod edge_list;
mod error;
mod graph;
mod layout;
mod paths;
mod random;
mod search;
mod spec;
mod spectrum;
mod useful_edges;

use fedbo_streams::Purpose;

pub use clique::Clique;
pub use edge_list::{EdgeList, EdgeListError};
pub use error::GraphError;
pub use graph::{Edge, Graph, N_AGENTS_MAX, N_EDGES_MAX};
pub use layout::{circle, layout};
pub use spec::GraphSpec;
pub use spectrum::{N_SPECTRUM_MAX, Spectrum};
pub use useful_edges::{EnlargingEdges, Extension};

/// Streams of the edges of a random graph, and of the positions of agents in a figure.
pub const TOPOLOGY: Purpose = Purpose::new("topology");
