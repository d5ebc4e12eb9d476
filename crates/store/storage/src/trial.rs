//! A stored trial of a study.

use std::fmt;

use fedbo_space::Point;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Worker;

/// A trial: a proposed point and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the order of asking, counted from 0, without gaps within a study.
    pub number: u64,
    /// The point to evaluate.
    pub point: Point,
    /// The source of the point: `initial`, `own`, `random`, `enqueued`, …. For a retry of a failed
    /// trial, also names the failed trial: `own, retry of 7`.
    pub source: String,
    /// The state of the trial.
    pub state: TrialState,
    /// Number of times that an evaluation was started.
    pub attempts: u32,
    /// The time of asking, in milliseconds since 1970 by the storage's clock.
    pub asked_at_ms: i64,
    /// The start of the last evaluation, in the same unit.
    pub started_at_ms: Option<i64>,
    /// The time of telling, in the same unit.
    pub told_at_ms: Option<i64>,
    /// Position in the order of telling, counted from 1, without gaps within a study.
    pub told_seq: Option<u64>,
    /// Time to compute the proposal, in seconds.
    pub ask_seconds: f64,
    /// The intermediate reports of the last attempt, sorted by epoch. Kept after the trial ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
}

/// An intermediate value of a trial after an epoch of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The epoch, counted from 1.
    pub epoch: u32,
    /// A finite value, with the sign that the user gave.
    pub value: f64,
}

/// Returns the reports from `epoch` on. `reports` must be sorted by epoch.
pub(crate) fn reports_from(reports: &[Report], epoch: u32) -> &[Report] {
    let n_before = reports.partition_point(|report| report.epoch < epoch);
    &reports[n_before..]
}

/// Separates a failed trial's source from its number in the source of a retry.
const RETRY: &str = ", retry of ";

impl Trial {
    /// Returns the source for a trial that retries this trial's point.
    pub fn source_of_retry(&self) -> String {
        format!("{}{RETRY}{}", self.origin(), self.number)
    }

    /// Returns the number of the failed trial that this trial retries, if any.
    pub fn retry_of(&self) -> Option<u64> {
        self.source.split_once(RETRY)?.1.parse().ok()
    }

    /// Returns the original source of the point, without the retry suffix.
    pub fn origin(&self) -> &str {
        match self.source.split_once(RETRY) {
            Some((origin, _)) => origin,
            None => &self.source,
        }
    }

    /// Returns the final value, or `None` if the trial is open, failed or was stopped, or if its
    /// value was not measured.
    pub fn value(&self) -> Option<f64> {
        match &self.state {
            TrialState::Told(told) => told.numbers().first().copied().filter(|v| !v.is_nan()),
            _ => None,
        }
    }

    /// Returns all final numbers, starting with the value. A number that was not measured is NaN.
    /// Empty if there are no final numbers.
    pub fn numbers(&self) -> &[f64] {
        self.told().map_or(&[], Told::numbers)
    }

    /// Returns true if the trial was discarded.
    pub fn is_discarded(&self) -> bool {
        matches!(self.state, TrialState::Told(Told::Discarded))
    }

    /// Returns the report of the last epoch.
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

    /// Returns the time from the start of the last evaluation until the trial was told, in seconds.
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
///    └───── release ────┘   (also when its holder is gone: then the next claim takes it over)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialState {
    /// No worker is evaluating the trial, because it was enqueued by a person or released.
    Waiting,
    /// A worker is evaluating the trial.
    Running(TrialLease),
    /// The trial has ended.
    Told(Told),
}

impl TrialState {
    /// Returns a word for use in tables: `waiting`, `running`, `complete`, `failed`, `stopped` or
    /// `discarded`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running(_) => "running",
            Self::Told(told) => told.word(),
        }
    }
}

/// A change of a finished trial's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Position among the study's corrections, counted from 1.
    pub seq: u64,
    /// The number of the trial.
    pub number: u64,
    /// The time of the correction, in milliseconds since 1970 by the storage's clock.
    pub at_ms: i64,
    /// The outcome before the correction.
    pub before: Told,
}

/// The identity of a study's last correction. A count alone would not differ if a backup is restored
/// and another correction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastCorrection {
    /// Position among the study's corrections, counted from 1.
    pub seq: u64,
    /// The number of the corrected trial.
    pub number: u64,
    /// The time of the correction, in milliseconds since 1970 by the storage's clock.
    pub at_ms: i64,
}

