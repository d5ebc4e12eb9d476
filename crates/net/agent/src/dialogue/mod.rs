//! An agent's dialogue with its coordinator, as state machines without I/O.
//!
//! A machine decides which request to make next, when to retry, how to interpret a response, and
//! when a round is missed. [`Rounds`] waits for the coordinator in every round; [`Free`] never
//! waits. [`Contact`] is the state that both share.
//!
//! A driver starts a turn with a task. After each event, the driver performs the effects and then
//! the returned [`Next`], which produces the next event, until the turn ends. Times and random
//! draws are arguments.

mod contact;
pub(crate) mod free;
pub(crate) mod rounds;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fedbo_transport::LinkError;
use fedbo_wire::{Problem, StudyState, StudyStatus};

pub(crate) use contact::{Contact, is_of_the_key};
pub(crate) use free::Free;
pub(crate) use rounds::Rounds;

use crate::follower::VerifiedHandout;
use crate::link::{Poll, Polled};
use crate::session::Step;
use crate::{Misconduct, RunError};

/// The time of an event, and a random draw for the jitter of retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Milliseconds of the monotonic clock.
    pub(crate) ms: u64,
    /// A number in `[0, 1)`.
    pub(crate) chance: f64,
}

/// An event for a machine with tasks of type `T`.
pub(crate) enum Event<T> {
    /// A turn begins.
    Turn(T),
    /// The study's state has arrived. The driver has already compared the clocks and settled the
    /// account.
    State(Result<StudyStatus, LinkError>),
    Polled(Result<Polled, LinkError>),
    Made(Made),
    Sent(Result<(), LinkError>),
}

/// The result of [`Next::Make`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The upload is charged and stored, and may be sent.
    Kept,
    /// There is no upload, because the agent has nothing new or its budget does not allow one.
    Withheld,
    /// The bytes of the stored upload are erased, so there is nothing left to send.
    Erased,
}

/// The driver's next action, after it has performed the effects of an event.
#[derive(Debug)]
pub(crate) enum Next {
    /// Request the study's state; continue with [`Event::State`].
    AskState,
    /// Poll; continue with [`Event::Polled`].
    Poll(Poll),
    /// Make a round's upload, charge it and store it, unless it is already stored (INV-13).
    /// Continue with [`Event::Made`].
    Make(u64),
    /// Send a round's stored upload; continue with [`Event::Sent`].
    Send(u64),
    /// The turn ends, and its task is done.
    Done,
    /// The turn ends with a step. In rounds, the turn's task is not done yet.
    Rest(Step),
    /// The turn ends, and the study is over.
    StudyOver,
}

impl Next {
    fn wait(time: Duration) -> Self {
        Self::Rest(Step::Waits(time))
    }
}

/// A side effect for the driver to perform before [`Next`]. Effects are performed in order, even if
/// handling the event returns an error.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Record that a request with a counter got a definite response, so the coordinator knows the
    /// key.
    Answered,
    /// Record the time of the contact.
    Contact,
    /// Use the agent's next key.
    ChangeKey,
    /// Store a handout, report that its round began, and pass the handout to the agent's machine.
    Take { bytes: Vec<u8>, verified: Box<VerifiedHandout> },
    /// Store the outcome of an upload, and report it.
    Decide(u64, Verdict),
    /// Record and report a missed round. If `is_made` is set, the round's upload is already stored.
    Miss { round: u64, is_made: bool, why: &'static str },
    /// Erase vectors that are no longer needed (INV-26).
    Forget,
    /// Report the outcome of sending an acknowledged upload again.
    Resent(u64, Verdict),
    /// Report that a request is retried after this time.
    Retry(String, Duration),
    /// Report that the study has not started or is paused.
    StudyWaits(StudyState),
    /// Report that a round waits for the study's helper.
    HelperAwaited(u64),
    /// Store the evidence of misconduct, if there is any, and erase the study's vectors, because
    /// nothing more is sent.
    Accuse { misconduct: Misconduct, evidence: Option<Vec<u8>> },
}

/// A definite response to an upload.
pub(crate) enum Sent {
    Decided(Verdict),
    /// The study has not started or is paused.
    Stands(StudyState),
}

/// The final outcome of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Acknowledged,
    /// Permanently refused, but the agent continues.
    Missed(Problem),
}

/// A state machine that decides an agent's requests. Effects are queued in the [`Contact`].
pub(crate) trait Dialogue {
    /// The tasks that a turn can have.
    type Task;

    /// Begins a turn.
    fn begin(&mut self, contact: &mut Contact, task: Self::Task, now: Now) -> Next;

    /// Continues a turn once the study's state has arrived.
    fn proceed(&mut self, contact: &mut Contact, now: Now) -> Next;

    /// Ends a turn with a step.
    fn conclude(&mut self, contact: &mut Contact, step: Step, now: Now) -> Next;

    /// Ends a turn while its last request is still in progress.
    fn set_aside(&mut self) -> Next;

    fn on_polled(
        &mut self,
        contact: &mut Contact,
        polled: Polled,
        now: Now,
    ) -> Result<Next, RunError>;

    fn on_made(&mut self, contact: &mut Contact, made: Made, now: Now) -> Next;

    fn on_sent(&mut self, contact: &mut Contact, sent: Sent, now: Now) -> Next;

    /// Returns the round of the upload that this turn tries to send, if any.
    fn attempt(&self) -> Option<u64>;

    /// Returns a name for the last poll, for error messages.
    fn poll_name(&self) -> &'static str;

    /// Handles an event.
    ///
    /// # Errors
    /// If the agent cannot continue.
    fn handle(
        &mut self,
        contact: &mut Contact,
        event: Event<Self::Task>,
        now: Now,
    ) -> Result<Next, RunError> {
        let (what, error) = match event {
            Event::Turn(task) => {
                contact.check_trust()?;
                contact.has_asked = false;
                return Ok(self.begin(contact, task, now));
            }
            Event::State(Ok(status)) => {
                return Ok(match contact.on_state(&status, now)? {
                    Some(step) => self.conclude(contact, step, now),
                    None => self.proceed(contact, now),
                });
            }
            Event::Polled(Ok(polled)) => return self.on_polled(contact, polled, now),
            Event::Made(made) => return Ok(self.on_made(contact, made, now)),
            Event::Sent(answer) => match contact.on_sent(answer) {
                Ok(sent) => return Ok(self.on_sent(contact, sent, now)),
                Err(error) => ("an upload", error),
            },
            Event::State(Err(error)) => ("a request for the study's state", error),
            Event::Polled(Err(error)) => (self.poll_name(), error),
        };
        match error {
            LinkError::SetAside => Ok(self.set_aside()),
            error => {
                let step = contact.failed(what, error, self.attempt(), now)?;
                Ok(self.conclude(contact, step, now))
            }
        }
    }
}
