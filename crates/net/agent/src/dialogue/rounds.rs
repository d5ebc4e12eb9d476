//! The dialogue of an agent that takes part in every round. The agent waits for handouts, and
//! decides each upload before the next round begins.

use std::time::Duration;

use fedbo_wire::StudyState;

use super::contact::{MOMENT, POLL_PAUSE};
use super::{Contact, Dialogue, Effect, Made, Next, Now, Sent};
use crate::RunError;
use crate::link::{Polled, Progress};
use crate::pace::Instant;
use crate::session::Step;

/// Seconds for which the coordinator can hold a poll while there is nothing new. Shorter than
/// common proxy timeouts.
const POLL_S: u64 = 25;

/// The task of a turn in rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Before a trial: check the clocks and request the start time of the round.
    Meet,
    /// Deliver an upload.
    Deliver(Outgoing),
    /// Send the upload of a round again, if the log still has it.
    Resend { round: u64, is_kept: bool },
    /// Get the next round.
    Await,
}

/// An upload whose outcome is not decided yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) round: u64,
    /// True if the upload is charged and stored.
    pub(crate) is_made: bool,
    /// True if an earlier process has sent the upload and the response has already arrived.
    pub(crate) is_answered: bool,
}

/// State machine for the requests of an agent in rounds.
#[derive(Debug)]
pub(crate) struct Rounds {
    task: Task,
    /// True once the turn has reached the attempt to send the upload. Only the coordinator's
    /// history is still checked.
    is_attempt: bool,
    /// Earliest time of the next poll.
    quiet_until: u64,
    /// Time of the last poll for the next round, and of the last poll of any kind.
    awaited_ms: Option<u64>,
    polled_ms: u64,
    /// True while the current poll waits for the study to leave its state.
    awaits_study: bool,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Self {
            task: Task::Await,
            is_attempt: false,
            quiet_until: 0,
            awaited_ms: None,
            polled_ms: 0,
            awaits_study: false,
        }
    }

    /// Records the end of a trial, whose time must not be observable (INV-12).
    pub(crate) fn trial_ended(&mut self, contact: &Contact, now_ms: u64) {
        let round = contact.follower.round().unwrap_or(0);
        self.quiet_until = contact.pace.asks_from(round, now_ms);
    }

    /// Makes an upload, and sends it at its scheduled instant or in a later attempt. If the upload
    /// is not made by that instant, the round is missed (INV-12).
    fn deliver(&mut self, contact: &mut Contact, upload: Outgoing, now: Now) -> Next {
        let Outgoing { round, is_made, is_answered } = upload;
        if !is_made && !contact.follower.is_answered(round) {
            if let Some(next) = self.ask_round(contact, round, now) {
                return next;
            }
            if contact.pace.upload_at(round) != Instant::Over {
                contact.await_helper(round);
                let pause = Duration::from_millis(contact.pace.crowds_pause());
                return Next::wait(pause.max(POLL_PAUSE));
            }
        }
        // After a restart, the agent does not know when the round began.
        if !contact.is_met {
            return Next::AskState;
        }
        if !is_answered && !contact.pace.takes(round, is_made, now.ms) {
            // The last report may be outdated: the study may have begun since, or the round
            // restarted.
            if let Some(next) = self.ask_round(contact, round, now) {
                return next;
            }
            const WHY: &str = "the agent's time to send had passed before its trial was done; network.round_s of the \
                               study must be longer than a trial";
            contact.effect(Effect::Miss { round, is_made, why: WHY });
            return Next::Done;
        }
        if !is_made {
            return Next::Make(round);
        }
        if let Instant::At(send_at) = contact.next_attempt(round, now)
            && now.ms < send_at
            && !is_answered
        {
            return Next::wait(Duration::from_millis(send_at - now.ms));
        }
        self.is_attempt = true;
        self.proceed(contact, now)
    }

    /// Requests the state of the round once, as soon as requests are allowed, and waits while the
    /// study has not started or is paused. Returns `None` once the agent knows whether it can still
    /// send the upload.
    fn ask_round(&mut self, contact: &mut Contact, round: u64, now: Now) -> Option<Next> {
        if let Some(next) = self.backoff(now) {
            return Some(next);
        }
        if !contact.has_asked {
            contact.is_unsure = true;
            return Some(Next::AskState);
        }
        match contact.pace.upload_at(round) {
            Instant::Unknown => Some(self.await_study(contact, contact.pace.state(), now)),
            Instant::Free | Instant::At(_) | Instant::Over => None,
        }
    }

    /// Returns the wait until the coordinator can be polled, or `None` if it can be polled now.
    fn backoff(&self, now: Now) -> Option<Next> {
        let left = self.quiet_until.saturating_sub(now.ms);
        (left > 0).then(|| Next::wait(Duration::from_millis(left)))
    }

    fn await_round(&mut self, contact: &mut Contact, now: Now) -> Next {
        if let Some(next) = self.backoff(now) {
            return next;
        }
        let round = contact.follower.round();
        let wait_s = match contact.pace.asks_again(round, self.awaited_ms, now.ms) {
            Some(at) if at > now.ms => {
                return Next::wait(Duration::from_millis(at - now.ms).min(POLL_PAUSE));
            }
            Some(_) => 0,
            None => POLL_S,
        };
        self.awaited_ms = Some(now.ms);
        self.polled_ms = now.ms;
        self.awaits_study = false;
        contact.poll(wait_s, None)
    }

    /// Returns a poll that waits for the study to leave this state. The coordinator responds when
    /// the study does, or immediately if the state has already changed.
    fn await_study(&mut self, contact: &mut Contact, state: StudyState, now: Now) -> Next {
        contact.report_state(state);
        self.polled_ms = now.ms;
        self.awaits_study = true;
        contact.poll(if contact.pace.is_crowd() { 0 } else { POLL_S }, Some(state))
    }

    /// Handles a poll response without a handout.
    fn on_progress(
        &mut self,
        contact: &mut Contact,
        progress: Progress,
        now: Now,
    ) -> Result<Next, RunError> {
        let Progress { round, state, elapsed_ms, round_key, .. } = progress;
        let took = Duration::from_millis(now.ms.saturating_sub(self.polled_ms));
        let pause = Next::wait(POLL_PAUSE.saturating_sub(took));
        if self.awaits_study {
            contact.heard(round, state, elapsed_ms, round_key, now);
            if state == StudyState::Running {
                return Ok(pause);
            }
        }
        if contact.on_progress(progress, now)? {
            return Ok(Next::Rest(Step::Went));
        }
        match state {
            StudyState::Finished => Ok(Next::StudyOver),
            StudyState::Waiting | StudyState::Paused if contact.pace.is_crowd() => {
                Ok(Next::wait(Duration::from_millis(contact.pace.crowds_pause())))
            }
            _ => Ok(pause),
        }
    }
}

