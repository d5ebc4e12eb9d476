//! Whole federations in one process: sessions, declared experiments, result tables and pictures.
//!
//! Decides how the machines of `fedbo-protocol` are driven, which arms an experiment compares and what is reported.
//! Files are written by [`report`]; the command line is another crate.

pub mod catalogue;
pub mod federation;
pub mod report;
mod session;
mod tally;

pub use session::{
    Decoder, Ended, Member, Observer, SessionError, TrialRecord, Unobserved, run_session,
};
pub use tally::{Tally, Unit};
