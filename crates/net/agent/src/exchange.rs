//! The exchange between a session and its coordinator: uploads go up, rounds come down.

use std::time::Duration;

use fedbo_failpoints::pass;
use fedbo_ledger::{Head, HeadUnreadable};
use fedbo_protocol::{AgentEffect, AgentUpdate};
use fedbo_transport::LinkError;
use fedbo_wire::{
    Account, CLOCK_TOLERANCE_MS, ClockDiffers, Problem, ProblemCode, RoundKey, StudyState,
};

use crate::account::{Behind, settle};
use crate::budget::Charged;
use crate::evidence;
use crate::follower::VerifiedHandout;
use crate::link::{Place, Poll, Polled, Progress};
use crate::log::{MadeUpload, NewUpload, TakenHandout, UploadState};
use crate::pace::Instant;
use crate::session::{Ended, Session, Step};
use crate::{Misconduct, Notice, RunError};

/// Seconds that the coordinator may take to answer when there is nothing new; below the known
/// timeouts of proxies.
const POLL_S: u64 = 25;
/// Minimum time between two polls of a coordinator that answers immediately without news.
const POLL_PAUSE: Duration = Duration::from_millis(1000);
/// Time, in milliseconds, for which a coordinator may report an earlier round than it handed out.
const BEHIND_MS: u64 = 30_000;
/// Interval, in milliseconds, at which an answer without news is stored as the last contact.
const CONTACT_MS: u64 = 60_000;

/// Maximum time before an upload is offered again while its round is not open yet; rounds are
/// short.
const MOMENT: Duration = Duration::from_secs(5);

/// Upper bound on the wait that a coordinator may request.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The outcome of sending the bytes of an upload.
pub(crate) enum Sent {
    Acknowledged,
    /// Refused permanently; the agent continues.
    Missed(Problem),
    /// The study plays no rounds now.
    Stands(StudyState),
    /// The step is over without a decision.
    Undecided(Step),
}

