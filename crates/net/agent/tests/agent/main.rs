//! Runs agents against coordinators inside the test, without a network except in the tests of the
//! HTTP link.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod bad_coordinators;
mod budget;
mod canaries;
mod coordinator;
mod crashes;
mod delivery;
mod enrolment;
mod equality;
mod free;
mod hostile_text;
mod http;
mod mail;
mod mishaps;
mod pace;
mod rolled_back;
mod version_1;
mod ways;
mod world;
