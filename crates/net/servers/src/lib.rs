//! Secure-sum studies, as parsed by both servers and the agents from the public configuration, and
//! the verification of a helper's ledger.
//!
//! This crate derives a server's keys, defines the content of a secure-sum study ([`SumStudy`]),
//! and decides which entries of a helper's ledger are trusted ([`HelperChain`]). Sockets, files and
//! rounds are handled by the programs that use this crate.

mod chain;
mod study;

pub use chain::{HelperChain, HelperMisconduct};
pub use study::{NoSum, SumStudy, card_of, sealing_key_of};
