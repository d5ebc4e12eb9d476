//! Agents of a federation over a network as Python calls them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use fedbo_agent::{AgentFile, Ended, EnrolOptions, Notice, Observer, RunOptions};
use fedbo_objective::Objective;
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_wire::{EnrolmentToken, ServerCard, TokenUnreadable};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::party_event::PartyEvent;
use crate::{convert, errors};

/// A flag that ends a run from another thread.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Ends the run.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Enrols an agent. The parameters of its study are given to `on_space` before anything is stored.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are those of the Python function")]
pub(crate) fn enrol<'py>(
    py: Python<'py>,
    home: PathBuf,
    coordinator: String,
    token: &str,
    ca: Option<PathBuf>,
    allow_plain_http: bool,
    helper: Option<&str>,
    on_space: Py<PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let token: Result<EnrolmentToken, TokenUnreadable> = token.trim().parse();
    let token = token.map_err(errors::input)?;
    let helper = helper.map(str::parse::<ServerCard>).transpose().map_err(errors::input)?;
    let options =
        EnrolOptions { home, coordinator_url: coordinator, token, ca, helper, allow_plain_http };
    let (enrolled, shown) = py.detach(|| {
        let mut shown = Ok(());
        let enrolled = fedbo_agent::enrol(&options, &mut |federation| {
            // INV-24: seen before anything of it is stored.
            shown = Python::attach(|py| {
                on_space.call1(py, (convert::space(py, &federation.space)?,)).map(drop)
            });
        });
        (enrolled, shown)
    });
    let membership = enrolled.map_err(errors::enrolment)?;
    shown?;
    let federation = membership.federation().map_err(|e| errors::definition(&e))?;
    let result = PyDict::new(py);
    result.set_item("study", &membership.study)?;
    result.set_item("agent", &membership.agent)?;
    result.set_item("protection", fedbo_agent::protection(&federation))?;
    result.set_item("warning", fedbo_agent::short_rounds(&federation))?;
    Ok(result)
}

/// Runs an agent as a text in the layout of an `agent.toml` says, with an objective that `evaluate` begins, until its plan is done.
/// `on_event` is told what happens, and ends the run by True. Errors call the text `label`. Returns the way in which it ended.
#[pyfunction]
pub(crate) fn run_agent(
    py: Python<'_>,
    label: PathBuf,
    text: &str,
    stop: &Stop,
    evaluate: &Bound<'_, PyAny>,
    on_event: &Bound<'_, PyAny>,
    on_warning: &Bound<'_, PyAny>,
) -> PyResult<&'static str> {
    let file = AgentFile::from_text(&label, text).map_err(errors::arguments)?;
    let (events, received) = mpsc::channel();
    let objective: Arc<dyn Objective> =
        Arc::new(PythonObjective::new(events.clone(), Arc::clone(&stop.0)));
    let observer = PythonObserver::new(events);
    let functions = Functions { evaluate, on_told: on_event, on_warning };
    let flag = Arc::clone(&stop.0);
    let work = move || {
        let observer = Events::new(observer, Arc::clone(&flag));
        let options = RunOptions { file: &file, stop: flag, observer: &observer };
        fedbo_agent::run_with(&options, objective)
    };
    let ended = serve(py, &functions, &stop.0, received, work)?.map_err(errors::agent)?;
    Ok(ended_as(ended))
}

/// The way in which a run ended, as Python has it.
pub(crate) fn ended_as(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::StudyOver => "study-over",
        Ended::Interrupted => "interrupted",
    }
}

/// Tells the thread that runs Python what an agent does.
pub(crate) struct Events {
    observer: PythonObserver,
    stop: Arc<AtomicBool>,
}

impl Events {
    pub(crate) fn new(observer: PythonObserver, stop: Arc<AtomicBool>) -> Self {
        Self { observer, stop }
    }

    fn tell(&self, event: PartyEvent) {
        if self.observer.tell(move |py| event.to_python(py)).is_break() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Observer for Events {
    fn trial_started(&self, trial: &Trial, point: &Point) {
        self.tell(PartyEvent::trial_started(trial, point));
    }

    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        self.tell(PartyEvent::trial_ended(trial, point, told));
    }

    fn notice(&self, notice: &Notice<'_>) {
        let (kind, round) = match notice {
            Notice::StudyOpened(_) => ("opened", None),
            Notice::RoundsAreShort(_) => ("short-rounds", None),
            Notice::RoundBegan(round, _) => ("round", Some(*round)),
            Notice::UploadSent(round) => ("upload-sent", Some(*round)),
            Notice::UploadMissed(round, _) => ("upload-missed", Some(*round)),
            Notice::UploadResent(round) => ("upload-resent", Some(*round)),
            Notice::Retrying(..) => ("retrying", None),
            Notice::StudyWaits(_) => ("waiting", None),
            Notice::WaitsToDeliver => return,
            Notice::BudgetReached(_) => ("budget-spent", None),
            Notice::Refused(_) => ("refused", None),
            Notice::CoordinatorRefused(_) => ("misconduct", None),
        };
        self.tell(PartyEvent::new(kind, notice.to_string(), round));
    }
}
