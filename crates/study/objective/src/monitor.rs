//! Monitors of trials that report during training.

use std::fmt;
use std::time::Duration;

use crate::Outcome;

/// Receives the reports of a trial in training, and decides whether the trial continues.
pub trait Monitor: Sync {
    /// Reports the value after an epoch, counted from 1, in the objective's own sign.
    ///
    /// The value is NaN or infinite if training diverged. After the first [`Signal::Stop`], every
    /// further report returns [`Signal::Stop`].
    fn report(&self, epoch: u32, value: f64) -> Signal;

    /// Reports a value that is not a number. `word` is null, NaN, Infinity or -Infinity.
    fn no_number(&self, epoch: u32, _word: &str) -> Signal {
        self.report(epoch, f64::NAN)
    }

    /// Reports a message from the trial about its training that cannot be used.
    ///
    /// `why` completes "trial 7: ..".
    fn unusable(&self, _what: Unusable, _why: &str) {}

    /// Called if the trial ended without a report but printed a line that resembles one.
    ///
    /// `what` quotes the line and describes its fault.
    fn resembles_report(&self, _what: &str) {}

    /// Called if the line with the trial's value was meant to be a report, valid or not.
    fn ends_with_report(&self) {}

    /// Called if the trial was asked to stop, did not exit within `grace`, and was killed.
    fn killed(&self, _grace: Duration) {}
}

/// Kinds of unusable messages about a trial's training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// A report with an invalid epoch.
    Epoch,
    /// A request for an unusable stop signal.
    StopBy,
}

/// Response to a report: the trial continues or is stopped.
#[must_use = "a stopped trial should end soon: its value is not used"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The trial continues training.
    Continue,
    /// The trial is stopped. It can save its state, and then exits.
    Stop,
}

impl Signal {
    /// Returns true if the trial is stopped.
    pub fn stops(self) -> bool {
        self == Self::Stop
    }
}

/// The end of a trial's training.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainingEnd {
    /// The training ended without a stop.
    Ended(Outcome),
    /// The monitor stopped the training. Any later result is ignored.
    Stopped,
}

impl fmt::Debug for dyn Monitor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Monitor")
    }
}
