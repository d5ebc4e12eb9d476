//! Studies of secure sums as both servers and their agents read them from the public text, and the
//! helper's ledger as others follow it.
//!
//! This crate decides which keys a server has, the content of a study of a secure sum
//! ([`SumStudy`]), and which entries of a helper's ledger are trusted ([`HelperChain`]). Sockets,
//! files and rounds belong to the programs.

mod chain;
mod study;

pub use chain::{HelperChain, HelperMisconduct};
pub use study::{NoSum, SumStudy, card_of, sealing_key_of};
