//! Python bindings for proposing points of trials that another framework stores.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fedbo_strategies::StrategyError;
use fedbo_study::{EndedTrial, StudyError, StudyFile};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{convert, errors};

/// A finished trial: its point, its value (`None` if it failed), and the source of its point.
type Ended<'py> = (Bound<'py, PyDict>, Option<f64>, String);

/// Proposes points for a study whose trials are stored elsewhere. Methods release the GIL while
/// they compute.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Sampler(Mutex<fedbo_study::Sampler>);

#[pymethods]
impl Sampler {
    /// Creates the sampler for a study defined by a text in the format of a `study.toml`. Error
    /// messages refer to the text as `label`.
    #[staticmethod]
    fn from_text(py: Python<'_>, label: PathBuf, text: &str) -> PyResult<Self> {
        let file = StudyFile::from_text(&label, text).map_err(errors::arguments)?;
        let made = py.detach(|| fedbo_study::Sampler::new(&file.read_definition()?));
        Ok(Self(Mutex::new(made.map_err(errors::study)?)))
    }

    /// Proposes the point of trial `number`, given the finished and the open trials. Returns the
    /// point and its source, or `None` if every point was tried.
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
