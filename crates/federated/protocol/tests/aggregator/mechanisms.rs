//! Tests of the mechanisms in an aggregator: their releases, costs and stored bytes.

use fedbo_privacy::accounting::{NoiseMultiplier, PrivacyEvent, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, PaperMechanism, PaperSampling, PaperSettings, SecureNoise,
    SimNoise, WeightMax,
};
use fedbo_protocol::{
    AgentUpdate, AggregateHandout, Aggregator, Coordinator, Effect, LatticeRounds, MechanismFailed,
    PaperRounds, ReleaseSchedule, RoundMechanism,
};
use fedbo_protocol::{Aggregate, AggregateContent};

use crate::aggregator::common::{commit, handout, map_hash};

const N: u32 = 5;
const P: u32 = 2;
const M: u32 = 3;

/// Nine releases: one sum per region in rounds 0 and 1, one total afterwards.
fn schedule() -> ReleaseSchedule {
    ReleaseSchedule::new(9, 1, 2).unwrap()
}

/// A mechanism that samples all slots. With a small noise multiplier, a release is almost the sum
/// of the clipped vectors.
fn mechanism(noise_multiplier: f64) -> Mechanism {
    Mechanism::new(MechanismSettings {
        n_slots: N,
        n_regions: P,
        n_features: M,
        max_norm: 10.0 * 2.0_f64.sqrt(),
        sampling_rate: SamplingRate::ALL,
        noise_multiplier: NoiseMultiplier::new(noise_multiplier).unwrap(),
    })
    .unwrap()
}

fn simulated(noise_multiplier: f64) -> LatticeRounds<SimNoise> {
    LatticeRounds::new(mechanism(noise_multiplier), schedule(), SimNoise::new([5; 32]))
}

fn update(sender: u32, round: u64, weights: Vec<f64>) -> AgentUpdate {
    AgentUpdate { sender, round, map: map_hash(), weights: weights.into() }
}

/// The slots' vectors: (1, 0, 0), not finite, none, (0, 0, 40), (0, 2, 0).
fn vectors() -> [Option<Vec<f64>>; 5] {
    [
        Some(vec![1.0, 0.0, 0.0]),
        Some(vec![f64::NAN, 5.0, f64::INFINITY]),
        None,
        Some(vec![0.0, 0.0, 40.0]),
        Some(vec![0.0, 2.0, 0.0]),
    ]
}

/// Plays the current round. Returns its bytes, its cost and the handout that follows it.
fn play<M: RoundMechanism>(
    aggregator: &mut Aggregator<M>,
    vectors: &[Option<Vec<f64>>],
) -> (Vec<u8>, Option<PrivacyEvent>, AggregateHandout) {
    let round = aggregator.round();
    if round == 0 {
        assert_eq!(aggregator.start(0), [Effect::Recall { round: 0 }]);
    }
    assert_eq!(aggregator.recalled(round, None, 0).unwrap(), []);
    for (sender, vector) in (0..).zip(vectors) {
        if let Some(vector) = vector {
            let answer = aggregator.receive(update(sender, round, vector.clone()), 0);
            assert_eq!(answer, [], "slot {sender}");
        }
    }
    let closed = aggregator.idle(0);
    let bytes = commit(&closed, round).to_vec();
    let Effect::Commit { event, .. } = closed[0] else { unreachable!() };
    let next = handout(&aggregator.committed(round, 0).unwrap());
    (bytes, event, next)
}

fn content(handout: &AggregateHandout) -> &Aggregate {
    &handout.releases[0].aggregate
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < tolerance, "{found:?} is not {expected:?}");
    }
}

