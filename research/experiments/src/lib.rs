//! Declarations of the papers' experiments: their arms, their problems, and the evaluation of the
//! results.
//!
//! `fedbo-runner` runs the sessions, and `fedbo-report` writes the results. The command line is in
//! another crate.

pub mod catalogue;
