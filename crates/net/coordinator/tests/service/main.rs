//! A coordinator's service over real sockets.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

mod requests;
mod rounds;
mod world;
