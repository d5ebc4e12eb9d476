//! Early stopping: whether a trial that reports as it trains goes on.
//!
//! A rule is a pure function of curves: of the trial's own and of those of the other trials. So it resumes with its study, and can
//! be looked at. [`StoppingRule`] is what the simple ones are; [`BosRule`] is BO-BOS's, solved once a trial.

mod asha;
mod because;
mod bo_bos;
mod boca;
mod bos_rule;
mod bos_settings;
mod curve;
mod curve_prediction;
mod epoch_gp_ucb;
mod hyperband;
mod median;
mod optimal_stopping;
mod rule;

pub use asha::{AshaRule, AshaSettings};
pub use because::{Because, short};
pub use bo_bos::{BoBos, expected_end};
pub use boca::Boca;
pub use bos_rule::{BosAnswer, BosProblem, BosRule, EpochRules};
pub use bos_settings::{
    Average, BosSettings, CurveBelief, Grid, IncumbentMargin, ValueBounds, WrongStopLoss,
};
pub use curve::LearningCurve;
pub use curve_prediction::{
    CurvePrediction, CurvePredictionRule, CurvePredictionSettings, CurvePredictor, CurveSampling,
};
pub use epoch_gp_ucb::{EpochGpUcb, EpochGpUcbSettings, EpochScale, TrainedObservation};
pub use hyperband::{Bracket, Brackets, Hyperband, HyperbandRule, HyperbandStep, Rung};
pub use median::{MedianRule, MedianSettings};
pub use optimal_stopping::{
    CellPaths, CellRule, Decision, DecisionTable, SparseCells, StoppingLosses, solve,
};
pub use rule::{StoppingRule, TrainedTrial, Training, Verdict};
