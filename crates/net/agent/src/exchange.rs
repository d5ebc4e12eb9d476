//! Executes the decisions of a dialogue: performs its requests, and stores the results.

use fedbo_failpoints::pass;
use fedbo_protocol::AgentUpdate;
use fedbo_transport::LinkError;
use fedbo_wire::{Account, Problem, ProblemCode, StudyStatus};

use crate::account::{Behind, settle};
use crate::budget::Charged;
use crate::dialogue::{Dialogue, Effect, Event, Made, Next, Now, Verdict};
use crate::evidence;
use crate::follower::VerifiedHandout;
use crate::link::{Place, Poll, Polled};
use crate::log::{NewUpload, TakenHandout, UploadState, forget_used};
use crate::session::{Core, Ended, Step};
use crate::{Misconduct, Notice, RunError};

/// Minimum interval, in milliseconds, at which responses without news are stored as the last
/// contact.
const CONTACT_MS: u64 = 60_000;

/// Inputs for a turn of a dialogue.
pub(crate) struct Supply<'u> {
    /// Number of finished trials after which the machine acts on a new handout.
    pub(crate) n_told: u64,
    /// The vector to send, or `None` if the machine should make one.
    pub(crate) update: Option<&'u AgentUpdate>,
    /// The bytes to send. If empty, the logged bytes are sent.
    pub(crate) bytes: Vec<u8>,
}

impl Supply<'_> {
    pub(crate) fn none(n_told: u64) -> Self {
        Self { n_told, update: None, bytes: Vec::new() }
    }
}

