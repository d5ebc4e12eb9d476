//! Early stopping: decides if a trial that reports during training continues.
//!
//! A rule is a pure function of curves: that of the trial and those of the other trials. It
//! therefore resumes with its study and can be inspected. Simple rules implement [`StoppingRule`];
//! [`BosRule`] is that of BO-BOS, solved once for each trial.

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
