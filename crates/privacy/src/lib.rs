//! User-level differential privacy for sums of agents' vectors: the mechanism that makes a release,
//! and the release's privacy cost.
//!
//! [`accounting`] converts privacy events to ε; [`mechanism`] turns agents' vectors into a release
//! and reports its privacy event. The crate has no notion of Gaussian processes, schedules or
//! files. From clipping to noise, [`mechanism::Mechanism`] uses no floating-point arithmetic.

pub mod accounting;
pub mod mechanism;
