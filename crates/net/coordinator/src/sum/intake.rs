//! The vectors of a secure sum on their way in, and what is known of the helper.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fedbo_gp::MapHash;
use fedbo_privacy::mechanism::Server;
use fedbo_protocol::{MessageRejected, UpdateRejected};
use fedbo_secure_sum::{OutputShare, ReportRefused, SealingKey, VerificationKey, Verifying};
use fedbo_servers::{HelperChain, HelperMisconduct, SumStudy, sealing_key_of};
use fedbo_transport::LinkError;
use fedbo_wire::{
    CloseAnswer, Digest, HelperEntry, PassedReport, REPORTS_MAX, SealedUpload, SigningKey, Verdict,
    commitment,
};

use super::helper::{HelperFailed, HelperLink};

/// The reason why an upload is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotVerified {
    /// The machine of the round would reject it.
    #[error(transparent)]
    Rejected(#[from] UpdateRejected),
    /// Its sender's own fault: no honest agent makes such a report (INV-5).
    #[error("the upload is refused by both servers: {0}")]
    Report(#[from] ReportRefused),
    /// Another upload of the same slot is being verified.
    #[error("an upload of this slot is being verified; try again later")]
    Twice,
    /// The helper cannot say at present.
    #[error("the study's helper cannot be asked at present: {0}")]
    Helper(#[from] HelperFailed),
}

/// The intake of a study whose vectors two servers sum. Requests of agents verify and leave vectors here; the study's thread reads them.
pub(crate) struct SumIntake {
    study: SumStudy,
    map: MapHash,
    sealing: SealingKey,
    verification: VerificationKey,
    helper: HelperLink,
    state: Mutex<State>,
}

struct State {
    /// The round that is played, and whether it takes vectors.
    round: u64,
    is_open: bool,
    /// Slots that have been in as many releases as they may be.
    spent: BTreeSet<u32>,
    /// Slots of which an upload is being verified: never two of one slot, of which each server might keep another.
    verified_now: BTreeSet<u32>,
    vectors: BTreeMap<u32, Verified>,
    /// The helper's ledger, as far as it was shown.
    chain: HelperChain,
    entries: Vec<Arc<HelperEntry>>,
    /// The hashes to which the helper is bound, by round.
    commitments: BTreeMap<u64, Digest>,
}

/// The turn of one upload of a slot.
struct Turn<'a> {
    intake: &'a SumIntake,
    slot: u32,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.intake.state().verified_now.remove(&self.slot);
    }
}

/// A vector that both servers have verified.
pub(crate) struct Verified {
    pub(crate) vector: OutputShare,
    /// For a helper that has forgotten it.
    pub(crate) passed: PassedReport,
}

impl SumIntake {
    pub(crate) fn new(
        study: SumStudy,
        map: MapHash,
        key: &Arc<SigningKey>,
        (authority, allow_plain_http): (Option<&Path>, bool),
    ) -> Result<Self, LinkError> {
        let helper = HelperLink::new(&study, Arc::clone(key), authority, allow_plain_http)?;
        Self::with(study, map, key, helper)
    }

    /// With a way to the helper.
    pub(crate) fn with(
        study: SumStudy,
        map: MapHash,
        key: &SigningKey,
        helper: HelperLink,
    ) -> Result<Self, LinkError> {
        let sealing = sealing_key_of(key);
        let verification =
            sealing.verification_key(&study.sealing(Server::Helper), &study.config.0);
        let verification = verification.ok_or_else(|| {
            LinkError::Setting("the helper's card names a key that cannot be used".to_owned())
        })?;
        let state = State {
            round: 0,
            is_open: false,
            spent: BTreeSet::new(),
            verified_now: BTreeSet::new(),
            vectors: BTreeMap::new(),
            chain: HelperChain::new(&study),
            entries: Vec::new(),
            commitments: BTreeMap::new(),
        };
        Ok(Self { study, map, sealing, verification, helper, state: Mutex::new(state) })
    }

