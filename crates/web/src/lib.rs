//! Servers for browsers and thin workers: the dashboard, the pages of a coordinator's operator, and
//! `fedbo serve`.
//!
//! The documents that they show are those of `fedbo-documents`. Starting a server is a command of
//! `fedbo-cli`.

mod answers;
pub mod dashboard;
pub mod serve;
pub mod token;
