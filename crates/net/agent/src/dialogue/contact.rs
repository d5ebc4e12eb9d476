//! State that the dialogues of all paces share: what the agent knows about the coordinator, and how
//! its responses are interpreted.

use std::time::Duration;

use fedbo_ledger::{Head, HeadUnreadable};
use fedbo_transport::{Backoff, LinkError};
use fedbo_wire::{
    CLOCK_TOLERANCE_MS, ClockDiffers, ProblemCode, RoundKey, StudyState, StudyStatus,
};

use super::{Effect, Next, Now, Sent, Verdict};
use crate::follower::Follower;
use crate::link::{Poll, Progress};
use crate::pace::{Instant, Pace};
use crate::session::{Ended, Step};
use crate::{Misconduct, RunError};

/// Minimum time between two polls if the coordinator responds immediately without news.
pub(super) const POLL_PAUSE: Duration = Duration::from_millis(1000);
/// Time, in milliseconds, for which a coordinator can report an earlier round than it handed out
/// before this counts as misconduct.
const BEHIND_MS: u64 = 30_000;
/// Maximum time before a retry while a round is not open yet, because rounds can be short.
pub(super) const MOMENT: Duration = Duration::from_secs(5);
/// Upper bound on the wait that a coordinator can request.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// An agent's knowledge of its coordinator in one study.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) follower: Follower,
    /// The schedule of this agent's requests.
    pub(crate) pace: Pace,
    pub(super) backoff: Backoff,
    /// Number of the agent's keys. There is more than one only while a key rotation is incomplete.
    n_keys: usize,
    /// Number of other keys tried since the last definite response.
    n_keys_tried: usize,
    /// The last round with an acknowledged upload.
    delivered: Option<u64>,
    /// The round of an upload that the coordinator has requested again.
    pub(crate) resend: Option<u64>,
    /// True once the coordinator has reported the study's status in this session.
    pub(crate) is_met: bool,
    /// True until the coordinator's history is checked: it may have been restored from a backup
    /// since its last response.
    pub(super) is_unsure: bool,
    /// True once the coordinator has reported the study's state in this turn.
    pub(super) has_asked: bool,
    /// Time at which the coordinator began to report an earlier round than it handed out.
    behind_since_ms: Option<u64>,
    /// Index of the current attempt to send the round's upload, from 0.
    pub(super) n_attempts: u32,
    reported_state: Option<StudyState>,
    /// The last round for which the observer was told that it waits for the helper.
    reported_helper_wait: Option<u64>,
    /// The detected misconduct. Nothing is sent after it.
    accused: Option<Misconduct>,
    effects: Vec<Effect>,
}

impl Contact {
    pub(crate) fn new(
        follower: Follower,
        pace: Pace,
        n_keys: usize,
        delivered: Option<u64>,
    ) -> Self {
        Self {
            follower,
            pace,
            backoff: Backoff::default(),
            n_keys,
            n_keys_tried: 0,
            delivered,
            resend: None,
            is_met: false,
            is_unsure: true,
            has_asked: false,
            behind_since_ms: None,
            n_attempts: 0,
            reported_state: None,
            reported_helper_wait: None,
            accused: None,
            effects: Vec::new(),
        }
    }

    /// Takes the effects of the last event.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// # Errors
    /// If the coordinator is guilty of misconduct.
    pub(crate) fn check_trust(&self) -> Result<(), RunError> {
        self.accused.clone().map_or(Ok(()), |misconduct| Err(misconduct.into()))
    }

    /// Compares the clocks at the first contact.
    ///
    /// # Errors
    /// If the clocks differ so much that requests would be refused. No trial is evaluated then.
    pub(crate) fn check_clock(&self, agent_ms: u64, coordinator_ms: u64) -> Result<(), RunError> {
        match !self.is_met && agent_ms.abs_diff(coordinator_ms) > CLOCK_TOLERANCE_MS {
            true => Err(RunError::Clock(ClockDiffers { agent_ms, coordinator_ms })),
            false => Ok(()),
        }
    }

    /// Returns a poll for a newer round. The coordinator can hold the poll for `wait_s` seconds, or
    /// until the study leaves `state`.
    pub(super) fn poll(&self, wait_s: u64, state: Option<StudyState>) -> Next {
        Next::Poll(Poll {
            after: self.follower.round(),
            entries: self.follower.head().seq,
            helper: self.follower.helper_seq(),
            wait_s,
            delivered: self.delivered.filter(|_| state.is_none()),
            state,
            bytes_max: self.follower.bytes_max(),
        })
    }

