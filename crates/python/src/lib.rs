//! The native module `fedbo._fedbo` of the Python package `fedbo`.
//!
//! Decides how Rust's studies and federations are called from Python: which thread evaluates, when the interpreter's lock is released, which
//! exception an error becomes. What users see is written in Python, in `python/fedbo`, and holds no mathematics either.
//! Start at [`study::Study`]; federations in one process are [`federation::Federation`], agents over a network [`agent::run_agent`].

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

use pyo3::prelude::*;

/// Runs the program `fedbo` with these arguments, of which the first is its name, and returns its exit status.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| fedbo_cli::run_program(arguments.into_iter().map(Into::into)))
}

/// The JSON document of a command of the program that only computes one; the first argument is the program's name.
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
