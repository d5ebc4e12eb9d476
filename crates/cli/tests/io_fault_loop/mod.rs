//! The real program on a failing disk, where the i-th call that changes a file fails, for every i.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod run;
mod service;
mod shim;
