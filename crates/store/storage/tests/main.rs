//! Integration tests of storages.

mod common;
mod contract;
mod crash;
mod faults;
mod postgres;
mod postgres_crash;
mod postgres_tls;
mod reports;
mod verify;
