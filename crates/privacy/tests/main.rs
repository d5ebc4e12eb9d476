//! Integration tests of mechanisms and accounting.

mod accountant_anchors;
mod accountant_oracles;
mod audit_full_run;
mod audit_mu;
mod coins;
mod common;
mod empty_rounds;
mod hostile_vectors;
mod lattice;
mod no_zero_differences;
mod noise_law;
mod paper_mechanism;
mod parts;
mod record_play_neighbours;
mod roster_independence;
mod snapshots;
mod sybils;
