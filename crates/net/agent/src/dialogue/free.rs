//! The dialogue of an agent at a free pace. The agent polls soon after a window has begun, and
//! uploads at the window's instant. Both times depend only on the windows and the slot (INV-12).

use std::time::Duration;

use fedbo_wire::{Problem, ProblemCode, StudyState};

use super::contact::POLL_PAUSE;
use super::{Contact, Dialogue, Effect, Made, Next, Now, Sent, Verdict};
use crate::RunError;
use crate::link::Polled;
use crate::pace::Instant;
use crate::session::Step;

/// Maximum wait that a step can return.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// Polls that are late by more than this are postponed to a multiple of this delay.
const LATE_MS: u64 = 1_000;

/// The task of a turn at a free pace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Before the first trial: check the clocks.
    Meet,
    /// Make the request that is due, or resume the request that was set aside.
    Due(Due),
}

/// Uploads that are available from the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// True if the agent's machine has something new to send.
    pub(crate) has_upload: bool,
    /// True if the log still contains the upload that the coordinator requests again.
    pub(crate) is_kept: bool,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug)]
enum Errand {
    Meet,
    Poll,
    /// An attempt to send a window's upload.
    Send(u64),
    /// An attempt to send an upload again, at the coordinator's request.
    Resend(u64),
}

/// Time at which a window's upload is due.
enum Upload {
    At(u64),
    Now(u64),
    Never,
}

/// State machine for the requests of an agent at a free pace.
#[derive(Debug)]
pub(crate) struct Free {
    last_round: u64,
    errand: Errand,
    /// The errand of a request that was set aside to process a trial's result. It is resumed before
    /// any other request is made.
    aside: Option<Errand>,
    /// Earliest time of the next poll.
    asks_at: u64,
    /// Earliest time of the next upload.
    sends_at: u64,
    /// Time of the next scheduled poll or upload.
    next_request_ms: u64,
    /// The newest window for which the machine has decided whether to upload.
    decided: Option<u64>,
    /// The window of the stored upload that has no response yet.
    pending: Option<u64>,
    /// True once the coordinator accepts no further uploads, because by its count the agent has
    /// reached its maximum number of releases.
    is_spent: bool,
    /// True once the study is over.
    is_over: bool,
}

impl Free {
    /// Creates the state for a new session. `decided` is the last window with an upload, and
    /// `pending` the window with a pending upload.
    pub(crate) fn new(last_round: u64, (decided, pending): (Option<u64>, Option<u64>)) -> Self {
        Self {
            last_round,
            errand: Errand::Meet,
            aside: None,
            asks_at: 0,
            sends_at: 0,
            next_request_ms: 0,
            decided,
            pending,
            is_spent: false,
            is_over: false,
        }
    }

    /// Returns true once the study is over.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if something is still to be sent.
    pub(crate) fn has_unsent(&self, has_upload: bool) -> bool {
        self.pending.is_some() || has_upload && !self.is_spent
    }

    /// Returns true if work that starts now and takes `guard_ms` might delay the next request.
    pub(crate) fn is_request_near(&self, guard_ms: u64, now_ms: u64) -> bool {
        let is_waiting = !self.is_over && self.aside.is_none();
        is_waiting && guard_ms > 0 && self.next_request_ms <= now_ms.saturating_add(guard_ms)
    }

    /// Chooses the errand of a turn, or waits until one is due.
    fn choose(&mut self, contact: &mut Contact, due: Due, now: Now) -> Next {
        if let Some(errand) = self.aside.take() {
            return self.start(contact, errand, due, now);
        }
        // A missed poll is postponed, so that the agent's busy time is visible only in steps of
        // `LATE_MS`.
        let late = now.ms.saturating_sub(self.asks_at);
        if late > LATE_MS && self.asks_at > 0 {
            self.asks_at += late.next_multiple_of(LATE_MS);
        }
        if now.ms >= self.asks_at {
            return self.start(contact, Errand::Poll, due, now);
        }
        let next = match contact.resend {
            Some(round) if now.ms >= self.sends_at => {
                return self.start(contact, Errand::Resend(round), due, now);
            }
            Some(_) => Some(self.sends_at),
            None => match self.upload(contact, due.has_upload, now) {
                Upload::Now(window) => {
                    return self.start(contact, Errand::Send(window), due, now);
                }
                Upload::At(at) => Some(at),
                Upload::Never => None,
            },
        };
        self.rest(next, now)
    }

    fn start(&mut self, contact: &mut Contact, errand: Errand, due: Due, now: Now) -> Next {
        self.errand = errand;
        if matches!(errand, Errand::Resend(_)) && !due.is_kept {
            contact.resend = None; // there is no such upload to send
            return self.conclude(contact, Step::Waits(POLL_PAUSE), now);
        }
        self.proceed(contact, now)
    }

    /// Determines when the upload for the newest handout's window is due. The upload is sent again
    /// at later instants of the window until there is a response.
    fn upload(&mut self, contact: &mut Contact, has_upload: bool, now: Now) -> Upload {
        let window = contact.follower.round().unwrap_or(0);
        if self.pending.is_some_and(|pending| pending != window) {
            self.end_pending(contact);
        }
        let is_pending = self.pending.is_some();
        let is_left = is_pending || self.decided != Some(window);
        if !is_left || contact.pace.round() != window || window > self.last_round {
            return Upload::Never;
        }
        if !is_pending && !contact.follower.is_answered(window) {
            return Upload::Never; // the window waits for the helper (INV-30)
        }
        let Instant::At(at) = contact.next_attempt(window, now) else {
            return Upload::Never;
        };
        let at = at.max(self.sends_at);
        if now.ms < at {
            return Upload::At(at);
        }
        if !is_pending && (now.ms >= contact.pace.closes_at() || !self.has_unsent(has_upload)) {
            self.decided = Some(window);
            return Upload::Never;
        }
        Upload::Now(window)
    }

