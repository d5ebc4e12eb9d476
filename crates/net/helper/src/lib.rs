//! The helper of secure sums as a service: the second server, run by another party.
//!
//! The leader is a study's coordinator. It passes on the shares that agents have sealed for the
//! helper. The helper verifies these shares together with the leader, sums them, and adds its own
//! full noise. It releases the result, its share of the sum, only once, after charging it in its
//! own ledger. The helper never sees a vector.
//!
//! This crate decides which studies are served, which data is durable and when, and which requests
//! from the leader are refused. Start at [`Home`], then [`Service`].

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
