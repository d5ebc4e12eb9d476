//! Conversion of points and trials to and from Python objects.

use fedbo_report::Row;
use fedbo_space::{OneOf, Point, Space, Value, WhenSpec};
use fedbo_storage::{Told, Trial, TrialState};
use fedbo_study::Definition;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::errors;

/// Converts the value of a parameter.
pub(crate) fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Int(v) => v.into_bound_py_any(py),
        Value::Float(v) => v.into_bound_py_any(py),
        Value::Bool(v) => v.into_bound_py_any(py),
        Value::Choice(v) => v.into_bound_py_any(py),
    }
}

/// Converts a point to a dict in the order of its parameters.
pub(crate) fn params<'py>(py: Python<'py>, point: &Point) -> PyResult<Bound<'py, PyDict>> {
    let params = PyDict::new(py);
    for (name, each) in point.iter() {
        params.set_item(name, value(py, each)?)?;
    }
    Ok(params)
}

/// Converts a dict to a point. The caller must check it against the space.
pub(crate) fn point(params: &Bound<'_, PyDict>) -> PyResult<Point> {
    let entries: PyResult<Vec<_>> = params
        .iter()
        .map(|(name, given)| {
            let name = text(&name)?;
            // A Python bool is also an int.
            let value = if given.is_instance_of::<PyBool>() {
                Value::Bool(given.extract()?)
            } else if given.is_instance_of::<PyInt>() {
                let value = given.extract().map_err(|_| {
                    errors::input(format!("parameter {name:?}: {given} does not fit into 64 bits"))
                })?;
                Value::Int(value)
            } else if given.is_instance_of::<PyFloat>() {
                Value::Float(given.extract()?)
            } else if given.is_instance_of::<PyString>() {
                Value::Choice(text(&given)?)
            } else {
                let kind = given.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "parameter {name:?}: expected an int, a float, a bool or a str, got {kind}"
                )));
            };
            Ok((name, value))
        })
        .collect();
    Ok(Point::new(entries?))
}

/// Extracts a string, which must be valid Unicode.
fn text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = given.cast::<PyString>().map_err(PyErr::from)?;
    text.extract().map_err(|_| {
        let shown = lossy(text).unwrap_or_default();
        errors::input(format!(
            "'{shown}' contains a lone surrogate, which is not valid Unicode; remove it"
        ))
    })
}

/// Extracts a string for messages. Lone surrogates, which `os.fsdecode` produces for bytes that are
/// not UTF-8, become `\udcXX`.
pub(crate) fn lossy(text: &Bound<'_, PyString>) -> PyResult<String> {
    match text.extract() {
        Ok(text) => Ok(text),
        Err(_) => {
            let encoded = text.call_method1("encode", ("utf-8", "backslashreplace"))?;
            Ok(String::from_utf8_lossy(encoded.cast::<PyBytes>()?.as_bytes()).into_owned())
        }
    }
}

/// Converts a trial to a dict with the fields of Python's `Trial`.
pub(crate) fn trial<'py>(
    py: Python<'py>,
    definition: &Definition,
    trial: &Trial,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let outcomes = PyDict::new(py);
    if definition.outcomes_table().is_some() {
        for (name, number) in definition.number_names().into_iter().zip(trial.numbers()) {
            outcomes.set_item(name, *number)?;
        }
    }
    fields.set_item("outcomes", outcomes)?;
    fields.set_item("feasible", definition.is_feasible(trial))?;
    fields.set_item("number", trial.number)?;
    fields.set_item("params", params(py, &trial.point)?)?;
    fields.set_item("value", trial.value())?;
    fields.set_item("state", trial.state.word())?;
    fields.set_item("source", &trial.source)?;
    let message = match &trial.state {
        TrialState::Told(Told::Failed { message, .. }) => Some(message),
        TrialState::Told(Told::Stopped { because, .. }) => Some(because),
        _ => None,
    };
    fields.set_item("message", message)?;
    let reports: Vec<(u32, f64)> = trial.reports.iter().map(|r| (r.epoch, r.value)).collect();
    fields.set_item("reports", reports)?;
    fields.set_item("asked_at_ms", trial.asked_at_ms)?;
    fields.set_item("told_at_ms", trial.told_at_ms)?;
    fields.set_item("told_order", trial.told_seq.map(|seq| seq.saturating_sub(1)))?;
    fields.set_item("seconds", trial.evaluate_seconds())?;
    Ok(fields)
}

