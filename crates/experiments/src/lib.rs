//! Placeholder until written.

pub mod report;
