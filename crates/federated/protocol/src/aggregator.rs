//! The coordinator of DP-FTS-DE, which collects one vector per slot and round and hands out the
//! mechanism's releases.

use std::fmt;
use std::sync::Arc;

use fedbo_gp::MapHash;
use fedbo_privacy::mechanism::VectorRefused;

use crate::{
    AgentUpdate, AggregateHandout, Coordinator, Effect, Instants, MessageRejected, Participations,
    PendingRelease, Release, ReleaseSchedule, RoundError, RoundMechanism, Tick, UpdateRejected,
};

/// Runs the rounds of DP-FTS-DE, Algorithm 1: collects vectors (lines 3–4), has the mechanism
/// sample, clip, sum and add noise (lines 5–11), and releases the result (line 12).
///
/// ```text
/// Recall ──stored──▶ counting ──(all arrived, or deadline)─────────────────────────┐
///    │                                                                             ▼
///    └──none──▶ collecting ──(same)──▶ Commit ──committed──▶ durable ──(on schedule)──▶ Broadcast ──▶ next round
/// ```
///
/// - Slots are the agents' indices, 0 to N − 1. All agents upload in every releasing round (INV-4).
///   A vector that is missing, late or not finite counts as zero. A round without any vectors has a
///   release like any other (INV-3).
/// - The first valid vector of a slot counts. A repeated vector gets no response, like the first
///   one. Nothing carries over to other rounds (INV-6).
/// - Vectors stay unread until the round closes, and the round's randomness is drawn only then. A
///   copy of the machine that runs in parallel therefore draws different randomness (INV-8). If no
///   randomness is available, there is no release: the machine returns [`Effect::Fail`] and stops.
/// - A release leaves only once it is durable (INV-1), and not before its scheduled time (INV-9). A
///   release that is already stored is handed out unchanged, and no vector of its round is read
///   (INV-2).
/// - Effects do not depend on the sample or on values, except for the numbers in the release itself
///   (INV-4, INV-5).
///
/// Without [`Instants`], a round ends when all slots have delivered, or when the driver calls
/// [`Coordinator::idle`].
pub struct Aggregator<M: RoundMechanism> {
    mechanism: M,
    schedule: ReleaseSchedule,
    map: MapHash,
    instants: Option<Instants>,
    round: u64,
    /// The time at which the round began.
    began: Tick,
    stage: Stage<M::Round>,
    /// For each slot, the newest round with an accepted vector.
    newest: Vec<Option<u64>>,
    /// Number of slots with an accepted vector for this round.
    n_arrived: usize,
    /// Counts of the releases that include each slot; `None` if they are not limited.
    participations: Option<Participations>,
}

enum Stage<R> {
    /// Not yet started.
    Idle,
    /// Waiting for the driver to report whether the round's release is stored.
    Recalling,
    /// Accepting vectors.
    Collecting(R),
    /// The release was already stored. Vectors are counted but not read.
    Counting(Arc<Release>),
    /// The release is not yet known to be durable.
    Committing(Arc<[u8]>),
    /// The release is durable and waits for its scheduled time.
    Durable(Arc<Release>),
    /// A round without a release.
    Silent,
    /// The mechanism could not create the round's release.
    Failed,
}

impl<R> Stage<R> {
    fn name(&self) -> &'static str {
        match self {
            Self::Idle => "not started",
            Self::Recalling => "recalling",
            Self::Collecting(_) => "collecting",
            Self::Counting(_) => "counting",
            Self::Committing(_) => "committing",
            Self::Durable(_) => "durable",
            Self::Silent => "silent",
            Self::Failed => "failed",
        }
    }
}

impl<M: RoundMechanism> fmt::Debug for Aggregator<M> {
    /// Omits the vectors and the sample (INV-4).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (round, stage) = (self.round, self.stage.name());
        write!(f, "Aggregator {{ round: {round}, {stage} }}")
    }
}

impl<M: RoundMechanism> Aggregator<M> {
    /// Creates a coordinator before round 0, for agents that share the feature map with this hash.
    pub fn new(
        mechanism: M,
        schedule: ReleaseSchedule,
        map: MapHash,
        instants: Option<Instants>,
    ) -> Self {
        Self {
            newest: vec![None; mechanism.n_slots() as usize],
            mechanism,
            schedule,
            map,
            instants,
            round: 0,
            began: 0,
            stage: Stage::Idle,
            n_arrived: 0,
            participations: None,
        }
    }

    /// Limits the number of releases per slot, starting from the given counts. Vectors beyond the
    /// limit are refused.
    #[must_use]
    pub fn with_participations(mut self, participations: Participations) -> Self {
        self.participations = Some(participations);
        self
    }

    /// Starts in a later round instead of round 0. If only the coordinator crashed, this is the
    /// last round with a stored release, and the agents deliver that round's vectors again.
    #[must_use]
    pub fn from_round(mut self, round: u64) -> Self {
        self.round = round;
        self
    }

