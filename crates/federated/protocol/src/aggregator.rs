//! The coordinator of DP-FTS-DE: collects one vector a slot and round, and hands out what a mechanism releases of them.

use std::fmt;
use std::sync::Arc;

use fedbo_gp::MapHash;
use fedbo_privacy::mechanism::VectorRefused;

use crate::{
    AgentUpdate, AggregateHandout, Coordinator, Effect, Instants, MessageRejected, Participations,
    PendingRelease, Release, ReleaseSchedule, RoundError, RoundMechanism, Tick, UpdateRejected,
};

/// Plays the rounds of DP-FTS-DE, Algorithm 1: collect (lines 3-4), let the mechanism sample, clip, sum and add noise (lines
/// 5-11), release (line 12).
///
/// ```text
/// Recall ──stored──▶ counting ──(all came, or deadline)────────────────────────────┐
///    │                                                                             ▼
///    └──none──▶ collecting ──(same)──▶ Commit ──committed──▶ durable ──(set instant)──▶ Broadcast ──▶ next round
/// ```
///
/// - Slots are the agents' indices, 0 to N − 1. All of them upload in every releasing round (INV-4); a vector that is
///   missing, late or not finite counts as zero, and a round to which nobody came releases as any other does (INV-3).
/// - A slot's first valid vector counts. A repeat gets the same answer, which is none, and nothing carries over (INV-6).
/// - Vectors are kept unread until the round closes; only then is its randomness drawn. A copy of the machine that is continued
///   beside it therefore draws another (INV-8). Without randomness there is no release: [`Effect::Fail`], and nothing follows.
/// - A release leaves when it is durable (INV-1) and not before its set instant (INV-9). One that is stored already is handed
///   out as it is, and no vector of its round is read (INV-2).
/// - No effect depends on the sample or on values, but for the numbers of the release itself (INV-4, INV-5).
///
/// Without [`Instants`] a round ends when all slots have delivered, or when the driver calls [`Coordinator::idle`].
pub struct Aggregator<M: RoundMechanism> {
    mechanism: M,
    schedule: ReleaseSchedule,
    map: MapHash,
    instants: Option<Instants>,
    round: u64,
    /// The time at which the round began.
    began: Tick,
    stage: Stage<M::Round>,
    /// By slot, the newest round for which a vector was accepted.
    newest: Vec<Option<u64>>,
    /// Slots whose vector of this round was accepted.
    n_arrived: usize,
    /// The releases that each slot is in, where it may be in so many only.
    participations: Option<Participations>,
}

enum Stage<R> {
    /// Not begun.
    Idle,
    /// Not yet known whether the round's release is stored.
    Recalling,
    /// Vectors are taken.
    Collecting(R),
    /// The release was stored before: vectors are counted, and not read.
    Counting(Arc<Release>),
    /// Not yet known to be durable.
    Committing(Arc<[u8]>),
    /// To be handed out at the set instant.
    Durable(Arc<Release>),
    /// A round without a release.
    Silent,
    /// There was no randomness for the round's release.
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
    /// Prints nothing of vectors and sample (INV-4).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (round, stage) = (self.round, self.stage.name());
        write!(f, "Aggregator {{ round: {round}, {stage} }}")
    }
}

impl<M: RoundMechanism> Aggregator<M> {
    /// A coordinator for agents that share the feature map of this hash, before round 0.
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

    /// The same, but each slot is in at most so many releases, and has been in those that are counted: what comes beyond is refused.
    #[must_use]
    pub fn with_participations(mut self, participations: Participations) -> Self {
        self.participations = Some(participations);
        self
    }

    /// Begins with a later round instead of round 0: the last one with a stored release, after a coordinator's crash that its
    /// agents have survived. Agents then deliver the round's vectors again.
    #[must_use]
    pub fn from_round(mut self, round: u64) -> Self {
        self.round = round;
        self
    }

    /// The mechanism that makes the releases.
    pub fn mechanism(&self) -> &M {
        &self.mechanism
    }

    /// The schedule of the rounds that release.
    pub fn schedule(&self) -> &ReleaseSchedule {
        &self.schedule
    }

    /// The round begins; in one that releases, the driver looks for a stored release first.
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

    /// Takes one update; refused for public reasons alone (INV-4, INV-5).
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
            return Ok(()); // INV-6: a repeat, or older than what was accepted: already answered.
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

    /// No more vectors: whoever has not delivered counts as zero (INV-3).
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

    /// Counts the slots whose vectors are in the round's release, where they are limited, and returns them.
    fn count_participants(&mut self) -> Option<Vec<u32>> {
        let round = self.round;
        let counts = self.participations.as_mut()?;
        let slots = (0_u32..).zip(&self.newest);
        let arrived = slots.filter(|(_, newest)| **newest == Some(round)).map(|(slot, _)| slot);
        let participants: Vec<u32> = arrived.collect();
        participants.iter().for_each(|slot| counts.count(*slot, round));
        Some(participants)
    }

    /// Ends a round whose release is durable, or that has none, unless its set instant is still to come (INV-9).
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
        Some(self.began.saturating_add(instants.collect()))
    }

    /// The release as its bytes tell it: the same for one just made and one stored.
    fn release(&self, bytes: Arc<[u8]>) -> Result<Arc<Release>, RoundError> {
        let aggregate = self
            .mechanism
            .restore(self.round, &bytes)
            .map_err(|source| RoundError::Mechanism { round: self.round, source })?;
        Ok(Arc::new(Release { aggregate, bytes }))
    }
}

/// The answer to the sender of a vector that was refused. A repeat is not refused: its sender is told nothing, as the
/// first time (INV-6).
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
        Some(self.began.saturating_add(instants.period()))
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

    fn start(&mut self, now: Tick) -> Vec<Effect<AggregateHandout>> {
        match self.stage {
            Stage::Idle => self.begin(now),
            _ => Vec::new(),
        }
    }

    /// A vector that comes at the deadline or later is late, whether or not [`Coordinator::tick`] was called in between.
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

    /// Without set instants, the end of the round: who has not delivered counts as zero.
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
            return Err(RoundError::Unasked { round, answer: "what is stored" });
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
