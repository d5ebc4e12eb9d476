//! Strategies: rules that propose the next query from the observations so far.
//!
//! This crate decides where to query next. The caller owns the loop, the objective and the clock.
//! The crate does not access files, threads or the network. Values are maximized; a caller that
//! minimizes must negate them.
//!
//! Start at [`Strategy`], then [`LogEi`] and [`ThompsonSampling`]. [`MessageSettings`] creates the
//! messages that agents in a federation send.

mod acquisition;
mod collaborator;
mod domain;
pub mod early_stopping;
mod expected_improvement;
mod feasibility;
mod gp_ucb;
mod information_gain;
mod local_prob;
mod log_ei;
mod message;
pub mod meta;
mod outcomes;
mod output_option;
mod pareto;
mod partition;
mod proposer;
mod random;
mod region_function;
mod registry;
mod released_function;
mod schedule;
mod shared_prior;
mod snapped_search;
mod sobol;
mod strategy;
mod surrogate;
mod trials;
mod ts;
mod ucb_multiplier;

use fedbo_streams::Purpose;

pub use acquisition::{Acquisition, Score};
pub use collaborator::Collaborator;
pub use domain::{Candidates, Domain, Maximizer};
pub use expected_improvement::{expected_improvement, log_expected_improvement};
pub use fedbo_optim::Points;
pub use gp_ucb::{GpUcb, GpUcbOptions, GpUcbSettings};
pub use information_gain::information_gain_bound;
pub use local_prob::LocalProb;
pub use log_ei::{Incumbent, LogEi, LogEiOptions, LogEiQuery, LogEiSettings};
pub use message::{MessageContent, MessageNoise, MessageSettings};
pub use outcomes::Outcomes;
pub use output_option::OutputOption;
pub use pareto::{hypervolume, non_dominated};
pub use partition::{Partition, PartitionError};
pub use proposer::Proposer;
pub use random::{RandomOptions, RandomSearch};
pub use region_function::{RegionFunction, in_range};
pub use registry::{
    Earlier, Maker, MetaOptions, OwnOptions, ReadOptions, Registered, Setup, StoppingRuleSpec,
    StrategyOptions, StrategySpec, in_words, keys_of,
};
pub use released_function::{FromArchive, ReleasedFunction};
pub use shared_prior::{
    MessageParty, MessageTerms, OthersUse, SharedAcquisition, SharedMessage, SharedPrior,
    SharedPriorOptions, SharedPriorSettings,
};
pub use sobol::{SobolOptions, SobolSearch};
pub use strategy::{Observation, Proposal, Source, Strategy, StrategyError};
pub use surrogate::{
    Diagnostics, HyperparameterPolicy, OwnSampler, Refit, Surrogate, SurrogateSettings,
};
pub use trials::Repeats;
pub use ts::{OwnQuery, SampleSearch, ThompsonSampling, ThompsonSettings, TsOptions};
pub use ucb_multiplier::UcbMultiplier;

/// Streams for the models of earlier tasks, and for choices among these models.
pub const META_TASK: Purpose = Purpose::new("meta-task");
/// Streams for sampled continuations of a learning curve, which decide whether a trial continues
/// training.
pub const EARLY_STOPPING: Purpose = Purpose::new("early-stopping");
