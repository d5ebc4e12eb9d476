//! Evaluation of objectives in Python. Every trial becomes a [`Call`] that is sent to the thread
//! that started the run, so that Ctrl-C reaches the user's function.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fedbo_objective::{Failure, Monitor, Objective, Outcome, Signal, TrainingEnd, TrialId};
use fedbo_space::Point;
use fedbo_storage::Trial;
use fedbo_study::{Definition, Observer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::{convert, errors};

/// Interval at which a waiting thread checks for signals and stop requests.
const POLL: Duration = Duration::from_millis(50);

/// Converts an event to Python data.
pub(crate) type EventData =
    Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyDict>> + Send>;

/// A message to the Python thread.
pub(crate) enum Event {
    /// A trial to evaluate.
    Call(Call),
    /// Something has happened, for instance a trial has finished. The reply decides whether the run
    /// continues.
    Told(EventData, Sender<ControlFlow<()>>),
    /// A warning for the user.
    Warning(String),
}

/// A message from the evaluation of a trial to the worker thread that waits for it.
enum Reply {
    Report { epoch: u32, value: f64, signal: Sender<Signal> },
    End(TrainingEnd),
}

/// A trial to evaluate. The evaluation may send reports, and must end the call exactly once.
#[pyclass(frozen, module = "fedbo._fedbo")]
pub(crate) struct Call {
    agent: u64,
    number: u64,
    point: Point,
    /// `None` after the end of the call.
    reply: Mutex<Option<Sender<Reply>>>,
}

impl Call {
    fn reply(&self, reply: Reply) -> bool {
        let slot = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().is_some_and(|to| to.send(reply).is_ok())
    }

    fn end(&self, end: TrainingEnd) {
        let slot = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(to) = slot {
            let _gone = to.send(Reply::End(end)); // a stopped worker has closed its channel
        }
    }
}

#[pymethods]
impl Call {
    /// Index of the agent, from 0.
    #[getter]
    fn agent(&self) -> u64 {
        self.agent
    }

    /// Number of the trial.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The point as a dict.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::params(py, &self.point)
    }

    /// Reports the value after an epoch. Returns True if the training should stop.
    fn report(&self, py: Python<'_>, epoch: u32, value: f64) -> bool {
        let (signal, answer) = mpsc::channel();
        let sent = self.reply(Reply::Report { epoch, value, signal });
        let answer = Mutex::new(answer);
        // If the worker has exited, it has released the trial.
        let heard = || answer.lock().unwrap_or_else(PoisonError::into_inner).recv();
        !sent || py.detach(heard).is_ok_and(Signal::stops)
    }

    /// Ends the call with a value.
    fn tell(&self, value: f64) {
        self.end(TrainingEnd::Ended(Outcome::Value(value)));
    }

    /// Ends the call with several outcomes, in the order of the study's `number_names`. An outcome
    /// that was not measured is None.
    fn tell_numbers(&self, numbers: Vec<Option<f64>>) {
        self.end(TrainingEnd::Ended(Outcome::Measured(numbers)));
    }

    /// Ends the call with a failure.
    fn fail(&self, message: &Bound<'_, PyString>) -> PyResult<()> {
        let message = convert::lossy(message)?;
        self.end(TrainingEnd::Ended(Outcome::Failed(Failure::Reported { message })));
        Ok(())
    }

    /// Ends the call of a trial that was stopped by its reports.
    fn stop(&self) {
        self.end(TrainingEnd::Stopped);
    }

    /// Ends the call without an evaluation and releases the trial.
    fn release(&self) {
        self.end(TrainingEnd::Ended(Outcome::Interrupted));
    }
}

/// Objective that is evaluated in Python. It waits for messages from there.
pub(crate) struct PythonObjective {
    events: Mutex<Sender<Event>>,
    stop: Arc<AtomicBool>,
}

impl PythonObjective {
    pub(crate) fn new(events: Sender<Event>, stop: Arc<AtomicBool>) -> Self {
        Self { events: Mutex::new(events), stop }
    }

    fn ask(&self, point: &Point, id: TrialId, monitor: Option<&dyn Monitor>) -> TrainingEnd {
        let (reply, replies) = mpsc::channel();
        let reply = Mutex::new(Some(reply));
        let call = Call { agent: id.agent, number: id.trial, point: point.clone(), reply };
        let interrupted = TrainingEnd::Ended(Outcome::Interrupted);
        if self
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(Event::Call(call))
            .is_err()
        {
            return interrupted;
        }
        loop {
            match replies.recv_timeout(POLL) {
                Ok(Reply::End(end)) => return end,
                Ok(Reply::Report { epoch, value, signal }) => {
                    // A study without early stopping ignores reports.
                    let answer = monitor.map_or(Signal::Continue, |m| m.report(epoch, value));
                    let _gone = signal.send(answer);
                }
                Err(RecvTimeoutError::Timeout) if !self.stop.load(Ordering::Relaxed) => {}
                Err(_) => return interrupted,
            }
        }
    }
}