impl Session<'_> {
    /// Delivers an upload: makes it, stores it, charges it, and sends it from its set instant on
    /// until it is acknowledged or permanently refused.
    ///
    /// Does nothing if the upload was already decided. An upload that is made after
    /// its instant is not sent (INV-12).
    pub(crate) fn deliver(&mut self, update: AgentUpdate) -> Result<Step, RunError> {
        let round = update.round;
        let made = self.log().upload(round)?;
        if made.is_none()
            && !self.follower.is_answered(round)
            && let Some(step) = self.wait_for_helper(round)?
        {
            self.queue.push_front(AgentEffect::Upload(update));
            return Ok(step);
        }
        let is_forgotten =
            |made: &MadeUpload| made.state == UploadState::Pending && made.bytes.is_empty();
        if self.follower.has_helper() && made.as_ref().is_some_and(is_forgotten) {
            const WHY: &str =
                "its shares for the round were erased when it refused the coordinator";
            self.miss(round, None, WHY)?;
            return Ok(Step::Went);
        }
        let bytes = match &made {
            // Each call draws new shares, so only the stored ones may be sent.
            Some(made) if self.follower.has_helper() => made.bytes.clone(),
            None if !self.follower.is_answered(round) => Vec::new(), // the round is over
            _ => self.upload_bytes(&update)?,
        };
        match &made {
            Some(made) if !self.follower.has_helper() && !made.is_of(&bytes) => {
                return Err(RunError::UploadDiffers { round });
            }
            Some(made) if made.state != UploadState::Pending => return Ok(Step::Went),
            _ => {}
        }
        let to = Place { study: &self.membership.study, round, slot: self.membership.slot };
        // Another process sent it at its instant.
        let is_answered = made.is_some() && self.link.has_answer(&self.keys[0], to, &bytes);
        // After its own restart, the agent does not know when the round began.
        if !self.is_met
            && let Some(step) = self.look_at_history()?
        {
            self.queue.push_front(AgentEffect::Upload(update));
            return Ok(step);
        }
        let (is_made, mut now_ms) = (made.is_some(), self.clock.elapsed_ms());
        if !is_answered && !self.pace.takes(round, is_made, now_ms) {
            // The last report may be outdated: the study may have begun since, or the round
            // restarted.
            if let Some(step) = self.poll_round_state(round)? {
                self.queue.push_front(AgentEffect::Upload(update));
                return Ok(step);
            }
            now_ms = self.clock.elapsed_ms();
            if !self.pace.takes(round, is_made, now_ms) {
                const WHY: &str = "the agent's time to send had passed before its trial was done; network.round_s of the \
                                   study must be longer than a trial";
                self.miss(round, (!is_made).then_some(&bytes), WHY)?;
                return Ok(Step::Went);
            }
        }
        if !is_made && self.keep(round, &bytes)? == UploadState::Withheld {
            return Ok(Step::Went);
        }
        let (attempt, instant) = self.pace.due(round, self.n_attempts, now_ms);
        self.n_attempts = attempt;
        if let Instant::At(send_at) = instant
            && now_ms < send_at
            && !is_answered
        {
            self.queue.push_front(AgentEffect::Upload(update));
            return Ok(Step::Waits(Duration::from_millis(send_at - now_ms)));
        }
        self.attempting = Some(round);
        let sent = match self.look_at_history()? {
            Some(step) => Sent::Undecided(step),
            None => self.send(round, &bytes)?,
        };
        if self.ends_upload(round, &sent)? {
            self.attempting = None;
            return Ok(Step::Went);
        }
        let step = self.step_after(sent)?;
        self.attempting = None;
        self.queue.push_front(AgentEffect::Upload(update));
        Ok(step)
    }

    /// Stores the outcome of an upload. Returns false if it is undecided.
    pub(crate) fn ends_upload(&mut self, round: u64, sent: &Sent) -> Result<bool, RunError> {
        match sent {
            Sent::Acknowledged => {
                pass("agent: an upload is answered");
                self.log().end(round, UploadState::Acknowledged, self.clock.now_ms())?;
                pass("agent: an upload is noted as answered");
                self.delivered = Some(round);
                self.observer.notice(&Notice::UploadSent(round));
                Ok(true)
            }
            Sent::Missed(why) => {
                self.log().end(round, UploadState::Missed, self.clock.now_ms())?;
                self.observer.notice(&Notice::UploadMissed(round, why));
                Ok(true)
            }
            Sent::Stands(_) | Sent::Undecided(_) => Ok(false),
        }
    }

    /// Returns the step to take if an upload is undecided. At a free pace the agent does not wait
    /// for the study.
    fn step_after(&mut self, sent: Sent) -> Result<Step, RunError> {
        match sent {
            Sent::Stands(_) if self.federation.free.is_some() => Ok(Step::Waits(POLL_PAUSE)),
            Sent::Stands(state) => self.wait_for_the_study(state),
            Sent::Undecided(step) => Ok(step),
            Sent::Acknowledged | Sent::Missed(_) => Ok(Step::Went),
        }
    }

    /// Asks for the state of the round, once polling is allowed, and waits while the study plays no
    /// rounds. Returns the step to take instead of continuing with the round's upload.
    fn poll_round_state(&mut self, round: u64) -> Result<Option<Step>, RunError> {
        if let Some(step) = self.backoff() {
            return Ok(Some(step));
        }
        self.is_unsure = true;
        if let Some(step) = self.look_at_history()? {
            return Ok(Some(step));
        }
        match self.pace.upload_at(round) {
            Instant::Unknown => self.wait_for_the_study(self.pace.state()).map(Some),
            Instant::Free | Instant::At(_) | Instant::Over => Ok(None),
        }
    }

    /// Waits until the helper's key of a round is known. Returns `None` once it is, or the round is
    /// over.
    fn wait_for_helper(&mut self, round: u64) -> Result<Option<Step>, RunError> {
        if let Some(step) = self.poll_round_state(round)? {
            return Ok(Some(step));
        }
        if self.follower.is_answered(round) || self.pace.upload_at(round) == Instant::Over {
            return Ok(None);
        }
        self.awaits_helper(round);
        let pause = Duration::from_millis(self.pace.crowds_pause());
        Ok(Some(Step::Waits(pause.max(POLL_PAUSE))))
    }

    /// Reports once per round that the round waits for the helper.
    fn awaits_helper(&mut self, round: u64) {
        if self.reported_helper_wait != Some(round) {
            self.reported_helper_wait = Some(round);
            self.observer.notice(&Notice::HelperAwaited(round));
        }
    }

    /// Returns the wait until the coordinator may be polled; `None` if it may be polled now.
    fn backoff(&self) -> Option<Step> {
        let left = self.quiet_until?.saturating_sub(self.clock.elapsed_ms());
        (left > 0).then(|| Step::Waits(Duration::from_millis(left)))
    }

    /// Makes the agent a straggler of this round: nothing is sent for it, and nothing more is
    /// charged.
    pub(crate) fn miss(
        &mut self,
        round: u64,
        new: Option<&Vec<u8>>,
        why: &str,
    ) -> Result<(), RunError> {
        let now_ms = self.clock.now_ms();
        match new {
            Some(bytes) => {
                let made = NewUpload { round, bytes, n_told: self.n_told, now_ms };
                self.log().make(&made, UploadState::Missed)?;
            }
            None => self.log().end(round, UploadState::Missed, now_ms)?,
        }
        let why = Problem { code: ProblemCode::Late, message: why.to_owned() };
        self.observer.notice(&Notice::UploadMissed(round, &why));
        Ok(())
    }

    /// Checks that the coordinator continues from the history that this agent has followed, if that
    /// is uncertain. Returns the step to take instead of sending, if it does not or the check
    /// fails.
    ///
    /// A coordinator that was restored from a backup replays rounds, and must not get vectors that
    /// have been released (INV-2). The first check also compares the clocks.
    pub(crate) fn look_at_history(&mut self) -> Result<Option<Step>, RunError> {
        if !self.is_unsure {
            return Ok(None);
        }
        let status = match self.link.status(&self.keys[0], &self.membership.study) {
            Ok(status) => status,
            Err(error) => return self.failed("a request for the study's state", error).map(Some),
        };
        if !self.is_met {
            let agent_ms = self.clock.now_ms();
            if agent_ms.abs_diff(status.time_ms) > CLOCK_TOLERANCE_MS {
                return Err(RunError::Clock(ClockDiffers {
                    agent_ms,
                    coordinator_ms: status.time_ms,
                }));
            }
        }
        self.settle(&status.account)?;
        self.heard(status.round, status.state, status.elapsed_ms);
        self.hear_key(status.round_key);
        let is_held = status.state == StudyState::Running && status.elapsed_ms.is_none();
        if self.follower.has_helper() && is_held {
            self.awaits_helper(status.round);
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
                self.check_forward(status.round)?;
                return Ok(Some(Step::Waits(POLL_PAUSE)));
            }
            if found.seq == expected.seq && found != expected {
                return Err(self.accuse(Misconduct::OtherHistory { expected, found }));
            }
        }
        self.is_unsure = false;
        self.is_met = true;
        Ok(None)
    }

    /// Charges the uploads that the coordinator has of this agent and the home does not know. Fails
    /// if the home was set back (INV-28).
    fn settle(&mut self, account: &Account) -> Result<(), RunError> {
        let (by, now_ms) = (&self.membership.coordinator, self.clock.now_ms());
        let settled = settle(&self.home, by, &self.keys[0].public(), account, now_ms)?;
        let settled = settled.map_err(|error| RunError::Link(error.into()))?;
        for new in &settled.taken_over {
            self.observer.notice(&Notice::TakenOver(new));
        }
        let study = &self.membership.study;
        if let Some(found) = settled.forgotten.iter().find(|found| found.study == *study)
            && !self.said_set_back
        {
            self.said_set_back = true;
            let notice = Notice::CoordinatorSetBack(study, found.coordinator, found.home);
            self.observer.notice(&notice);
        }
        match settled.behind.into_iter().find(|behind| behind.study == *study) {
            Some(Behind { study, home, coordinator }) => {
                Err(RunError::SetBack { study, home, coordinator })
            }
            None => Ok(()),
        }
    }

    /// Notes the study's state and how long its round has lasted, as reported by the coordinator.
    fn heard(&mut self, round: u64, state: StudyState, elapsed_ms: Option<u64>) {
        let now_ms = self.clock.elapsed_ms();
        if self.pace.heard(round, state, elapsed_ms, now_ms) {
            self.n_attempts = 0;
        }
    }

    fn hear_key(&mut self, key: Option<RoundKey>) {
        if let Some(key) = key {
            self.follower.hear_key(key);
        }
    }

    pub(crate) fn upload_bytes(&self, update: &AgentUpdate) -> Result<Vec<u8>, RunError> {
        let helper = self.follower.round_key(update.round);
        self.intake.bytes((&self.membership, self.map), update, helper)
    }

    /// Stores an upload before its first byte leaves, with its charge if there is one (INV-13).
    pub(crate) fn keep(&mut self, round: u64, bytes: &[u8]) -> Result<UploadState, RunError> {
        let made = NewUpload { round, bytes, n_told: self.n_told, now_ms: self.clock.now_ms() };
        let Some(budget) = &self.budget else {
            let state = UploadState::Pending;
            self.log().make(&made, state)?;
            return Ok(state);
        };
        pass("agent: an upload is about to be charged");
        match budget.charge(&self.home.database, &self.membership, &made)?? {
            Charged::Made => {
                pass("agent: an upload is charged");
                Ok(UploadState::Pending)
            }
            Charged::Withheld(reached) => {
                if !self.reported_budget {
                    self.reported_budget = true;
                    self.observer.notice(&Notice::BudgetReached(&reached));
                }
                Ok(UploadState::Withheld)
            }
        }
    }

    pub(crate) fn send(&mut self, round: u64, bytes: &[u8]) -> Result<Sent, RunError> {
        let to = Place { study: &self.membership.study, round, slot: self.membership.slot };
        let sent = self.link.upload(self.caller()?, to, bytes);
        match sent {
            Ok(()) => {
                self.answered()?;
                Ok(Sent::Acknowledged)
            }
            Err(LinkError::Refused { problem, .. }) if is_missed(problem.code) => {
                self.answered()?;
                Ok(Sent::Missed(problem))
            }
            Err(error) => match error.code().and_then(standstill) {
                Some(state) => Ok(Sent::Stands(state)),
                None => Ok(Sent::Undecided(self.failed("an upload", error)?)),
            },
        }
    }

    /// Waits until a study leaves this state: a poll ends at that moment, or immediately if the
    /// state has already changed. A handout in the answer is requested again when it is due.
    fn wait_for_the_study(&mut self, state: StudyState) -> Result<Step, RunError> {
        if self.reported_state != Some(state) {
            self.reported_state = Some(state);
            self.observer.notice(&Notice::StudyWaits(state));
        }
        let poll = Poll {
            after: self.follower.round(),
            entries: self.follower.head().seq,
            helper: self.follower.helper_seq(),
            wait_s: if self.pace.is_crowd() { 0 } else { POLL_S },
            delivered: None,
            state: Some(state),
            bytes_max: self.follower.bytes_max(),
        };
        let asked_ms = self.clock.now_ms();
        let polled = self.link.handouts(self.caller()?, &self.membership.study, poll);
        match polled {
            // The round began before the study was paused. It is taken once this upload is decided.
            Ok(Polled::Handout { .. }) => {
                Ok(Step::Waits(self.backoff.next(self.clock).min(MOMENT)))
            }
            Ok(Polled::Nothing(progress)) => {
                self.answered()?;
                self.heard(progress.round, progress.state, progress.elapsed_ms);
                self.hear_key(progress.round_key);
                match progress.state {
                    StudyState::Running => {
                        let took = self.clock.now_ms().saturating_sub(asked_ms);
                        Ok(Step::Waits(POLL_PAUSE.saturating_sub(Duration::from_millis(took))))
                    }
                    _ => self.wait(progress, asked_ms),
                }
            }
            Err(error) => self.failed("a poll for the study's start", error),
        }
    }

    /// Sends an acknowledged upload again, byte for byte: the coordinator lost it before its round
    /// was over.
    pub(crate) fn send_again(&mut self, round: u64) -> Result<Step, RunError> {
        let made = self.log().upload(round)?;
        let is_here =
            |made: &MadeUpload| made.state == UploadState::Acknowledged && !made.bytes.is_empty();
        let Some(made) = made.filter(is_here) else {
            self.resend = None; // there is no such upload to send
            return Ok(Step::Waits(POLL_PAUSE));
        };
        if let Some(step) = self.look_at_history()? {
            return Ok(step);
        }
        // Pause between resends, however often the coordinator asks.
        match self.send(round, &made.bytes)? {
            Sent::Acknowledged => {
                self.resend = None;
                self.observer.notice(&Notice::UploadResent(round));
                Ok(Step::Waits(POLL_PAUSE))
            }
            Sent::Missed(why) => {
                self.resend = None;
                self.observer.notice(&Notice::UploadMissed(round, &why));
                Ok(Step::Waits(POLL_PAUSE))
            }
            undecided @ (Sent::Stands(_) | Sent::Undecided(_)) => self.step_after(undecided),
        }
    }

    /// Begins the next round: the logged one after the last, otherwise the one that the coordinator
    /// hands out.
    pub(crate) fn next_round(&mut self) -> Result<Step, RunError> {
        let last = self.follower.round();
        if let Some(taken) = self.log().handout_after(last)? {
            return self.begin_again(&taken);
        }
        if !self.is_met
            && let Some(step) = self.look_at_history()?
        {
            return Ok(step);
        }
        if let Some(step) = self.backoff() {
            return Ok(step);
        }
        let elapsed_ms = self.clock.elapsed_ms();
        let wait_s = match self.pace.asks_again(self.follower.round(), self.asked_ms, elapsed_ms) {
            Some(at) if at > elapsed_ms => {
                let left = Duration::from_millis(at - elapsed_ms);
                return Ok(Step::Waits(left.min(POLL_PAUSE)));
            }
            Some(_) => 0,
            None => POLL_S,
        };
        self.asked_ms = Some(elapsed_ms);
        let asked_ms = self.clock.now_ms();
        match self.poll(wait_s)? {
            Ok(Polled::Handout { bytes, elapsed_ms }) => {
                self.answered()?;
                self.take(bytes, elapsed_ms)
            }
            Ok(Polled::Nothing(progress)) => {
                self.answered()?;
                self.wait(progress, asked_ms)
            }
            Err(error) => self.failed("a poll for the next round", error),
        }
    }

    /// Polls for the next round. The coordinator may take `wait_s` seconds to answer.
    pub(crate) fn poll(&self, wait_s: u64) -> Result<Result<Polled, LinkError>, RunError> {
        let poll = Poll {
            after: self.follower.round(),
            entries: self.follower.head().seq,
            helper: self.follower.helper_seq(),
            wait_s,
            delivered: self.delivered,
            state: None,
            bytes_max: self.follower.bytes_max(),
        };
        Ok(self.link.handouts(self.caller()?, &self.membership.study, poll))
    }

    fn begin_again(&mut self, taken: &TakenHandout) -> Result<Step, RunError> {
        if taken.n_told != self.n_told {
            return Err(RunError::LogOrder { logged: taken.n_told, found: self.n_told });
        }
        let verified = self.read_logged(taken)?;
        self.begin_round(verified)
    }

    /// Reads a handout of the log, and advances the follower.
    pub(crate) fn read_logged(
        &mut self,
        taken: &TakenHandout,
    ) -> Result<VerifiedHandout, RunError> {
        let round = self.follower.round().unwrap_or(0);
        let verified = self.follower.read(&taken.bytes);
        let verified = verified.map_err(|source| RunError::Log { round, source })?;
        self.follower.advance(&verified);
        Ok(verified)
    }

    fn take(&mut self, bytes: Vec<u8>, elapsed_ms: Option<u64>) -> Result<Step, RunError> {
        let verified = self.verify_and_log(bytes, elapsed_ms, self.n_told)?;
        self.quiet_until = match self.pace.upload_at(verified.round) {
            Instant::At(at) => Some(at),
            Instant::Free | Instant::Unknown | Instant::Over => None,
        };
        self.begin_round(verified)
    }

    /// Verifies a handout and logs it; the machine gets it once `n_told` trials have been told.
    pub(crate) fn verify_and_log(
        &mut self,
        bytes: Vec<u8>,
        elapsed_ms: Option<u64>,
        n_told: u64,
    ) -> Result<VerifiedHandout, RunError> {
        let verified = match self.follower.read(&bytes) {
            Ok(verified) => verified,
            Err(misconduct) => {
                self.keep_evidence(&bytes)?;
                return Err(self.accuse(misconduct));
            }
        };
        let taken = TakenHandout { n_told, bytes };
        let (round, collects) = (verified.round, verified.collects);
        pass("agent: a handout has come");
        self.log().take(round, &taken, &verified.head, self.clock.now_ms())?;
        pass("agent: a handout is stored");
        self.follower.advance(&verified);
        let now_ms = self.clock.elapsed_ms();
        self.pace.began(round, elapsed_ms.unwrap_or(0), now_ms);
        self.n_attempts = 0;
        self.reported_state = None;
        self.observer.notice(&Notice::RoundBegan(round, collects));
        Ok(verified)
    }

    /// Stores a refused handout as evidence: the coordinator's signature shows its author.
    fn keep_evidence(&self, bytes: &[u8]) -> Result<(), RunError> {
        evidence::keep(self.home.folder(), bytes, self.clock.now_ms()).map_err(RunError::Home)
    }

    /// Records the coordinator's misconduct. Nothing is sent to it any more, so no upload is kept
    /// for sending (INV-26).
    fn accuse(&mut self, misconduct: Misconduct) -> RunError {
        // If that fails, the misconduct is still the error to report.
        let _ = self.log().forget_all();
        self.observer.notice(&Notice::CoordinatorRefused(&misconduct));
        self.accused = Some(misconduct.clone());
        misconduct.into()
    }

    /// Returns the step after an answer without news.
    fn wait(&mut self, progress: Progress, asked_ms: u64) -> Result<Step, RunError> {
        if self.notes(progress)? {
            return Ok(Step::Went);
        }
        if progress.state == StudyState::Finished {
            return self.finish(Ended::StudyOver);
        }
        if self.pace.is_crowd() && progress.state != StudyState::Running {
            return Ok(Step::Waits(Duration::from_millis(self.pace.crowds_pause())));
        }
        let took = Duration::from_millis(self.clock.now_ms().saturating_sub(asked_ms));
        Ok(Step::Waits(POLL_PAUSE.saturating_sub(took)))
    }

    /// Notes the progress of a study. Returns true if an upload must be sent again.
    pub(crate) fn notes(&mut self, progress: Progress) -> Result<bool, RunError> {
        // The coordinator may only ask for the upload that this agent reported as delivered.
        if progress.resend.is_some() && progress.resend == self.delivered {
            self.resend = progress.resend;
            self.is_unsure = true;
            return Ok(true);
        }
        self.heard(progress.round, progress.state, progress.elapsed_ms);
        self.hear_key(progress.round_key);
        self.check_forward(progress.round)?;
        if progress.state == StudyState::Finished {
            return Ok(false);
        }
        if progress.state == StudyState::Running {
            self.reported_state = None;
        } else if self.reported_state != Some(progress.state) {
            self.reported_state = Some(progress.state);
            self.observer.notice(&Notice::StudyWaits(progress.state));
        }
        let now_ms = self.clock.now_ms();
        if now_ms.abs_diff(self.membership.contact_at_ms) > CONTACT_MS {
            self.membership.contact_at_ms = now_ms;
            self.home.database.write(|tx| self.membership.touch(tx, now_ms))?;
        }
        Ok(false)
    }

    /// Detects a coordinator that was set back: it plays an earlier round than it handed out.
    ///
    /// A coordinator that only lags behind its own store, as a second one may for a moment, is not
    /// accused: the report must persist for `BEHIND_MS`.
    fn check_forward(&mut self, found: u64) -> Result<(), RunError> {
        let last = self.follower.round().unwrap_or(0);
        if found >= last {
            self.behind_since_ms = None;
            return Ok(());
        }
        let now_ms = self.clock.now_ms();
        let since_ms = *self.behind_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) < BEHIND_MS {
            return Ok(());
        }
        Err(self.accuse(Misconduct::RoundBack { last, found }))
    }

    /// Notes a successful answer: the coordinator knows the key in use.
    pub(crate) fn answered(&mut self) -> Result<(), RunError> {
        self.backoff.reset();
        self.n_keys_tried = 0;
        // The answer may belong to the first transmission of a request that was set aside.
        let answered = self.counter_aside.take().unwrap_or_else(|| self.counter.get());
        if !self.link.is_carried() {
            self.counter_answered = answered;
        }
        let key = self.keys[0].public();
        if key != self.membership.key {
            let now_ms = self.clock.now_ms();
            self.home.database.write(|tx| self.membership.known_by(tx, key, now_ms))?;
            self.membership.key = key;
        }
        Ok(())
    }

    /// Returns the time until the next attempt to send an upload, if an attempt has just failed and uploads have set
    /// instants.
    fn next_attempt(&mut self) -> Option<Duration> {
        let round = self.attempting.take()?;
        let now_ms = self.clock.elapsed_ms();
        let (n, instant) = self.pace.due(round, self.n_attempts.saturating_add(1), now_ms);
        match instant {
            Instant::At(at) => {
                self.n_attempts = n;
                Some(Duration::from_millis(at.saturating_sub(now_ms)))
            }
            Instant::Free | Instant::Unknown | Instant::Over => None,
        }
    }

    /// Returns the step after a request without a successful answer.
    pub(crate) fn failed(
        &mut self,
        what: &'static str,
        error: LinkError,
    ) -> Result<Step, RunError> {
        if matches!(error, LinkError::Stopped) {
            return Ok(Step::Ended(Ended::Interrupted));
        }
        if matches!(error, LinkError::SetAside) {
            self.free.was_set_aside = true;
            self.counter_aside.get_or_insert(self.counter.get());
            return Ok(Step::Went);
        }
        self.is_unsure = true;
        if error.code() == Some(ProblemCode::CounterBehind) {
            if let Ok(status) = self.link.status(&self.keys[0], &self.membership.study) {
                self.settle(&status.account)?;
            }
            // The home is not behind: a later request of its own overtook this one. It is sent
            // again with a new counter.
            let next = self.backoff.next(self.clock);
            self.observer.notice(&Notice::Retrying(&error.to_string(), next));
            return Ok(Step::Waits(next));
        }
        // While a key rotation is incomplete, the coordinator knows one key or the other.
        if error.code().is_some_and(is_of_the_key) && self.n_keys_tried + 1 < self.keys.len() {
            self.n_keys_tried += 1;
            self.keys.rotate_left(1);
            return Ok(Step::Went);
        }
        if error.may_pass() {
            let next = match self.next_attempt() {
                Some(next) => next,
                None => {
                    let next = self.backoff.next(self.clock).min(self.pace.longest_pause());
                    match error.code().is_some_and(is_of_the_moment) {
                        true => next.min(MOMENT),
                        false => next,
                    }
                }
            };
            let asked = error.retry_after().unwrap_or_default();
            let next = next.max(asked.min(RETRY_AFTER_MAX));
            self.observer.notice(&Notice::Retrying(&error.to_string(), next));
            return Ok(Step::Waits(next));
        }
        Err(match error {
            LinkError::Refused { problem, .. } => {
                RunError::Refused { what, code: problem.code, message: problem.message }
            }
            error => RunError::Link(error),
        })
    }
}

/// Returns true if a refusal means that the upload is no longer useful, and nobody did anything
/// wrong.
fn is_missed(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::Late | ProblemCode::NotCollected | ProblemCode::Finished)
}

/// Returns the state of a study that plays no rounds now, as a refusal shows it.
fn standstill(code: ProblemCode) -> Option<StudyState> {
    match code {
        ProblemCode::NotStarted => Some(StudyState::Waiting),
        ProblemCode::Paused => Some(StudyState::Paused),
        _ => None,
    }
}

/// Returns true if a refusal means that the coordinator answers, but the round is not open at the
/// moment.
fn is_of_the_moment(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::Early | ProblemCode::Paused | ProblemCode::NotStarted)
}

/// Returns true if another key of the same agent may get a different answer.
pub(crate) fn is_of_the_key(code: ProblemCode) -> bool {
    matches!(
        code,
        ProblemCode::UnknownAgent
            | ProblemCode::UnknownStudy
            | ProblemCode::NotYourSlot
            | ProblemCode::Revoked
    )
}