    pub(crate) fn study(&self) -> &SumStudy {
        &self.study
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A round begins: it takes vectors, or takes none.
    pub(crate) fn begin(&self, round: u64, takes: bool, spent: Vec<u32>) {
        let mut state = self.state();
        (state.round, state.is_open) = (round, takes);
        state.spent = spent.into_iter().collect();
        state.vectors.clear(); // INV-16
    }

    /// Takes an upload: opens the leader's share, verifies it together with the helper, keeps what the leader knows of the vector.
    pub(crate) fn post(&self, upload: &SealedUpload) -> Result<(), NotVerified> {
        let (sender, round) = (upload.slot, upload.round);
        if !self.state().verified_now.insert(sender) {
            return Err(NotVerified::Twice);
        }
        let _turn = Turn { intake: self, slot: sender };
        if self.is_there(upload)? {
            return Ok(()); // INV-6: a repeat, already answered
        }
        let place = self.study.place(round, sender);
        let (context, info) = (place.context(), place.info(Server::Leader));
        let bound = [upload.nonce.as_slice(), &upload.public].concat();
        let opened = self.sealing.open(&info, &bound, &upload.for_leader);
        let share = opened.map_err(|_| ReportRefused::Unreadable { part: "sealed share" })?;
        let parts = (&upload.nonce, upload.public.as_slice(), share.as_slice());
        let (state, verifier) =
            self.study.sharing.verify(Server::Leader, &self.verification, &context, parts)?;
        let passed = PassedReport {
            slot: sender,
            nonce: upload.nonce,
            public: upload.public.clone(),
            for_helper: upload.for_helper.clone(),
            verifier,
        };
        let reports = std::slice::from_ref(&passed);
        let verdicts = self.helper.verify(&self.study, round, reports, false)?;
        let vector = self.accepted(&context, state, verdicts.into_iter().next().flatten())?;
        let mut state = self.state();
        if state.round != round || !state.is_open {
            return Err(UpdateRejected::Late { sender, round }.into());
        }
        state.vectors.entry(sender).or_insert(Verified { vector, passed });
        Ok(())
    }

    /// Keeps a vector for the round that is played.
    #[cfg(test)]
    pub(crate) fn keep(&self, slot: u32, verified: Verified) {
        self.state().vectors.insert(slot, verified);
    }

    fn accepted(
        &self,
        context: &[u8],
        state: Verifying,
        verdict: Verdict,
    ) -> Result<OutputShare, ReportRefused> {
        let message = verdict.ok_or(ReportRefused::Proof)?;
        self.study.sharing.accept(context, state, &message)
    }

    /// Returns true if a vector of this slot and round is here; refused for public reasons alone (INV-4, INV-5).
    fn is_there(&self, upload: &SealedUpload) -> Result<bool, UpdateRejected> {
        let (sender, round) = (upload.slot, upload.round);
        let (found, expected) = (MapHash(upload.map.0), self.map);
        if found != expected {
            return Err(MessageRejected::WrongMap { sender, found, expected }.into());
        }
        let state = self.state();
        if round > state.round {
            return Err(UpdateRejected::Early { sender, round, current: state.round });
        }
        if round < state.round {
            return Err(UpdateRejected::Late { sender, round });
        }
        if state.vectors.contains_key(&sender) {
            return Ok(true);
        }
        if state.spent.contains(&sender) {
            let most = self.study.participations.unwrap_or(0);
            return Err(UpdateRejected::Spent { sender, most });
        }
        match (state.is_open, self.study.schedule.releases(round)) {
            (true, _) => Ok(false),
            (false, true) => Err(UpdateRejected::Late { sender, round }),
            (false, false) => Err(UpdateRejected::NotCollected { sender, round }),
        }
    }

    /// Returns true if a vector that an agent delivered is not here, as after a crash.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> bool {
        let state = self.state();
        state.is_open && state.round == round && !state.vectors.contains_key(&slot)
    }

