//! Tests of a coordinator's service in its own process under attack by malicious clients (INV-18).
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod agent;
mod flood;
mod service;
mod slow_clients;
mod wire;