    /// Checks that the coordinator continues the history that this agent has followed. If it does
    /// not, returns the step to take instead of sending.
    ///
    /// A coordinator that was restored from a backup replays rounds, and must not get vectors that
    /// have been released (INV-2).
    pub(super) fn on_state(
        &mut self,
        status: &StudyStatus,
        now: Now,
    ) -> Result<Option<Step>, RunError> {
        self.heard(status.round, status.state, status.elapsed_ms, status.round_key, now);
        let is_held = status.state == StudyState::Running && status.elapsed_ms.is_none();
        if self.follower.has_helper() && is_held {
            self.await_helper(status.round);
        }
        // Studies that relay messages have no ledger.
        if !status.head.is_empty() {
            let unusable = |error: HeadUnreadable| {
                let reason = format!("the study's ledger ends at {:?}: {error}", status.head);
                RunError::Link(LinkError::Unusable { reason })
            };
            let found: Head = status.head.parse().map_err(unusable)?;
            let expected = self.follower.head();
            if found.seq < expected.seq {
                self.check_forward(status.round, now)?;
                return Ok(Some(Step::Waits(POLL_PAUSE)));
            }
            if found.seq == expected.seq && found != expected {
                let misconduct = Misconduct::OtherHistory { expected, found };
                return Err(self.accuse(misconduct, None));
            }
        }
        (self.is_unsure, self.is_met, self.has_asked) = (false, true, true);
        Ok(None)
    }

    /// Records the study's state, the elapsed time of the round and the helper's key from a
    /// response.
    pub(super) fn heard(
        &mut self,
        round: u64,
        state: StudyState,
        elapsed_ms: Option<u64>,
        key: Option<RoundKey>,
        now: Now,
    ) {
        if self.pace.heard(round, state, elapsed_ms, now.ms) {
            self.n_attempts = 0;
        }
        if let Some(key) = key {
            self.follower.hear_key(key);
        }
    }

    /// Records a definite response, which shows that the coordinator knows the key in use.
    pub(super) fn answered(&mut self) {
        self.backoff.reset();
        self.n_keys_tried = 0;
        self.effect(Effect::Answered);
    }

    /// Records the progress of a study. Returns true if an upload must be sent again.
    pub(super) fn on_progress(&mut self, progress: Progress, now: Now) -> Result<bool, RunError> {
        // The coordinator may request only the upload that this agent reported as delivered.
        if progress.resend.is_some() && progress.resend == self.delivered {
            self.resend = progress.resend;
            self.is_unsure = true;
            return Ok(true);
        }
        let Progress { round, state, elapsed_ms, round_key, .. } = progress;
        self.heard(round, state, elapsed_ms, round_key, now);
        self.check_forward(round, now)?;
        match state {
            StudyState::Finished => return Ok(false),
            StudyState::Running => self.reported_state = None,
            StudyState::Waiting | StudyState::Paused => self.report_state(state),
        }
        self.effect(Effect::Contact);
        Ok(false)
    }

    /// Reports once that the study has not started or is paused.
    pub(super) fn report_state(&mut self, state: StudyState) {
        if self.reported_state != Some(state) {
            self.reported_state = Some(state);
            self.effect(Effect::StudyWaits(state));
        }
    }

    /// Reports once per round that the round waits for the helper.
    pub(super) fn await_helper(&mut self, round: u64) {
        if self.reported_helper_wait != Some(round) {
            self.reported_helper_wait = Some(round);
            self.effect(Effect::HelperAwaited(round));
        }
    }

    /// Verifies a handout and emits [`Effect::Take`] for it.
    ///
    /// # Errors
    /// If the handout shows misconduct.
    pub(super) fn take(
        &mut self,
        bytes: Vec<u8>,
        elapsed_ms: Option<u64>,
        now: Now,
    ) -> Result<u64, RunError> {
        let verified = match self.follower.read(&bytes) {
            Ok(verified) => Box::new(verified),
            Err(misconduct) => return Err(self.accuse(misconduct, Some(bytes))),
        };
        let round = verified.round;
        self.follower.advance(&verified);
        self.pace.began(round, elapsed_ms.unwrap_or(0), now.ms);
        self.n_attempts = 0;
        self.reported_state = None;
        self.effect(Effect::Take { bytes, verified });
        Ok(round)
    }

    /// Detects a coordinator that was restored from an older backup, because it reports an earlier
    /// round than it handed out.
    ///
    /// The report must persist for `BEHIND_MS`, so that an instance that briefly lags behind the
    /// shared store is not accused.
    fn check_forward(&mut self, found: u64, now: Now) -> Result<(), RunError> {
        let last = self.follower.round().unwrap_or(0);
        if found >= last {
            self.behind_since_ms = None;
            return Ok(());
        }
        let since_ms = *self.behind_since_ms.get_or_insert(now.ms);
        if now.ms.saturating_sub(since_ms) < BEHIND_MS {
            return Ok(());
        }
        Err(self.accuse(Misconduct::RoundBack { last, found }, None))
    }

    /// Records the coordinator's misconduct.
    fn accuse(&mut self, misconduct: Misconduct, evidence: Option<Vec<u8>>) -> RunError {
        self.accused = Some(misconduct.clone());
        self.effect(Effect::Accuse { misconduct: misconduct.clone(), evidence });
        misconduct.into()
    }

