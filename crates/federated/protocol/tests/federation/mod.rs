//! Rounds of federated Thompson sampling: the agent's machine, event by event, and whole
//! federations in virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod agent;
mod common;
mod relayed;
mod simulation;
mod virtual_time;
