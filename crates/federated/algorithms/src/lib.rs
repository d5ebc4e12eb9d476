//! Federated algorithms, which define how agents use handouts and what they send.
//!
//! Each algorithm has a module with its agent, its options (the tables of a `federation.toml` that
//! only this algorithm reads) and its registry entry. The entry creates an agent for each role in a
//! comparison, including controls. The contract tests are in `tests/strategies`. A line in
//! [`ALGORITHMS`] makes an algorithm available in files, on the command line, over networks and in
//! experiments.
//!
//! This crate does not depend on sockets, file locations, the cost of releases, or the location of
//! a ledger. Start at [`Algorithm`].

mod algorithm;
mod alignment;
mod alone;
mod arm;
mod belief;
pub mod distributed_ts;
pub mod dp_fts_de;
pub mod fts;
mod message_agent;
mod public_config;
pub mod shared_prior;
pub mod transfer_ensemble;

use fedbo_strategies::in_words;

pub use algorithm::{
    AgentSetup, Algorithm, Exchange, NeighbourSettings, Neighbours, Read, Reading, Relayed,
    ReleaseShape, Released, Settings, VirtualNetwork,
};
pub use alignment::Alignment;
pub use alone::Alone;
pub use arm::{Arm, Role, names};
pub use message_agent::MessageAgent;
pub use public_config::PublicConfig;

/// The algorithms that a `federation.toml` can name.
pub const ALGORITHMS: &[Algorithm] = &[
    shared_prior::ALGORITHM,
    shared_prior::PRIVATE,
    transfer_ensemble::RGPE,
    transfer_ensemble::TAF,
    fts::ALGORITHM,
    fts::ALONE,
    dp_fts_de::ALGORITHM,
    distributed_ts::ALGORITHM,
    shared_prior::NEIGHBOURS,
];

/// Lists the names of the algorithms with one of these exchanges, formatted for messages: `"a", "b"
/// or "c"`.
#[must_use]
pub fn named(exchanges: &[Exchange]) -> String {
    let exchanging = ALGORITHMS
        .iter()
        .filter(|each| each.role == Role::Own && exchanges.contains(&each.exchange));
    in_words(exchanging.map(|each| each.name), "or")
}
