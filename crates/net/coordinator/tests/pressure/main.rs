//! A coordinator's service in a process of its own, and clients that mean no good (INV-18).
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

mod agent;
mod flood;
mod service;
mod slow_clients;
mod wire;
