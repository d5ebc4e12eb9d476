//! Events of an agent or a peer, for Python's `PartyEvent`.

use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert;

/// An event of a party.
pub(crate) struct PartyEvent {
    kind: &'static str,
    message: String,
    round: Option<u64>,
    /// Number, point and source of the trial.
    trial: Option<(u64, Point, String)>,
    value: Option<f64>,
}

impl PartyEvent {
    pub(crate) fn new(kind: &'static str, message: String, round: Option<u64>) -> Self {
        Self { kind, message, round, trial: None, value: None }
    }

    fn of_trial(kind: &'static str, message: String, trial: &Trial, point: &Point) -> Self {
        let told = (trial.index, point.clone(), trial.source.to_string());
        Self { trial: Some(told), ..Self::new(kind, message, Some(trial.round)) }
    }

    /// Creates the event for a trial that is about to be evaluated.
    pub(crate) fn trial_started(trial: &Trial, point: &Point) -> Self {
        Self::of_trial("trial-started", format!("trial {}", trial.index), trial, point)
    }

    /// Creates the event for a finished trial.
    pub(crate) fn trial_ended(trial: &Trial, point: &Point, told: &Told) -> Self {
        let number = trial.index;
        let (message, value) = match told {
            Told::Value(value) => (format!("trial {number}: {value:?}"), Some(*value)),
            // Trials of a party have a single value.
            Told::Numbers(_) => (format!("trial {number}: {told}"), None),
            Told::Failed { kind, message } => {
                (format!("trial {number} failed ({kind}): {message}"), None)
            }
            // Trials of a party make no reports, so none is stopped, and cannot be discarded.
            Told::Discarded => (format!("trial {number} discarded"), None),
            Told::Stopped { because, .. } => (format!("trial {number} stopped: {because}"), None),
        };
        Self { value, ..Self::of_trial("trial-ended", message, trial, point) }
    }

    /// Converts the event to a dict with the fields of Python's `PartyEvent`.
    pub(crate) fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("kind", self.kind)?;
        fields.set_item("message", &self.message)?;
        fields.set_item("round", self.round)?;
        let (number, params, source) = match &self.trial {
            Some((number, point, source)) => {
                (Some(*number), Some(convert::params(py, point)?), Some(source))
            }
            None => (None, None, None),
        };
        fields.set_item("trial", number)?;
        fields.set_item("params", params)?;
        fields.set_item("source", source)?;
        fields.set_item("value", self.value)?;
        Ok(fields)
    }
}
