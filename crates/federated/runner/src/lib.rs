//! Federations in one process: sessions of agents and peers, and runs of a `federation.toml`.
//!
//! This crate drives the state machines of `fedbo-protocol` wave by wave, so that results do not
//! depend on the number of threads. `fedbo-report` writes the results. Start at [`run_session`],
//! then read [`federation::run_federation`].

pub mod federation;
mod peer_session;
mod release_store;
mod row_builder;
mod session;

pub use peer_session::{PeerMember, SimulatedNetwork, run_peers};
pub use release_store::{ReleaseStore, UnchargedReleases};
pub use row_builder::{RowBuilder, RowLabels};
pub use session::{
    Decoder, Ended, Evaluation, FreeTimes, Member, NullObserver, Observer, SessionError,
    TrialRecord, run_free_session, run_relayed, run_session,
};