    /// Returns the mechanism that creates the releases.
    pub fn mechanism(&self) -> &M {
        &self.mechanism
    }

    /// Returns the schedule of releases.
    pub fn schedule(&self) -> &ReleaseSchedule {
        &self.schedule
    }

    /// Begins the round. In a releasing round, the driver must first look up a stored release.
    fn begin(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        self.began = now;
        self.n_arrived = 0;
        if !self.schedule.releases(self.round) {
            self.stage = Stage::Silent;
            return Vec::new();
        }
        self.stage = Stage::Recalling;
        vec![Effect::Recall { round: self.round }]
    }

    /// Accepts an update, or refuses it for a public reason (INV-4, INV-5).
    fn accept(&mut self, update: &AgentUpdate) -> Result<(), UpdateRejected> {
        let AgentUpdate { sender, round, .. } = *update;
        let n_features = self.mechanism.n_features();
        let Some(newest) = self.newest.get_mut(sender as usize) else {
            return Err(UpdateRejected::UnknownSender { sender });
        };
        if update.weights.len() != n_features {
            return Err(MessageRejected::WrongLength {
                sender,
                found: update.weights.len(),
                expected: n_features,
            }
            .into());
        }
        if update.map != self.map {
            return Err(MessageRejected::WrongMap {
                sender,
                found: update.map,
                expected: self.map,
            }
            .into());
        }
        if round > self.round {
            return Err(UpdateRejected::Early { sender, round, current: self.round });
        }
        if newest.is_some_and(|newest| round <= newest) {
            return Ok(()); // INV-6: a repeat, or an older vector
        }
        if round < self.round {
            return Err(UpdateRejected::Late { sender, round }); // INV-6: it counts in no other round.
        }
        if let Some(counts) = &self.participations
            && !counts.allows(sender, round)
        {
            return Err(UpdateRejected::Spent { sender, most: counts.most() });
        }
        match &mut self.stage {
            Stage::Collecting(collecting) => {
                let taken = self.mechanism.receive(collecting, sender, &update.weights);
                if let Err(refused) = taken {
                    return refusal(refused);
                }
            }
            Stage::Counting(_) => {} // INV-2: the vector is not read.
            Stage::Committing(_) | Stage::Durable(_) => {
                return Err(UpdateRejected::Late { sender, round });
            }
            Stage::Idle | Stage::Recalling | Stage::Silent | Stage::Failed => {
                return Err(UpdateRejected::NotCollected { sender, round });
            }
        }
        *newest = Some(round);
        self.n_arrived += 1;
        Ok(())
    }

    /// Stops accepting vectors. Missing vectors count as zero (INV-3).
    fn close(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Collecting(collecting) => {
                let round = self.round;
                let PendingRelease { bytes, event } = match self.mechanism.close(collecting) {
                    Ok(closing) => closing,
                    Err(source) => {
                        self.stage = Stage::Failed;
                        return vec![Effect::Fail(RoundError::Mechanism { round, source })];
                    }
                };
                let bytes: Arc<[u8]> = bytes.into();
                self.stage = Stage::Committing(Arc::clone(&bytes));
                let participants = self.count_participants();
                vec![Effect::Commit { round, bytes, event, participants }]
            }
            Stage::Counting(release) => {
                self.count_participants();
                self.stage = Stage::Durable(release);
                self.hand_out(now)
            }
            other => {
                self.stage = other;
                Vec::new()
            }
        }
    }

    /// Returns the slots with a vector in the round's release, and counts them if releases per slot
    /// are limited.
    fn count_participants(&mut self) -> Vec<u32> {
        let round = self.round;
        let slots = (0_u32..).zip(&self.newest);
        let arrived = slots.filter(|(_, newest)| **newest == Some(round)).map(|(slot, _)| slot);
        let participants: Vec<u32> = arrived.collect();
        if let Some(counts) = &mut self.participations {
            participants.iter().for_each(|slot| counts.count(*slot, round));
        }
        participants
    }

    /// Ends a round that has a durable release or no release, unless its scheduled time has not
    /// come yet (INV-9).
    fn hand_out(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        if Coordinator::ends_at(self).is_some_and(|instant| now < instant) {
            return Vec::new();
        }
        let release = match &self.stage {
            Stage::Durable(release) => Some(Arc::clone(release)), // INV-1: nothing else is ever handed out.
            Stage::Silent => None,
            _ => return Vec::new(),
        };
        self.round += 1;
        let handout = AggregateHandout {
            round: self.round,
            releases: release.into_iter().collect(),
            collects: self.schedule.releases(self.round),
        };
        let mut effects = vec![Effect::Broadcast(handout)];
        effects.extend(self.begin(now));
        effects
    }

    fn closes_at(&self) -> Option<Tick> {
        let instants = self.instants?;
        Some(self.began.saturating_add(instants.collect(self.round)))
    }

    /// Parses the release from its bytes, in the same way for new and stored releases.
    fn release(&self, bytes: Arc<[u8]>) -> Result<Arc<Release>, RoundError> {
        let aggregate = self
            .mechanism
            .restore(self.round, &bytes)
            .map_err(|source| RoundError::Mechanism { round: self.round, source })?;
        Ok(Arc::new(Release { aggregate, bytes }))
    }
}

