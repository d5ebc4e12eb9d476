//! Tests of DP-FTS-DE rounds: the effects of the aggregator, its mechanisms, and complete sessions
//! in virtual time.

#![expect(clippy::unwrap_used, reason = "test helpers, where a panic fails the test")]

mod agents;
mod common;
mod instants;
mod mechanisms;
mod release_time;
mod rounds;
mod sim;
mod simulation;
