//! Agents against coordinators that live in the test: no network but for one test of the way by HTTP.

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
mod version_1;
mod ways;
mod world;
