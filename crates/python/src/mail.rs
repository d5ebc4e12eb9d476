//! Agents whose requests and responses are carried by messages of another system.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use fedbo_agent::{AgentFile, Ended, EnrolError, RequestId, RunError, RunOptions};
use fedbo_objective::Objective;
use fedbo_party::HomeError;
use fedbo_transport::CarriedResponse;
use fedbo_wire::{Digest, EnrolmentToken, TokenUnreadable};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::agent::{Events, Stop, ended_as};
use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::{convert, errors};

/// A response: the id of its request, status, headers and body.
type Answer = ([u8; 32], u16, Vec<(String, String)>, Vec<u8>);

/// A request: its id, method, target, headers and body.
type Request<'py> =
    (Bound<'py, PyBytes>, String, String, Vec<(String, String)>, Bound<'py, PyBytes>);

/// The responses for one process of an agent, and the requests that the process makes.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Mail(Arc<fedbo_agent::Mail>);

#[pymethods]
impl Mail {
    /// `challenge` and `asked_ms` are those of the previous process: its challenge, and the time at
    /// which its requests were sent, in milliseconds since 1970.
    #[new]
    fn new(answers: Vec<Answer>, challenge: Option<[u8; 32]>, asked_ms: Option<u64>) -> Self {
        let answers = answers.into_iter().map(|(id, status, headers, body)| {
            (RequestId(Digest(id)), CarriedResponse { status, headers, body })
        });
        Self(Arc::new(fedbo_agent::Mail::new(answers, challenge.map(Digest), asked_ms)))
    }

    /// The requests without responses. They must be processed in this order.
    #[getter]
    fn outbox<'py>(&self, py: Python<'py>) -> Vec<Request<'py>> {
        let requests = self.0.outbox().into_iter();
        let shown = requests.map(|(id, request)| {
            let (id, body) = (PyBytes::new(py, &id.0.0), PyBytes::new(py, &request.body));
            (id, request.method, request.target, request.headers, body)
        });
        shown.collect()
    }

    /// The challenge of an enrolment in progress.
    #[getter]
    fn challenge<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.challenge().map(|challenge| PyBytes::new(py, &challenge.0))
    }
}

/// Continues the enrolment of the agent of an `agent.toml`. Returns True once the agent is
/// enrolled. Before that, either the outbox of `mail` has requests or another process continues the
/// enrolment. The parameters of the study are passed to `on_space` before anything is stored.
#[pyfunction]
pub(crate) fn enrol_by_mail(
    py: Python<'_>,
    file: PathBuf,
    token: &str,
    mail: &Mail,
    on_space: Py<PyAny>,
) -> PyResult<bool> {
    let file = AgentFile::load(&file).map_err(|error| errors::definition(&error))?;
    let token: Result<EnrolmentToken, TokenUnreadable> = token.trim().parse();
    let token = token.map_err(errors::input)?;
    let (joined, shown) = py.detach(|| {
        let mut shown = Ok(());
        let joined = fedbo_agent::enrol_by_mail(&file.home, token, &mail.0, &mut |federation| {
            // INV-24: show the parameters before anything is stored.
            shown = Python::attach(|py| {
                on_space.call1(py, (convert::space(py, &federation.space)?,)).map(drop)
            });
        });
        (joined, shown)
    });
    shown?;
    match joined {
        Err(EnrolError::Home(HomeError::Held { .. })) => Ok(false),
        joined => joined.map_err(errors::enrolment),
    }
}

/// Runs the agent of an `agent.toml` until it needs a response that is not in `mail`. `evaluate`
/// starts its evaluations; without it, the agent runs the file's command. `on_event` is called with
/// each event. Returns why the run ended: `interrupted` if the outbox of `mail` has requests or
/// another process runs the study.
#[pyfunction]
pub(crate) fn run_agent_by_mail(
    py: Python<'_>,
    file: PathBuf,
    mail: &Mail,
    stop: &Stop,
    evaluate: Option<&Bound<'_, PyAny>>,
    on_event: &Bound<'_, PyAny>,
    on_warning: &Bound<'_, PyAny>,
) -> PyResult<&'static str> {
    let file = AgentFile::load(&file).map_err(|error| errors::definition(&error))?;
    let (events, received) = mpsc::channel();
    let flag = stop.flag();
    let objective = evaluate.map(|_| -> Arc<dyn Objective> {
        Arc::new(PythonObjective::new(events.clone(), stop.flag()))
    });
    let observer = PythonObserver::new(events);
    // Without `evaluate`, the agent runs the file's command and never calls this placeholder.
    let nobody = py.None().into_bound(py);
    let evaluate = evaluate.unwrap_or(&nobody);
    let functions = Functions { evaluate, on_told: on_event, on_warning };
    let mail = Arc::clone(&mail.0);
    let work = move || {
        let observer = Events::new(observer, Arc::clone(&flag));
        let options = RunOptions { file: &file, stop: flag, observer: &observer };
        fedbo_agent::run_by_mail(&options, objective, &mail)
    };
    let stopping = stop.flag();
    match serve(py, &functions, &stopping, received, work)? {
        Err(RunError::Home(HomeError::Held { .. })) => Ok(ended_as(Ended::Interrupted)),
        ended => ended.map(ended_as).map_err(errors::agent),
    }
}
