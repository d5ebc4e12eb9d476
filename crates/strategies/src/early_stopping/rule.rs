//! The interface for rules that observe trials during training.

use std::fmt;

use super::{LearningCurve, StopReason};

/// The state of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    /// Still training.
    Running,
    /// Trained to the end.
    Complete,
    /// Stopped by a rule.
    Stopped,
}

/// A trial with its reported values.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedTrial {
    /// Index of the trial in the order of proposals, counted from 0.
    pub number: u64,
    /// Values reported so far.
    pub curve: LearningCurve,
    /// State of the training.
    pub training: Training,
}

/// A decision about a trial after an epoch. `B` is the type of the reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<B = StopReason> {
    /// The trial continues.
    Continue,
    /// The trial is stopped.
    Stop {
        /// Reason for stopping.
        because: B,
    },
}

impl<B> Verdict<B> {
    /// Returns true if the trial is stopped.
    pub fn stops(&self) -> bool {
        matches!(self, Self::Stop { .. })
    }

    /// Applies a function to the reason for stopping.
    pub fn map<C>(self, tell: impl FnOnce(B) -> C) -> Verdict<C> {
        match self {
            Self::Continue => Verdict::Continue,
            Self::Stop { because } => Verdict::Stop { because: tell(because) },
        }
    }
}

/// A rule that stops unpromising trials. Larger values are better; a caller that minimizes must
/// negate them.
pub trait StoppingRule: fmt::Debug + Send + Sync {
    /// Decides about `trial` after the last epoch of its curve. The rule has been called after
    /// every earlier epoch and has let the trial continue.
    ///
    /// `others` contains all other trials with reports, in the order of proposals, except failed
    /// ones. Running trials are included with their reports so far. Equal arguments give equal
    /// verdicts.
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict;

    /// Decides about a trial that was last judged after epoch `before`, or never if `before` is 0,
    /// and that did not report in between.
    ///
    /// Checks that were due in between are made now, with the value at the latest epoch. A rule
    /// that checks after every epoch has nothing to catch up on.
    fn judge_since(
        &self,
        _before: usize,
        trial: &TrainedTrial,
        others: &[TrainedTrial],
    ) -> Verdict {
        self.judge(trial, others)
    }
}
