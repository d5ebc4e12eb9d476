//! User-level differential privacy for sums of agents' vectors: the cost of a release, and its
//! mechanism.
//!
//! [`accounting`] converts privacy events to ε; [`mechanism`] turns agents' vectors into a release
//! that costs such an event. The crate has no notion of Gaussian processes, schedules or files.
//! From clipping to noise, [`mechanism::Mechanism`] uses no floating-point arithmetic.

pub mod accounting;
pub mod mechanism;
