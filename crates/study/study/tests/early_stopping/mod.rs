//! Tests of trials that report during training: stopped by a rule, resumed after an interruption,
//! and which of their reports count.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

mod bounds;
mod definition;
mod fixtures;
mod interruption;
mod reading;
mod reports;
mod verdicts;
