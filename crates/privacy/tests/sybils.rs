//! Tests in which nine of ten slots are fake and send arbitrary vectors. Neither the noise nor an
//! honest slot's privacy cost depends on the fake slots (INV-6, INV-7, INV-11).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{difference, float, mechanism, pre_noise, release, signed, source};
use fedbo_privacy::accounting::{Accountant, Delta, PldAccountant};
use fedbo_privacy::mechanism::{Mechanism, ReleaseShape, SecureNoise};
use fedbo_streams::Stream;
use fedbo_testkit::statistics::check_chi_squared;
use fedbo_testkit::test_stream;

const N_SLOTS: u32 = 40;
const N_REGIONS: u32 = 4;
const N_FEATURES: u32 = 12;
const N_ROUNDS: u64 = 12;
/// Every tenth slot is honest; one of them is the victim.
const VICTIM: u32 = 20;

/// The behaviour of all fake slots.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    Silent,
    Zeros,
    Huge,
    NotANumber,
    Denormal,
    CopiesOfTheVictim,
    VictimTurnedAround,
    /// Reacts to the release of the previous round.
    Adaptive,
    /// Sends twice in a round, with different vectors.
    Repeating,
    /// Varies with the slot and the round.
    Mixed,
}

const ALL: [Conduct; 10] = [
    Conduct::Silent,
    Conduct::Zeros,
    Conduct::Huge,
    Conduct::NotANumber,
    Conduct::Denormal,
    Conduct::CopiesOfTheVictim,
    Conduct::VictimTurnedAround,
    Conduct::Adaptive,
    Conduct::Repeating,
    Conduct::Mixed,
];

fn is_honest(slot: u32) -> bool {
    slot.is_multiple_of(10)
}

fn with_rate(q: f64) -> Mechanism {
    mechanism(N_SLOTS, N_REGIONS, N_FEATURES, q, 1.5)
}

fn shape(round: u64) -> ReleaseShape {
    if round < N_ROUNDS / 2 { ReleaseShape::Regions } else { ReleaseShape::Total }
}

/// Returns the vectors of honest slots in a round, which the fake slots know.
fn honest(round: u64) -> Vec<(u32, Vec<f64>)> {
    let mut stream = test_stream(round);
    let slots = (0..N_SLOTS).filter(|slot| is_honest(*slot));
    slots.map(|slot| (slot, stream.normals(N_FEATURES as usize))).collect()
}

/// Returns the vectors of fake slots in a round. Fake slots know the vectors of honest ones and the
/// previous release.
fn fakes(
    conduct: Conduct,
    round: u64,
    honest: &[(u32, Vec<f64>)],
    earlier: &[i64],
    luck: &mut Stream,
) -> Vec<(u32, Vec<f64>)> {
    let (_, victim) = honest.iter().find(|(slot, _)| *slot == VICTIM).unwrap();
    let all = |x: f64| vec![x; N_FEATURES as usize];
    let mut sent = Vec::new();
    for slot in (0..N_SLOTS).filter(|slot| !is_honest(*slot)) {
        let own = match conduct {
            Conduct::Mixed => ALL[luck.below(ALL.len() - 2)],
            other => other,
        };
        let vector = match own {
            Conduct::Silent | Conduct::Mixed => continue,
            Conduct::Zeros => all(0.0),
            Conduct::Huge => all(if slot % 2 == 0 { f64::MAX } else { -1e300 }),
            Conduct::NotANumber => {
                let mut vector = luck.normals(N_FEATURES as usize);
                let place = luck.below(vector.len());
                vector[place] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][luck.below(3)];
                vector
            }
            Conduct::Denormal => all(f64::from_bits(1 + u64::from(slot))),
            Conduct::CopiesOfTheVictim | Conduct::Repeating => victim.clone(),
            Conduct::VictimTurnedAround => victim.iter().map(|x| -3.0 * x).collect(),
            Conduct::Adaptive => {
                let back = earlier.iter().map(|k| -signed(*k)).cycle();
                back.take(N_FEATURES as usize).collect()
            }
        };
        sent.push((slot, vector));
        if matches!(own, Conduct::Repeating) {
            sent.push((slot, all(signed(round.cast_signed()))));
        }
    }
    sent
}

/// A round of the attack: the vectors of honest and fake slots, in the order of arrival.
struct Round {
    number: u64,
    uploads: Vec<(u32, Vec<f64>)>,
}

/// Returns the rounds of a whole attack on a mechanism whose noise comes from this seed.
fn attack(mechanism: &Mechanism, conduct: Conduct, seed: u64) -> Vec<Round> {
    let mut luck = test_stream(1000 + seed);
    let mut earlier = vec![0];
    (0..N_ROUNDS)
        .map(|number| {
            let mut uploads = honest(number);
            uploads.extend(fakes(conduct, number, &uploads, &earlier, &mut luck));
            // Each slot's vectors arrive in the order of sending; the order of slots is random.
            let mut order: Vec<u32> = (0..N_SLOTS).collect();
            luck.shuffle(&mut order);
            uploads.sort_by_key(|(slot, _)| order[*slot as usize]);
            let release = release(mechanism, number, shape(number), &mut source(seed), &uploads);
            earlier = release.sums().to_vec();
            Round { number, uploads }
        })
        .collect()
}

