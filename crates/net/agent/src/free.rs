//! A session at a free pace: it speaks at its instants while a trial is under way, and waits for nobody.
//!
//! The objective runs on a thread of its own. The session's thread asks for handouts soon after a window has begun, and sends at the window's
//! instant what the agent has made of its trials by then. Both times follow from windows and slot alone, and nothing is said when a trial ends
//! (INV-12): a result is not acted upon while an instant is so near that computing the next query might delay it.
//!
//! A handout is logged when it comes, with the number of trials that the machine will have been told when it acts on it: the one that is under
//! way included. So a session that is opened again gives the machine the same at the same points. Uploads are readings of the machine, so they
//! are not made again: what was made is in the log.

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

/// The longest time that a step says to wait.
const PAUSE: Duration = Duration::from_secs(1);
/// An instant to ask that has passed by more than this is skipped for one that is a multiple of it later.
const LATE_MS: u64 = 1_000;
/// Before an instant no result is acted upon for twice the time that this took so far, but at most for this part of a window; and none waits
/// longer than that part.
const GUARDS: u64 = 8;
const HOLDS: u64 = 4;

/// The state of a session at a free pace, beside that of all sessions.
#[derive(Default)]
pub(crate) struct FreePart {
    running: Option<Running>,
    /// The time at which the last trial ended, until the next begins; and the longest time in between, in milliseconds.
    ended_at: Option<u64>,
    slowest: u64,
    /// The time since which a result waits for an instant to pass.
    held_at: Option<u64>,
    /// The next instant, as far as is known.
    speaks_at: u64,
    /// All handouts of the log were heard.
    is_caught_up: bool,
    /// It was asked once where the study stands.
    has_looked: bool,
    /// Nothing is asked before this time.
    asks_at: u64,
    /// Nothing is sent before this time.
    sends_at: u64,
    /// The newest window for which it is decided whether there is an upload.
    decided: Option<u64>,
    /// The window whose upload is kept and has no answer.
    pending: Option<u64>,
    /// The request whose answer is still to come, where a result came first.
    under_way: Option<UnderWay>,
    /// The last request was set aside.
    pub(crate) was_set_aside: bool,
    /// The coordinator takes nothing more of this agent: as it counts, the agent is in as many releases as it may be in.
    is_spent: bool,
    /// The agent's plan is done, and whether it was said that its last upload is still to be delivered.
    is_done: bool,
    said_done: bool,
    /// The study is over.
    is_over: bool,
    /// The error that ends the session once the trial that is under way has been told.
    trouble: Option<RunError>,
}

impl FreePart {
    /// At the beginning of a session: the last window for which an upload was made before, and the one whose upload has no answer.
    pub(crate) fn new((decided, pending): (Option<u64>, Option<u64>)) -> Self {
        Self { decided, pending, ..Self::default() }
    }
}

/// A request that was set aside, to be taken up before anything else is asked or sent.
#[derive(Clone, Copy)]
enum UnderWay {
    Ask,
    /// An attempt to send a window's upload.
    Send(u64),
    /// The same once more, as the coordinator asked for it.
    SendAgain(u64),
}

/// A trial that is under way.
struct Running {
    trial: Trial,
    point: Point,
    outcome: Receiver<Outcome>,
    thread: JoinHandle<()>,
}

