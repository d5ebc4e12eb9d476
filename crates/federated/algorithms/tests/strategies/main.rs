//! Contract tests of the agents of federated algorithms.

#![expect(clippy::unwrap_used, reason = "test helpers, where a panic fails the test")]

mod adversarial;
mod agents;
#[path = "../../../../strategies/tests/strategies/common.rs"]
#[allow(dead_code, reason = "the tests of two crates share these helpers")]
mod common;
mod dp_fts_de;
mod fts;
mod learned_agent_sampling;
mod message_agents;
mod messages;
mod neighbour_prior;
mod shared_prior;
mod transfer_ensemble;
