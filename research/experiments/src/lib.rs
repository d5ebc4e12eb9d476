//! Whole federations in one process: sessions and declared experiments.
//!
//! Decides how the machines of `fedbo-protocol` are driven, and which arms an experiment compares.
//! Results are written by `fedbo-report`; the command line is another crate.

pub mod catalogue;
pub mod federation;
mod peer_session;
mod release_store;
mod session;
mod tally;

pub use peer_session::{PeerMember, SimulatedNetwork, run_peers};
pub use release_store::{Forgetful, ReleaseStore};
pub use session::{
    Decoder, Ended, Member, Observer, SessionError, TrialRecord, Unobserved, run_fts, run_session,
};
pub use tally::{Tally, Unit};
