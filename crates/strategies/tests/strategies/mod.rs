//! Contract tests for strategies and the surrogate.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

#[allow(dead_code, reason = "helpers that the tests of two crates share")]
mod common;
mod conditions;
mod given;
mod repeats;
mod rules;
mod study;
mod surrogate;
mod thompson;
