//! Federations over a network, with real processes of the program.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

mod federation;
mod federation_folder;
mod kill_everywhere;
mod operator;
mod secure_sum;
mod snapshots;
mod wire;