    /// Gives up on a pending upload that is no longer useful.
    fn end_pending(&mut self, contact: &mut Contact) {
        if let Some(round) = self.pending.take() {
            let why = "the coordinator did not respond while the window was open";
            contact.effect(Effect::Miss { round, is_made: true, why });
            contact.effect(Effect::Forget); // INV-26
        }
    }

    /// Postpones uploads by the wait in `step`.
    fn not_before(&mut self, step: Step, now: Now) {
        if let Step::Waits(time) = step {
            self.sends_at = now.ms.saturating_add(milliseconds(time));
        }
    }

    /// Waits until the next attempt to send a window's upload.
    fn rest_until_attempt(&mut self, contact: &Contact, window: u64, now: Now) -> Next {
        let (_, next) = contact.due_attempt(window, now);
        let next = match next {
            Instant::At(at) => Some(at.max(self.sends_at)),
            Instant::Free | Instant::Unknown | Instant::Over => None,
        };
        self.rest(next, now)
    }

    /// Waits until the next scheduled poll or upload.
    fn rest(&mut self, next: Option<u64>, now: Now) -> Next {
        let until = next.map_or(self.asks_at, |at| at.min(self.asks_at));
        self.next_request_ms = until;
        Next::Rest(match until.saturating_sub(now.ms) {
            0 => Step::Went,
            left => Step::Waits(Duration::from_millis(left).min(PAUSE)),
        })
    }
}

impl Dialogue for Free {
    type Task = Task;

    fn begin(&mut self, contact: &mut Contact, task: Task, now: Now) -> Next {
        match task {
            Task::Meet => {
                self.errand = Errand::Meet;
                self.proceed(contact, now)
            }
            Task::Due(_) if self.is_over => Next::wait(PAUSE),
            Task::Due(due) => self.choose(contact, due, now),
        }
    }

    fn proceed(&mut self, contact: &mut Contact, _: Now) -> Next {
        match self.errand {
            Errand::Poll if contact.is_met => contact.poll(0, None),
            _ if contact.is_unsure => Next::AskState,
            Errand::Meet => Next::Done,
            Errand::Poll => contact.poll(0, None),
            Errand::Send(window) => {
                self.decided = Some(window);
                Next::Make(window)
            }
            Errand::Resend(round) => Next::Send(round),
        }
    }

    fn conclude(&mut self, contact: &mut Contact, step: Step, now: Now) -> Next {
        match self.errand {
            Errand::Meet => Next::Rest(step),
            Errand::Poll => {
                self.asks_at = match step {
                    Step::Waits(time) => now.ms.saturating_add(milliseconds(time)),
                    Step::Went => contact.pace.asks_next(now.ms),
                    Step::Ended(_) => now.ms,
                };
                self.next_request_ms = self.asks_at;
                if self.is_over {
                    self.end_pending(contact);
                }
                Next::Rest(Step::Went)
            }
            Errand::Send(window) => {
                self.not_before(step, now);
                self.rest_until_attempt(contact, window, now)
            }
            Errand::Resend(_) => {
                self.not_before(step, now);
                self.rest(Some(self.sends_at), now)
            }
        }
    }

    fn set_aside(&mut self) -> Next {
        self.aside = (!matches!(self.errand, Errand::Meet)).then_some(self.errand);
        Next::Rest(Step::Went)
    }

    fn on_polled(
        &mut self,
        contact: &mut Contact,
        polled: Polled,
        now: Now,
    ) -> Result<Next, RunError> {
        contact.answered();
        match polled {
            Polled::Handout { bytes, elapsed_ms } => {
                self.is_over = contact.take(bytes, elapsed_ms, now)? > self.last_round;
            }
            Polled::Nothing(progress) => {
                contact.on_progress(progress, now)?;
                self.is_over = progress.state == StudyState::Finished;
            }
        }
        Ok(self.conclude(contact, Step::Went, now))
    }

    fn on_made(&mut self, contact: &mut Contact, made: Made, now: Now) -> Next {
        match (made, self.errand) {
            (Made::Kept, Errand::Send(window)) => {
                self.pending = Some(window);
                return Next::Send(window);
            }
            (Made::Erased, _) => self.end_pending(contact),
            _ => {}
        }
        self.rest(None, now)
    }

    fn on_sent(&mut self, contact: &mut Contact, sent: Sent, now: Now) -> Next {
        match (sent, self.errand) {
            (Sent::Decided(verdict), Errand::Send(window)) => {
                self.is_spent |= matches!(
                    verdict,
                    Verdict::Missed(Problem { code: ProblemCode::NotCollected, .. })
                );
                contact.decide(window, verdict);
                self.pending = None;
                self.rest(None, now)
            }
            (Sent::Decided(verdict), Errand::Resend(round)) => {
                contact.end_resend(round, verdict);
                self.conclude(contact, Step::Waits(POLL_PAUSE), now)
            }
            (Sent::Stands(_), Errand::Send(window)) => {
                contact.n_attempts = contact.n_attempts.saturating_add(1);
                self.rest_until_attempt(contact, window, now)
            }
            // The agent does not wait for the study.
            (Sent::Stands(_), _) => self.conclude(contact, Step::Waits(POLL_PAUSE), now),
            (Sent::Decided(_), Errand::Meet | Errand::Poll) => Next::Done, // these send nothing
        }
    }

    fn attempt(&self) -> Option<u64> {
        match self.errand {
            Errand::Send(window) => Some(window),
            Errand::Meet | Errand::Poll | Errand::Resend(_) => None,
        }
    }

    fn poll_name(&self) -> &'static str {
        "a poll for the next window"
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
