//! Python bindings for pictures.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// A picture of a study. Each method call draws it again.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Picture(fedbo_report::Picture);

impl Picture {
    pub(crate) fn new(picture: fedbo_report::Picture) -> Self {
        Self(picture)
    }
}

#[pymethods]
impl Picture {
    /// Returns the picture as SVG text.
    fn svg(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.svg()).map_err(errors::other)
    }

    /// Returns the picture as PNG bytes.
    fn png<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let png = py.detach(|| self.0.png()).map_err(errors::other)?;
        Ok(PyBytes::new(py, &png))
    }
}
