//! Tests that the release time does not depend on vectors or on the sample (INV-4, INV-5, INV-9).

use std::hint::black_box;
use std::time::Instant;

use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, SecureNoise};
use fedbo_protocol::{
    AgentUpdate, Aggregator, Coordinator, Effect, Instants, LatticeRounds, ReleaseSchedule,
    RoundMechanism, Tick,
};
use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use crate::aggregator::common::map_hash;

const COLLECT: Tick = 60;
const PERIOD: Tick = 100;

fn mechanism(n_slots: u32, n_features: u32, rate: f64) -> Mechanism {
    Mechanism::new(MechanismSettings {
        n_slots,
        n_regions: 1,
        n_features,
        max_norm: 1.1 * f64::from(n_features).sqrt(),
        sampling_rate: SamplingRate::new(rate).unwrap(),
        noise_multiplier: NoiseMultiplier::new(1.5).unwrap(),
    })
    .unwrap()
}

fn rounds(n_slots: u32, n_features: u32, rate: f64) -> LatticeRounds<SecureNoise> {
    let schedule = ReleaseSchedule::new(u64::from(u32::MAX), 1, 0).unwrap();
    let mechanism = mechanism(n_slots, n_features, rate);
    LatticeRounds::new(mechanism, schedule, SecureNoise::new())
}

/// Creates a vector of one of eight kinds. The hostile kinds exercise every code path.
fn vector(kind: usize, n_features: usize, luck: &mut Stream) -> Vec<f64> {
    let norm = 1.1 * (n_features as f64).sqrt();
    match kind {
        0 => vec![0.0; n_features],
        1 => vec![f64::NAN; n_features],
        2 => vec![f64::MAX; n_features],
        3 => vec![5e-324; n_features],
        4 => {
            let mut vector = luck.normals(n_features);
            vector[luck.below(n_features)] = f64::NEG_INFINITY;
            vector
        }
        5 => {
            // At the clipping norm, or one ulp above it.
            let mut vector = vec![0.0; n_features];
            vector[luck.below(n_features)] =
                if luck.bernoulli(0.5) { norm } else { norm.next_up() };
            vector
        }
        6 => luck.normals(n_features).iter().map(|x| 1e6 * x).collect(),
        _ => luck.normals(n_features),
    }
}

