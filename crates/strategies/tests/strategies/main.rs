//! Thompson sampling, federated Thompson sampling and their surrogate, by their contracts.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, where a panic is a failure"
)]

mod adversarial;
mod common;
mod dp_fts_de;
mod fts;
mod learned;
mod messages;
mod repeats;
mod study;
mod surrogate;
mod thompson;