/// Converts a row of a federation's results to a dict. Its parameter values are parsed from text by
/// the space.
pub(crate) fn row<'py>(py: Python<'py>, row: &Row, space: &Space) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("arm", &row.arm)?;
    fields.set_item("agent", &row.agent)?;
    fields.set_item("run", row.run)?;
    fields.set_item("iteration", row.iteration)?;
    fields.set_item("source", &row.source)?;
    let params = PyDict::new(py);
    for parameter in space.parameters() {
        let own = row.parameters.iter().find(|(name, _)| name == parameter.name());
        // A choice can be an empty text.
        let own = own.filter(|(_, text)| parameter.when().is_empty() || !text.is_empty());
        if let Some((name, text)) = own {
            let read = parameter.parse(text).map_err(errors::other)?;
            params.set_item(name, value(py, &read)?)?;
        }
    }
    fields.set_item("params", params)?;
    fields.set_item("value", row.value)?;
    fields.set_item("best", row.best)?;
    fields.set_item("ask_seconds", row.ask_seconds)?;
    fields.set_item("status", &row.status)?;
    Ok(fields)
}

/// Converts the parameters of a space to dicts with the keys of a `study.toml`.
pub(crate) fn space<'py>(py: Python<'py>, space: &Space) -> PyResult<Bound<'py, PyDict>> {
    let parameters = PyDict::new(py);
    for parameter in space.parameters() {
        let spec = parameter.to_spec();
        let keys = PyDict::new(py);
        keys.set_item("type", &spec.kind)?;
        let is_int = spec.kind == "int";
        let number = |number: f64| match is_int {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "numbers of an integer range are whole and within ±2^53"
            )]
            true => value(py, &Value::Int(number as i64)),
            false => value(py, &Value::Float(number)),
        };
        for (key, bound) in [("low", spec.low), ("high", spec.high), ("step", spec.step)] {
            if let Some(bound) = bound {
                keys.set_item(key, number(bound)?)?;
            }
        }
        if let Some(values) = &spec.values {
            let values: PyResult<Vec<_>> = values.iter().map(|each| number(*each)).collect();
            keys.set_item("values", PyList::new(py, values?)?)?;
        }
        if let Some(ordered) = spec.ordered {
            keys.set_item("ordered", ordered)?;
        }
        if let Some(log) = spec.log {
            keys.set_item("log", log)?;
        }
        if let Some(choices) = &spec.choices {
            let choices: PyResult<Vec<_>> = choices.iter().map(|each| value(py, each)).collect();
            keys.set_item("choices", PyList::new(py, choices?)?)?;
        }
        if !spec.when.is_empty() {
            keys.set_item("when", when(py, &spec.when)?)?;
        }
        parameters.set_item(parameter.name(), keys)?;
    }
    Ok(parameters)
}

/// Converts a condition to a dict of parents and their values: a value, or a list of values.
fn when<'py>(py: Python<'py>, spec: &WhenSpec) -> PyResult<Bound<'py, PyDict>> {
    let parents = PyDict::new(py);
    for (parent, one_of) in spec {
        match one_of {
            OneOf::One(only) => parents.set_item(parent, value(py, only)?)?,
            OneOf::Any(values) => {
                let values: PyResult<Vec<_>> = values.iter().map(|each| value(py, each)).collect();
                parents.set_item(parent, PyList::new(py, values?)?)?;
            }
        }
    }
    Ok(parents)
}
