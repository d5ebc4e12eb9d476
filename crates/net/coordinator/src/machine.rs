//! A study's round state machine, for any algorithm.

use std::sync::Arc;

use fedbo_federation::{Collaboration, Protection, ReleaseMechanism, ReleasePlan};
use fedbo_privacy::accounting::{InvalidParameter, PrivacyEvent};
use fedbo_privacy::mechanism::{NoiseSource, SecureNoise};
use fedbo_protocol::{
    AgentUpdate, AggregateHandout, Aggregator, Broadcast, Coordinator, Effect, Instants,
    LatticeRounds, Mailbox, Participations, Relay, RoundError, RoundMechanism, Tick,
    UpdateRejected,
};
use fedbo_wire::{Digest, digest};

use crate::shards::ShardRounds;
use crate::store::Participants;
use crate::study::Study;
use crate::sum::LeaderRounds;
use crate::vectors::Vectors;

/// An action that a study's host must perform.
pub(crate) enum Step {
    /// Announce a new round.
    Begin(Beginning),
    /// Send a refusal to the sender.
    Refuse(UpdateRejected),
    /// Look up a stored release.
    Recall { round: u64 },
    /// Make a release durable.
    Commit {
        round: u64,
        bytes: Arc<[u8]>,
        event: Option<PrivacyEvent>,
        /// Participants of the release, which must become durable before it.
        participants: Participants,
    },
    /// Stop without publishing anything.
    Fail(RoundError),
}

/// A new round.
pub(crate) struct Beginning {
    pub(crate) round: u64,
    pub(crate) collects: bool,
    /// Messages, in a relayed study.
    pub(crate) broadcast: Option<Broadcast>,
}

impl From<Broadcast> for Beginning {
    fn from(broadcast: Broadcast) -> Self {
        Self { round: broadcast.round, collects: true, broadcast: Some(broadcast) }
    }
}

impl From<AggregateHandout> for Beginning {
    /// Omits the releases, which the host reads from storage.
    fn from(handout: AggregateHandout) -> Self {
        Self { round: handout.round, collects: handout.collects, broadcast: None }
    }
}

impl<H: Into<Beginning>> From<Effect<H>> for Step {
    fn from(effect: Effect<H>) -> Self {
        match effect {
            Effect::Broadcast(handout) => Self::Begin(handout.into()),
            Effect::Refuse(rejected) => Self::Refuse(rejected),
            Effect::Recall { round } => Self::Recall { round },
            Effect::Fail(error) => Self::Fail(error),
            Effect::Commit { round, bytes, event, participants } => {
                let release = digest_of(&bytes);
                let participants = Participants { round, slots: participants, release };
                Self::Commit { round, bytes, event, participants }
            }
        }
    }
}

/// Returns the digest that identifies a release in its record of participants.
pub(crate) fn digest_of(release: &[u8]) -> Digest {
    digest("fedbo release with participants, version 1", &[release])
}

/// Object-safe interface of a [`Coordinator`] with any type of handout.
pub(crate) trait Machine: Send {
    fn awaits(&self, slot: u32, round: u64) -> bool;
    fn deadline(&self) -> Option<Tick>;
    fn ends_at(&self) -> Option<Tick>;
    fn spent(&self) -> Vec<u32>;
    fn abandon(&mut self, now: Tick) -> Vec<Step>;
    fn postpone(&mut self, now: Tick);
    fn start(&mut self, now: Tick) -> Vec<Step>;
    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Step>;
    fn tick(&mut self, now: Tick) -> Vec<Step>;
    fn recalled(
        &mut self,
        round: u64,
        stored: Option<&[u8]>,
        now: Tick,
    ) -> Result<Vec<Step>, RoundError>;
    fn committed(&mut self, round: u64, now: Tick) -> Result<Vec<Step>, RoundError>;
}

impl<C> Machine for C
where
    C: Coordinator + Send,
    C::Handout: Into<Beginning>,
{
    fn awaits(&self, slot: u32, round: u64) -> bool {
        Coordinator::awaits(self, slot, round)
    }

    fn deadline(&self) -> Option<Tick> {
        Coordinator::deadline(self)
    }

    fn ends_at(&self) -> Option<Tick> {
        Coordinator::ends_at(self)
    }

    fn spent(&self) -> Vec<u32> {
        Coordinator::spent(self)
    }

    fn abandon(&mut self, now: Tick) -> Vec<Step> {
        steps(Coordinator::abandon(self, now))
    }

    fn postpone(&mut self, now: Tick) {
        Coordinator::postpone(self, now);
    }

    fn start(&mut self, now: Tick) -> Vec<Step> {
        steps(Coordinator::start(self, now))
    }

    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Step> {
        steps(Coordinator::receive(self, update, now))
    }

    fn tick(&mut self, now: Tick) -> Vec<Step> {
        steps(Coordinator::tick(self, now))
    }

    fn recalled(
        &mut self,
        round: u64,
        stored: Option<&[u8]>,
        now: Tick,
    ) -> Result<Vec<Step>, RoundError> {
        Ok(steps(Coordinator::recalled(self, round, stored, now)?))
    }

    fn committed(&mut self, round: u64, now: Tick) -> Result<Vec<Step>, RoundError> {
        Ok(steps(Coordinator::committed(self, round, now)?))
    }
}

