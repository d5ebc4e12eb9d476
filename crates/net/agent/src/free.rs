//! A session at a free pace. It sends and polls at scheduled instants while a trial runs, and never
//! waits for other agents.
//!
//! The objective runs on its own thread. The session's thread polls for handouts soon after a
//! window has begun. At the window's instant, it sends an upload made from the trials so far. Both
//! times depend only on the windows and the slot, and nothing is sent when a trial ends (INV-12). A
//! result is not processed shortly before an instant, because computing the next query might delay
//! the request.
//!
//! A handout is logged when it arrives, with the number of finished trials after which the machine
//! acts on it (the running trial counts). A reopened session therefore passes the same handouts to
//! the machine at the same points. Uploads only read the machine, so a replay takes them from the
//! log instead of making them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use fedbo_objective::{Outcome, TrialId, evaluate_guarded};
use fedbo_party::{Evaluated, begin_trial, end_trial};
use fedbo_protocol::{AgentEffect, Trial};
use fedbo_space::Point;
use fedbo_wire::StudyState;

use crate::dialogue::Free;
use crate::dialogue::free::{Due, PAUSE, Task};
use crate::exchange::Supply;
use crate::session::{Core, Ended, Step};
use crate::{Notice, RunError};

/// A result is held before an instant for twice the longest processing time so far, but at most for
/// 1/`GUARDS` of a window. No result is held longer than 1/`HOLDS` of a window.
const GUARDS: u64 = 8;
const HOLDS: u64 = 4;

/// Session state for evaluating trials concurrently with the dialogue.
pub(crate) struct Beside {
    dialogue: Free,
    running: Option<Running>,
    /// Time at which the last trial ended, `None` once the next begins; and the longest time
    /// between two trials so far. Both in milliseconds.
    ended_at: Option<u64>,
    slowest: u64,
    /// Time since which a result has been held until an instant passes.
    held_at: Option<u64>,
    /// True once all handouts in the log were passed to the machine.
    is_caught_up: bool,
    /// True once the study's status has been requested before a trial.
    has_looked: bool,
    /// `is_done`: the agent's plan is done. `reported_done`: the wait for the last delivery was
    /// reported.
    is_done: bool,
    reported_done: bool,
    /// An error that will end the session once the running trial's result has been processed.
    deferred_error: Option<RunError>,
}

/// A running trial.
struct Running {
    trial: Trial,
    point: Point,
    outcome: Receiver<Outcome>,
    thread: JoinHandle<()>,
}

impl Beside {
    pub(crate) fn new(dialogue: Free) -> Self {
        Self {
            dialogue,
            running: None,
            ended_at: None,
            slowest: 0,
            held_at: None,
            is_caught_up: false,
            has_looked: false,
            is_done: false,
            reported_done: false,
            deferred_error: None,
        }
    }

    /// Returns true if the running trial has ended and its result can be processed now.
    pub(crate) fn has_result(&self, core: &Core<'_>) -> bool {
        self.has_ended() && !self.is_near_an_instant(core)
    }

