//! Learning from earlier tasks: studies of other objectives over the same space, some of which may mislead.
//!
//! A [`MetaTask`] is what was observed of one of them; its Gaussian process is conditioned once and then stays
//! ([`GpTask`]). How a rule weighs the tasks against what the target itself has shown is [`Transfer`].
//!
//! - [`RmGpUcb`] and [`RmGpTs`]: robust meta-learning (thesis chapter 7); the weights come from bounds on the distance
//!   between tasks, and the meta-tasks' share decays.
//! - RGPE (Feurer et al. 2018) and TAF (Wistuba et al. 2018): rivals, whose weights come from rankings.
//!
//! Start at [`MetaTask`], then [`RmGpUcb`].

mod belief;
mod function_gap;
mod meta_share;
pub mod regret_bound;
mod rm_gp_ts;
mod rm_gp_ucb;
mod task;
mod task_weights;
mod weighted_sum;

pub use belief::{InitialDesign, MetaBeliefSettings};
pub use function_gap::{GapBound, GapSummary};
pub use meta_share::MetaShare;
pub use rm_gp_ts::{MetaSample, RmGpTs, RmGpTsSettings};
pub use rm_gp_ucb::{RmGpUcb, RmGpUcbSettings};
pub use task::{GpTask, MetaTask, OutputScale, TaskModel, TaskModels};
pub use task_weights::{TaskWeighting, TaskWeights};
pub use weighted_sum::WeightedSum;

/// How much a strategy builds on each meta-task at its next query.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// What is left to all meta-tasks together, in `[0, 1]`: ν_t of robust meta-learning.
    pub meta_share: f64,
    /// One for each meta-task, in their order; the weights sum to 1 unless all of them are 0.
    pub tasks: Vec<TaskTrust>,
}

/// What a strategy holds of one meta-task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskTrust {
    /// The task's name.
    pub name: String,
    /// ω_i: its part of the meta-tasks' share.
    pub weight: f64,
    /// d̄_i, the latest bound on its distance from the target in the units of the comparison, where that was estimated.
    pub gap_bound: Option<f64>,
}
