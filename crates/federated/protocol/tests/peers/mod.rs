//! Tests of peers on graphs: equivalences on special graphs, and network faults.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a panic fails the test and shows the location; teams are small"
)]

mod bound;
mod common;
mod equalities;
mod network_faults;
