//! A mechanism without noise and a strategy that sends one-hot vectors, so that a release's content
//! identifies its vectors.

use std::sync::Arc;

use fedbo_gp::{FeatureDescription, FeatureMap, LengthscaleLaw, MapHash};
use fedbo_privacy::accounting::{Noise, NoiseMultiplier, PrivacyEvent, Sampling, SamplingRate};
use fedbo_privacy::mechanism::{ReleaseRefused, VectorRefused};
use fedbo_protocol::{
    AgentUpdate, AggregateHandout, Aggregator, Coordinator, Effect, Handout, Instants,
    MechanismFailed, PendingRelease, Release, ReleaseSchedule, RoundMechanism, Tick,
    UpdateRejected, UsesHandouts,
};
use fedbo_protocol::{Aggregate, AggregateContent};
use fedbo_strategies::{
    Collaborator, Domain, Observation, Points, Proposal, Source, Strategy, StrategyError,
    Surrogate, SurrogateSettings,
};
use fedbo_streams::{Purpose, Seed, Stream};

pub(crate) type Effects = Vec<Effect<AggregateHandout>>;

/// A mechanism that sums vectors unchanged. Its releases also contain the number of opened rounds,
/// so that a recomputed release differs from the original.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) n_slots: u32,
    pub(crate) n_features: usize,
    /// The opened rounds, in order, after an arbitrary number of initial zeros.
    pub(crate) opened: Vec<u64>,
}

impl Counting {
    pub(crate) fn new(n_slots: u32, n_features: usize) -> Self {
        let opened = Vec::new();
        Self { n_slots, n_features, opened }
    }
}

pub(crate) fn event() -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::ALL),
        noise: Noise::Gaussian(NoiseMultiplier::new(1.0).unwrap()),
    }
}

impl RoundMechanism for Counting {
    /// The round and the sums.
    type Round = (u64, Vec<f64>);

    fn n_slots(&self) -> u32 {
        self.n_slots
    }

    fn n_features(&self) -> usize {
        self.n_features
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        self.opened.push(round);
        Ok((round, vec![0.0; self.n_features]))
    }

    fn receive(
        &self,
        (_, sums): &mut Self::Round,
        _slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        sums.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        Ok(())
    }

    fn close(&mut self, (round, sums): Self::Round) -> Result<PendingRelease, MechanismFailed> {
        let mut bytes = round.to_le_bytes().to_vec();
        bytes.extend((self.opened.len() as u64).to_le_bytes());
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        let event = Some(event());
        Ok(PendingRelease { bytes, event })
    }

    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        let (words, rest) = bytes.as_chunks();
        let found = words.first().map_or(u64::MAX, |word| u64::from_le_bytes(*word));
        if found != round {
            let expected = round;
            return Err(ReleaseRefused::OtherRound { expected, found }.into());
        }
        if !rest.is_empty() || words.len() != 2 + self.n_features {
            return Err(ReleaseRefused::UnknownFormat.into());
        }
        let sums = words[2..].iter().map(|word| f64::from_le_bytes(*word));
        Ok(Aggregate {
            round,
            content: AggregateContent::Total(sums.collect()),
            noise_std: 0.0,
            witnesses: Vec::new(),
        })
    }
}

pub(crate) fn map_hash() -> MapHash {
    MapHash([3; 32])
}

/// An update with M = 4 numbers, starting with `first`.
pub(crate) fn update(sender: u32, round: u64, first: f64) -> AgentUpdate {
    AgentUpdate { sender, round, map: map_hash(), weights: vec![first, 1.0, 0.0, 0.0].into() }
}

/// An aggregator with three slots and M = 4, started at time 0, with its first request still
/// pending.
pub(crate) fn aggregator(
    schedule: ReleaseSchedule,
    instants: Option<Instants>,
) -> Aggregator<Counting> {
    let mut aggregator = Aggregator::new(Counting::new(3, 4), schedule, map_hash(), instants);
    let effects = aggregator.start(0);
    assert_eq!(effects, [Effect::Recall { round: 0 }]);
    aggregator
}

pub(crate) fn every_round(n_releases: u64) -> ReleaseSchedule {
    ReleaseSchedule::new(n_releases, 1, 0).unwrap()
}

