//! `fedbo run` with `algorithm = "dp-fts-de"`: what it promises, what it charges, what it keeps, what it never shows.

#![expect(
    clippy::cast_possible_truncation,
    reason = "small numbers of tests; the lattice's integers are far below 2^63"
)]

#[path = "../common/mod.rs"]
mod common;

mod archive;
mod canaries;
mod claims;
mod federations;
mod keeping;
mod kill_nine;
mod refusals;