impl Core<'_> {
    /// Runs a turn of a dialogue. Returns `None` once the turn's task is done.
    pub(crate) fn turn<D: Dialogue>(
        &mut self,
        dialogue: &mut D,
        task: D::Task,
        mut supply: Supply<'_>,
    ) -> Result<Option<Step>, RunError> {
        let mut event = Event::Turn(task);
        loop {
            let now = Now { ms: self.clock.elapsed_ms(), chance: self.clock.chance() };
            let next = dialogue.handle(&mut self.contact, event, now);
            for effect in self.contact.take_effects() {
                self.perform(effect, &supply)?;
            }
            event = match next? {
                Next::AskState => Event::State(self.ask_state()?),
                Next::Poll(poll) => Event::Polled(self.poll(poll)?),
                Next::Make(round) => Event::Made(self.make(round, &mut supply)?),
                Next::Send(round) => Event::Sent(self.send(round, &supply)?),
                Next::Done => return Ok(None),
                Next::Rest(step) => return Ok(Some(step)),
                Next::StudyOver => return self.finish(Ended::StudyOver).map(Some),
            };
        }
    }

    fn perform(&mut self, effect: Effect, supply: &Supply<'_>) -> Result<(), RunError> {
        match effect {
            Effect::Answered => self.note_answer()?,
            Effect::Contact => self.note_contact()?,
            Effect::ChangeKey => self.requests.change_key(),
            Effect::Take { bytes, verified } => self.take(bytes, *verified, supply.n_told)?,
            Effect::Decide(round, verdict) => self.end_upload(round, &verdict)?,
            Effect::Miss { round, is_made: true, why } => self.miss(round, why)?,
            Effect::Miss { round, is_made: false, why } => {
                let bytes = match supply.update {
                    Some(update) if self.contact.follower.is_answered(round) => {
                        self.upload_bytes(update)?
                    }
                    _ => Vec::new(), // the round is over
                };
                self.log().make(&self.new_upload(round, &bytes), UploadState::Missed)?;
                self.report_miss(round, why);
            }
            Effect::Forget => forget_used(&self.home.database)?,
            Effect::Resent(round, Verdict::Acknowledged) => {
                self.observer.notice(&Notice::UploadResent(round));
            }
            Effect::Resent(round, Verdict::Missed(why)) => {
                self.observer.notice(&Notice::UploadMissed(round, &why));
            }
            Effect::Retry(why, next) => self.observer.notice(&Notice::Retrying(&why, next)),
            Effect::StudyWaits(state) => self.observer.notice(&Notice::StudyWaits(state)),
            Effect::HelperAwaited(round) => self.observer.notice(&Notice::HelperAwaited(round)),
            Effect::Accuse { misconduct, evidence } => self.accuse(&misconduct, evidence)?,
        }
        Ok(())
    }

    /// Requests the study's state. Compares the clocks at the first contact, and settles the
    /// account each time.
    fn ask_state(&mut self) -> Result<Result<StudyStatus, LinkError>, RunError> {
        let answer = self.link.status(self.requests.key(), &self.membership.study);
        if let Ok(status) = &answer {
            self.contact.check_clock(self.clock.now_ms(), status.time_ms)?;
            self.settle(&status.account)?;
        }
        self.checked(answer)
    }

    fn poll(&mut self, poll: Poll) -> Result<Result<Polled, LinkError>, RunError> {
        let caller = self.requests.caller(&self.home, &self.membership)?;
        let answer = self.link.handouts(caller, &self.membership.study, poll);
        self.checked(answer)
    }

    fn send(&mut self, round: u64, supply: &Supply<'_>) -> Result<Result<(), LinkError>, RunError> {
        let made = match supply.bytes.is_empty() {
            true => self.log().upload(round)?,
            false => None,
        };
        let bytes = made.as_ref().map_or(&supply.bytes, |made| &made.bytes);
        let to = Place { study: &self.membership.study, round, slot: self.membership.slot };
        let caller = self.requests.caller(&self.home, &self.membership)?;
        let answer = self.link.upload(caller, to, bytes);
        self.checked(answer)
    }

    /// Records a request that was set aside. After a refused counter, checks that the home is not
    /// behind.
    fn checked<T>(
        &mut self,
        answer: Result<T, LinkError>,
    ) -> Result<Result<T, LinkError>, RunError> {
        match &answer {
            Err(LinkError::SetAside) => self.requests.set_aside(),
            Err(error) if error.code() == Some(ProblemCode::CounterBehind) => {
                let status = self.link.status(self.requests.key(), &self.membership.study);
                if let Ok(status) = status {
                    self.settle(&status.account)?;
                }
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Charges the uploads that are in the coordinator's account but missing from the home. Fails
    /// if the home was rolled back (INV-28).
    fn settle(&mut self, account: &Account) -> Result<(), RunError> {
        let (by, now_ms) = (&self.membership.coordinator, self.clock.now_ms());
        let key = self.requests.key().public();
        let settled = settle(&self.home, by, &key, account, now_ms)?;
        let settled = settled.map_err(|error| RunError::Link(error.into()))?;
        for new in &settled.taken_over {
            self.observer.notice(&Notice::TakenOver(new));
        }
        let study = &self.membership.study;
        if let Some(found) = settled.forgotten.iter().find(|found| found.study == *study)
            && !self.reported_rolled_back
        {
            self.reported_rolled_back = true;
            let notice = Notice::CoordinatorSetBack(study, found.coordinator, found.home);
            self.observer.notice(&notice);
        }
        match settled.behind.into_iter().find(|behind| behind.study == *study) {
            Some(Behind { study, home, coordinator }) => {
                Err(RunError::RolledBack { study, home, coordinator })
            }
            None => Ok(()),
        }
    }

    fn note_answer(&mut self) -> Result<(), RunError> {
        self.requests.answered(self.link.is_carried());
        let key = self.requests.key().public();
        if key != self.membership.key {
            let now_ms = self.clock.now_ms();
            self.home.database.write(|tx| self.membership.known_by(tx, key, now_ms))?;
            self.membership.key = key;
        }
        Ok(())
    }

    fn note_contact(&mut self) -> Result<(), RunError> {
        let now_ms = self.clock.now_ms();
        if now_ms.abs_diff(self.membership.contact_at_ms) > CONTACT_MS {
            self.membership.contact_at_ms = now_ms;
            self.home.database.write(|tx| self.membership.touch(tx, now_ms))?;
        }
        Ok(())
    }

    /// Logs a verified handout and passes it to the machine, which acts on it after `n_told`
    /// finished trials.
    fn take(
        &mut self,
        bytes: Vec<u8>,
        verified: VerifiedHandout,
        n_told: u64,
    ) -> Result<(), RunError> {
        let (round, collects) = (verified.round, verified.collects);
        pass("agent: a handout has come");
        let taken = TakenHandout { n_told, bytes };
        self.log().take(round, &taken, &verified.head, self.clock.now_ms())?;
        pass("agent: a handout is stored");
        self.observer.notice(&Notice::RoundBegan(round, collects));
        self.begin_round(verified)
    }

    /// Stores a refused handout as evidence, because the coordinator's signature proves its origin.
    /// Nothing more is sent, so all stored vectors of the study are erased (INV-26).
    fn accuse(
        &mut self,
        misconduct: &Misconduct,
        evidence: Option<Vec<u8>>,
    ) -> Result<(), RunError> {
        if let Some(bytes) = evidence {
            evidence::keep(self.home.folder(), &bytes, self.clock.now_ms())?;
        }
        // Even if the erasure fails, report the misconduct.
        let _ = self.log().forget_all();
        self.observer.notice(&Notice::CoordinatorRefused(misconduct));
        Ok(())
    }

    /// Makes a round's upload and stores it with its charge, unless it is already stored.
    fn make(&mut self, round: u64, supply: &mut Supply<'_>) -> Result<Made, RunError> {
        let bytes = match supply.update {
            Some(update) => self.upload_bytes(update)?,
            None => {
                if let Some(made) = self.log().upload(round)? {
                    supply.bytes = made.bytes;
                    return Ok(if supply.bytes.is_empty() { Made::Erased } else { Made::Kept });
                }
                let Some(update) = self.machine.upload(round)? else {
                    return Ok(Made::Withheld);
                };
                self.upload_bytes(&update)?
            }
        };
        let made = self.keep(round, &bytes)?;
        supply.bytes = bytes;
        Ok(made)
    }

    /// Stores an upload before its first byte is sent, together with its charge if there is one
    /// (INV-13).
    fn keep(&mut self, round: u64, bytes: &[u8]) -> Result<Made, RunError> {
        let made = self.new_upload(round, bytes);
        let Some(budget) = &self.budget else {
            self.log().make(&made, UploadState::Pending)?;
            return Ok(Made::Kept);
        };
        pass("agent: an upload is about to be charged");
        match budget.charge(&self.home.database, &self.membership, &made)?? {
            Charged::Made => {
                pass("agent: an upload is charged");
                Ok(Made::Kept)
            }
            Charged::Withheld(reached) => {
                if !self.reported_budget {
                    self.reported_budget = true;
                    self.observer.notice(&Notice::BudgetReached(&reached));
                }
                Ok(Made::Withheld)
            }
        }
    }

    fn new_upload<'b>(&self, round: u64, bytes: &'b [u8]) -> NewUpload<'b> {
        NewUpload { round, bytes, n_told: self.n_told, now_ms: self.clock.now_ms() }
    }

    pub(crate) fn upload_bytes(&self, update: &AgentUpdate) -> Result<Vec<u8>, RunError> {
        let helper = self.contact.follower.round_key(update.round);
        self.intake.bytes((&self.membership, self.map), update, helper)
    }

    fn end_upload(&self, round: u64, verdict: &Verdict) -> Result<(), RunError> {
        match verdict {
            Verdict::Acknowledged => {
                pass("agent: an upload is answered");
                self.log().end(round, UploadState::Acknowledged, self.clock.now_ms())?;
                pass("agent: an upload is noted as answered");
                self.observer.notice(&Notice::UploadSent(round));
            }
            Verdict::Missed(why) => {
                self.log().end(round, UploadState::Missed, self.clock.now_ms())?;
                self.observer.notice(&Notice::UploadMissed(round, why));
            }
        }
        Ok(())
    }

    /// Gives up on a stored upload. Nothing more is sent or charged for its round.
    pub(crate) fn miss(&self, round: u64, why: &str) -> Result<(), RunError> {
        self.log().end(round, UploadState::Missed, self.clock.now_ms())?;
        self.report_miss(round, why);
        Ok(())
    }

    fn report_miss(&self, round: u64, why: &str) {
        let why = Problem { code: ProblemCode::Late, message: why.to_owned() };
        self.observer.notice(&Notice::UploadMissed(round, &why));
    }

    /// Returns true if the log still contains the bytes of a round's acknowledged upload.
    pub(crate) fn keeps(&self, round: u64) -> Result<bool, RunError> {
        let made = self.log().upload(round)?;
        Ok(made
            .is_some_and(|made| made.state == UploadState::Acknowledged && !made.bytes.is_empty()))
    }
}
