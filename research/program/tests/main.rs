//! Integration tests of the program `fedbo-research`.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod data;
mod mistakes;
mod running;
mod sandbox;
