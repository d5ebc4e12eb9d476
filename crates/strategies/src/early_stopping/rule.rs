//! The contract of a rule that looks at trials as they train.

use std::fmt;

use super::{LearningCurve, StopReason};

/// The state of a trial's training.
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
    /// The values that it has reported.
    pub curve: LearningCurve,
    /// The state of its training.
    pub training: Training,
}

/// The verdict on a trial after an epoch; `B` is the type of its grounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<B = StopReason> {
    /// It trains on.
    Continue,
    /// It is stopped.
    Stop {
        /// The grounds on which it is stopped.
        because: B,
    },
}

impl<B> Verdict<B> {
    /// Returns true if the trial is stopped.
    pub fn stops(&self) -> bool {
        matches!(self, Self::Stop { .. })
    }

    /// The same with its grounds told in another way.
    pub fn map<C>(self, tell: impl FnOnce(B) -> C) -> Verdict<C> {
        match self {
            Self::Continue => Verdict::Continue,
            Self::Stop { because } => Verdict::Stop { because: tell(because) },
        }
    }
}

/// A rule that stops trials which promise too little. It maximizes; a caller that minimizes negates.
pub trait StoppingRule: fmt::Debug + Send + Sync {
    /// The verdict on `trial` after the last epoch of its curve. The rule was asked after every epoch before, and let
    /// the trial train on.
    ///
    /// `others` are all other trials that have reported, in the order of asking, failed ones left out; those that run beside this
    /// one with what they have reported so far. Equal arguments give equal verdicts.
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict;

    /// The same for a trial that was last asked after epoch `before`, or never (0), and did not report the epochs between: what was
    /// due there is looked at now, at its newest epoch and with the value measured there. A rule that is due after any epoch has
    /// nothing to catch up on.
    fn judge_since(
        &self,
        _before: usize,
        trial: &TrainedTrial,
        others: &[TrainedTrial],
    ) -> Verdict {
        self.judge(trial, others)
    }
}
