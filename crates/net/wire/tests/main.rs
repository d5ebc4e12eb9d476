//! Integration tests of messages.

mod bodies;
mod hostile;
mod reports;
mod round_trips;
mod servers;
mod signatures;
mod vectors;
