//! Trials that report as they train: stopped by a rule, gone on with after an interruption, and what of their reports counts.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

mod bounds;
mod definition;
mod fixtures;
mod interruption;
mod reading;
mod reports;
mod verdicts;
