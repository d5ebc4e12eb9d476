//! Receives uploads for a secure sum, and tracks the state of the helper.

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
    CloseAnswer, Digest, HelperEntry, PassedReport, REPORTS_MAX, RoundKey, SealedUpload,
    SigningKey, Verdict, commitment,
};

use super::helper::{HelperFailed, HelperLink};

/// Reason that an upload was not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotVerified {
    /// The round's state machine would reject it.
    #[error(transparent)]
    Rejected(#[from] UpdateRejected),
    /// The sender is at fault: no honest agent sends this report (INV-5).
    #[error("both servers refuse the upload: {0}")]
    Report(#[from] ReportRefused),
    /// Another upload from the same slot is being verified.
    #[error("an upload of this slot is being verified; try again later")]
    Twice,
    /// The helper is unavailable.
    #[error("cannot reach the study's helper now: {0}")]
    Helper(#[from] HelperFailed),
}

/// Intake of a study with a secure sum.
///
/// Request handlers verify vectors and store them here; the study's thread reads them.
pub(crate) struct SumIntake {
    study: SumStudy,
    map: MapHash,
    sealing: SealingKey,
    verification: VerificationKey,
    helper: HelperLink,
    state: Mutex<State>,
}

/// Readiness of a round to accept vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Not yet: the helper must open the round first.
    Soon,
    Now,
    /// The round is closed, or collects nothing.
    Nothing,
}

struct State {
    /// Current round.
    round: u64,
    takes: Takes,
    /// Slots that have been in the maximum number of releases.
    spent: BTreeSet<u32>,
    /// Slots with an upload that is being verified. Two uploads from one slot are never verified at
    /// the same time, since each server might keep a different one.
    verified_now: BTreeSet<u32>,
    vectors: BTreeMap<u32, Verified>,
    /// Known part of the helper's ledger.
    chain: HelperChain,
    entries: Vec<Arc<HelperEntry>>,
    /// Commitments of the helper, by round.
    commitments: BTreeMap<u64, Digest>,
}

/// Guard that is held while an upload from a slot is verified.
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
    /// Kept for a restarted helper that has lost the report.
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

    /// Creates an intake with an existing link to the helper.
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
            LinkError::Setting("the helper's card contains an unusable key".to_owned())
        })?;
        let state = State {
            round: 0,
            takes: Takes::Nothing,
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

    /// Begins a round that accepts vectors now, soon, or not at all.
    pub(crate) fn begin(&self, round: u64, takes: Takes, spent: Vec<u32>) {
        let mut state = self.state();
        (state.round, state.takes) = (round, takes);
        state.spent = spent.into_iter().collect();
        state.vectors.clear(); // INV-16
    }

    /// Asks the helper to open a round, which must happen before the round begins (INV-30). The
    /// helper first checks that its folder contains the newest helper share known to this
    /// coordinator (INV-28).
    ///
    /// Returns the key of the round, or `None` if the helper has closed the round.
    pub(crate) fn open(&self, round: u64) -> Result<Option<RoundKey>, HelperFailed> {
        let newest = self.state().commitments.last_key_value().map(|(round, hash)| (*round, *hash));
        self.helper.open(&self.study, round, newest)
    }

    /// Ensures that there is a session with the helper.
    pub(crate) fn meet(&self, round: u64) -> Result<(), HelperFailed> {
        match self.helper.session() {
            Some(_) => Ok(()),
            None => self.open(round).map(drop),
        }
    }

    /// Returns true if there is no session with the helper, so the helper must open the round
    /// again.
    pub(crate) fn has_lost_session(&self) -> bool {
        self.helper.session().is_none()
    }

    /// Processes an upload: opens the leader's share, verifies it together with the helper, and
    /// keeps the leader's part of the vector.
    pub(crate) fn post(&self, upload: &SealedUpload) -> Result<(), NotVerified> {
        let (sender, round) = (upload.slot, upload.round);
        if !self.state().verified_now.insert(sender) {
            return Err(NotVerified::Twice);
        }
        let _turn = Turn { intake: self, slot: sender };
        if self.is_there(upload)? {
            return Ok(()); // INV-6: a repeat of an accepted upload
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
        if state.round != round || state.takes != Takes::Now {
            return Err(UpdateRejected::Late { sender, round }.into());
        }
        state.vectors.entry(sender).or_insert(Verified { vector, passed });
        Ok(())
    }

    /// Keeps a vector for the current round.
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

    /// Returns true if a vector from this slot for this round is already stored. Refuses for public
    /// reasons only (INV-4, INV-5).
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
        match (state.takes, self.study.schedule.releases(round)) {
            (Takes::Now, _) => Ok(false),
            (Takes::Soon, _) => {
                let current = round.saturating_sub(1);
                Err(UpdateRejected::Early { sender, round, current })
            }
            (Takes::Nothing, true) => Err(UpdateRejected::Late { sender, round }),
            (Takes::Nothing, false) => Err(UpdateRejected::NotCollected { sender, round }),
        }
    }

    /// Returns true if a vector that an agent delivered is missing, for example after a crash.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> bool {
        let state = self.state();
        state.takes == Takes::Now && state.round == round && !state.vectors.contains_key(&slot)
    }

    /// Returns true if every slot has delivered a vector or has reached its limit of releases.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        state.vectors.len() + state.spent.len() >= self.study.n_slots as usize
    }

    /// Stops accepting vectors, and asks the helper to close the round over the same slots. Returns
    /// the agreed slots in order.
    ///
    /// If the helper was restarted, its reports are passed on to it again. Both servers drop the
    /// slots whose reports it still lacks after that.
    pub(crate) fn agree(&self, round: u64) -> Result<Vec<u32>, HelperFailed> {
        let mut slots: Vec<u32> = {
            let mut state = self.state();
            state.takes = Takes::Nothing;
            state.vectors.keys().copied().collect()
        };
        // Every `Missing` response after the first removes a slot, so no helper can keep this loop
        // running forever.
        let mut is_passed_again = false;
        loop {
            match self.helper.close(&self.study, round, &slots)? {
                CloseAnswer::Closed { slots: closed, commitment } => {
                    let mut state = self.state();
                    if closed.iter().any(|slot| !state.vectors.contains_key(slot)) {
                        state.takes = Takes::Now; // agents resend their vectors
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

    /// Passes reports to the helper again.
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

    /// Returns a vector to be summed.
    pub(crate) fn take(&self, slot: u32) -> Option<OutputShare> {
        self.state().vectors.get(&slot).map(|verified| verified.vector.clone())
    }

    /// Returns the helper's commitment for a round.
    pub(crate) fn commitment(&self, round: u64) -> Option<Digest> {
        self.state().commitments.get(&round).copied()
    }

    /// Restores the commitments that were stored before a restart.
    pub(crate) fn remember(&self, commitments: Vec<(u64, Digest)>) {
        self.state().commitments.extend(commitments);
    }

    /// Returns true if the helper's share of this round is known.
    pub(crate) fn has_entry(&self, round: u64) -> bool {
        self.state().entries.iter().any(|entry| entry.entry.round == round)
    }

    /// Reveals the leader's durable share of a round to the helper, and keeps the helper's new
    /// entries.
    ///
    /// Rejects the whole response if an entry neither combines with the leader's share into a
    /// release nor states that there is none. `own` returns the leader's share of an earlier round.
    pub(crate) fn reveal(
        &self,
        round: u64,
        share: &[u8],
        own: impl Fn(u64) -> Option<Vec<u8>>,
    ) -> Result<(), HelperFailed> {
        let (after, bound, known) = {
            let state = self.state();
            let known = state.entries.iter().find(|entry| entry.entry.round == round).cloned();
            (state.chain.seq(), state.commitments.get(&round).copied(), known)
        };
        if let Some(known) = known {
            return Ok(HelperChain::check_leader(&known, share)?); // known already, for example since the start
        }
        // The helper is not asked for its commitment again: after seeing the leader's share, it
        // could name a different one.
        let bound = bound.ok_or(HelperFailed::Unbound { round })?;
        self.meet(round)?;
        let (salt, entries) = self.helper.reveal(&self.study, (round, share), after)?;
        let mut state = self.state();
        let mut chain = state.chain.clone();
        let new = chain.follow(&self.study, &entries)?;
        let Some(entry) = new.iter().find(|entry| entry.entry.round == round) else {
            return Err(HelperFailed::RolledBack { round });
        };
        if commitment(&salt, &entry.entry.release) != bound {
            return Err(HelperFailed::OtherShare { round });
        }
        HelperChain::check_leader(entry, share)?;
        for entry in &new {
            let found = entry.entry.round;
            if entry.leader_share == Digest([0; 32]) {
                continue; // the helper states that there is no release
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

    /// Returns the helper's entries for rounds before this one, in order.
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
