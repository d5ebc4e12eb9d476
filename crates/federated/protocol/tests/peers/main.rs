//! Peers on graphs: what graphs amount to, and what weather does to them.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed, and the place says where; teams are small"
)]

mod bound;
mod common;
mod equalities;
mod network_faults;
