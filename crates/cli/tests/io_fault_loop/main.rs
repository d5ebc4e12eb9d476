//! The real program on a disk that fails: at its i-th call that changes a file, for every i.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../network/federation_folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the network")]
mod federation_folder;
mod run;
mod service;
mod shim;
