//! A peer: an agent of distributed Thompson sampling, or of a shared prior between neighbours, as a process of its own, which shares with
//! its neighbours without a coordinator.
//!
//! Decides what of a peer is durable and when, which keys it trusts, and when it is done with its neighbours. What to try and what to
//! share is decided by the machine of `fedbo-protocol`, what the bytes look like by `fedbo-wire`, who is a neighbour by the federation's
//! file. Observations are shared as they are: nothing here is private.
//!
//! A peer is a log: its machine takes events in the order in which they became durable, so a run replays the log and goes on. A
//! report is in the log before its sender has a receipt, and in the outbox before it leaves. Start at [`run`], then [`Memory`].

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
