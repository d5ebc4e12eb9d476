//! Integration tests of the protocol's state machines.

mod aggregator;
mod federation;
mod network_faults;
mod peers;
