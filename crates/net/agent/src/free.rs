//! A session at a free pace: sends and polls at its instants while a trial runs, and never waits
//! for other agents.
//!
//! The objective runs on its own thread. The session's thread polls for handouts soon after a
//! window has begun, and sends an upload made from the trials so far at the window's instant. Both
//! times depend on windows and slot alone, and nothing is sent when a trial ends (INV-12): a result
//! is not processed while an instant is so near that computing the next query might delay it.
//!
//! A handout is logged when it arrives, with the number of trials that the machine will have been
//! told when it acts on it, including the running one. So a reopened session gives the machine the
//! same handouts at the same points. Uploads only read the machine, so they are not made again:
//! those that were made are in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant as Stopwatch};

use fedbo_objective::{Outcome, TrialId, evaluate_guarded};
use fedbo_party::{Evaluated, begin_trial, end_trial};
use fedbo_protocol::{AgentEffect, Trial};
use fedbo_space::Point;
use fedbo_wire::{Problem, ProblemCode, StudyState};

use crate::exchange::Sent;
use crate::link::Polled;
use crate::log::{UploadState, forget_used};
use crate::pace::Instant;
use crate::session::{Ended, Session, Step};
use crate::{Notice, RunError};

/// Maximum wait that a step returns.
const PAUSE: Duration = Duration::from_secs(1);
/// A poll that is late by more than this is skipped in favour of one that is a multiple of this
/// later.
const LATE_MS: u64 = 1_000;
/// A result is held before an instant for twice the longest processing time so far, but at most for
/// 1/`GUARDS` of a window. No result is held longer than 1/`HOLDS` of a window.
const GUARDS: u64 = 8;
const HOLDS: u64 = 4;

/// The state of a session at a free pace, in addition to the state of all sessions.
#[derive(Default)]
pub(crate) struct FreePart {
    running: Option<Running>,
    /// Time at which the last trial ended, until the next begins; and the longest time in between,
    /// in milliseconds.
    ended_at: Option<u64>,
    slowest: u64,
    /// Time at which a result began to wait for an instant to pass.
    held_at: Option<u64>,
    /// The next known instant of a poll or an upload.
    speaks_at: u64,
    /// True once the machine has all handouts of the log.
    is_caught_up: bool,
    /// True once the study's status has been requested before a trial.
    has_looked: bool,
    /// There is no poll before this time.
    asks_at: u64,
    /// No upload is sent before this time.
    sends_at: u64,
    /// The newest window for which it is decided whether there is an upload.
    decided: Option<u64>,
    /// The window of the stored upload that has no answer.
    pending: Option<u64>,
    /// The request that still waits for its answer because a result came first.
    under_way: Option<UnderWay>,
    /// The last request was set aside.
    pub(crate) was_set_aside: bool,
    /// The coordinator accepts nothing more of this agent: by its count, the agent is in as many
    /// releases as it may be.
    is_spent: bool,
    /// `is_done`: the agent's plan is done. `reported_done`: the wait for its last delivery was
    /// reported.
    is_done: bool,
    reported_done: bool,
    /// The study is over.
    is_over: bool,
    /// The error that ends the session once the running trial has been told.
    deferred_error: Option<RunError>,
}

impl FreePart {
    /// Creates the state at the beginning of a session, from the last window with an upload and the
    /// window with an unanswered one.
    pub(crate) fn new((decided, pending): (Option<u64>, Option<u64>)) -> Self {
        Self { decided, pending, ..Self::default() }
    }
}

/// A request that was set aside, to be resumed before any other request.
#[derive(Clone, Copy)]
enum UnderWay {
    Ask,
    /// An attempt to send a window's upload.
    Send(u64),
    /// An attempt to send an upload again, at the coordinator's request.
    SendAgain(u64),
}

/// A running trial.
struct Running {
    trial: Trial,
    point: Point,
    outcome: Receiver<Outcome>,
    thread: JoinHandle<()>,
}

