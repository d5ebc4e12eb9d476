//! Early stopping: whether a trial that reports as it trains goes on.
//!
//! A rule is a pure function of curves: of the trial's own and of those of the other trials. So it resumes with its study, and can
//! be looked at. [`StoppingRule`] is what all of them are.

mod curve;
mod rule;

pub use curve::LearningCurve;
pub use rule::{StoppingRule, TrainedTrial, Training, Verdict};
