//! Declarations of the papers' experiments: their arms, their problems, and the evaluation of the
//! results.
//!
//! `fedbo-runner` drives the sessions, `fedbo-report` writes the results; the command line is
//! another crate.

pub mod catalogue;