/// Returns the bytes of the only effect, which must be a commit of this round.
pub(crate) fn commit(effects: &Effects, of_round: u64) -> Arc<[u8]> {
    match effects.as_slice() {
        [Effect::Commit { round, bytes, .. }] if *round == of_round => Arc::clone(bytes),
        other => panic!("a commit of round {of_round} expected, not {other:?}"),
    }
}

/// Returns the first effect, which must be a handout.
pub(crate) fn handout(effects: &Effects) -> AggregateHandout {
    match effects.first() {
        Some(Effect::Broadcast(handout)) => handout.clone(),
        other => panic!("a handout expected, not {other:?}"),
    }
}

/// Returns the only effect, which must be a refusal.
pub(crate) fn refusal(effects: &Effects) -> UpdateRejected {
    match effects.as_slice() {
        [Effect::Refuse(rejected)] => rejected.clone(),
        other => panic!("a refusal expected, not {other:?}"),
    }
}

/// Returns the numbers of a handout's only release.
pub(crate) fn total(handout: &AggregateHandout) -> Vec<f64> {
    match handout.releases.as_slice() {
        [release] => match &release.aggregate.content {
            AggregateContent::Total(numbers) => numbers.clone(),
            other => panic!("a total expected, not {other:?}"),
        },
        other => panic!("one release expected, not {other:?}"),
    }
}

/// A strategy that sends vectors for the last round that it has seen. Each vector is 1 at its own
/// index and 0 elsewhere. Stores the releases that it receives.
#[derive(Clone, Debug)]
pub(crate) struct OneHot {
    slot: u32,
    n_slots: u32,
    n_features: usize,
    round: u64,
    pub(crate) taken: Vec<Arc<Release>>,
    domain: Domain,
    surrogate: Surrogate,
    map: Arc<FeatureMap>,
}

impl OneHot {
    pub(crate) fn new(slot: u32, n_slots: u32, n_features: usize) -> Self {
        let surrogate =
            Surrogate::new(1, SurrogateSettings::default_for(1), None, Seed::new(1)).unwrap();
        Self {
            slot,
            n_slots,
            n_features,
            round: 0,
            taken: Vec::new(),
            domain: Domain::Finite(Arc::new(Points::from_flat(1, vec![0.25, 0.75]))),
            surrogate,
            map: shared_map(),
        }
    }

    /// The index of the 1 in a slot's vector for a round.
    pub(crate) fn place(slot: u32, n_slots: u32, round: u64) -> usize {
        usize::try_from(round * u64::from(n_slots)).unwrap() + slot as usize
    }
}

/// The feature map of [`OneHot`]. Its number of features differs from the length of vectors,
/// because the aggregator checks only hashes.
pub(crate) fn shared_map() -> Arc<FeatureMap> {
    let description = FeatureDescription::random(2, 1, LengthscaleLaw::Fixed(0.2));
    let mut stream = Seed::new(1).stream(Purpose::SHARED_FEATURES, 0, 0);
    Arc::new(FeatureMap::draw(&description, &mut stream).unwrap())
}

impl Strategy for OneHot {
    fn ask(&self, _pending: &Points, _stream: &mut Stream) -> Result<Proposal, StrategyError> {
        Ok(Proposal { unit: vec![0.25], source: Source::Own })
    }

    fn tell(&mut self, _observed: &[Observation]) -> Result<(), StrategyError> {
        Ok(())
    }
}

impl Collaborator for OneHot {
    fn domain(&self) -> &Domain {
        &self.domain
    }

    fn own(&self) -> &Surrogate {
        &self.surrogate
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    fn weight_sample(&self, _stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        let mut weights = vec![0.0; self.n_features];
        weights[Self::place(self.slot, self.n_slots, self.round)] = 1.0;
        Ok(weights)
    }
}

impl UsesHandouts for OneHot {
    type Handout = AggregateHandout;

    fn take(&mut self, handout: AggregateHandout, own_id: u32) -> Vec<UpdateRejected> {
        assert_eq!(own_id, self.slot);
        self.round = handout.round();
        self.taken.extend(handout.releases);
        Vec::new()
    }
}

pub(crate) fn period(collect: Tick, period: Tick) -> Option<Instants> {
    Some(Instants::new(collect, period).unwrap())
}