    /// Returns the number and the instant of the next attempt to send a round's upload.
    pub(super) fn due_attempt(&self, round: u64, now: Now) -> (u32, Instant) {
        self.pace.due(round, self.n_attempts, now.ms)
    }

    /// Selects the next attempt to send a round's upload, and returns its instant.
    pub(super) fn next_attempt(&mut self, round: u64, now: Now) -> Instant {
        let (attempt, instant) = self.due_attempt(round, now);
        self.n_attempts = attempt;
        instant
    }

    /// Interprets the response to an upload. Returns an error if the response is not definite.
    pub(super) fn on_sent(&mut self, answer: Result<(), LinkError>) -> Result<Sent, LinkError> {
        let verdict = match answer {
            Ok(()) => Verdict::Acknowledged,
            Err(LinkError::Refused { problem, .. }) if is_missed(problem.code) => {
                Verdict::Missed(problem)
            }
            Err(error) => {
                return error.code().and_then(standstill).map(Sent::Stands).ok_or(error);
            }
        };
        self.answered();
        Ok(Sent::Decided(verdict))
    }

    /// Records the outcome of a round's upload.
    pub(super) fn decide(&mut self, round: u64, verdict: Verdict) {
        if verdict == Verdict::Acknowledged {
            self.delivered = Some(round);
        }
        self.effect(Effect::Decide(round, verdict));
    }

    /// Records the outcome of an upload that was sent again.
    pub(super) fn end_resend(&mut self, round: u64, verdict: Verdict) {
        self.resend = None;
        self.effect(Effect::Resent(round, verdict));
    }

    /// Returns the step to take after a failed request. If the turn tries to send an upload,
    /// `attempt` is the upload's round.
    pub(super) fn failed(
        &mut self,
        what: &'static str,
        error: LinkError,
        attempt: Option<u64>,
        now: Now,
    ) -> Result<Step, RunError> {
        if matches!(error, LinkError::Stopped) {
            return Ok(Step::Ended(Ended::Interrupted));
        }
        self.is_unsure = true;
        if error.code() == Some(ProblemCode::CounterBehind) {
            // The driver has checked that the home is not behind, so a later request of this agent
            // overtook this one. Send it again with a new counter.
            let next = self.backoff.next_by(now.chance);
            return Ok(self.retry(&error, next));
        }
        // While a key rotation is incomplete, the coordinator may know either key.
        if error.code().is_some_and(is_of_the_key) && self.n_keys_tried + 1 < self.n_keys {
            self.n_keys_tried += 1;
            self.effect(Effect::ChangeKey);
            return Ok(Step::Went);
        }
        if error.is_temporary() {
            let attempted = attempt.and_then(|round| self.after_attempt(round, now));
            let next = attempted.unwrap_or_else(|| {
                let next = self.backoff.next_by(now.chance).min(self.pace.longest_pause());
                match error.code().is_some_and(is_of_the_moment) {
                    true => next.min(MOMENT),
                    false => next,
                }
            });
            let asked = error.retry_after().unwrap_or_default();
            return Ok(self.retry(&error, next.max(asked.min(RETRY_AFTER_MAX))));
        }
        Err(match error {
            LinkError::Refused { problem, .. } => {
                RunError::Refused { what, code: problem.code, message: problem.message }
            }
            error => RunError::Link(error),
        })
    }

    fn retry(&mut self, error: &LinkError, next: Duration) -> Step {
        self.effect(Effect::Retry(error.to_string(), next));
        Step::Waits(next)
    }

    /// Returns the time until the next attempt to send an upload after a failed one, or `None` if
    /// the attempt has no scheduled instant.
    fn after_attempt(&mut self, round: u64, now: Now) -> Option<Duration> {
        let (n, instant) = self.pace.due(round, self.n_attempts.saturating_add(1), now.ms);
        match instant {
            Instant::At(at) => {
                self.n_attempts = n;
                Some(Duration::from_millis(at.saturating_sub(now.ms)))
            }
            Instant::Free | Instant::Unknown | Instant::Over => None,
        }
    }
}

/// Returns true if a refusal only means that the upload is no longer useful, not that it was wrong.
fn is_missed(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::Late | ProblemCode::NotCollected | ProblemCode::Finished)
}

/// Returns the study's state if a refusal means that the study has not started or is paused.
fn standstill(code: ProblemCode) -> Option<StudyState> {
    match code {
        ProblemCode::NotStarted => Some(StudyState::Waiting),
        ProblemCode::Paused => Some(StudyState::Paused),
        _ => None,
    }
}

/// Returns true if a refusal is temporary because the round is not open.
fn is_of_the_moment(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::Early | ProblemCode::Paused | ProblemCode::NotStarted)
}

/// Returns true if the request may succeed with a different key of the same agent.
pub(crate) fn is_of_the_key(code: ProblemCode) -> bool {
    matches!(
        code,
        ProblemCode::UnknownAgent
            | ProblemCode::UnknownStudy
            | ProblemCode::NotYourSlot
            | ProblemCode::Revoked
    )
}
