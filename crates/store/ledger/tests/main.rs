//! Integration tests of ledgers.

mod charter;
mod common;
mod crash;
mod faults;
mod ledger;
mod ledger_corruption;
mod postgres;
mod tampering;
mod writers;
