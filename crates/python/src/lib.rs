//! The native module `fedbo._fedbo` of the Python package `fedbo`.
//!
//! These bindings determine which thread evaluates objectives, when the GIL is released, and which
//! exception an error becomes. The public API is written in Python, in `python/fedbo`. Neither
//! contains any mathematics. Start at [`study::Study`]. Federations in one process are in
//! [`federation::Federation`], agents over a network in [`agent::run_agent`].

mod agent;
mod calls;
mod convert;
mod errors;
mod federation;
mod mail;
mod party_event;
mod peer;
mod picture;
mod sampler;
mod study;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program `fedbo` and returns its exit status. The first argument is the program's name.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| fedbo_cli::run_program(arguments))
}

/// Runs a command without side effects and returns its JSON document. The first argument is the
/// program's name.
#[pyfunction]
fn answer(py: Python<'_>, arguments: Vec<String>) -> PyResult<String> {
    let answer = py.detach(|| fedbo_cli::answer(arguments.into_iter().map(Into::into)));
    answer.map_err(|error| match error.is_input {
        true => errors::input(error.message),
        false => errors::other(error.message),
    })
}

#[pymodule(gil_used = false)]
mod _fedbo {
    #[pymodule_export]
    use crate::agent::{Stop, enrol, run_agent};
    #[pymodule_export]
    use crate::calls::Call;
    #[pymodule_export]
    use crate::federation::Federation;
    #[pymodule_export]
    use crate::mail::{Mail, enrol_by_mail, run_agent_by_mail};
    #[pymodule_export]
    use crate::peer::run_peer;
    #[pymodule_export]
    use crate::picture::Picture;
    #[pymodule_export]
    use crate::sampler::Sampler;
    #[pymodule_export]
    use crate::study::Study;
    #[pymodule_export]
    use crate::{answer, run_program};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python has for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
