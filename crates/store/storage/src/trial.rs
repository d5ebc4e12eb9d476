//! One trial of a study, as it is stored.

use std::fmt;

use fedbo_space::Point;
use serde::{Deserialize, Serialize};

use crate::Worker;

/// A trial: a point that was asked for, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its place in the order of asking, from 0, without gaps within a study.
    pub number: u64,
    /// The point that is tried.
    pub point: Point,
    /// The source of its point: `initial`, `own`, `random`, `enqueued`, …; where the point of a failed trial is
    /// evaluated again, also the number of that trial, as in `own, retry of 7`.
    pub source: String,
    /// The state of the trial.
    pub state: TrialState,
    /// The number of times that somebody began to evaluate it.
    pub attempts: u32,
    /// The time when it was asked for, in milliseconds since 1970 by the storage's clock.
    pub asked_at_ms: i64,
    /// The time when its last evaluation began, in the same unit.
    pub started_at_ms: Option<i64>,
    /// The time when it was told, in the same unit.
    pub told_at_ms: Option<i64>,
    /// Its place in the order of telling, from 1, without gaps within a study.
    pub told_seq: Option<u64>,
    /// Seconds that the proposal took.
    pub ask_seconds: f64,
    /// The reports of its last attempt as it trained, by ascending epochs; kept when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
}

/// A report of a trial after an epoch of its training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The epoch, from 1.
    pub epoch: u32,
    /// A finite value, in the user's own sign.
    pub value: f64,
}

/// Those of some reports by ascending epochs that are not before an epoch.
pub(crate) fn reports_from(reports: &[Report], epoch: u32) -> &[Report] {
    let n_before = reports.partition_point(|report| report.epoch < epoch);
    &reports[n_before..]
}

/// Stands between the source of a failed trial and its number, in the source of the trial that evaluates its point again.
const RETRY: &str = ", retry of ";

impl Trial {
    /// The source of a trial that evaluates this one's point again.
    pub fn source_of_retry(&self) -> String {
        format!("{}{RETRY}{}", self.origin(), self.number)
    }

    /// The number of the failed trial whose point this one evaluates again.
    pub fn retry_of(&self) -> Option<u64> {
        self.source.split_once(RETRY)?.1.parse().ok()
    }

    /// Returns the source of its point, whichever trial evaluates it.
    pub fn origin(&self) -> &str {
        match self.source.split_once(RETRY) {
            Some((origin, _)) => origin,
            None => &self.source,
        }
    }

    /// Its value, if it was evaluated to the end and has one; a trial that was stopped has none.
    pub fn value(&self) -> Option<f64> {
        match &self.state {
            TrialState::Told(told) => told.numbers().first().copied(),
            _ => None,
        }
    }

    /// All that it was evaluated to, its value first; empty if it has none.
    pub fn numbers(&self) -> &[f64] {
        self.told().map_or(&[], Told::numbers)
    }

    /// The last epoch that it has reported, and its value then.
    pub fn last_report(&self) -> Option<Report> {
        self.reports.last().copied()
    }

    /// Returns the outcome of the trial, if it has ended.
    pub fn told(&self) -> Option<&Told> {
        match &self.state {
            TrialState::Told(told) => Some(told),
            _ => None,
        }
    }

    /// Seconds from the start of its last evaluation to its telling.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a difference of milliseconds is far below 2^53"
    )]
    pub fn evaluate_seconds(&self) -> Option<f64> {
        let (started, told) = (self.started_at_ms?, self.told_at_ms?);
        Some(told.saturating_sub(started).max(0) as f64 / 1e3)
    }
}

/// The state of a trial.
///
/// ```text
/// Waiting ──claim──▶ Running ──finish──▶ Told
///    ▲                  │
///    └───── give back ──┘   (also when its holder is gone: then the next claim takes it over)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// Nobody evaluates it: given by a person, or given back.
    Waiting,
    /// Somebody evaluates it.
    Running(TrialLease),
    /// It has ended.
    Told(Told),
}

impl TrialState {
    /// One word for tables: `waiting`, `running`, `complete`, `failed` or `stopped`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running(_) => "running",
            Self::Told(Told::Value(_) | Told::Numbers(_)) => "complete",
            Self::Told(Told::Failed { .. }) => "failed",
            Self::Told(Told::Stopped { .. }) => "stopped",
        }
    }
}

/// The holder of a trial, who evaluates it, and the time until which nobody else may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLease {
    /// The holder.
    pub worker: Worker,
    /// End of the lease, in milliseconds since 1970 by the storage's clock; `None` if it is held until it is told.
    pub until_ms: Option<i64>,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// With a finite value, in the user's own sign.
    Value(f64),
    /// With several finite numbers, in the user's own signs and the order in which the study's definition names them: its value, and
    /// further ones. At least two.
    Numbers(Vec<f64>),
    /// Without one.
    Failed {
        /// One word: `exit`, `timed-out`, `abandoned`, …
        kind: String,
        /// The message: what happened.
        message: String,
    },
    /// Early, while it trained: with what it had reported last, which is no final value.
    Stopped {
        /// The epoch after which it was stopped, from 1.
        epoch: u32,
        /// Its finite value then, in the user's own sign.
        value: f64,
        /// The grounds, in words.
        because: String,
    },
}

impl Told {
    /// With a value and further numbers, if there are any.
    pub fn with_numbers(numbers: Vec<f64>) -> Self {
        match numbers.as_slice() {
            [value] => Self::Value(*value),
            _ => Self::Numbers(numbers),
        }
    }

    /// All numbers that it was evaluated to, its value first; empty unless it was evaluated to the end and has one.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::Value(value) => std::slice::from_ref(value),
            Self::Numbers(numbers) => numbers,
            Self::Failed { .. } | Self::Stopped { .. } => &[],
        }
    }

    /// The numbers behind the value.
    pub(crate) fn further(&self) -> &[f64] {
        self.numbers().get(1..).unwrap_or_default()
    }

    /// Returns true if two outcomes are the same, to the bit.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(_) | Self::Numbers(_), Self::Value(_) | Self::Numbers(_)) => {
                let bits =
                    |told: &Self| told.numbers().iter().map(|n| n.to_bits()).collect::<Vec<_>>();
                bits(self) == bits(other)
            }
            (Self::Failed { .. }, Self::Failed { .. }) => self == other,
            (Self::Stopped { value: a, .. }, Self::Stopped { value: b, .. }) => {
                self == other && a.to_bits() == b.to_bits()
            }
            _ => false,
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "the value {value:?}"),
            Self::Numbers(numbers) => write!(f, "the numbers {numbers:?}"),
            Self::Failed { message, .. } => write!(f, "a failure ({message})"),
            Self::Stopped { epoch, because, .. } => {
                write!(f, "a stop at epoch {epoch} ({because})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_names_the_last_trial_and_the_first_source() {
        let trial = |number, source: String| Trial {
            number,
            point: Point::new(Vec::new()),
            source,
            state: TrialState::Waiting,
            attempts: 0,
            asked_at_ms: 0,
            started_at_ms: None,
            told_at_ms: None,
            told_seq: None,
            ask_seconds: 0.0,
            reports: Vec::new(),
        };
        let first = trial(3, "initial".to_owned());
        assert_eq!((first.origin(), first.retry_of()), ("initial", None));
        let second = trial(7, first.source_of_retry());
        assert_eq!((second.origin(), second.retry_of()), ("initial", Some(3)));
        let third = trial(9, second.source_of_retry());
        assert_eq!((third.origin(), third.retry_of()), ("initial", Some(7)));
        assert_eq!(third.source, "initial, retry of 7");
    }
}
