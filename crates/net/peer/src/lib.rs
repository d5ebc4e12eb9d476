//! A peer: an agent of distributed Thompson sampling, or of a shared prior between neighbours. It
//! runs as its own process and shares with its neighbours without a coordinator.
//!
//! This crate decides which data of a peer is durable and when, which keys it trusts, and when it
//! needs its neighbours no longer. The machine of `fedbo-protocol` chooses queries and reports,
//! `fedbo-wire` defines the bytes, and the federation's file defines the neighbours. Observations
//! are shared as they are: nothing here is private.
//!
//! A peer is a log. Its machine takes events in the order in which they became durable, so a
//! restarted peer replays the log and continues. A report is in the log before its sender gets a
//! receipt, and in the outbox before it leaves. Start at [`run`], then [`Memory`].

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