/// Returns the contribution of a slot's first vector in a round without other vectors, with the
/// coins from this seed.
fn alone(mechanism: &Mechanism, round: &Round, slot: u32, seed: u64) -> Vec<i64> {
    let first = round.uploads.iter().find(|(sender, _)| *sender == slot);
    let own: Vec<_> = first.cloned().into_iter().collect();
    pre_noise(mechanism, round.number, shape(round.number), seed, &own)
}

/// With the same seed, a round equals the round without vectors plus each slot's contribution,
/// regardless of the fake slots. Noise and coins are the same with and without them, the victim's
/// contribution is the same, and each fake slot's contribution is within the bound of one slot.
#[test]
fn sybils() {
    for q in [1.0, 0.5] {
        let mechanism = with_rate(q);
        for (conduct, seed) in ALL.into_iter().zip(0..) {
            for round in attack(&mechanism, conduct, seed) {
                let (number, shape) = (round.number, shape(round.number));
                let release = |uploads: &common::Uploads| {
                    let mut noise = source(seed);
                    let release = release(&mechanism, number, shape, &mut noise, uploads);
                    (release, noise.n_words())
                };
                let (empty, n_words) = release(&[]);
                let mut expected = empty.sums().to_vec();
                for slot in 0..N_SLOTS {
                    let added = alone(&mechanism, &round, slot, seed);
                    assert!(common::squared_norm(&added) <= common::squared_bound(&mechanism));
                    expected.iter_mut().zip(&added).for_each(|(sum, k)| *sum += k);
                }
                let (whole, drawn) = release(&round.uploads);
                assert_eq!(whole.sums(), expected, "{conduct:?} in round {number}");
                assert_eq!(drawn, n_words, "{conduct:?}");

                // The victim's contribution, with and without fake slots.
                let without: Vec<_> =
                    round.uploads.iter().filter(|(slot, _)| *slot != VICTIM).cloned().collect();
                let among = difference(whole.sums(), release(&without).0.sums());
                let victim = honest(number)
                    .into_iter()
                    .filter(|(slot, _)| *slot == VICTIM)
                    .collect::<Vec<_>>();
                assert_eq!(
                    among,
                    pre_noise(&mechanism, number, shape, seed, &victim),
                    "{conduct:?}"
                );
            }
        }
    }
}

/// Returns the cost of a run: ε of the events of its rounds.
fn charged(mechanism: &Mechanism, rounds: &[Round], seed: u64) -> f64 {
    let mut accountant = PldAccountant::default();
    for round in rounds {
        let mut source = source(seed);
        let mut collecting = mechanism.begin(round.number, shape(round.number));
        for (slot, vector) in &round.uploads {
            let _refused_as_a_repeat = collecting.receive(*slot, vector);
        }
        let closed = collecting.close(&mut source).unwrap();
        accountant.compose(&closed.event, 1).unwrap();
    }
    accountant.epsilon(Delta::new(1e-5).unwrap()).unwrap()
}

#[test]
fn sybils_do_not_change_what_is_charged() {
    let mechanism = with_rate(0.5);
    let mut declared = PldAccountant::default();
    declared.compose(&mechanism.event(), N_ROUNDS).unwrap();
    let declared = declared.epsilon(Delta::new(1e-5).unwrap()).unwrap();
    let alone: Vec<Round> =
        (0..N_ROUNDS).map(|number| Round { number, uploads: honest(number) }).collect();
    let claims: Vec<u64> = ALL
        .into_iter()
        .zip(0..)
        .map(|(conduct, seed)| {
            charged(&mechanism, &attack(&mechanism, conduct, seed), seed).to_bits()
        })
        .collect();
    let expected = charged(&mechanism, &alone, 0);
    assert!(claims.iter().all(|claim| *claim == expected.to_bits()), "{claims:?}");
    assert!((expected / declared - 1.0).abs() < 1e-3, "{expected} {declared}");
}

/// With noise from the real source, the releases of an attack minus the sums have the declared
/// variance. At sampling rate 1 the sums are known.
#[test]
fn sybils_do_not_change_the_law_of_the_noise() {
    const LEVEL: f64 = 1e-6;
    let mechanism = with_rate(1.0);
    let variance = signed(mechanism.noise().variance().try_into().unwrap());
    for (conduct, seed) in ALL.into_iter().zip(0..) {
        let rounds = attack(&mechanism, conduct, seed);
        let (mut squares, mut n) = (0.0, 0_u64);
        for _time in 0..20 {
            for round in &rounds {
                let shape = shape(round.number);
                let mut secure = SecureNoise::new();
                let mut collecting = mechanism.begin(round.number, shape);
                for (slot, vector) in &round.uploads {
                    let _refused_as_a_repeat = collecting.receive(*slot, vector);
                }
                let released = collecting.close(&mut secure).unwrap().release;
                let beneath = pre_noise(&mechanism, round.number, shape, seed, &round.uploads);
                let noise = difference(released.sums(), &beneath);
                squares += noise.iter().map(|k| signed(*k).powi(2)).sum::<f64>();
                n += noise.len() as u64;
            }
        }
        // Σ k² / σ² is χ² with n degrees of freedom to about 1/σ².
        let statistic = squares / variance;
        check_chi_squared(statistic, float(n), LEVEL).unwrap();
        // Control: noise that is smaller by a tenth of its standard deviation would be detected.
        let weaker = check_chi_squared(0.81 * statistic, float(n), LEVEL);
        assert!(weaker.is_err(), "{conduct:?}");
    }
}
