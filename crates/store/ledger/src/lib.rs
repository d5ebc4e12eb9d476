//! An append-only, hash-chained ledger of releases and their privacy cost, in a file or a database.
//!
//! This crate makes releases and charges durable, ensures that each round is released only once,
//! and refuses releases beyond the budget. It has no notion of agents, vectors or noise: a release
//! is a byte string, and its cost is a privacy event. LEDGER.md explains why this is correct. Start
//! at [`Ledger`] and [`Charter`], then [`Statement`] and [`verify`].

mod backend;
mod chain;
mod charter;
mod creation;
mod encoding;
mod error;
mod file;
mod history;
mod ledger;
mod postgres;
mod record;
mod schema;
mod spending;
mod statement;

pub use chain::{Head, HeadUnreadable};
pub use charter::{CONFIG_BYTES_MAX, Charter, Difference, NAME_CHARS_MAX};
pub use encoding::{UnreadableEvent, event_from_bytes, event_to_bytes};
pub use error::{BudgetSpent, LedgerError};
pub use history::{Charged, History};
pub use ledger::{Committed, Ledger, RELEASE_BYTES_MAX};
pub use postgres::Ledgers;
pub use record::{Problem, Releases, Report, backup, history, read, releases, verify};
pub use spending::Charge;
pub use statement::Statement;
