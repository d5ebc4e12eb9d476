//! Rounds of DP-FTS-DE: the aggregator's machine by its effects, the mechanisms in it, and whole sessions in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod agents;
mod common;
mod instants;
mod mechanisms;
#[path = "../network_faults/mod.rs"]
mod network_faults;
mod release_time;
mod rounds;
mod sim;
mod simulation;
