//! The command line as people meet it: options that all commands share, completions and manual pages, JSON from every
//! command, mistakes and the way out of each.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod data;
mod documents;
#[path = "../network/federation_folder.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod federation_folder;
mod mistakes;
mod tls;
