//! Python interface of queries for trials that another framework stores.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fedbo_strategies::StrategyError;
use fedbo_study::{EndedTrial, StudyError, StudyFile};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{convert, errors};

/// An ended trial: its point, its value (`None` if it failed), and the source of its point.
type Ended<'py> = (Bound<'py, PyDict>, Option<f64>, String);

/// Proposes points of a study with trials that are stored elsewhere. Calls release the
/// interpreter's lock while they compute.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Sampler(Mutex<fedbo_study::Sampler>);

#[pymethods]
impl Sampler {
    /// Creates the sampler of a study from a text in the format of a `study.toml`. Errors refer to
    /// the text by `label`.
    #[staticmethod]
    fn from_text(py: Python<'_>, label: PathBuf, text: &str) -> PyResult<Self> {
        let file = StudyFile::from_text(&label, text).map_err(errors::arguments)?;
        let made = py.detach(|| fedbo_study::Sampler::new(&file.read_definition()?));
        Ok(Self(Mutex::new(made.map_err(errors::study)?)))
    }

    /// Returns the point of trial `number` and its source, given the ended and the open trials;
    /// `None` if every point was tried.
    fn propose<'py>(
        &self,
        py: Python<'py>,
        told: Vec<Ended<'py>>,
        open: Vec<Bound<'py, PyDict>>,
        number: u64,
    ) -> PyResult<Option<(Bound<'py, PyDict>, String)>> {
        let told = told.into_iter().map(|(params, value, source)| {
            Ok(EndedTrial { point: convert::point(&params)?, value, source })
        });
        let told: Vec<EndedTrial> = told.collect::<PyResult<_>>()?;
        let open = open.iter().map(convert::point).collect::<PyResult<Vec<_>>>()?;
        let proposed = py.detach(|| {
            let mut sampler = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.propose(&told, &open, number)
        });
        match proposed {
            Ok((point, source)) => Ok(Some((convert::params(py, &point)?, source))),
            Err(StudyError::Strategy(StrategyError::Exhausted { .. })) => Ok(None),
            Err(error) => Err(errors::study(error)),
        }
    }
}