impl Objective for PythonObjective {
    fn evaluate(&self, point: &Point, id: TrialId) -> Outcome {
        match self.ask(point, id, None) {
            TrainingEnd::Ended(outcome) => outcome,
            TrainingEnd::Stopped => Outcome::Failed(Failure::Reported {
                message: "the function stopped, but this study has no early stopping".to_owned(),
            }),
        }
    }

    fn train(&self, point: &Point, id: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        self.ask(point, id, Some(monitor))
    }
}

/// Sends the events of a run to the Python thread.
pub(crate) struct PythonObserver {
    events: Mutex<Sender<Event>>,
    /// Definition of the study, for converting its finished trials.
    definition: Option<Definition>,
}

impl PythonObserver {
    pub(crate) fn new(events: Sender<Event>) -> Self {
        Self { events: Mutex::new(events), definition: None }
    }

    /// Creates the observer for a run of a study.
    pub(crate) fn of_study(events: Sender<Event>, definition: &Definition) -> Self {
        Self { definition: Some(definition.clone()), ..Self::new(events) }
    }

    fn send(&self, event: Event) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event).is_ok()
    }

    /// Sends an event and waits for the reply.
    pub(crate) fn tell(
        &self,
        telling: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyDict>> + Send + 'static,
    ) -> ControlFlow<()> {
        let (answer, heard) = mpsc::channel();
        if !self.send(Event::Told(Box::new(telling), answer)) {
            return ControlFlow::Break(());
        }
        heard.recv().unwrap_or(ControlFlow::Break(()))
    }

    /// Sends an event without waiting for a reply.
    pub(crate) fn note(
        &self,
        telling: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyDict>> + Send + 'static,
    ) {
        let (answer, _nobody) = mpsc::channel();
        let _gone = self.send(Event::Told(Box::new(telling), answer));
    }

    /// Sends a warning.
    pub(crate) fn warn(&self, message: String) {
        let _gone = self.send(Event::Warning(message));
    }
}

impl Observer for PythonObserver {
    fn told(&self, trial: &Trial) -> ControlFlow<()> {
        let Some(definition) = self.definition.clone() else {
            unreachable!("the observer of a study has its definition");
        };
        let trial = trial.clone();
        self.tell(move |py| convert::trial(py, &definition, &trial))
    }

    fn warning(&self, message: &str) {
        self.warn(message.to_owned());
    }
}

/// The Python functions of a run.
pub(crate) struct Functions<'a, 'py> {
    /// Starts the evaluation of a [`Call`]. It may end the call later, on another thread.
    pub(crate) evaluate: &'a Bound<'py, PyAny>,
    /// Called with each event, for instance with every finished trial. The run ends if it returns
    /// True.
    pub(crate) on_told: &'a Bound<'py, PyAny>,
    /// Called with each warning.
    pub(crate) on_warning: &'a Bound<'py, PyAny>,
}

impl Functions<'_, '_> {
    fn serve(&self, py: Python<'_>, event: Event) -> PyResult<()> {
        match event {
            Event::Call(call) => {
                let call = Bound::new(py, call)?;
                let begun = self.evaluate.call1((&call,));
                if begun.is_err() {
                    call.get().release();
                }
                begun.map(drop)
            }
            Event::Told(telling, answer) => {
                let stops = self.on_told.call1((telling(py)?,))?.is_truthy()?;
                let _gone = answer.send(match stops {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
                Ok(())
            }
            Event::Warning(message) => self.on_warning.call1((message,)).map(drop),
        }
    }
}

/// Runs `work` on a separate thread and handles its events on this thread until the last sender of
/// events is dropped.
///
/// # Errors
/// Returns the exception of a Python function or a signal. In this case, sets `stop`, releases
/// further calls, and waits for `work` to end.
pub(crate) fn serve<R: Send>(
    py: Python<'_>,
    functions: &Functions<'_, '_>,
    stop: &AtomicBool,
    events: Receiver<Event>,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let events = Mutex::new(events);
    let next = || {
        let events = events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(POLL)
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let mut raised: Option<PyErr> = None;
        loop {
            let served = match py.detach(next) {
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => py.check_signals(),
                // The run is ending, so release its calls without evaluating them.
                Ok(Event::Call(call)) if raised.is_some() || stop.load(Ordering::Relaxed) => {
                    call.release();
                    Ok(())
                }
                Ok(_) if raised.is_some() => Ok(()), // dropping the reply channel ends the run
                Ok(event) => functions.serve(py, event),
            };
            if let Err(error) = served
                && raised.is_none()
            {
                stop.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        let result = py.detach(|| worker.join());
        match (raised, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => Ok(result),
            (None, Err(_)) => Err(errors::other("a worker has panicked; please report this")),
        }
    })
}
