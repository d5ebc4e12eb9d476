//! Peers on graphs: equivalences on special graphs, and network faults.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed, and the place says where; teams are small"
)]

mod bound;
mod common;
mod equalities;
mod network_faults;