impl Dialogue for Rounds {
    type Task = Task;

    fn begin(&mut self, contact: &mut Contact, task: Task, now: Now) -> Next {
        (self.task, self.is_attempt) = (task, false);
        self.proceed(contact, now)
    }

    fn proceed(&mut self, contact: &mut Contact, now: Now) -> Next {
        match self.task {
            Task::Meet if contact.is_unsure => Next::AskState,
            Task::Meet => Next::Done,
            Task::Deliver(_) if self.is_attempt && contact.is_unsure => Next::AskState,
            Task::Deliver(upload) if self.is_attempt => Next::Send(upload.round),
            Task::Deliver(upload) => self.deliver(contact, upload, now),
            Task::Resend { is_kept: false, .. } => {
                contact.resend = None; // there is no such upload to send
                Next::wait(POLL_PAUSE)
            }
            Task::Resend { .. } if contact.is_unsure => Next::AskState,
            Task::Resend { round, .. } => Next::Send(round),
            Task::Await if !contact.is_met => Next::AskState,
            Task::Await => self.await_round(contact, now),
        }
    }

    fn conclude(&mut self, _: &mut Contact, step: Step, _: Now) -> Next {
        Next::Rest(step)
    }

    fn set_aside(&mut self) -> Next {
        Next::Rest(Step::Went)
    }

    fn on_polled(
        &mut self,
        contact: &mut Contact,
        polled: Polled,
        now: Now,
    ) -> Result<Next, RunError> {
        match polled {
            // The round began before the study was paused. Its handout is requested again once this
            // upload is decided.
            Polled::Handout { .. } if self.awaits_study => {
                Ok(Next::wait(contact.backoff.next_by(now.chance).min(MOMENT)))
            }
            Polled::Handout { bytes, elapsed_ms } => {
                contact.answered();
                let round = contact.take(bytes, elapsed_ms, now)?;
                self.quiet_until = match contact.pace.upload_at(round) {
                    Instant::At(at) => at,
                    Instant::Free | Instant::Unknown | Instant::Over => 0,
                };
                Ok(Next::Rest(Step::Went))
            }
            Polled::Nothing(progress) => {
                contact.answered();
                self.on_progress(contact, progress, now)
            }
        }
    }

    fn on_made(&mut self, contact: &mut Contact, made: Made, now: Now) -> Next {
        match (made, &mut self.task) {
            (Made::Kept, Task::Deliver(upload)) => {
                upload.is_made = true;
                self.proceed(contact, now)
            }
            _ => Next::Done,
        }
    }

    fn on_sent(&mut self, contact: &mut Contact, sent: Sent, now: Now) -> Next {
        match (sent, self.task) {
            (Sent::Decided(verdict), Task::Resend { round, .. }) => {
                contact.end_resend(round, verdict);
                // The pause limits resends, however often the coordinator requests them.
                Next::wait(POLL_PAUSE)
            }
            (Sent::Decided(verdict), Task::Deliver(upload)) => {
                contact.decide(upload.round, verdict);
                Next::Done
            }
            (Sent::Stands(state), _) => self.await_study(contact, state, now),
            (Sent::Decided(_), Task::Meet | Task::Await) => Next::Done, // these send nothing
        }
    }

    fn attempt(&self) -> Option<u64> {
        match self.task {
            Task::Deliver(upload) if self.is_attempt => Some(upload.round),
            _ => None,
        }
    }

    fn poll_name(&self) -> &'static str {
        match self.awaits_study {
            true => "a poll for the study's start",
            false => "a poll for the next round",
        }
    }
}
