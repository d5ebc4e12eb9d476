//! The way to one neighbour: it is asked who it is, then sent what it has not confirmed, for as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use fedbo_party::HomeError;
use fedbo_transport::{Backoff, HttpClient, LinkError, Signer, SystemClock};
use fedbo_wire::{Digest, PeerIdentity, ProblemCode, Receipt};

use crate::hub::Work;
use crate::shared::Shared;
use crate::{Notice, PeerError};

/// Waits after the first failure, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Attempts to tell a neighbour that may have ended that nothing more is needed of it.
const N_FAREWELLS: u32 = 3;
/// Bytes of an identity at most.
const IDENTITY_BYTES_MAX: u64 = 16 << 10;

/// A neighbour's address.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) url: String,
    pub(crate) client: HttpClient,
    /// The slot of the neighbour there; none until it has said so.
    pub(crate) slot: Option<u32>,
    /// This process has just begun: the neighbour is to say what it has, and to ask the same.
    pub(crate) is_first: bool,
    /// It was said that nobody answers at an address whose neighbour is not known yet.
    pub(crate) said_away: bool,
}

/// The failure of a step.
enum StepError {
    /// It may go well later.
    Passing(String),
    /// It will not.
    Fatal(PeerError),
    /// The process ends.
    Stopped,
}

impl From<PeerError> for StepError {
    fn from(error: PeerError) -> Self {
        Self::Fatal(error)
    }
}

impl From<HomeError> for StepError {
    fn from(error: HomeError) -> Self {
        Self::Fatal(PeerError::Memory(error))
    }
}

impl Link {
    /// Serves the neighbour until the process ends.
    pub(crate) fn run(mut self) {
        let (first, longest) = BACKOFF;
        let mut backoff = Backoff::between(first, longest);
        loop {
            let work = match self.slot {
                Some(slot) => self.shared.hub.work(slot),
                None => Work::Introduce,
            };
            let done = match work {
                Work::Introduce => self.introduce(),
                Work::Push(round) => self.push(round),
                Work::Farewell => self.say(true).map(|_| ()),
                Work::Over => return,
            };
            match done {
                Ok(()) => {
                    backoff.reset();
                    self.reached();
                }
                Err(StepError::Passing(why)) => {
                    self.missed(&why);
                    if !self.shared.hub.pause(self.slot, backoff.next(&SystemClock)) {
                        return;
                    }
                }
                Err(StepError::Fatal(error)) => {
                    // The session hears of it when its trial has ended; who watches, now.
                    self.shared.observer.notice(&Notice::Misconduct(&error.to_string()));
                    return self.shared.hub.fail(error);
                }
                Err(StepError::Stopped) => return,
            }
        }
    }

    /// Asks who answers at the address, and what of ours it has.
    fn introduce(&mut self) -> Result<(), StepError> {
        let mut challenge = Digest([0; 32]);
        getrandom::fill(&mut challenge.0)
            .map_err(|error| PeerError::NoRandomness(error.to_string()))?;
        let target = format!("/v1/peer?challenge={challenge}");
        // Signed by nobody: for whom it would be is what is asked.
        let answer = self.client.get(None, &target, Duration::ZERO, IDENTITY_BYTES_MAX);
        let identity: PeerIdentity = answer
            .and_then(|answer| answer.json())
            .map_err(|error| self.failed(error, "to say who it is"))?;
        identity.verify(&challenge).map_err(|_| {
            self.unexpected("whoever answers does not hold the key that it names".to_owned())
        })?;
        let slot = self.believe(&identity)?;
        let receipt = self.say(false)?;
        self.is_first = false;
        // The neighbour's home may have been set back: then it gets again what it lacks.
        self.shared.confirm(slot, receipt.received_from)?;
        self.shared.hub.change(slot, |link| link.is_introduced = true);
        Ok(())
    }

