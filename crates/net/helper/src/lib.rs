//! The helper of secure sums as a service: the second server, run by another party.
//!
//! The leader is a study's coordinator. It passes on the shares that agents have sealed for the
//! helper. The helper verifies them together with the leader, sums them, adds its own full noise,
//! and releases its share once, after charging it in its own ledger. It never sees a vector.
//!
//! This crate decides which studies are served, which data is durable and when, and which requests
//! of the leader are refused. Start at [`Home`], then [`Service`].

mod error;
mod home;
mod records;
mod round_keys;
mod schema;
mod server;
mod service;
mod sum;

pub use error::{HelperError, JoinError};
pub use home::{Home, JoinOptions, JoinedStudy, noted_head};
pub use server::{Service, ServiceError};