    fn has_ended(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.thread.is_finished())
    }

    /// Returns true if processing a result could take until the next instant. The result is then
    /// held until that instant has passed, but not for long.
    fn is_near_an_instant(&self, core: &Core<'_>) -> bool {
        let window = core.federation.network.round_ms;
        let now_ms = core.clock.elapsed_ms();
        let is_patient =
            self.held_at.is_none_or(|since| now_ms < since.saturating_add(window / HOLDS));
        let guard = self.slowest.saturating_mul(2).min(window / GUARDS);
        self.deferred_error.is_none() && is_patient && self.dialogue.is_request_near(guard, now_ms)
    }

    /// Returns true while a trial is running.
    pub(crate) fn evaluates(&self) -> bool {
        self.running.is_some()
    }

    /// Performs one step: begins a trial or processes its result, passes a handout to the machine,
    /// or makes a request that is due.
    pub(crate) fn advance(&mut self, core: &mut Core<'_>) -> Result<Step, RunError> {
        if core.is_stopped() {
            // Wait for the running trial, because nothing may outlive the session.
            self.end_running(core, true)?;
            return Ok(Step::Ended(Ended::Interrupted));
        }
        if self.running.is_some() && self.is_near_an_instant(core) {
            if self.has_ended() {
                self.held_at.get_or_insert(core.clock.elapsed_ms());
            }
        } else if let Some(step) = self.end_running(core, false)? {
            return Ok(step);
        }
        match core.queue.pop_front() {
            Some(AgentEffect::Evaluate(trial)) => return self.begin(core, trial),
            Some(AgentEffect::Refused(rejected)) => {
                core.observer.notice(&Notice::Refused(&rejected));
                return Ok(Step::Went);
            }
            Some(AgentEffect::Finished) => {
                self.is_done = true;
                return Ok(Step::Went);
            }
            Some(AgentEffect::Upload(_)) => {
                unreachable!("at a free pace, the session requests uploads from the machine")
            }
            None => {}
        }
        if self.running.is_none() {
            if self.hear_logged(core, core.n_told)? {
                return Ok(Step::Went);
            }
            if let Some(error) = self.deferred_error.take() {
                return Err(error);
            }
            core.contact.check_trust()?;
            if !self.is_done && has_started(core) {
                return proceed(core);
            }
            if self.is_done {
                if self.dialogue.is_over() || !self.dialogue.has_unsent(core.machine.has_upload()) {
                    return core.finish(Ended::Complete);
                }
                if !self.reported_done {
                    self.reported_done = true;
                    core.observer.notice(&Notice::WaitsToDeliver);
                }
            }
        }
        if self.deferred_error.is_some() {
            return Ok(Step::Waits(PAUSE));
        }
        match self.poll_or_send(core) {
            Err(error) if self.running.is_some() => {
                // Do not lose the running trial to a failed request.
                self.deferred_error = Some(error);
                Ok(Step::Went)
            }
            result => result,
        }
    }

    /// Makes a request if one is due. Returns the wait until the next instant.
    fn poll_or_send(&mut self, core: &mut Core<'_>) -> Result<Step, RunError> {
        self.catch_up(core)?;
        let is_kept = match core.contact.resend {
            Some(round) => core.keeps(round)?,
            None => false,
        };
        let task = Task::Due(Due { has_upload: core.machine.has_upload(), is_kept });
        let supply = Supply::none(self.n_told_next(core));
        Ok(core.turn(&mut self.dialogue, task, supply)?.unwrap_or(Step::Went))
    }

    /// Begins a trial on its own thread, unless its result is already stored.
    fn begin(&mut self, core: &mut Core<'_>, trial: Trial) -> Result<Step, RunError> {
        if !self.has_looked && !core.trials.was_finished(trial.index) {
            self.has_looked = true;
            // Check that the clocks agree before doing anything expensive. Do not wait for a
            // coordinator that does not respond.
            let supply = Supply::none(core.n_told);
            if let Err(error) = core.turn(&mut self.dialogue, Task::Meet, supply) {
                core.queue.push_front(AgentEffect::Evaluate(trial));
                return Err(error);
            }
        }
        let point = core.federation.space.decode(&trial.unit);
        let begun = begin_trial(&core.trials, (&trial, &point), core.ask_seconds)?;
        if let Some(told) = begun {
            // These handouts arrived while the trial was running.
            self.hear_logged(core, core.n_told + 1)?;
            return core.tell(&trial, told);
        }
        if let Some(ended_at) = self.ended_at.take() {
            let took = core.clock.elapsed_ms().saturating_sub(ended_at);
            self.slowest = self.slowest.max(took);
        }
        core.observer.trial_started(&trial, &point);
        let id = TrialId { agent: u64::from(core.membership.slot), trial: trial.index };
        let (objective, at) = (Arc::clone(&core.objective), point.clone());
        let (ended, outcome) = channel();
        let hurry = core.link.hurry();
        let evaluate = move || {
            let outcome = evaluate_guarded(objective.as_ref(), &at, id);
            // End the session's wait for a response.
            set(hurry.as_ref(), true);
            // Ignore the error: the session may be gone.
            let _ = ended.send(outcome);
        };
        let thread = Builder::new().name("trial".to_owned()).spawn(evaluate);
        let thread = thread.map_err(|error| RunError::NoThread { cause: error.to_string() })?;
        self.running = Some(Running { trial, point, outcome, thread });
        Ok(Step::Went)
    }

    /// Stores the result of the ended trial and passes it to the machine. If `waits` is set, waits
    /// for the running trial first. Returns `None` if no trial has ended.
    fn end_running(&mut self, core: &mut Core<'_>, waits: bool) -> Result<Option<Step>, RunError> {
        let Some(running) = &self.running else {
            return Ok(None);
        };
        let outcome = match waits {
            true => running.outcome.recv().ok(),
            false => match running.outcome.try_recv() {
                Err(TryRecvError::Empty) => return Ok(None),
                ended => ended.ok(),
            },
        };
        let Some(Running { trial, point, .. }) = self.running.take() else {
            return Ok(None);
        };
        let outcome = outcome.unwrap_or(Outcome::Interrupted);
        set(core.link.hurry().as_ref(), false);
        self.held_at = None;
        self.ended_at = Some(core.clock.elapsed_ms());
        match end_trial(&core.trials, trial.index, &outcome)? {
            Evaluated::Now(told) | Evaluated::Before(told) => {
                core.note_result(&trial, &point, &told);
                core.tell(&trial, told).map(Some)
            }
            Evaluated::Interrupted => {
                core.queue.push_front(AgentEffect::Evaluate(trial));
                Ok(Some(Step::Ended(Ended::Interrupted)))
            }
        }
    }

    /// Passes logged handouts to the machine, up to those that it acts on after `n_told` finished
    /// trials. Returns true if there were any.
    fn hear_logged(&mut self, core: &mut Core<'_>, n_told: u64) -> Result<bool, RunError> {
        let mut n_heard = 0;
        while !self.is_caught_up {
            match core.log().handout_after(core.contact.follower.round())? {
                Some(taken) if taken.n_told > n_told => break,
                Some(taken) => {
                    let handout = core.read_logged(&taken)?;
                    core.begin_round(handout)?;
                    n_heard += 1;
                }
                None => self.is_caught_up = true,
            }
        }
        Ok(n_heard > 0)
    }

    /// Returns the number of finished trials after which the machine acts on a handout that arrives
    /// now. Handouts do not interrupt the initial points.
    fn n_told_next(&self, core: &Core<'_>) -> u64 {
        let n_told = core.n_told + u64::from(self.running.is_some());
        n_told.max(core.federation.n_initial as u64)
    }

    /// Passes the rest of the log to the machine before the coordinator is polled.
    fn catch_up(&mut self, core: &mut Core<'_>) -> Result<(), RunError> {
        if self.is_caught_up {
            return Ok(());
        }
        let n_told = self.n_told_next(core);
        self.hear_logged(core, n_told)?;
        match core.log().handout_after(core.contact.follower.round())? {
            Some(taken) if !self.is_caught_up => {
                Err(RunError::LogOrder { logged: taken.n_told, found: n_told })
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if the next query need not wait for the coordinator, because it was made before or
/// the study has begun.
fn has_started(core: &Core<'_>) -> bool {
    core.trials.was_started(core.n_told)
        || core.contact.follower.round().is_some()
        || core.contact.pace.state() != StudyState::Waiting
}

fn proceed(core: &mut Core<'_>) -> Result<Step, RunError> {
    let began = Instant::now();
    let effects = core.machine.proceed()?;
    core.ask_seconds = began.elapsed().as_secs_f64();
    core.queue.extend(effects);
    Ok(Step::Went)
}

fn set(flag: Option<&Arc<AtomicBool>>, to: bool) {
    if let Some(flag) = flag {
        flag.store(to, Ordering::Relaxed);
    }
}
