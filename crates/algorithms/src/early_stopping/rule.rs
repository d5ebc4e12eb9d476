//! The contract of a rule that looks at trials as they train.

use std::fmt;

use super::LearningCurve;

/// How far the training of a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    /// It trains.
    Running,
    /// It was trained to the end.
    Complete,
    /// A rule stopped it.
    Stopped,
}

/// A trial with what it has reported.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedTrial {
    /// Its place in the order of asking, from 0.
    pub number: u64,
    /// What it has reported.
    pub curve: LearningCurve,
    /// How far it is.
    pub training: Training,
}

/// What becomes of a trial after an epoch.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It trains on.
    Continue,
    /// It is stopped.
    Stop {
        /// On what grounds, in words: `worse than the median 0.81 of 12 trials at epoch 7`.
        because: String,
    },
}

impl Verdict {
    /// Whether the trial is stopped.
    pub fn stops(&self) -> bool {
        matches!(self, Self::Stop { .. })
    }
}

/// A rule that stops trials which promise too little. It maximizes; a caller that minimizes negates.
pub trait StoppingRule: fmt::Debug + Send + Sync {
    /// Whether `trial` trains on after the last epoch of its curve. It was asked after every epoch before, and said yes.
    ///
    /// `others` are all other trials that have reported, in the order of asking, failed ones left out; those that run beside this
    /// one with what they have reported so far. Equal arguments give equal verdicts.
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict;
}
