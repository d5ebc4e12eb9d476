//! Python bindings for peers of a federation of neighbours.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use fedbo_objective::Objective;
use fedbo_peer::{Ended, Notice, Observer, Overrides, PeerFile};
use fedbo_problems::BuiltInProblems;
use fedbo_protocol::Trial;
use fedbo_space::Point;
use fedbo_storage::Told;
use pyo3::prelude::*;

use crate::agent::Stop;
use crate::calls::{Functions, PythonObjective, PythonObserver, serve};
use crate::errors;
use crate::party_event::PartyEvent;

/// Runs a peer as configured in its file, with `evaluate` instead of a command. `on_event` is
/// called with each event. Returns why the run ended.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the options of the program, by name")]
#[pyo3(signature = (path, evaluate, on_event, on_warning, *, stop, name, home, listen, neighbours, plain_http, leave))]
pub(crate) fn run_peer(
    py: Python<'_>,
    path: PathBuf,
    evaluate: &Bound<'_, PyAny>,
    on_event: &Bound<'_, PyAny>,
    on_warning: &Bound<'_, PyAny>,
    stop: &Stop,
    name: Option<String>,
    home: Option<PathBuf>,
    listen: Option<&str>,
    neighbours: Vec<String>,
    plain_http: bool,
    leave: bool,
) -> PyResult<&'static str> {
    let listen = listen.map(|text| {
        let address: Result<SocketAddr, _> = text.parse();
        address.map_err(|_| {
            errors::input(format!(
                "listen = {text:?}, expected an IP address and a port, for instance 127.0.0.1:7434 or [::1]:7434"
            ))
        })
    });
    let overrides = Overrides {
        name,
        home,
        listen: listen.transpose()?,
        neighbours,
        plain_http,
        leaves: leave,
    };
    let file = PeerFile::load(&path, overrides).map_err(errors::peer)?;
    let (events, received) = mpsc::channel();
    let objective: Arc<dyn Objective> = Arc::new(PythonObjective::new(events.clone(), stop.flag()));
    let observer: Arc<dyn Observer> = Arc::new(Events(PythonObserver::new(events)));
    let functions = Functions { evaluate, on_told: on_event, on_warning };
    let flag = stop.flag();
    let work = move || {
        let parts = file.parts_with(objective, &BuiltInProblems, observer, flag)?;
        fedbo_peer::run(parts)
    };
    let ended = serve(py, &functions, &stop.flag(), received, work)?.map_err(errors::peer)?;
    Ok(match ended {
        Ended::Complete => "complete",
        Ended::Left => "left",
        Ended::Interrupted => "interrupted",
    })
}

/// Sends the events of a peer to the Python thread. Does not wait for a reply, because the peer's
/// threads must keep exchanging reports with neighbours.
struct Events(PythonObserver);

impl Events {
    fn note(&self, event: PartyEvent) {
        self.0.note(move |py| event.to_python(py));
    }
}

impl Observer for Events {
    fn trial_started(&self, trial: &Trial, point: &Point) {
        self.note(PartyEvent::trial_started(trial, point));
    }

    fn trial_ended(&self, trial: &Trial, point: &Point, told: &Told) {
        self.note(PartyEvent::trial_ended(trial, point, told));
    }

    fn notice(&self, notice: &Notice<'_>) {
        let (kind, round) = match notice {
            Notice::Listens(_) => ("listening", None),
            Notice::WaitsFor(round, _) => ("waiting", Some(*round)),
            Notice::ContinuedWithout(round, _) => ("went-on", Some(*round)),
            Notice::StaysFor(_) => ("staying", None),
            Notice::Away(..) => ("away", None),
            Notice::IsBack(_) => ("back", None),
            Notice::Trusts(..) => ("trusts", None),
            Notice::Rejected(_) => ("refused", None),
            Notice::Misconduct(_) => ("misconduct", None),
        };
        self.note(PartyEvent::new(kind, notice.to_string(), round));
    }
}
