//! Federations over a network, with real processes of the program.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod federation;
mod kill_everywhere;
mod operator;
mod secure_sum;
mod set_back;
mod snapshots;
mod wire;
