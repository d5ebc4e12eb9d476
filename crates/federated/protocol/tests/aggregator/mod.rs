//! Rounds of DP-FTS-DE: the effects of the aggregator's machine, its mechanisms, and whole sessions
//! in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod agents;
mod common;
mod instants;
mod mechanisms;
mod release_time;
mod rounds;
mod sim;
mod simulation;