/// Plays rounds of the mechanism in virtual time, with some vectors missing and others late. Each
/// round closes when all vectors have arrived or at its deadline. The release leaves at its
/// scheduled time, regardless of the vectors and the sample.
fn leaves_at_its_instant(n_rounds: u64) {
    const N: u32 = 3;
    const M: u32 = 4;
    let instants = Some(Instants::new(COLLECT, PERIOD).unwrap());
    let schedule = ReleaseSchedule::new(n_rounds, 1, 0).unwrap();
    // Half of the slots are sampled. Whether a vector was sampled is secret, and the time must not
    // reveal it.
    let mut aggregator = Aggregator::new(rounds(N, M, 0.5), schedule, map_hash(), instants);
    let mut luck = test_stream(1);
    let mut began = 7;
    assert_eq!(aggregator.start(began), [Effect::Recall { round: 0 }]);
    for round in 0..n_rounds {
        aggregator.recalled(round, None, began).unwrap();
        let mut committed = false;
        let mut arrivals: Vec<Tick> = (0..N).map(|_| luck.below(80) as Tick).collect();
        arrivals.sort_unstable();
        let n_in_time = arrivals.iter().filter(|time| **time < COLLECT).count();
        for (sender, time) in (0..N).zip(&arrivals) {
            let kind = luck.below(8);
            let weights = vector(kind, M as usize, &mut luck);
            let (sender, map) = (sender, map_hash());
            let update = AgentUpdate { sender, round, map, weights: weights.into() };
            if *time < COLLECT || committed {
                let effects = aggregator.receive(update, began + time);
                // The only possible response to a vector is that its round is over.
                let closes = n_in_time == N as usize && sender + 1 == N;
                match effects.as_slice() {
                    [] => assert!(!closes),
                    [Effect::Commit { round: of, .. }] => {
                        assert!(closes && *of == round);
                        committed = true;
                    }
                    [Effect::Refuse(_)] => assert!(*time >= COLLECT),
                    other => panic!("{other:?}"),
                }
            } else {
                let effects = aggregator.tick(began + COLLECT);
                assert!(matches!(effects.as_slice(), [Effect::Commit { .. }]));
                committed = true;
            }
        }
        assert!(committed);
        assert_eq!(aggregator.committed(round, began + 90).unwrap(), []);
        assert_eq!(aggregator.deadline(), Some(began + PERIOD));
        assert_eq!(aggregator.tick(began + PERIOD - 1), []);
        began += PERIOD;
        match aggregator.tick(began).as_slice() {
            [Effect::Broadcast(handout), Effect::Recall { .. }] => {
                assert_eq!((handout.round, handout.releases.len()), (round + 1, 1));
            }
            // This was the last round with a release.
            [Effect::Broadcast(handout)] => assert_eq!(handout.round, n_rounds),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the rank correlation between times and the adversary's choice, and the number of pairs.
/// Ranks limit the influence of process interruptions, which do not depend on the contents.
fn correlation(of: &[Vec<f64>; 2]) -> (f64, usize) {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for (choice, times) in [0.0, 1.0].into_iter().zip(of) {
        pairs.extend(times.iter().map(|time| (choice, *time)));
    }
    pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Equal times get the mean of their ranks.
    let mut ranked = Vec::with_capacity(pairs.len());
    for equals in pairs.chunk_by(|a, b| a.1.to_bits() == b.1.to_bits()) {
        let rank = ranked.len() as f64 + 0.5 * (equals.len() as f64 - 1.0);
        ranked.extend(equals.iter().map(|(choice, _)| (*choice, rank)));
    }
    let n = ranked.len() as f64;
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| ranked.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let covariance = mean(&|pair| (pair.0 - x) * (pair.1 - y));
    let (xx, yy) = (mean(&|pair| (pair.0 - x).powi(2)), mean(&|pair| (pair.1 - y).powi(2)));
    (covariance / (xx * yy).sqrt(), ranked.len())
}

/// Measures the seconds from the last vector to the bytes of the release, for zero vectors and for
/// hostile vectors. The order is random, so that drift affects both equally. `work` runs within the
/// measured time.
#[expect(clippy::disallowed_methods, reason = "this test measures time")]
fn closings(n: usize, work: impl Fn(usize)) -> [Vec<f64>; 2] {
    const N: u32 = 20;
    const M: u32 = 64;
    const POOL: usize = 50;
    let mut rounds = rounds(N, M, 0.5);
    let mut luck = test_stream(2);
    // Vectors are generated in advance and copied to one buffer, either unchanged or masked to
    // zeros, so that only the numbers differ between rounds.
    let pool: Vec<Vec<Vec<f64>>> = (0..POOL)
        .map(|_| {
            let vectors = (0..N).map(|_| {
                let kind = 1 + luck.below(7);
                vector(kind, M as usize, &mut luck)
            });
            vectors.collect()
        })
        .collect();
    let mut times = [Vec::new(), Vec::new()];
    let mut sent = vec![vec![0.0; M as usize]; N as usize];
    for round in 0..n as u64 {
        let (choice, which) = (luck.below(2), luck.below(POOL));
        let mask = u64::MAX * choice as u64;
        let numbers = sent.iter_mut().flatten().zip(pool[which].iter().flatten());
        numbers.for_each(|(to, from)| *to = f64::from_bits(from.to_bits() & mask));
        let mut collecting = rounds.open(round).unwrap();
        for (slot, vector) in (0..).zip(&sent) {
            rounds.receive(&mut collecting, slot, vector).unwrap();
        }
        let began = Instant::now();
        let closing = rounds.close(collecting).unwrap();
        work(choice);
        black_box(&closing.bytes);
        times[choice].push(began.elapsed().as_secs_f64());
    }
    times
}

/// For independent pairs, the absolute correlation exceeds 5/√n with a probability of 6e-7.
fn is_uncorrelated(times: &[Vec<f64>; 2]) -> Result<(), String> {
    let (found, n) = correlation(times);
    let limit = 5.0 / (n as f64).sqrt();
    match found.abs() < limit {
        true => Ok(()),
        false => Err(format!("correlation {found:.4} of {n}, at most {limit:.4}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "this test measures time")]
fn times_tell_nothing(n: usize) {
    let times = closings(n, |_| {});
    is_uncorrelated(&times).unwrap();
    // Verifies that the check can fail: a tenth of the typical time, added to one choice, is
    // detected.
    let mut usual = times.concat();
    usual.sort_by(f64::total_cmp);
    let tenth = 0.1 * usual[usual.len() / 2];
    let slower = closings(n, |choice| {
        let began = Instant::now();
        while choice == 1 && began.elapsed().as_secs_f64() < tenth {}
    });
    assert!(is_uncorrelated(&slower).is_err());
}

#[test]
fn release_time_uncorrelated() {
    leaves_at_its_instant(10_000);
    times_tell_nothing(2000);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn release_time_uncorrelated_long() {
    leaves_at_its_instant(100_000);
    times_tell_nothing(100_000);
}
