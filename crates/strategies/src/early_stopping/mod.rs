//! Early stopping: decides whether a trial that reports values during training continues.
//!
//! A rule is a pure function of the learning curves of the trial and the other trials, so no state
//! has to be saved when a study is resumed. Simple rules implement [`StoppingRule`]. BO-BOS uses
//! [`BosRule`], which is solved once per trial.

mod asha;
mod bo_bos;
mod curve;
mod epoch_gp_ucb;
mod hyperband;
mod median;
mod options;
mod rule;
mod stop_reason;

pub use asha::{AshaOptions, AshaRule};
pub use bo_bos::{
    Average, BoBos, BoBosOptions, BosAnswer, BosProblem, BosRule, BosSettings, CellPaths, CellRule,
    CurveBelief, Decision, DecisionTable, EpochRules, Grid, IncumbentMargin, SparseCells,
    StoppingLosses, ValueBounds, expected_end, solve,
};
pub use curve::LearningCurve;
pub use epoch_gp_ucb::{EpochGpUcb, EpochGpUcbSettings, EpochScale, TrainedObservation};
pub use hyperband::{
    Bracket, Brackets, Hyperband, HyperbandOptions, HyperbandRule, HyperbandStep, Rung,
};
pub use median::{MedianOptions, MedianRule};
pub use options::{EPOCHS_MAX, OptionError, StoppingMethod, StoppingOptions, whole};
pub use rule::{StoppingRule, TrainedTrial, Training, Verdict};
pub use stop_reason::{StopReason, short};
