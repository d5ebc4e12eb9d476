//! Servers for browsers and thin workers: the dashboard, the pages for a coordinator's operator,
//! and `fedbo serve`.
//!
//! The documents that they serve are defined in `fedbo-documents`. The commands that start the
//! servers are in `fedbo-cli`.

mod answers;
pub mod dashboard;
pub mod serve;
pub mod token;
