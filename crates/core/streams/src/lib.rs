//! Seeds and labelled random streams: the source of all reproducible randomness.
//!
//! A [`Stream`] is keyed by its purpose, so a new consumer does not change the draws of existing
//! ones. Draws do not depend on threads or on the order in which agents are served. Streams must
//! not be used for noise that protects privacy.

mod seed;
mod stream;

pub use seed::{Purpose, Seed};
pub use stream::Stream;