    /// Checks that the expected neighbour answers. A key that nobody has named is trusted on first use.
    fn believe(&mut self, identity: &PeerIdentity) -> Result<u32, StepError> {
        let member = &self.shared.member;
        let name = identity.name.as_str();
        if identity.federation != member.digest {
            return Err(self.unless_it_worked(PeerError::OtherFile {
                neighbour: name.to_owned(),
                url: self.url.clone(),
                path: self.shared.file.clone(),
            }));
        }
        let slot = identity.slot;
        if let Some(expected) = self.slot
            && slot != expected
        {
            let expected = member.name_of(expected);
            let message = format!("{name:?} answers, expected is {expected:?}: mend the address");
            return Err(self.unexpected(message));
        }
        if !member.neighbours.contains(&slot) || member.name_of(slot) != name {
            let message = format!(
                "{name:?} answers, which is no neighbour of {:?} in the federation's graph: mend the address",
                member.name()
            );
            return Err(self.unexpected(message));
        }
        if self.slot.is_none() {
            let was_claimed =
                self.shared.hub.change(slot, |link| std::mem::replace(&mut link.is_claimed, true));
            if was_claimed {
                let message = format!("{name:?} answers, which has another address already");
                return Err(self.unexpected(message));
            }
            self.shared.memory.meet(slot, name, &self.url, None)?;
            self.slot = Some(slot);
        }
        match self.shared.hub.link(slot).key {
            Some(known) if known == identity.key => {}
            Some(known) => {
                return Err(StepError::Fatal(PeerError::Impostor {
                    neighbour: name.to_owned(),
                    url: self.url.clone(),
                    known,
                    found: identity.key,
                }));
            }
            None => {
                self.shared.memory.pin(slot, identity.key)?;
                self.shared.hub.change(slot, |link| link.key = Some(identity.key));
                self.shared.observer.notice(&Notice::Trusts(name, &identity.key));
            }
        }
        Ok(slot)
    }

    /// Says what of the neighbour's has come, and whether anything more is needed; learns the same.
    fn say(&self, farewell: bool) -> Result<Receipt, StepError> {
        let shared = &self.shared;
        let slot = self.slot_or_stopped()?;
        let received = shared.memory.received_from(slot);
        let mut target = format!("/v1/peers/{}/reports?received={received}", shared.member.slot);
        if self.is_first {
            target += "&hello=true";
        }
        if farewell {
            target += "&farewell=true";
        }
        let answer =
            self.client.get(Some(self.signer(slot)?), &target, Duration::ZERO, IDENTITY_BYTES_MAX);
        let receipt = answer
            .and_then(|answer| answer.json())
            .map_err(|error| self.failed(error, "to say what it has"))?;
        self.verify(slot, &receipt)?;
        if farewell {
            shared.hub.change(slot, |link| link.is_done = true);
        }
        Ok(receipt)
    }

    /// Sends a report. It counts as confirmed once the neighbour has signed so.
    fn push(&self, round: u64) -> Result<(), StepError> {
        let shared = &self.shared;
        let slot = self.slot_or_stopped()?;
        let Some(bytes) = shared.memory.outgoing(round)? else {
            let what = format!("the report of round {round} is missing");
            return Err(StepError::Fatal(PeerError::Log(what)));
        };
        let target = format!("/v1/peers/{}/reports/{round}", shared.member.slot);
        let answer = self.client.put(self.signer(slot)?, &target, &bytes);
        let receipt: Receipt = answer
            .and_then(|answer| answer.json())
            .map_err(|error| self.failed(error, &format!("the report of round {round}")))?;
        self.verify(slot, &receipt)?;
        shared.confirm(slot, receipt.received_from)?;
        if receipt.received_from <= round {
            let why = format!(
                "it says to have {} reports after that of round {round} was sent",
                receipt.received_from
            );
            return Err(StepError::Passing(why));
        }
        Ok(())
    }

