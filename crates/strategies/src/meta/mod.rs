//! Learning from earlier tasks: studies of other objectives over the same space, some of which may
//! be misleading.
//!
//! A [`MetaTask`] contains the observations of one such study. The task's Gaussian process
//! ([`GpTask`]) is conditioned once and then stays fixed. [`Transfer`] contains the weight of each
//! task relative to the target's own observations.
//!
//! - [`RmGpUcb`] and [`RmGpTs`]: robust meta-learning (thesis chapter 7). The weights come from
//!   bounds on the distance between tasks, and the share of the meta-tasks decays.
//! - [`Rgpe`] (Feurer et al. 2018) and [`Taf`] (Wistuba et al. 2018): competing methods, with
//!   weights from rankings. [`FeatureTask`]s make them usable in a federation, and a
//!   [`MessageEnsemble`] turns them into parties that receive messages in rounds.
//! - [`WarmStart`]: tries the best points of earlier tasks first.
//!
//! Start at [`MetaTask`], then [`RmGpUcb`].

mod belief;
mod comparison;
mod ensemble;
mod feature_task;
mod function_gap;
mod learner;
mod message_ensemble;
mod meta_share;
mod ranking;
pub mod regret_bound;
mod rgpe;
mod rm_gp_ts;
mod rm_gp_ucb;
mod taf;
mod task;
mod task_weights;
mod warm_start;
mod weighted_sum;

pub(crate) use ensemble::check_dims;

pub use belief::{InitialDesign, MetaBeliefSettings};
pub use comparison::OutputScale;
pub use ensemble::EnsembleSettings;
pub use feature_task::{FeatureReport, FeatureTask};
pub use function_gap::{GapBound, GapSummary};
pub use message_ensemble::{MessageEnsemble, ModelEnsemble};
pub use meta_share::MetaShare;
pub use rgpe::{
    ImprovementScale, RankingDraws, Rgpe, RgpeOptions, RgpeSettings, TargetVariance, Unranked,
};
pub use rm_gp_ts::{MetaSample, RmGpTs, RmGpTsOptions, RmGpTsSettings};
pub use rm_gp_ucb::{RmGpUcb, RmGpUcbOptions, RmGpUcbSettings};
pub use taf::{MetaImprovement, MetaIncumbent, RankingDistance, Taf, TafOptions, TafSettings};
pub use task::{GpTask, MetaTask, TaskModel, TaskModels};
pub use task_weights::{TaskWeighting, TaskWeights};
pub use warm_start::WarmStart;
pub use weighted_sum::WeightedSum;

/// The weight that a strategy gives to the meta-tasks in its next query.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Share of all meta-tasks together, in `[0, 1]`: ν_t of robust meta-learning, or the trust of
    /// a shared prior. If a shared prior trusts the negated functions more, the share is minus
    /// their weight.
    pub meta_share: f64,
    /// One element per meta-task, in task order. The weights sum to 1 unless all are 0. Empty if
    /// all tasks share one weight.
    pub tasks: Vec<TaskTrust>,
    /// The size of one unit of the gaps, in the units of the target's values.
    pub gap_unit: f64,
}

/// The weight that a strategy gives to one meta-task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskTrust {
    /// Name of the task.
    pub name: String,
    /// ω_i: the task's part of the share of all meta-tasks.
    pub weight: f64,
    /// d̄_i, the latest bound on the task's distance from the target, in the units of comparison.
    /// `None` if no bound was estimated.
    pub gap_bound: Option<f64>,
}