    /// Returns true if all that may come have come.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        state.vectors.len() + state.spent.len() >= self.study.n_slots as usize
    }

    /// Takes no more vectors, and has the helper close over the same slots: those, in order. A helper that was started again gets its reports
    /// once more; slots that it has not after that are dropped at both.
    pub(crate) fn agree(&self, round: u64) -> Result<Vec<u32>, HelperFailed> {
        let mut slots: Vec<u32> = {
            let mut state = self.state();
            state.is_open = false;
            state.vectors.keys().copied().collect()
        };
        // Each answer but the first two takes a slot away, so a helper cannot keep this busy for ever.
        let mut is_passed_again = false;
        loop {
            match self.helper.close(&self.study, round, &slots)? {
                CloseAnswer::Closed { slots: closed, commitment } => {
                    let mut state = self.state();
                    if closed.iter().any(|slot| !state.vectors.contains_key(slot)) {
                        return Err(HelperFailed::OtherSlots { round });
                    }
                    state.commitments.insert(round, commitment);
                    return Ok(closed);
                }
                CloseAnswer::Missing { slots: missing } => {
                    if missing.is_empty() || missing.iter().any(|slot| !slots.contains(slot)) {
                        return Err(HelperFailed::Unasked { round });
                    }
                    match is_passed_again {
                        true => slots.retain(|slot| !missing.contains(slot)),
                        false => self.verify_again(round, &missing)?,
                    }
                    is_passed_again = true;
                }
            }
        }
    }

    /// Passes reports on once more.
    fn verify_again(&self, round: u64, slots: &[u32]) -> Result<(), HelperFailed> {
        for slots in slots.chunks(REPORTS_MAX) {
            let reports: Vec<PassedReport> = {
                let state = self.state();
                let known = slots.iter().filter_map(|slot| state.vectors.get(slot));
                known.map(|verified| verified.passed.clone()).collect()
            };
            self.helper.verify(&self.study, round, &reports, true)?;
        }
        Ok(())
    }

    /// A vector that is to be summed.
    pub(crate) fn take(&self, slot: u32) -> Option<OutputShare> {
        self.state().vectors.get(&slot).map(|verified| verified.vector.clone())
    }

    /// The hash to which the helper is bound in a round.
    pub(crate) fn commitment(&self, round: u64) -> Option<Digest> {
        self.state().commitments.get(&round).copied()
    }

    /// Takes up the hashes that were kept before a start.
    pub(crate) fn remember(&self, commitments: Vec<(u64, Digest)>) {
        self.state().commitments.extend(commitments);
    }

    /// Returns true if the helper's share of this round is known.
    pub(crate) fn has_entry(&self, round: u64) -> bool {
        self.state().entries.iter().any(|entry| entry.entry.round == round)
    }

    /// Shows the leader's share of a round, which is durable, and gets the helper's: entries that are new. Nothing is taken of an answer with
    /// an entry from which agents would get no release and would not know why. `own` is the leader's share of an earlier round.
    pub(crate) fn reveal(
        &self,
        round: u64,
        share: &[u8],
        own: impl Fn(u64) -> Option<Vec<u8>>,
    ) -> Result<(), HelperFailed> {
        let (after, bound) = {
            let state = self.state();
            (state.chain.seq(), state.commitments.get(&round).copied())
        };
        // Asked anew, a helper that has seen the leader's share could name another.
        let bound = bound.ok_or(HelperFailed::Unbound { round })?;
        let (salt, entries) = self.helper.reveal(&self.study, (round, share), after)?;
        let mut state = self.state();
        let mut chain = state.chain.clone();
        let new = chain.follow(&self.study, &entries)?;
        let Some(entry) = new.iter().find(|entry| entry.entry.round == round) else {
            return Err(HelperFailed::SetBack { round });
        };
        if commitment(&salt, &entry.entry.release) != bound {
            return Err(HelperFailed::OtherShare { round });
        }
        HelperChain::check_leader(entry, share)?;
        for entry in &new {
            let found = entry.entry.round;
            if entry.leader_share == Digest([0; 32]) {
                continue; // it gives no release, as the helper says
            }
            let earlier = if found == round { None } else { own(found) };
            let own = if found == round { Some(share) } else { earlier.as_deref() };
            let own = own.ok_or(HelperMisconduct::OtherShare { round: found })?;
            HelperChain::check_leader(entry, own)?;
            let checked = self.study.check_shares(found, own, &entry.entry.release);
            checked.map_err(|source| HelperFailed::Share { round: found, source })?;
        }
        state.chain = chain;
        state.entries.extend(new.into_iter().map(Arc::new));
        Ok(())
    }

    /// The helper's entries of rounds before this one, in order.
    pub(crate) fn entries_before(&self, round: u64) -> Vec<Arc<HelperEntry>> {
        let state = self.state();
        let before = state.entries.iter().filter(|entry| entry.entry.round < round);
        before.cloned().collect()
    }
}

impl From<HelperMisconduct> for NotVerified {
    fn from(misconduct: HelperMisconduct) -> Self {
        Self::Helper(misconduct.into())
    }
}
