//! A peer: an agent for distributed Thompson sampling, or for a prior shared between neighbours. A
//! peer runs in its own process and shares observations with its neighbours, without a coordinator.
//!
//! This crate decides which data of a peer is durable and when, which keys it trusts, and when it
//! no longer needs its neighbours. The machine of `fedbo-protocol` chooses queries and reports,
//! `fedbo-wire` defines the bytes, and the federation file defines the neighbours. Observations are
//! shared in plain form, so nothing here is private.
//!
//! A peer is event-sourced. Its machine processes events in the order in which they became durable,
//! so a restarted peer replays the log and continues. A received report is in the log before its
//! receipt is sent, and the peer's own report is in the outbox before it is sent. Start at [`run`],
//! then [`Memory`].

mod error;
mod federation_file;
mod hub;
mod link;
mod member;
mod memory;
mod observer;
mod peer_file;
mod records;
mod rounds;
mod schema;
mod service;
mod session;
mod shared;
mod status;

pub use error::{OtherHome, PeerError};
pub use member::Member;
pub use memory::{Event, Logged, Memory, Taken};
pub use observer::{Notice, Observer, Silent};
pub use peer_file::{HOME, Overrides, PeerFile};
pub use records::NeighbourMemory;
pub use session::{Address, Ended, Parts, run};
pub use status::{NeighbourStatus, PeerStatus, status};
