//! Seeds and labelled random streams: where every reproducible draw comes from.
//!
//! A [`Stream`] is keyed by what it is for, so a new consumer leaves all others as they were, and a draw does not
//! depend on threads or on the order in which agents are served. Nothing here is fit for noise that protects privacy.

mod seed;
mod stream;

pub use seed::{Purpose, Seed};
pub use stream::Stream;
