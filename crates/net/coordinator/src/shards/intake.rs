//! A study's vectors at one shard, and the leader's handling of all shards' sums.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_federation::{Collaboration, ReleaseMechanism};
use fedbo_gp::MapHash;
use fedbo_privacy::mechanism::{Mechanism, PartCollecting, PartialSum, ReleaseShape};
use fedbo_protocol::{AgentUpdate, MessageRejected, ReleaseSchedule, UpdateRejected};
use fedbo_wire::SigningKey;
use zeroize::Zeroizing;

use super::SlotSet;
use crate::intake::{IntakeError, NotTaken};
use crate::store::{
    Lead, Opening, Owner, Place, PostgresStore, Seal, SealError, ShardId, ShardPart, ShardReport,
    ShardView, Store, StoreError,
};
use crate::study::Study;

/// Maximum interval between a shard's reports, unless a quarter of the lease is shorter.
const REPORT: Duration = Duration::from_secs(1);
/// Milliseconds without a report after which agents are asked to resend a shard's vectors.
/// Resending a vector needlessly is harmless.
const MISSED_MS: u64 = 4_000;
/// Time until a delivery to one shard is known at all shards.
pub(crate) const KNOWN: Duration = Duration::from_secs(3);

/// Intake of a study at one shard.
///
/// Request handlers store vectors here. The study's thread reports and sums them.
pub(crate) struct ShardIntake {
    study: Arc<Study>,
    store: Arc<dyn Store>,
    seal: Seal,
    mechanism: Mechanism,
    schedule: ReleaseSchedule,
    shard: ShardId,
    lease: Duration,
    state: Mutex<State>,
    /// Sums of shards that the leader has read, until the round closes.
    sums: Mutex<(u64, Vec<PartialSum>)>,
}

/// Progress of a round at this shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The shard accepts vectors.
    Open,
    /// The shard accepts no more vectors, and waits for the leader to choose those that count.
    Shut,
    /// The sum was handed in.
    HandedIn,
}

#[derive(Default)]
struct State {
    /// Round that this shard takes part in.
    played: Option<Played>,
    /// Newest round seen in the store, and whether it accepts vectors.
    seen: Option<(u64, bool)>,
    /// Slots that are known to have delivered in the previous round. A repeated upload gets the
    /// same response as the first (INV-6).
    before: Option<(u64, SlotSet)>,
}

struct Played {
    opening: Opening,
    stage: Stage,
    /// Shared only while the vectors are read. None are added then.
    vectors: Arc<PartCollecting>,
    own: SlotSet,
    /// Slots for which another shard has a vector.
    others: SlotSet,
    reported: Option<Instant>,
}

impl ShardIntake {
    /// Creates the intake. Returns `None` if the study does not use shards, or if a single process
    /// receives all vectors.
    ///
    /// # Errors
    /// If the store cannot be written, or the system provides no random numbers.
    pub(crate) fn of(
        study: &Arc<Study>,
        store: &Arc<dyn Store>,
        key: &SigningKey,
        lease: Duration,
    ) -> Result<Option<Arc<Self>>, IntakeError> {
        let Collaboration::Released(releases) = &study.federation.collaboration else {
            return Ok(None);
        };
        let Some(shards) = store.shared().filter(|_| study.federation.network.is_sharded) else {
            return Ok(None);
        };
        shards.prepare_shards()?;
        let ReleaseMechanism::Lattice(mechanism) = releases.mechanism(study.federation.own_arm())
        else {
            return Ok(None); // the configuration's validation allows no other mechanism
        };
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(|_| SealError::Randomness)?;
        Ok(Some(Arc::new(Self {
            seal: Seal::of(key),
            schedule: releases.schedule(),
            mechanism,
            study: Arc::clone(study),
            store: Arc::clone(store),
            shard: ShardId(i64::from_le_bytes(drawn)),
            lease,
            state: Mutex::default(),
            sums: Mutex::default(),
        })))
    }

