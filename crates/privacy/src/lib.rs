//! User-level differential privacy for rounds of agents: what a release costs, and how it is made.
//!
//! [`accounting`] turns privacy events into ε; [`mechanism`] turns agents' vectors into a release that costs such an event.
//! Decides nothing about Gaussian processes, rounds or files. No float touches the path from clip to noise.

pub mod accounting;
pub mod mechanism;
