//! Integration tests of round machines.

mod aggregator;
mod federation;
mod network_faults;
mod peers;