    fn shards(&self) -> Result<&PostgresStore, StoreError> {
        // `ShardIntake::of` has checked that the store is shared, and a store never changes its
        // kind.
        self.store.shared().ok_or(StoreError::Superseded)
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns true while a round may be in progress at this shard.
    pub(crate) fn is_playing(&self) -> bool {
        self.state().played.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a vector without reading its values. The vector counts once the round is over,
    /// unless this process exits first.
    ///
    /// Refuses for public reasons only (INV-4, INV-5). A vector from a slot that has been in the
    /// maximum number of releases is accepted, but not counted.
    pub(crate) fn post(&self, update: &AgentUpdate) -> Result<(), NotTaken> {
        let AgentUpdate { sender, round, map, ref weights } = *update;
        self.check(sender, map, weights.len())?;
        let mut state = self.state();
        let before = state.before.as_ref().filter(|(before, _)| *before == round);
        if before.is_some_and(|(_, slots)| slots.has(sender)) {
            return Ok(()); // INV-6: a repeat of an accepted upload
        }
        let seen = state.seen;
        let Some(played) = &mut state.played else {
            return match seen {
                Some((current, is_open)) => Err(self.past(sender, round, current, is_open)),
                None => Err(NotTaken::BeforeTheFirst),
            };
        };
        if round != played.opening.round {
            return Err(self.past(sender, round, played.opening.round, false));
        }
        if played.own.has(sender) || played.others.has(sender) {
            return Ok(());
        }
        if played.stage != Stage::Open {
            return Err(UpdateRejected::Late { sender, round }.into());
        }
        // Other replicas may consider this shard gone, for example because it cannot reach the
        // database.
        if played.reported.is_none_or(|at| at.elapsed() > self.lease / 2) {
            return Err(NotTaken::StoreUnreachable);
        }
        match Arc::get_mut(&mut played.vectors).map(|vectors| vectors.receive(sender, weights)) {
            Some(Ok(())) => played.own.insert(sender),
            Some(Err(_)) => return Err(UpdateRejected::UnknownSender { sender }.into()), // checked before
            None => return Err(UpdateRejected::Late { sender, round }.into()),
        }
        Ok(())
    }

    /// Returns the refusal for a vector of a round in which this shard does not take part.
    fn past(&self, sender: u32, round: u64, current: u64, is_open: bool) -> NotTaken {
        if round > current {
            return UpdateRejected::Early { sender, round, current }.into();
        }
        if !self.study.collects(round) {
            return UpdateRejected::NotCollected { sender, round }.into();
        }
        // The round has begun, and this shard is about to join it.
        if round == current && is_open {
            return NotTaken::BeforeTheFirst;
        }
        UpdateRejected::Late { sender, round }.into()
    }

    fn check(&self, sender: u32, found: MapHash, length: usize) -> Result<(), UpdateRejected> {
        if sender >= self.study.n_slots {
            return Err(UpdateRejected::UnknownSender { sender });
        }
        let expected = self.study.n_features as usize;
        if length != expected {
            return Err(MessageRejected::WrongLength { sender, found: length, expected }.into());
        }
        let expected = self.study.map;
        if found != expected {
            return Err(MessageRejected::WrongMap { sender, found, expected }.into());
        }
        Ok(())
    }

    /// Returns true if no live shard has a vector that an agent delivered.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> bool {
        let state = self.state();
        let played = state.played.as_ref().filter(|played| played.opening.round == round);
        played.is_some_and(|played| {
            played.stage == Stage::Open && !played.own.has(slot) && !played.others.has(slot)
        })
    }

    /// Ends this shard's participation. If the store is unreachable, the others consider this shard
    /// gone after one lease.
    pub(crate) fn leave(&self) -> Result<(), StoreError> {
        self.state().played = None;
        self.shards()?.leave(self.study.key, self.shard)
    }

    /// Runs the tasks that are due at this shard: joins the round, reports, and sums. The study's
    /// thread calls this periodically.
    pub(crate) fn tend(&self) -> Result<(), IntakeError> {
        let shards = self.shards()?;
        let view = shards.view(self.study.key, self.shard, self.lease_ms().min(MISSED_MS))?;
        self.follow(&view);
        let progress = self.progress().filter(|(opening, ..)| view.opening == Some(*opening));
        let Some((opening, stage, reported)) = progress else {
            return self.take_part(&view, shards);
        };
        let is_due = reported.is_none_or(|at| at.elapsed() >= REPORT.min(self.lease / 4));
        match stage {
            Stage::Open if !view.is_open => {
                // From here on, the set of reported slots is final.
                self.change(opening, |played| played.stage = Stage::Shut);
                self.report(shards, opening, true)
            }
            Stage::Open if is_due => self.report(shards, opening, false),
            Stage::Shut => match view.counts {
                Some(counts) => self.hand_in(shards, opening, counts),
                None if is_due => self.report(shards, opening, true),
                None => Ok(()),
            },
            Stage::Open | Stage::HandedIn => Ok(()),
        }
    }

    fn progress(&self) -> Option<(Opening, Stage, Option<Instant>)> {
        let state = self.state();
        let played = state.played.as_ref()?;
        Some((played.opening, played.stage, played.reported))
    }

    fn change(&self, opening: Opening, change: impl FnOnce(&mut Played)) {
        let mut state = self.state();
        if let Some(played) = state.played.as_mut().filter(|played| played.opening == opening) {
            change(played);
        }
    }

    /// Applies the state of the store, and drops vectors of past rounds (INV-16).
    fn follow(&self, view: &ShardView) {
        let mut others = SlotSet::new(self.study.n_slots);
        for slots in &view.others {
            others.add(&SlotSet::of(slots.clone(), self.study.n_slots));
        }
        let mut state = self.state();
        state.seen = view.opening.map(|opening| (opening.round, view.is_open));
        let Some(mut played) = state.played.take() else {
            return;
        };
        if view.opening == Some(played.opening) {
            played.others = others;
            state.played = Some(played);
            return;
        }
        if view.opening.is_some_and(|opening| opening.round == played.opening.round) {
            state.played = Some(played); // the round restarts with these vectors
            return;
        }
        let Played { opening, vectors, mut own, others, .. } = played;
        own.add(&others);
        state.before = Some((opening.round, own));
        drop(state);
        drop(vectors); // overwrites the vectors outside the lock
    }

    /// Joins an open round. The shard accepts vectors only once the leader can see it.
    fn take_part(&self, view: &ShardView, shards: &PostgresStore) -> Result<(), IntakeError> {
        let Some(opening) = view.opening.filter(|_| view.is_open) else {
            return Ok(());
        };
        let known = {
            let mut state = self.state();
            // Vectors that this shard has accepted still count, but it accepts no new ones until it
            // has rejoined.
            if let Some(played) = &mut state.played {
                played.stage = Stage::Shut;
            }
            state.played.as_ref().map(|played| played.own.clone())
        };
        let slots = known.unwrap_or_else(|| SlotSet::new(self.study.n_slots));
        let report = ShardReport {
            study: self.study.key,
            shard: self.shard,
            opening,
            slots: slots.bytes(),
            is_final: false,
        };
        if !shards.report(&report)? {
            return Ok(());
        }
        let round = (opening.round, self.shape(opening.round));
        let Some(vectors) = self.mechanism.begin_part(round, self.study.n_features) else {
            return Ok(()); // the configuration's validation requires q = 1
        };
        let mut state = self.state();
        match &mut state.played {
            Some(played) => {
                (played.opening, played.stage) = (opening, Stage::Open);
                played.others = SlotSet::new(self.study.n_slots);
                played.reported = Some(Instant::now());
            }
            None => {
                state.played = Some(Played {
                    opening,
                    stage: Stage::Open,
                    vectors: Arc::new(vectors),
                    own: slots,
                    others: SlotSet::new(self.study.n_slots),
                    reported: Some(Instant::now()),
                });
            }
        }
        Ok(())
    }

    fn shape(&self, round: u64) -> ReleaseShape {
        self.schedule.shape(round)
    }

    fn report(
        &self,
        shards: &PostgresStore,
        opening: Opening,
        is_final: bool,
    ) -> Result<(), IntakeError> {
        let own = self.state().played.as_ref().map(|played| played.own.clone());
        let Some(own) = own else {
            return Ok(());
        };
        let is_noted = shards.report(&ShardReport {
            study: self.study.key,
            shard: self.shard,
            opening,
            slots: own.bytes(),
            is_final,
        })?;
        if is_noted {
            self.change(opening, |played| played.reported = Some(Instant::now()));
        }
        Ok(())
    }

    /// Sums the vectors that count, and hands in the sum for the leader.
    fn hand_in(
        &self,
        shards: &PostgresStore,
        opening: Opening,
        counts: Vec<u8>,
    ) -> Result<(), IntakeError> {
        let counts = SlotSet::of(counts, self.study.n_slots);
        let vectors = {
            let state = self.state();
            let played = state.played.as_ref().filter(|played| played.opening == opening);
            played.map(|played| Arc::clone(&played.vectors))
        };
        let Some(vectors) = vectors else {
            return Ok(());
        };
        let sum = vectors.add_up(|slot| counts.has(slot));
        drop(vectors);
        pass("coordinator: a shard has added up");
        let place = self.place((self.shard, &counts), opening);
        let sealed = self.seal.seal_sum(&place, sum.numbers())?;
        shards.hand_in(self.study.key, self.shard, opening, &sealed)?;
        self.change(opening, |played| played.stage = Stage::HandedIn);
        Ok(())
    }

    fn place(&self, (shard, counts): (ShardId, &SlotSet), opening: Opening) -> Place {
        Place {
            config: self.study.digest,
            round: opening.round,
            owner: Owner::Shard(shard, opening.began_ms, counts.digest()),
        }
    }

    /// Returns the shards' parts of a round, for the leader.
    pub(crate) fn parts(&self, opening: Opening) -> Result<Vec<ShardPart>, StoreError> {
        self.shards()?.parts(self.study.key, opening, self.lease_ms())
    }

    /// Stores which vectors count at each shard.
    pub(crate) fn choose(
        &self,
        lead: &Lead,
        opening: Opening,
        chosen: &[(ShardId, SlotSet)],
    ) -> Result<(), StoreError> {
        let counts = chosen.iter().map(|(shard, slots)| (*shard, slots.bytes().to_vec()));
        let counts: Vec<_> = counts.collect();
        self.shards()?.choose(lead, opening, &counts, self.lease_ms())
    }

    /// Opens a shard's sum over the vectors that count, and keeps it until the round closes.
    /// Returns false if the sum is unusable.
    pub(crate) fn keep_sum(
        &self,
        opening: Opening,
        (shard, sealed): (ShardId, &[u8]),
        counts: &SlotSet,
    ) -> bool {
        let round = (opening.round, self.shape(opening.round));
        let opened = self.seal.open_sum(&self.place((shard, counts), opening), sealed);
        let numbers = match opened {
            Ok(numbers) => Zeroizing::new(numbers),
            Err(error) => {
                tracing::error!(study = %self.study.name, "cannot read a shard's sum: {error}");
                return false;
            }
        };
        match PartialSum::of(&self.mechanism, round, numbers, counts.len()) {
            Ok(sum) => {
                let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
                if sums.0 != opening.round {
                    *sums = (opening.round, Vec::new());
                }
                sums.1.push(sum);
                true
            }
            Err(error) => {
                tracing::error!(study = %self.study.name, "cannot use a shard's sum: {error}");
                false
            }
        }
    }

    /// Deletes the sums of a round from the store once its release is durable.
    pub(crate) fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        self.shards()?.forget_sums(lead, round)
    }

    /// Drops sums that were kept for a round that restarts.
    pub(crate) fn forget_sums(&self) {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner) = (0, Vec::new());
    }

    /// Removes and returns the sums of a round.
    pub(crate) fn take_sums(&self, round: u64) -> Vec<PartialSum> {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        match sums.0 == round {
            true => std::mem::take(&mut sums.1),
            false => Vec::new(),
        }
    }
}