    /// Signs for a neighbour that has said who it is.
    fn signer(&self, slot: u32) -> Result<Signer<'_>, StepError> {
        let to = self.shared.hub.link(slot).key;
        let to = to.ok_or_else(|| StepError::Passing("its key is not known yet".to_owned()))?;
        let key = &self.shared.key;
        Ok(Signer { key, to })
    }

    /// Checks that the neighbour gave this receipt, and that it can be true.
    fn verify(&self, slot: u32, receipt: &Receipt) -> Result<(), StepError> {
        let shared = &self.shared;
        let name = shared.member.name_of(slot);
        let key = shared.hub.link(slot).key;
        let verified =
            key.map(|key| receipt.verify(&key, &shared.member.digest, shared.member.slot));
        if !matches!(verified, Some(Ok(()))) {
            let message = format!("a receipt came that {name:?} has not signed");
            return Err(self.unexpected(message));
        }
        let ours = shared.hub.n_outgoing();
        if receipt.received_from > ours {
            return Err(StepError::Fatal(PeerError::SetBack {
                neighbour: name.to_owned(),
                theirs: receipt.received_from,
                ours,
            }));
        }
        Ok(())
    }

    fn reached(&self) {
        let Some(slot) = self.slot else { return };
        let was_away =
            self.shared.hub.change(slot, |link| std::mem::replace(&mut link.is_away, false));
        if was_away {
            let name = self.shared.member.name_of(slot);
            self.shared.observer.notice(&Notice::IsBack(name));
        }
    }

    fn missed(&mut self, why: &str) {
        let Some(slot) = self.slot else {
            if !std::mem::replace(&mut self.said_away, true) {
                self.shared.observer.notice(&Notice::Away(&self.url, why));
            }
            return;
        };
        let was_away = self.shared.hub.change(slot, |link| {
            if link.is_complete {
                link.n_farewells_failed += 1;
                link.is_done |= link.n_farewells_failed >= N_FAREWELLS;
            }
            std::mem::replace(&mut link.is_away, true) || link.is_complete
        });
        if !was_away {
            let name = self.shared.member.name_of(slot);
            self.shared.observer.notice(&Notice::Away(name, why));
        }
    }

    fn slot_or_stopped(&self) -> Result<u32, StepError> {
        self.slot.ok_or(StepError::Stopped)
    }

    fn unexpected(&self, message: String) -> StepError {
        self.unless_it_worked(PeerError::Unexpected { url: self.url.clone(), message })
    }

    /// A mistake that is found when neighbours first meet is to be mended before anything is tried. Where reports have passed before,
    /// something has changed at the neighbour, which may change back: one neighbour does not end the work with all others.
    fn unless_it_worked(&self, error: PeerError) -> StepError {
        let has_worked = self.slot.is_some_and(|slot| {
            let has_come = self.shared.memory.received_from(slot) > 0;
            has_come || self.shared.hub.link(slot).confirmed > 0
        });
        match has_worked {
            true => StepError::Passing(error.to_string()),
            false => StepError::Fatal(error),
        }
    }

    /// Classifies the failure of a request: it may pass, it is fatal, or the process ends.
    fn failed(&self, error: LinkError, what: &str) -> StepError {
        match error {
            LinkError::Stopped => StepError::Stopped,
            LinkError::Unreachable { reason } => StepError::Passing(reason),
            LinkError::Refused { problem, .. } if problem.code.may_pass() => {
                StepError::Passing(problem.message)
            }
            LinkError::Refused { problem, .. } => {
                let neighbour = match self.slot {
                    Some(slot) => self.shared.member.name_of(slot),
                    None => self.url.as_str(),
                };
                let message = match problem.code {
                    ProblemCode::NotFound | ProblemCode::Method => {
                        format!("{}; whoever answers at {} is no peer", problem.message, self.url)
                    }
                    _ => problem.message,
                };
                self.unless_it_worked(PeerError::Refused {
                    neighbour: neighbour.to_owned(),
                    what: what.to_owned(),
                    message,
                })
            }
            LinkError::Unusable { reason } => self.unexpected(format!(
                "{reason}; whoever answers is no peer of this version: mend the address"
            )),
            error => {
                StepError::Fatal(PeerError::Link { neighbour: self.url.clone(), source: error })
            }
        }
    }
}
