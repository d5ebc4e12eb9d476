//! Strategies: rules that propose the next query from what was observed so far.
//!
//! Decides where to query next; the caller owns the loop, the objective and the clock. Knows nothing of files, threads
//! or of how messages travel. Values are maximized here; a caller that minimizes negates.
//!
//! Start at [`Strategy`], then [`ThompsonSampling`] and [`Fts`].

mod domain;
mod fts;
mod information_gain;
mod strategy;
mod surrogate;
mod thompson;
mod ucb_multiplier;

pub use domain::{Domain, Maximizer};
pub use fts::{
    AgentSampling, Fts, FtsSettings, Inbox, LocalProb, MessageContent, MessageNoise,
    MessageRejected, MessageSettings,
};
pub use information_gain::information_gain_bound;
pub use strategy::{Observation, Proposal, Source, Strategy, StrategyError};
pub use surrogate::{
    Diagnostics, HyperparameterPolicy, OwnSampler, Refit, Surrogate, SurrogateSettings,
};
pub use thompson::{Repeats, ThompsonSampling, ThompsonSettings};
pub use ucb_multiplier::UcbMultiplier;
