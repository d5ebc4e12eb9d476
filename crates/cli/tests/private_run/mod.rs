//! `fedbo run` with `algorithm = "dp-fts-de"`: its guarantees, charges, durable data and secrets.

#![expect(
    clippy::cast_possible_truncation,
    reason = "small numbers of tests; the lattice's integers are far below 2^63"
)]

mod archive;
mod canaries;
mod claims;
mod federations;
mod keeping;
mod kill_nine;
mod refusals;