impl Session<'_> {
    /// Returns true if the trial that was under way has ended and is to be told now.
    pub(crate) fn has_result(&self) -> bool {
        self.has_ended() && !self.is_near_an_instant()
    }

    fn has_ended(&self) -> bool {
        self.free.running.as_ref().is_some_and(|running| running.thread.is_finished())
    }

    /// Returns true if what follows the end of a trial may take until the next instant. A result waits for that, but not for long.
    fn is_near_an_instant(&self) -> bool {
        let free = &self.free;
        if free.is_over || free.trouble.is_some() || free.under_way.is_some() {
            return false;
        }
        let window = self.federation.network.round_ms;
        let now_ms = self.clock.elapsed_ms();
        let is_patient =
            free.held_at.is_none_or(|since| now_ms < since.saturating_add(window / HOLDS));
        let guard = free.slowest.saturating_mul(2).min(window / GUARDS);
        is_patient && guard > 0 && free.speaks_at <= now_ms.saturating_add(guard)
    }

    /// Returns true while a trial is under way beside the session.
    pub(crate) fn evaluates_beside(&self) -> bool {
        self.free.running.is_some()
    }

    /// Does one thing: tells or begins a trial, hands over what has come, or speaks if it is time.
    pub(crate) fn advance_free(&mut self) -> Result<Step, RunError> {
        if self.is_stopped() {
            // What is under way ends, too: nothing outlives the session.
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
                unreachable!("at a free pace a machine is asked for what it sends")
            }
            None => {}
        }
        if self.free.running.is_none() {
            if self.hear_logged(self.n_told)? {
                return Ok(Step::Went);
            }
            if let Some(error) = self.free.trouble.take() {
                return Err(error);
            }
            if let Some(misconduct) = &self.accused {
                return Err(misconduct.clone().into());
            }
            if !self.free.is_done && self.goes_on() {
                return self.proceed();
            }
            if self.free.is_done {
                if self.free.is_over || !self.has_news() {
                    return self.finish(Ended::Complete);
                }
                if !self.free.said_done {
                    self.free.said_done = true;
                    self.observer.notice(&Notice::WaitsToDeliver);
                }
            }
        }
        if self.free.is_over || self.free.trouble.is_some() {
            return Ok(Step::Waits(PAUSE));
        }
        match self.speak() {
            Err(error) if self.free.running.is_some() => {
                // The trial is worth more than to be lost for this.
                self.free.trouble = Some(error);
                Ok(Step::Went)
            }
            spoken => spoken,
        }
    }

    /// Begins a trial on a thread of its own, unless it has ended before.
    fn begin_beside(&mut self, trial: Trial) -> Result<Step, RunError> {
        if !self.free.has_looked && !self.trials.had_ended(trial.index) {
            self.free.has_looked = true;
            // Before anything expensive is done: whether the clocks agree. Who does not answer is not waited for.
            if let Err(error) = self.look_at_history() {
                self.queue.push_front(AgentEffect::Evaluate(trial));
                return Err(error);
            }
        }
        let point = self.federation.space.decode(&trial.unit);
        let begun = begin_trial(&self.trials, (&trial, &point), self.ask_seconds)?;
        if let Some(told) = begun {
            // They came while it was under way.
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
            // Where the session waits for an answer, the result does not.
            set(hurry.as_ref(), true);
            // It may have gone.
            let _ = ended.send(outcome);
        };
        let thread = Builder::new().name("trial".to_owned()).spawn(evaluate);
        let thread = thread.map_err(|error| RunError::NoThread { cause: error.to_string() })?;
        self.free.running = Some(Running { trial, point, outcome, thread });
        Ok(Step::Went)
    }

    /// Stores and tells the trial that has ended; `None` while it is under way, unless that is waited for.
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

    /// The next query needs nobody's answer: it was made before, or the study has begun.
    fn goes_on(&self) -> bool {
        self.trials.had_begun(self.n_told)
            || self.follower.round().is_some()
            || self.pace.state() != StudyState::Waiting
    }

    /// Something is still to be sent.
    fn has_news(&self) -> bool {
        self.free.pending.is_some() || self.machine.has_upload() && !self.free.is_spent
    }

    fn proceed(&mut self) -> Result<Step, RunError> {
        let began = Stopwatch::now();
        let effects = self.machine.proceed()?;
        self.ask_seconds = began.elapsed().as_secs_f64();
        self.queue.extend(effects);
        Ok(Step::Went)
    }

    /// Gives the machine the handouts of the log that it had when so many trials had been told; true if there were some.
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

    /// The number of trials that the machine will have been told when it acts on what comes now. Initial points follow one another, whatever
    /// comes.
    fn n_told_next(&self) -> u64 {
        let n_told = self.n_told + u64::from(self.free.running.is_some());
        n_told.max(self.federation.n_initial as u64)
    }

    /// Hears what is left of the log, before the coordinator is asked for more.
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

    /// Asks or sends, if it is time; says until when there is nothing to do.
    fn speak(&mut self) -> Result<Step, RunError> {
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
        // One that has passed is skipped: how long the agent was busy shows no finer than this.
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

    /// Notes a request that was set aside, to be taken up; false if the last one was not.
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

    /// Sends nothing more for as long as a step says to wait.
    fn not_before(&mut self, step: Step) {
        if let Step::Waits(time) = step {
            self.free.sends_at = self.clock.elapsed_ms().saturating_add(milliseconds(time));
        }
    }

    /// Asks for what is next, and notes when to ask again.
    fn ask(&mut self) -> Result<Step, RunError> {
        let looked = match self.is_met {
            true => None,
            false => self.look_at_history()?,
        };
        let step = match looked {
            Some(step) => step,
            None => match self.poll(0) {
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
                Err(error) => self.failed("the next window", error)?,
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

    /// Ends an upload of an earlier window that has no answer: it is of no use any more.
    fn end_pending(&mut self) -> Result<(), RunError> {
        const WHY: &str = "the coordinator gave no answer while the window was open";
        if let Some(window) = self.free.pending.take() {
            self.miss(window, None, WHY)?;
            forget_used(&self.home.database)?; // INV-26
        }
        Ok(())
    }

    /// At the instant of the window that was begun by a handout: makes its upload, keeps it, charges it and sends it; later instants of the
    /// window send it again until there is an answer. Returns the next instant.
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
        let (attempt, Instant::At(at)) = self.pace.due(window, self.n_attempts, now_ms) else {
            return Ok(None);
        };
        self.n_attempts = attempt;
        let at = at.max(self.free.sends_at);
        if now_ms < at {
            return Ok(Some(at));
        }
        if !is_pending && (now_ms >= self.pace.closes_at() || !self.has_news()) {
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

    /// Sends the upload of a window, once it is known that the coordinator goes on from what was followed; `None` if there is none.
    fn try_to_send(&mut self, window: u64) -> Result<Option<Sent>, RunError> {
        if let Some(step) = self.look_at_history()? {
            return Ok(Some(Sent::Undecided(step)));
        }
        match self.bytes_of(window)? {
            Some(bytes) => self.send(window, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The upload of a window: as it was kept, or made, charged and kept now; `None` if the agent's budget does not allow it.
    fn bytes_of(&mut self, window: u64) -> Result<Option<Vec<u8>>, RunError> {
        if self.free.pending == Some(window)
            && let Some(made) = self.log().upload(window)?
        {
            if !made.bytes.is_empty() {
                return Ok(Some(made.bytes));
            }
            self.end_pending()?; // forgotten, as nothing was to be sent any more
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
