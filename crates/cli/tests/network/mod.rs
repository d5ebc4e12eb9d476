//! Federations over a network, with real processes of the program.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod federation;
mod kill_everywhere;
mod operator;
mod rolled_back;
mod secure_sum;
mod snapshots;
mod wire;