fn steps<H: Into<Beginning>>(effects: Vec<Effect<H>>) -> Vec<Step> {
    effects.into_iter().map(Step::from).collect()
}

/// Error while creating a study's machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoMachine {
    /// The noise comes from a seed, which this build does not support (INV-10).
    #[cfg(not(feature = "simulation"))]
    #[error(
        "the study has simulate = true, and this program is built without simulation: its releases would have no privacy guarantee"
    )]
    Simulation,
    /// The agents share observations with neighbours, without a coordinator.
    #[error("the study's agents share with neighbours and have no coordinator")]
    Neighbours,
    /// The configured times of a round contradict each other.
    #[error(transparent)]
    Instants(#[from] InvalidParameter),
}

/// The parts of a study's history that its machine needs.
#[derive(Default)]
pub(crate) struct History {
    /// Newest broadcast message of each sender, in a relayed study.
    pub(crate) newest: Vec<AgentUpdate>,
    /// Participants of each release, in a study at a free pace.
    pub(crate) participants: Vec<Participants>,
}

/// Creates the machine of a study that continues at `round`.
pub(crate) fn machine(
    study: &Study,
    vectors: &Vectors,
    round: u64,
    history: History,
    now: Tick,
) -> Result<Box<dyn Machine>, NoMachine> {
    match &study.federation.collaboration {
        Collaboration::Relayed(_) => {
            let federation = &study.federation;
            let participants = (0..study.n_slots).collect();
            let network = federation.network;
            let timeout = Some(network.round_ms);
            let n_features = study.n_features as usize;
            let relay = Relay::new(participants, Vec::new(), n_features, study.map, timeout, now);
            let newest = history.newest.iter().map(|update| (update.sender, update.round));
            let relay = relay.from_round(round, newest).with_longer_first(network.extra_ms);
            Ok(Box::new(match &federation.free {
                Some(free) => relay.with_mailbox(
                    Mailbox::new(free.max_age, free.sample, federation.root())
                        .with_messages(history.newest),
                ),
                None => relay,
            }))
        }
        Collaboration::Released(releases) => match releases.releases.protection {
            Protection::Simulated => simulated(study, releases, (round, &history), vectors),
            // `Protection::Off` draws nothing from this source.
            Protection::Charged(_) | Protection::Off => {
                aggregator(study, releases, (round, &history), SecureNoise::new(), vectors)
            }
        },
        Collaboration::Neighbours(_) => Err(NoMachine::Neighbours),
    }
}

#[cfg(feature = "simulation")]
fn simulated(
    study: &Study,
    releases: &ReleasePlan,
    at: (u64, &History),
    vectors: &Vectors,
) -> Result<Box<dyn Machine>, NoMachine> {
    let noise = fedbo_privacy::mechanism::SimNoise::new(study.federation.noise_seed());
    aggregator(study, releases, at, noise, vectors)
}

#[cfg(not(feature = "simulation"))]
fn simulated(
    _: &Study,
    _: &ReleasePlan,
    _: (u64, &History),
    _: &Vectors,
) -> Result<Box<dyn Machine>, NoMachine> {
    Err(NoMachine::Simulation)
}

fn aggregator<S: NoiseSource + Send + 'static>(
    study: &Study,
    releases: &ReleasePlan,
    at: (u64, &History),
    noise: S,
    vectors: &Vectors,
) -> Result<Box<dyn Machine>, NoMachine>
where
    S::Kind: Send,
{
    let network = study.federation.network;
    let instants = Instants::new(network.collect_ms.unwrap_or(network.round_ms), network.round_ms)?
        .with_longer_first(network.extra_ms);
    if let Some(intake) = vectors.sum() {
        let rounds = LeaderRounds::new(Arc::clone(intake), noise);
        return Ok(Box::new(resumed(study, releases, at, rounds, instants)));
    }
    let arm = study.federation.own_arm();
    if let (Some(intake), ReleaseMechanism::Lattice(mechanism)) =
        (vectors.shards(), releases.mechanism(arm))
    {
        let lattice = LatticeRounds::new(mechanism, releases.schedule(), noise)
            .with_witnesses(releases.releases.n_witnesses);
        let rounds = ShardRounds::new(lattice, Arc::clone(intake));
        return Ok(Box::new(resumed(study, releases, at, rounds, instants)));
    }
    let rounds = releases.rounds(arm, noise);
    Ok(Box::new(resumed(study, releases, at, rounds, instants)))
}

/// Creates the aggregator of a study that continues at `round`.
fn resumed<M: RoundMechanism>(
    study: &Study,
    releases: &ReleasePlan,
    (round, history): (u64, &History),
    rounds: M,
    instants: Instants,
) -> Aggregator<M> {
    let aggregator = Aggregator::new(rounds, releases.schedule(), study.map, Some(instants));
    let aggregator = aggregator.from_round(round);
    let Some(most) = releases.releases.participations else {
        return aggregator;
    };
    let mut counts = Participations::new(study.n_slots, most);
    for found in &history.participants {
        found.slots.iter().for_each(|slot| counts.count(*slot, found.round));
    }
    aggregator.with_participations(counts)
}
