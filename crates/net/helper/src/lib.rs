//! The helper of secure sums as a service: the second server, which another party runs.
//!
//! The leader, which is a study's coordinator, passes on what agents have sealed for the helper. The helper verifies it with the leader, adds
//! it up, adds its own whole noise, and gives its share away once, when it is charged in a ledger of its own. It sees no vector.
//! Decides which studies are served, what is durable when, and what the leader is refused. Start at [`Home`], then [`Service`].

mod error;
mod home;
mod records;
mod schema;
mod server;
mod service;
mod sum;

pub use error::{HelperError, JoinError};
pub use home::{Home, JoinOptions, JoinedStudy};
pub use server::{Service, ServiceError};
