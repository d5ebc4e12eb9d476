//! Rounds of federated Thompson sampling: the agent's machine by its events, and whole federations in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod agent;
mod common;
#[path = "../network_faults/mod.rs"]
mod network_faults;
mod relayed;
mod simulation;
mod virtual_time;
