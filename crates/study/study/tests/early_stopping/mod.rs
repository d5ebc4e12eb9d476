//! Tests of trials that report during training: early stopping, resuming after an interruption, and
//! the selection of reports that count.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

mod bounds;
mod definition;
mod fixtures;
mod interruption;
mod reading;
mod reports;
mod verdicts;