/// The release contains regions first and then one total, as scheduled. Slot n adds to region n mod
/// P. Vectors are clipped to norm S/√P = 10. A vector that is missing or not finite adds nothing.
#[test]
fn the_lattice_releases_sums_of_regions_then_a_total() {
    let mut aggregator = Aggregator::new(simulated(1e-3), schedule(), map_hash(), None);
    let noise_std = 1e-2; // z C
    for round in 0..3 {
        let (_, _, next) = play(&mut aggregator, &vectors());
        let aggregate = content(&next);
        assert_eq!(aggregate.round, round);
        assert!((aggregate.noise_std / noise_std - 1.0).abs() < 1e-6);
        match &aggregate.content {
            AggregateContent::RegionSums(sums) if round < 2 => {
                assert_eq!(sums.len(), 2);
                assert_near(&sums[0], &[1.0, 2.0, 0.0], 6.0 * noise_std);
                assert_near(&sums[1], &[0.0, 0.0, 10.0], 6.0 * noise_std);
            }
            AggregateContent::Total(sum) if round == 2 => {
                assert_near(sum, &[1.0, 2.0, 10.0], 6.0 * noise_std);
            }
            other => panic!("{other:?} in round {round}"),
        }
    }
}

/// INV-3: without any vectors, the release has the same size, and its numbers are only noise.
#[test]
fn a_round_without_vectors_releases_noise_in_the_same_size() {
    let mut crowd = Aggregator::new(simulated(1.0), schedule(), map_hash(), None);
    let mut nobody = Aggregator::new(simulated(1.0), schedule(), map_hash(), None);
    for _round in 0..3 {
        let (full, ..) = play(&mut crowd, &vectors());
        let (empty, _, next) = play(&mut nobody, &[]);
        assert_eq!(full.len(), empty.len());
        assert_ne!(full, empty);
        let numbers = match &content(&next).content {
            AggregateContent::RegionSums(sums) => sums.concat(),
            AggregateContent::Total(sum) => sum.clone(),
            other @ AggregateContent::Weighted(_) => panic!("{other:?}"),
        };
        assert!(numbers.iter().all(|x| *x != 0.0 && x.abs() < 60.0));
    }
}

/// INV-10: a release has a privacy event if its noise is secure, and none if the noise comes from a
/// seed. Two secure rounds with the same vectors differ.
#[test]
fn only_secure_noise_has_a_price() {
    let secure = || LatticeRounds::new(mechanism(1.0), schedule(), SecureNoise::new());
    let mut first = Aggregator::new(secure(), schedule(), map_hash(), None);
    let mut second = Aggregator::new(secure(), schedule(), map_hash(), None);
    let (bytes, event, _) = play(&mut first, &vectors());
    assert_eq!(event, Some(mechanism(1.0).event()));
    assert_ne!(bytes, play(&mut second, &vectors()).0);
    let mut simulation = Aggregator::new(simulated(1.0), schedule(), map_hash(), None);
    let (simulated_bytes, event, _) = play(&mut simulation, &vectors());
    assert_eq!(event, None);
    // Neither accepts the other's bytes.
    assert!(
        secure().restore(0, &bytes).is_ok() && simulated(1.0).restore(0, &simulated_bytes).is_ok()
    );
    assert!(secure().restore(0, &simulated_bytes).is_err());
    assert!(simulated(1.0).restore(0, &bytes).is_err());
}

/// Bytes from a different round, with a different shape or with different settings are rejected, as
/// are truncated or extended bytes.
#[test]
fn the_lattice_reads_its_own_releases_only() {
    let mut aggregator = Aggregator::new(simulated(1.0), schedule(), map_hash(), None);
    let (bytes, _, next) = play(&mut aggregator, &vectors());
    let rounds = simulated(1.0);
    assert_eq!(rounds.restore(0, &bytes).as_ref(), Ok(content(&next)));
    assert!(rounds.restore(1, &bytes).is_err());
    assert!(simulated(2.0).restore(0, &bytes).is_err());
    assert!(rounds.restore(0, &bytes[..bytes.len() - 1]).is_err());
    assert!(rounds.restore(0, &[&bytes[..], &[0]].concat()).is_err());
    let total_at_once = ReleaseSchedule::new(9, 1, 0).unwrap();
    let other = LatticeRounds::new(mechanism(1.0), total_at_once, SimNoise::new([5; 32]));
    let refused = other.restore(0, &bytes);
    assert!(matches!(refused, Err(MechanismFailed::OtherShape { .. })), "{refused:?}");
}

