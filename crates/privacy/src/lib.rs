//! User-level differential privacy for rounds of agents: the cost of a release, and its mechanism.
//!
//! [`accounting`] turns privacy events into ε; [`mechanism`] turns agents' vectors into a release
//! that costs such an event. Has no notion of Gaussian processes, rounds or files. The path from
//! clipping to noise uses no floating-point numbers.

pub mod accounting;
pub mod mechanism;
