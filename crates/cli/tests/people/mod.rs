//! The command line from a user's view: global options, completions and manual pages, JSON output
//! of every command, mistakes and their remedies.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

mod commands;
mod documents;
mod mistakes;
mod tls;
