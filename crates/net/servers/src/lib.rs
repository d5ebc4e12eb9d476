//! Secure-sum studies, as both servers and their agents parse them from the public text, and the
//! verification of a helper's ledger.
//!
//! This crate derives a server's keys, defines the content of a secure-sum study ([`SumStudy`]),
//! and decides which entries of a helper's ledger are trusted ([`HelperChain`]). Sockets, files and
//! rounds are left to the programs.

mod chain;
mod study;

pub use chain::{HelperChain, HelperMisconduct};
pub use study::{NoSum, SumStudy, card_of, sealing_key_of};
