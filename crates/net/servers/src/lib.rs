//! Studies of secure sums, as both servers and their agents read them in a public text, and the helper's ledger, as others follow it.
//!
//! Decides which keys a server has, what a study of a secure sum is ([`SumStudy`]), and which entries of a helper's ledger are believed
//! ([`HelperChain`]). Leaves sockets, files and rounds to the programs.

mod chain;
mod study;

pub use chain::{HelperChain, HelperMisconduct};
pub use study::{NoSum, SumStudy, card_of, sealing_key_of};