impl Session<'_> {
    /// Returns true if the running trial has ended and is to be told now.
    pub(crate) fn has_result(&self) -> bool {
        self.has_ended() && !self.is_near_an_instant()
    }

    fn has_ended(&self) -> bool {
        self.free.running.as_ref().is_some_and(|running| running.thread.is_finished())
    }

    /// Returns true if processing a result could take until the next instant. A result is held for
    /// that instant, but not for long.
    fn is_near_an_instant(&self) -> bool {
        let free = &self.free;
        if free.is_over || free.deferred_error.is_some() || free.under_way.is_some() {
            return false;
        }
        let window = self.federation.network.round_ms;
        let now_ms = self.clock.elapsed_ms();
        let is_patient =
            free.held_at.is_none_or(|since| now_ms < since.saturating_add(window / HOLDS));
        let guard = free.slowest.saturating_mul(2).min(window / GUARDS);
        is_patient && guard > 0 && free.speaks_at <= now_ms.saturating_add(guard)
    }

    /// Returns true while a trial runs beside the session.
    pub(crate) fn evaluates_beside(&self) -> bool {
        self.free.running.is_some()
    }

    /// Does one thing: tells or begins a trial, gives the machine a handout, or polls or sends if
    /// it is time.
    pub(crate) fn advance_free(&mut self) -> Result<Step, RunError> {
        if self.is_stopped() {
            // The running trial ends, too: nothing outlives the session.
            self.end_running(true)?;
            return Ok(Step::Ended(Ended::Interrupted));
        }
        if self.free.running.is_some() && self.is_near_an_instant() {
            if self.has_ended() {
                self.free.held_at.get_or_insert(self.clock.elapsed_ms());
            }
        } else if let Some(step) = self.end_running(false)? {
            return Ok(step);
        }
        match self.queue.pop_front() {
            Some(AgentEffect::Evaluate(trial)) => return self.begin_beside(trial),
            Some(AgentEffect::Refused(rejected)) => {
                self.observer.notice(&Notice::Refused(&rejected));
                return Ok(Step::Went);
            }
            Some(AgentEffect::Finished) => {
                self.free.is_done = true;
                return Ok(Step::Went);
            }
            Some(AgentEffect::Upload(_)) => {
                unreachable!("at a free pace, the session requests uploads from the machine")
            }
            None => {}
        }
        if self.free.running.is_none() {
            if self.hear_logged(self.n_told)? {
                return Ok(Step::Went);
            }
            if let Some(error) = self.free.deferred_error.take() {
                return Err(error);
            }
            if let Some(misconduct) = &self.accused {
                return Err(misconduct.clone().into());
            }
            if !self.free.is_done && self.has_started() {
                return self.proceed();
            }
            if self.free.is_done {
                if self.free.is_over || !self.has_unsent() {
                    return self.finish(Ended::Complete);
                }
                if !self.free.reported_done {
                    self.free.reported_done = true;
                    self.observer.notice(&Notice::WaitsToDeliver);
                }
            }
        }
        if self.free.is_over || self.free.deferred_error.is_some() {
            return Ok(Step::Waits(PAUSE));
        }
        match self.poll_or_send() {
            Err(error) if self.free.running.is_some() => {
                // A failed request is not worth the loss of the trial.
                self.free.deferred_error = Some(error);
                Ok(Step::Went)
            }
            spoken => spoken,
        }
    }

    /// Begins a trial on its own thread, unless it has already ended.
    fn begin_beside(&mut self, trial: Trial) -> Result<Step, RunError> {
        if !self.free.has_looked && !self.trials.had_ended(trial.index) {
            self.free.has_looked = true;
            // Before anything expensive: check that the clocks agree. Do not wait for a coordinator
            // that does not answer.
            if let Err(error) = self.look_at_history() {
                self.queue.push_front(AgentEffect::Evaluate(trial));
                return Err(error);
            }
        }
        let point = self.federation.space.decode(&trial.unit);
        let begun = begin_trial(&self.trials, (&trial, &point), self.ask_seconds)?;
        if let Some(told) = begun {
            // These handouts arrived while the trial was running.
            self.hear_logged(self.n_told + 1)?;
            return self.tell(&trial, told);
        }
        if let Some(ended_at) = self.free.ended_at.take() {
            let took = self.clock.elapsed_ms().saturating_sub(ended_at);
            self.free.slowest = self.free.slowest.max(took);
        }
        self.observer.trial_started(&trial, &point);
        let id = TrialId { agent: u64::from(self.membership.slot), trial: trial.index };
        let (objective, at) = (Arc::clone(&self.objective), point.clone());
        let (ended, outcome) = channel();
        let hurry = self.link.hurry();
        let evaluate = move || {
            let outcome = evaluate_guarded(objective.as_ref(), &at, id);
            // A result ends the session's wait for an answer.
            set(hurry.as_ref(), true);
            // The session may be gone.
            let _ = ended.send(outcome);
        };
        let thread = Builder::new().name("trial".to_owned()).spawn(evaluate);
        let thread = thread.map_err(|error| RunError::NoThread { cause: error.to_string() })?;
        self.free.running = Some(Running { trial, point, outcome, thread });
        Ok(Step::Went)
    }

    /// Stores and tells the trial that has ended. Returns `None` while it is running, unless
    /// `waits` is set.
    fn end_running(&mut self, waits: bool) -> Result<Option<Step>, RunError> {
        let Some(running) = &self.free.running else {
            return Ok(None);
        };
        let outcome = match waits {
            true => running.outcome.recv().ok(),
            false => match running.outcome.try_recv() {
                Err(TryRecvError::Empty) => return Ok(None),
                ended => ended.ok(),
            },
        };
        let Some(Running { trial, point, .. }) = self.free.running.take() else {
            return Ok(None);
        };
        let outcome = outcome.unwrap_or(Outcome::Interrupted);
        set(self.link.hurry().as_ref(), false);
        self.free.held_at = None;
        self.free.ended_at = Some(self.clock.elapsed_ms());
        match end_trial(&self.trials, trial.index, &outcome)? {
            Evaluated::Now(told) | Evaluated::Before(told) => {
                self.note_result(&trial, &point, &told);
                self.tell(&trial, told).map(Some)
            }
            Evaluated::Interrupted => {
                self.queue.push_front(AgentEffect::Evaluate(trial));
                Ok(Some(Step::Ended(Ended::Interrupted)))
            }
        }
    }

    /// Returns true if the next query does not depend on an answer: it was made before, or the
    /// study has begun.
    fn has_started(&self) -> bool {
        self.trials.had_begun(self.n_told)
            || self.follower.round().is_some()
            || self.pace.state() != StudyState::Waiting
    }

    /// Returns true if something is still to be sent.
    fn has_unsent(&self) -> bool {
        self.free.pending.is_some() || self.machine.has_upload() && !self.free.is_spent
    }

    fn proceed(&mut self) -> Result<Step, RunError> {
        let began = Stopwatch::now();
        let effects = self.machine.proceed()?;
        self.ask_seconds = began.elapsed().as_secs_f64();
        self.queue.extend(effects);
        Ok(Step::Went)
    }

    /// Gives the machine the logged handouts that it had when `n_told` trials had been told.
    /// Returns true if there were any.
    fn hear_logged(&mut self, n_told: u64) -> Result<bool, RunError> {
        let mut n_heard = 0;
        while !self.free.is_caught_up {
            match self.log().handout_after(self.follower.round())? {
                Some(taken) if taken.n_told > n_told => break,
                Some(taken) => {
                    let handout = self.read_logged(&taken)?;
                    self.begin_round(handout)?;
                    n_heard += 1;
                }
                None => self.free.is_caught_up = true,
            }
        }
        Ok(n_heard > 0)
    }

    /// Number of trials that the machine will have been told when it acts on a handout that arrives
    /// now. Initial points are evaluated one after another regardless of handouts.
    fn n_told_next(&self) -> u64 {
        let n_told = self.n_told + u64::from(self.free.running.is_some());
        n_told.max(self.federation.n_initial as u64)
    }

    /// Gives the machine the rest of the log before the coordinator is asked for more.
    fn catch_up(&mut self) -> Result<(), RunError> {
        let n_told = self.n_told_next();
        self.hear_logged(n_told)?;
        match self.log().handout_after(self.follower.round())? {
            Some(taken) if !self.free.is_caught_up => {
                Err(RunError::LogOrder { logged: taken.n_told, found: n_told })
            }
            _ => Ok(()),
        }
    }

    /// Polls or sends if it is time. Returns the wait until the next instant.
    fn poll_or_send(&mut self) -> Result<Step, RunError> {
        if !self.free.is_caught_up {
            self.catch_up()?;
        }
        let now_ms = self.clock.elapsed_ms();
        match self.free.under_way.take() {
            Some(UnderWay::Ask) => return self.ask(),
            Some(UnderWay::Send(window)) => {
                self.attempt(window, now_ms)?;
                return Ok(Step::Went);
            }
            Some(UnderWay::SendAgain(round)) => {
                self.send_once_more(round)?;
                return Ok(Step::Went);
            }
            None => {}
        }
        // A missed poll is postponed, so that the agent's busy time is visible only in steps of
        // `LATE_MS`.
        let late = now_ms.saturating_sub(self.free.asks_at);
        if late > LATE_MS && self.free.asks_at > 0 {
            self.free.asks_at += late.next_multiple_of(LATE_MS);
        }
        if now_ms >= self.free.asks_at {
            return self.ask();
        }
        let next = match self.resend {
            Some(round) if now_ms >= self.free.sends_at => {
                self.send_once_more(round)?;
                Some(self.free.sends_at)
            }
            Some(_) => Some(self.free.sends_at),
            None => self.send_in_time(now_ms)?,
        };
        if self.free.under_way.is_some() {
            return Ok(Step::Went);
        }
        let until = next.map_or(self.free.asks_at, |at| at.min(self.free.asks_at));
        self.free.speaks_at = until;
        let left = until.saturating_sub(self.clock.elapsed_ms());
        Ok(match left {
            0 => Step::Went,
            left => Step::Waits(Duration::from_millis(left).min(PAUSE)),
        })
    }

    /// Notes a request that was set aside, to be resumed. Returns false if the last one was not.
    fn sets_aside(&mut self, request: UnderWay) -> bool {
        let was_set_aside = std::mem::take(&mut self.free.was_set_aside);
        self.free.under_way = was_set_aside.then_some(request);
        was_set_aside
    }

    fn send_once_more(&mut self, round: u64) -> Result<(), RunError> {
        let step = self.send_again(round)?;
        if !self.sets_aside(UnderWay::SendAgain(round)) {
            self.not_before(step);
        }
        Ok(())
    }

    /// Sends nothing more for the wait of a step.
    fn not_before(&mut self, step: Step) {
        if let Step::Waits(time) = step {
            self.free.sends_at = self.clock.elapsed_ms().saturating_add(milliseconds(time));
        }
    }

    /// Polls, and notes when to poll again.
    fn ask(&mut self) -> Result<Step, RunError> {
        let looked = match self.is_met {
            true => None,
            false => self.look_at_history()?,
        };
        let step = match looked {
            Some(step) => step,
            None => match self.poll(0)? {
                Ok(Polled::Handout { bytes, elapsed_ms }) => {
                    self.answered()?;
                    let handout = self.verify_and_log(bytes, elapsed_ms, self.n_told_next())?;
                    self.free.is_over = handout.round > self.federation.last_round();
                    self.begin_round(handout)?
                }
                Ok(Polled::Nothing(progress)) => {
                    self.answered()?;
                    self.notes(progress)?;
                    self.free.is_over = progress.state == StudyState::Finished;
                    Step::Went
                }
                Err(error) => self.failed("a poll for the next window", error)?,
            },
        };
        if self.sets_aside(UnderWay::Ask) {
            return Ok(Step::Went);
        }
        let now_ms = self.clock.elapsed_ms();
        self.free.asks_at = match step {
            Step::Waits(time) => now_ms.saturating_add(milliseconds(time)),
            Step::Went => self.pace.asks_next(now_ms),
            Step::Ended(_) => now_ms,
        };
        self.free.speaks_at = self.free.asks_at;
        if self.free.is_over {
            self.end_pending()?;
        }
        Ok(Step::Went)
    }

    /// Gives up an upload without an answer that is no longer useful.
    fn end_pending(&mut self) -> Result<(), RunError> {
        const WHY: &str = "the coordinator gave no answer while the window was open";
        if let Some(window) = self.free.pending.take() {
            self.miss(window, None, WHY)?;
            forget_used(&self.home.database)?; // INV-26
        }
        Ok(())
    }

    /// At the instant of the window that a handout began: makes its upload, stores it, charges it
    /// and sends it. Later instants of the window send it again until there is an answer. Returns
    /// the next instant.
    fn send_in_time(&mut self, now_ms: u64) -> Result<Option<u64>, RunError> {
        let window = self.follower.round().unwrap_or(0);
        if self.free.pending.is_some_and(|pending| pending != window) {
            self.end_pending()?;
        }
        let is_pending = self.free.pending.is_some();
        let is_left = is_pending || self.free.decided != Some(window);
        if !is_left || self.pace.round() != window || window > self.federation.last_round() {
            return Ok(None);
        }
        if !is_pending && !self.follower.is_answered(window) {
            return Ok(None); // the window waits for the helper (INV-30)
        }
        let (attempt, Instant::At(at)) = self.pace.due(window, self.n_attempts, now_ms) else {
            return Ok(None);
        };
        self.n_attempts = attempt;
        let at = at.max(self.free.sends_at);
        if now_ms < at {
            return Ok(Some(at));
        }
        if !is_pending && (now_ms >= self.pace.closes_at() || !self.has_unsent()) {
            self.free.decided = Some(window);
            return Ok(None);
        }
        self.attempt(window, now_ms)
    }

    /// Tries to send the upload of a window. Returns the next instant.
    fn attempt(&mut self, window: u64, now_ms: u64) -> Result<Option<u64>, RunError> {
        self.attempting = Some(window);
        let sent = self.try_to_send(window);
        self.attempting = None;
        let Some(sent) = sent? else {
            return Ok(None); // the agent's own budget does not allow it
        };
        if self.sets_aside(UnderWay::Send(window)) {
            return Ok(None);
        }
        if self.ends_upload(window, &sent)? {
            if let Sent::Missed(Problem { code: ProblemCode::NotCollected, .. }) = sent {
                self.free.is_spent = true;
            }
            self.free.pending = None;
            return Ok(None);
        }
        match sent {
            Sent::Undecided(step) => self.not_before(step),
            _ => self.n_attempts = self.n_attempts.saturating_add(1),
        }
        let (_, next) = self.pace.due(window, self.n_attempts, now_ms);
        Ok(match next {
            Instant::At(at) => Some(at.max(self.free.sends_at)),
            Instant::Free | Instant::Unknown | Instant::Over => None,
        })
    }

    /// Sends the upload of a window once the coordinator is known to continue from the followed
    /// history; `None` if there is no upload.
    fn try_to_send(&mut self, window: u64) -> Result<Option<Sent>, RunError> {
        if let Some(step) = self.look_at_history()? {
            return Ok(Some(Sent::Undecided(step)));
        }
        match self.bytes_of(window)? {
            Some(bytes) => self.send(window, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the upload of a window: the stored one, or one that is made, charged and stored now;
    /// `None` if the agent's budget does not allow it.
    fn bytes_of(&mut self, window: u64) -> Result<Option<Vec<u8>>, RunError> {
        if self.free.pending == Some(window)
            && let Some(made) = self.log().upload(window)?
        {
            if !made.bytes.is_empty() {
                return Ok(Some(made.bytes));
            }
            self.end_pending()?; // erased, because nothing was to be sent any more
            return Ok(None);
        }
        self.free.decided = Some(window);
        let Some(update) = self.machine.upload(window)? else {
            return Ok(None);
        };
        let bytes = self.upload_bytes(&update)?;
        if self.keep(window, &bytes)? == UploadState::Withheld {
            return Ok(None);
        }
        self.free.pending = Some(window);
        Ok(Some(bytes))
    }
}

fn set(flag: Option<&Arc<AtomicBool>>, to: bool) {
    if let Some(flag) = flag {
        flag.store(to, Ordering::Relaxed);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
