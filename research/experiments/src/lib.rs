//! The experiments of the papers, declared: which arms each compares, on which problems, and what is made of the results.
//!
//! Sessions are driven by `fedbo-runner`, results written by `fedbo-report`; the command line is another crate.

pub mod catalogue;
