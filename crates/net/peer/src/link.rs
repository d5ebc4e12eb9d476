//! The connection to one neighbour. It asks for the neighbour's identity, then sends all
//! unconfirmed reports, with retries.

use std::sync::Arc;
use std::time::Duration;

use fedbo_party::HomeError;
use fedbo_transport::{Backoff, HttpClient, LinkError, Signer, SystemClock};
use fedbo_wire::{Digest, PeerIdentity, ProblemCode, Receipt};

use crate::hub::Work;
use crate::shared::Shared;
use crate::{Notice, PeerError};

/// Initial and maximum bound of the backoff.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Maximum number of attempts to send the farewell, since the neighbour may have exited.
const N_FAREWELLS: u32 = 3;
/// Maximum size of an identity in bytes.
const IDENTITY_BYTES_MAX: u64 = 16 << 10;

/// The link to a neighbour at an address.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) url: String,
    pub(crate) client: HttpClient,
    /// Slot of the neighbour, or `None` until the neighbour has stated it.
    pub(crate) slot: Option<u32>,
    /// True until the first exchange after this process started, in which the neighbour is asked to
    /// repeat its own introduction.
    pub(crate) is_first: bool,
    /// True if the observer was told that nothing responds at this address, before the neighbour
    /// was known.
    pub(crate) said_away: bool,
}

/// Failure of a step.
enum StepError {
    /// Temporary: a retry may succeed.
    Passing(String),
    /// Permanent: the session ends.
    Fatal(PeerError),
    /// The session is ending.
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
    /// Serves the neighbour until the session ends.
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
                    // The session handles the failure after its current trial, but the observer is
                    // notified now.
                    self.shared.observer.notice(&Notice::Misconduct(&error.to_string()));
                    return self.shared.hub.fail(error);
                }
                Err(StepError::Stopped) => return,
            }
        }
    }

    /// Asks for the identity of the peer at this address, then for its receipt.
    fn introduce(&mut self) -> Result<(), StepError> {
        let mut challenge = Digest([0; 32]);
        getrandom::fill(&mut challenge.0)
            .map_err(|error| PeerError::NoRandomness(error.to_string()))?;
        let target = format!("/v1/peer?challenge={challenge}");
        // The request is not signed, since a signature requires the receiver's key.
        let answer = self.client.get(None, &target, Duration::ZERO, IDENTITY_BYTES_MAX);
        let identity: PeerIdentity = answer
            .and_then(|answer| answer.json())
            .map_err(|error| self.failed(error, "a request for its identity"))?;
        identity.verify(&challenge).map_err(|_| {
            self.unexpected(
                "the server at this address does not hold the key that it names".to_owned(),
            )
        })?;
        let slot = self.believe(&identity)?;
        let receipt = self.say(false)?;
        self.is_first = false;
        // If the neighbour's home was restored from an older copy, the missing reports are sent
        // again.
        self.shared.confirm(slot, receipt.received_from)?;
        self.shared.hub.change(slot, |link| link.is_introduced = true);
        Ok(())
    }

    /// Checks that the identity belongs to the expected neighbour. If the user has not configured
    /// the neighbour's key, the key is trusted on first use.
    fn believe(&mut self, identity: &PeerIdentity) -> Result<u32, StepError> {
        let member = &self.shared.member;
        let name = identity.name.as_str();
        if identity.federation != member.digest {
            return Err(self.fatal_at_setup(PeerError::OtherFile {
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
            let message = format!("{name:?} answers instead of {expected:?}; correct the address");
            return Err(self.unexpected(message));
        }
        if !member.neighbours.contains(&slot) || member.name_of(slot) != name {
            let message = format!(
                "{name:?} answers, but is not a neighbour of {:?} in the federation's graph; correct the address",
                member.name()
            );
            return Err(self.unexpected(message));
        }
        if self.slot.is_none() {
            let was_claimed =
                self.shared.hub.change(slot, |link| std::mem::replace(&mut link.is_claimed, true));
            if was_claimed {
                let message = format!("{name:?} answers, but already has another address");
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

    /// Exchanges receipts: sends the number of reports received from the neighbour, and optionally
    /// the farewell. Returns the neighbour's receipt.
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
            .map_err(|error| self.failed(error, "a request for its receipt"))?;
        self.verify(slot, &receipt)?;
        if farewell {
            shared.hub.change(slot, |link| link.is_done = true);
        }
        Ok(receipt)
    }

    /// Sends a report, which the neighbour confirms with a signed receipt.
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
                "it confirms {} reports after the report of round {round} was sent",
                receipt.received_from
            );
            return Err(StepError::Passing(why));
        }
        Ok(())
    }

    /// Returns the signer for requests to a neighbour, whose key must be known.
    fn signer(&self, slot: u32) -> Result<Signer<'_>, StepError> {
        let to = self.shared.hub.link(slot).key;
        let to = to.ok_or_else(|| StepError::Passing("its key is not known yet".to_owned()))?;
        let key = &self.shared.key;
        Ok(Signer { key, to, counter: 0 })
    }

    /// Checks a receipt's signature and plausibility.
    fn verify(&self, slot: u32, receipt: &Receipt) -> Result<(), StepError> {
        let shared = &self.shared;
        let name = shared.member.name_of(slot);
        let key = shared.hub.link(slot).key;
        let verified =
            key.map(|key| receipt.verify(&key, &shared.member.digest, shared.member.slot));
        if !matches!(verified, Some(Ok(()))) {
            let message = format!("a receipt arrived that {name:?} has not signed");
            return Err(self.unexpected(message));
        }
        let ours = shared.hub.n_outgoing();
        if receipt.received_from > ours {
            return Err(StepError::Fatal(PeerError::RolledBack {
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
        self.fatal_at_setup(PeerError::Unexpected { url: self.url.clone(), message })
    }

    /// Makes an error fatal only if no report has been exchanged yet, since the error is then a
    /// setup mistake that must be fixed.
    ///
    /// A later error means that the neighbour has changed. It may change back, and one neighbour
    /// must not end the session with all the others.
    fn fatal_at_setup(&self, error: PeerError) -> StepError {
        let has_worked = self.slot.is_some_and(|slot| {
            let has_come = self.shared.memory.received_from(slot) > 0;
            has_come || self.shared.hub.link(slot).confirmed > 0
        });
        match has_worked {
            true => StepError::Passing(error.to_string()),
            false => StepError::Fatal(error),
        }
    }

    /// Classifies a failed request as temporary, permanent or stopped.
    fn failed(&self, error: LinkError, what: &str) -> StepError {
        match error {
            LinkError::Stopped => StepError::Stopped,
            LinkError::Unreachable { reason } => StepError::Passing(reason),
            LinkError::Refused { problem, .. } if problem.code.is_temporary() => {
                StepError::Passing(problem.message)
            }
            LinkError::Refused { problem, .. } => {
                let neighbour = match self.slot {
                    Some(slot) => self.shared.member.name_of(slot),
                    None => self.url.as_str(),
                };
                let message = match problem.code {
                    ProblemCode::NotFound | ProblemCode::Method => {
                        format!("{}; the server at {} is not a peer", problem.message, self.url)
                    }
                    _ => problem.message,
                };
                self.fatal_at_setup(PeerError::Refused {
                    neighbour: neighbour.to_owned(),
                    what: what.to_owned(),
                    message,
                })
            }
            LinkError::Unusable { reason } => self.unexpected(format!(
                "{reason}; the server at this address is not a peer of this version; correct the address"
            )),
            error => {
                StepError::Fatal(PeerError::Link { neighbour: self.url.clone(), source: error })
            }
        }
    }
}
