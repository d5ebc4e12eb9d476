//! Tests of federated Thompson sampling: the agent's state machine, event by event, and complete
//! federations in virtual time.

#![expect(clippy::unwrap_used, reason = "test helpers, where a panic fails the test")]

mod agent;
mod common;
mod relayed;
mod simulation;
mod virtual_time;