/// Returns the response to the sender of a refused vector. A repeated vector is not refused, and
/// gets no response, like the first one (INV-6).
fn refusal(refused: VectorRefused) -> Result<(), UpdateRejected> {
    match refused {
        VectorRefused::Repeated { .. } => Ok(()),
        VectorRefused::UnknownSlot { slot: sender, .. } => {
            Err(UpdateRejected::UnknownSender { sender })
        }
        VectorRefused::WrongLength { slot: sender, expected, found } => {
            Err(MessageRejected::WrongLength { sender, found, expected: expected as usize }.into())
        }
    }
}

impl<M: RoundMechanism> Coordinator for Aggregator<M> {
    type Handout = AggregateHandout;

    fn round(&self) -> u64 {
        self.round
    }

    fn awaits(&self, sender: u32, round: u64) -> bool {
        let newest = self.newest.get(sender as usize);
        round == self.round
            && matches!(self.stage, Stage::Collecting(_) | Stage::Counting(_))
            && newest.is_some_and(|newest| newest.is_none_or(|newest| newest < round))
    }

    fn deadline(&self) -> Option<Tick> {
        match self.stage {
            Stage::Collecting(_) | Stage::Counting(_) => self.closes_at(),
            Stage::Durable(_) | Stage::Silent => self.ends_at(),
            Stage::Idle | Stage::Recalling | Stage::Committing(_) | Stage::Failed => None,
        }
    }

    fn ends_at(&self) -> Option<Tick> {
        let instants = self.instants?;
        Some(self.began.saturating_add(instants.period(self.round)))
    }

    fn spent(&self) -> Vec<u32> {
        let Some(counts) = &self.participations else {
            return Vec::new();
        };
        let slots = 0..self.mechanism.n_slots();
        slots.filter(|slot| !counts.allows(*slot, self.round)).collect()
    }

    fn abandon(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        match self.stage {
            Stage::Collecting(_) => {
                self.stage = Stage::Silent;
                self.hand_out(now)
            }
            _ => Vec::new(),
        }
    }

    fn postpone(&mut self, now: Tick) {
        if self.n_arrived == 0 {
            self.began = now;
        }
    }

    fn start(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        match self.stage {
            Stage::Idle => self.begin(now),
            _ => Vec::new(),
        }
    }

    /// Accepts a vector before the deadline. A vector at or after the deadline is late, even if
    /// [`Coordinator::tick`] was not called in between.
    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Effect<AggregateHandout>> {
        let mut effects = self.tick(now);
        match self.accept(&update) {
            Ok(()) if self.n_arrived == self.newest.len() => effects.extend(self.close(now)),
            Ok(()) => {}
            Err(rejected) => effects.push(Effect::Refuse(rejected)),
        }
        effects
    }

    fn tick(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        match self.stage {
            Stage::Collecting(_) | Stage::Counting(_)
                if self.closes_at().is_some_and(|instant| now >= instant) =>
            {
                self.close(now)
            }
            Stage::Durable(_) | Stage::Silent if self.instants.is_some() => self.hand_out(now),
            _ => Vec::new(),
        }
    }

    /// Ends a round without scheduled times. Missing vectors count as zero.
    fn idle(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        if self.instants.is_some() {
            return Vec::new();
        }
        match self.stage {
            Stage::Silent => self.hand_out(now),
            _ => self.close(now),
        }
    }

    fn recalled(
        &mut self,
        round: u64,
        stored: Option<&[u8]>,
        _now: Tick,
    ) -> Result<Vec<Effect<AggregateHandout>>, RoundError> {
        if !matches!(self.stage, Stage::Recalling) || round != self.round {
            return Err(RoundError::Unasked { round, answer: "the stored release" });
        }
        self.stage = match stored {
            Some(bytes) => Stage::Counting(self.release(bytes.into())?),
            None => {
                let opened = self.mechanism.open(round);
                Stage::Collecting(opened.map_err(|source| RoundError::Mechanism { round, source })?)
            }
        };
        Ok(Vec::new())
    }

    fn committed(
        &mut self,
        round: u64,
        now: Tick,
    ) -> Result<Vec<Effect<AggregateHandout>>, RoundError> {
        match &self.stage {
            Stage::Committing(bytes) if round == self.round => {
                self.stage = Stage::Durable(self.release(Arc::clone(bytes))?);
                Ok(self.hand_out(now))
            }
            _ => Err(RoundError::Unasked { round, answer: "that a release is durable" }),
        }
    }
}
