//! Python bindings for agents of a federation over a network.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use fedbo_agent::{AgentFile, Ended, EnrolOptions, Notice, Observer, RunOptions};
use fedbo_objective::Objective;
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use fedbo_transport::ProxySetting;
use fedbo_wire::{EnrolmentToken, ServerCard, TokenUnreadable};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::party_event::PartyEvent;
use crate::{convert, errors};

/// A flag to end a run from another thread.
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

    /// Sets the flag.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Enrols an agent. The parameters of the study are passed to `on_space` before anything is stored.
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
    proxy: Option<&str>,
    on_space: Py<PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let token: Result<EnrolmentToken, TokenUnreadable> = token.trim().parse();
    let token = token.map_err(errors::input)?;
    let helper = helper.map(str::parse::<ServerCard>).transpose().map_err(errors::input)?;
    let proxy = proxy.map(str::parse::<ProxySetting>).transpose();
    let proxy = proxy.map_err(|expected| errors::input(format!("proxy: {expected}")))?;
    let options = EnrolOptions {
        home,
        coordinator_url: coordinator,
        token,
        ca,
        proxy: proxy.unwrap_or_default(),
        helper,
        allow_plain_http,
    };
    let (enrolled, shown) = py.detach(|| {
        let mut shown = Ok(());
        let enrolled = fedbo_agent::enrol(&options, &mut |federation| {
            // INV-24: show the parameters before anything is stored.
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
    let warnings =
        [fedbo_agent::weak_protection(&federation), fedbo_agent::short_rounds(&federation)];
    let warnings: Vec<String> = warnings.into_iter().flatten().collect();
    result.set_item("warnings", warnings)?;
    Ok(result)
}

/// Runs an agent until its plan is complete, with settings in the format of an `agent.toml`.
/// `evaluate` starts its evaluations. `on_event` is called with each event; the run ends if it
/// returns True. Error messages refer to the settings as `label`. Returns why the run ended.
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

/// Returns the reason for the end of a run, as named in Python.
pub(crate) fn ended_as(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::StudyOver => "study-over",
        Ended::Interrupted => "interrupted",
    }
}

/// Sends the events of an agent to the Python thread, and waits until they are handled.
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
            Notice::WeakProtection(_) => ("weak-protection", None),
            Notice::RoundBegan(round, _) => ("round", Some(*round)),
            Notice::UploadSent(round) => ("upload-sent", Some(*round)),
            Notice::UploadMissed(round, _) => ("upload-missed", Some(*round)),
            Notice::UploadResent(round) => ("upload-resent", Some(*round)),
            Notice::Retrying(..) => ("retrying", None),
            Notice::StudyWaits(_) => ("waiting", None),
            Notice::HelperAwaited(round) => ("waiting", Some(*round)),
            Notice::WaitsToDeliver => return,
            Notice::BudgetReached(_) => ("budget-spent", None),
            Notice::TakenOver(_) => ("taken-over", None),
            Notice::CoordinatorSetBack(..) => ("coordinator-set-back", None),
            Notice::AccountUnchecked(..) => ("account-unchecked", None),
            Notice::Refused(_) => ("refused", None),
            Notice::CoordinatorRefused(_) => ("misconduct", None),
        };
        self.tell(PartyEvent::new(kind, notice.to_string(), round));
    }
}
