//! The monitor that a trial talks to if it reports as it trains.

use std::fmt;
use std::time::Duration;

use crate::Outcome;

/// Hears what a trial reports as it trains, and says whether it goes on.
pub trait Monitor: Sync {
    /// The value after an epoch, counted from 1, in the objective's own sign; NaN or infinite where training went astray. After
    /// the first [`Signal::Stop`] all further ones are answered with it.
    fn report(&self, epoch: u32, value: f64) -> Signal;

    /// The same for what is no number: `word` is null, NaN, Infinity or -Infinity.
    fn no_number(&self, epoch: u32, _word: &str) -> Signal {
        self.report(epoch, f64::NAN)
    }

    /// The trial said something about its training that cannot be used; `why` completes "trial 7: ..".
    fn unusable(&self, _what: Unusable, _why: &str) {}

    /// The trial ends without a report, but printed something that looks like one; `what` quotes it and says what is wrong with it.
    fn resembles_report(&self, _what: &str) {}

    /// The line from which the trial's value is read was meant as a report, whether that was usable or not.
    fn ends_with_report(&self) {}

    /// The trial was asked to stop, did not end within `grace`, and was killed.
    fn killed(&self, _grace: Duration) {}
}

/// The kinds of statements about its training that a trial makes and that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// A report of an epoch that is none.
    Epoch,
    /// A signal by which it wants to be stopped.
    StopBy,
}

/// The answer to a report: the trial goes on, or is stopped.
#[must_use = "a trial that is stopped should end soon: its value is not used"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It trains on.
    Continue,
    /// It is stopped: it may save what it likes, and ends.
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
    /// By itself.
    Ended(Outcome),
    /// As its monitor has told it to; what it did after that is of no account.
    Stopped,
}

impl fmt::Debug for dyn Monitor + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Monitor")
    }
}
