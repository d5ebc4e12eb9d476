//! Communication graphs of agents, their descriptions, and measures of their connectivity.
//!
//! Defines graphs, draws random graphs, and computes the layout of agents in a picture. Independent
//! of Gaussian processes, rounds and sockets. Start at [`Graph`] and [`GraphSpec`], then read
//! [`Clique`].

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

pub use clique::Clique;
pub use edge_list::{EdgeList, EdgeListError};
pub use error::GraphError;
pub use graph::{Edge, Graph, N_AGENTS_MAX, N_EDGES_MAX};
pub use layout::{circle, layout};
pub use spec::GraphSpec;
pub use spectrum::{N_SPECTRUM_MAX, Spectrum};
pub use useful_edges::{Extension, RaisingEdges};
