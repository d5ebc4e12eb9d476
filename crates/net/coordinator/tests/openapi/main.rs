//! The description that the service gives of itself is true: its routes, problems and bodies, and what a running service
//! answers.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and the place says where"
)]

mod answers;
mod bodies;
mod description;
mod routes;
#[path = "../service/world.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod world;