/// The worker that holds a trial, and the end of its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLease {
    /// The holder.
    pub worker: Worker,
    /// End of the lease, in milliseconds since 1970 by the storage's clock. `None` if the trial is
    /// held until it is told.
    pub until_ms: Option<i64>,
}

/// The outcome of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// A finite value, with the sign that the user gave.
    Value(f64),
    /// At least two numbers, with the signs that the user gave. The value is followed by further
    /// numbers, in the order of the study's definition. A number that was not measured is NaN, and
    /// at least one is finite.
    Numbers(#[serde(deserialize_with = "null_as_missing")] Vec<f64>),
    /// A failure without a value.
    Failed {
        /// One word: `exit`, `timed-out`, `abandoned`, …; not empty.
        kind: String,
        /// A description of the failure.
        message: String,
    },
    /// An early stop during training. The last reported value is kept but is not final.
    Stopped {
        /// The epoch after which the trial was stopped, counted from 1.
        epoch: u32,
        /// The finite value at this epoch, with the sign that the user gave.
        value: f64,
        /// Description of the reason.
        because: String,
    },
    /// A discarded trial, which counts neither as a value nor as a failure. Another trial may have
    /// the same point.
    Discarded,
}

/// The failure kind that marks a discarded trial in a database. Failures have a kind of at least
/// one character. Programs without support for discarded trials take them for failures.
pub(crate) const DISCARDED_KIND: &str = "";

/// The failure message of a discarded trial in a database.
pub(crate) const DISCARDED_MESSAGE: &str = "discarded";

/// Reads numbers from JSON, which has null instead of NaN.
fn null_as_missing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
}

/// Missing numbers are equal.
impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => a == b,
            (Self::Numbers(a), Self::Numbers(b)) => {
                let is_same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
                a.len() == b.len() && a.iter().zip(b).all(is_same)
            }
            (Self::Failed { kind: a, message: of_a }, Self::Failed { kind: b, message: of_b }) => {
                (a, of_a) == (b, of_b)
            }
            (
                Self::Stopped { epoch: a, value: of_a, because: why_a },
                Self::Stopped { epoch: b, value: of_b, because: why_b },
            ) => (a, of_a, why_a) == (b, of_b, why_b),
            (Self::Discarded, Self::Discarded) => true,
            _ => false,
        }
    }
}

impl Told {
    /// Returns the outcome with this failure kind and message in a database.
    pub(crate) fn of_failure(kind: String, message: String) -> Self {
        match kind.as_str() {
            DISCARDED_KIND => Self::Discarded,
            _ => Self::Failed { kind, message },
        }
    }

    /// Returns the failure kind and message in a database.
    pub(crate) fn failure(&self) -> Option<(&str, &str)> {
        match self {
            Self::Failed { kind, message } => Some((kind, message)),
            Self::Discarded => Some((DISCARDED_KIND, DISCARDED_MESSAGE)),
            Self::Value(_) | Self::Numbers(_) | Self::Stopped { .. } => None,
        }
    }

    /// Returns a word for use in tables: `complete`, `failed`, `stopped` or `discarded`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Value(_) | Self::Numbers(_) => "complete",
            Self::Failed { .. } => "failed",
            Self::Stopped { .. } => "stopped",
            Self::Discarded => "discarded",
        }
    }

    /// Returns the outcome with these numbers, which is [`Told::Value`] if there is only one.
    pub fn with_numbers(numbers: Vec<f64>) -> Self {
        match numbers.as_slice() {
            [value] => Self::Value(*value),
            _ => Self::Numbers(numbers),
        }
    }

    /// Returns all final numbers, starting with the value. Empty if the trial failed or was
    /// stopped.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::Value(value) => std::slice::from_ref(value),
            Self::Numbers(numbers) => numbers,
            Self::Failed { .. } | Self::Stopped { .. } | Self::Discarded => &[],
        }
    }

    /// Returns true if two outcomes are bitwise equal. Missing numbers are equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(_) | Self::Numbers(_), Self::Value(_) | Self::Numbers(_)) => {
                let of_number = |n: &f64| (!n.is_nan()).then_some(n.to_bits());
                let bits = |told: &Self| told.numbers().iter().map(of_number).collect::<Vec<_>>();
                bits(self) == bits(other)
            }
            (Self::Failed { .. }, Self::Failed { .. }) | (Self::Discarded, Self::Discarded) => {
                self == other
            }
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
            Self::Discarded => f.write_str("no outcome, because it was discarded"),
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
