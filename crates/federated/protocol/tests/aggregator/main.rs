//! Rounds of DP-FTS-DE: the aggregator's machine by its effects, the mechanisms in it, and whole sessions in virtual time.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is a failure"
)]

mod agents;
mod common;
mod instants;
mod mechanisms;
mod release_time;
mod rounds;
mod sim;
#[path = "../weather/mod.rs"]
mod weather;
mod world;
