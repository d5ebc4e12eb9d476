//! Federated algorithms: what agents do with what they are handed, and what they send.
//!
//! An algorithm is a folder: its agent, its options (the tables of a `federation.toml` that it alone reads), its control that
//! exchanges no information, its tests. A line in [`ALGORITHMS`] makes it known to files, the command line, networks and
//! experiments. Knows nothing of sockets, files' places, releases' costs, or where a ledger is. Start at [`Algorithm`].

mod algorithm;
mod arm;
pub mod distributed_ts;
pub mod dp_fts_de;
pub mod fts;
mod public_config;

pub use algorithm::{
    AgentSetup, Algorithm, Exchange, NeighbourSettings, Neighbours, Read, Reading, Relayed,
    ReleaseShape, Released, Settings, VirtualNetwork,
};
pub use arm::{Arm, Role, names};
pub use public_config::PublicConfig;

/// The algorithms that a `federation.toml` may name.
pub const ALGORITHMS: &[Algorithm] =
    &[fts::ALGORITHM, fts::ALONE, dp_fts_de::ALGORITHM, distributed_ts::ALGORITHM];