fn paper_mechanism(noise_multiplier: f64) -> PaperMechanism {
    PaperMechanism::new(PaperSettings {
        n_slots: N,
        n_regions: P,
        n_features: M,
        max_norm: 10.0 * 2.0_f64.sqrt(),
        sampling: PaperSampling::Poisson(SamplingRate::ALL),
        noise_multiplier,
        weight_max: WeightMax::Overall,
    })
    .unwrap()
}

/// In round 0, region 0 gives weight only to slot 0. In later rounds, and always in region 1, all
/// slots have equal weight.
fn weights(round: u64) -> Vec<Vec<f64>> {
    let everybody = vec![0.2; 5];
    let first = vec![1.0, 0.0, 0.0, 0.0, 0.0];
    vec![if round == 0 { first } else { everybody.clone() }, everybody]
}

/// Without noise, the paper's mechanism returns the weighted averages of the clipped vectors, with
/// the round's weights, and has no privacy event.
#[test]
fn the_paper_releases_weighted_averages() {
    let rounds = PaperRounds::new(paper_mechanism(0.0), weights, SecureNoise::new());
    let mut aggregator = Aggregator::new(rounds, schedule(), map_hash(), None);
    for round in 0..2 {
        let (_, event, next) = play(&mut aggregator, &vectors());
        assert_eq!((event, content(&next).noise_std.to_bits()), (None, 0));
        let AggregateContent::Weighted(rows) = &content(&next).content else { panic!("{next:?}") };
        let average = [0.2, 0.4, 2.0];
        let first = if round == 0 { [1.0, 0.0, 0.0] } else { average };
        assert_near(&rows[0], &first, 1e-12);
        assert_near(&rows[1], &average, 1e-12);
    }
}

/// With secure noise, the cost is the paper's event. The standard deviation is z φ_max S / q.
#[test]
fn the_papers_noise_is_announced() {
    let rounds = PaperRounds::new(paper_mechanism(0.5), weights, SecureNoise::new());
    let mut aggregator = Aggregator::new(rounds, schedule(), map_hash(), None);
    let (bytes, event, next) = play(&mut aggregator, &vectors());
    assert_eq!(event, paper_mechanism(0.5).event());
    assert!((content(&next).noise_std - 0.5 * 10.0 * 2.0_f64.sqrt()).abs() < 1e-12);
    let rounds = aggregator.mechanism();
    assert_eq!(rounds.restore(0, &bytes).as_ref(), Ok(content(&next)));
    assert!(rounds.restore(1, &bytes).is_err() && rounds.restore(0, &bytes[1..]).is_err());
    let simulated = PaperRounds::new(paper_mechanism(0.5), weights, SimNoise::new([1; 32]));
    let mut aggregator = Aggregator::new(simulated, schedule(), map_hash(), None);
    assert_eq!(play(&mut aggregator, &vectors()).1, None);
}

/// Weights that do not define averages end the session at the beginning of the round, not at its
/// end.
#[test]
fn wrong_weights_are_an_error_before_a_vector_is_taken() {
    let wrong = |_round| vec![vec![0.5; 5], vec![0.2; 5]];
    let rounds = PaperRounds::new(paper_mechanism(0.5), wrong, SecureNoise::new());
    let mut aggregator = Aggregator::new(rounds, schedule(), map_hash(), None);
    aggregator.start(0);
    let error = aggregator.recalled(0, None, 0).unwrap_err().to_string();
    assert!(error.contains("round 0") && error.contains("region 0"), "{error}");
}
