//! Tests that the paper's mechanism equals a direct implementation of Algorithm 1 lines 5 to 11.
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{float, source};
use fedbo_privacy::accounting::{Noise, Sampling, SamplingRate};
use fedbo_privacy::mechanism::{
    PaperError, PaperMechanism, PaperRelease, PaperSampling, PaperSettings, ReleaseRefused, Secure,
    SecureNoise, Simulated, VectorRefused, WeightMax,
};
use fedbo_testkit::statistics::{check_chi_squared, check_standard_normal};
use fedbo_testkit::test_stream;

fn poisson(q: f64) -> PaperSampling {
    PaperSampling::Poisson(SamplingRate::new(q).unwrap())
}

fn fixed(q: f64) -> PaperSampling {
    PaperSampling::FixedSize(SamplingRate::new(q).unwrap())
}

/// N = 6, P = 2, M = 3, S = 2.
fn settings(sampling: PaperSampling, noise_multiplier: f64) -> PaperSettings {
    PaperSettings {
        n_slots: 6,
        n_regions: 2,
        n_features: 3,
        max_norm: 2.0,
        sampling,
        noise_multiplier,
        weight_max: WeightMax::Overall,
    }
}

fn paper(sampling: PaperSampling, noise_multiplier: f64) -> PaperMechanism {
    PaperMechanism::new(settings(sampling, noise_multiplier)).unwrap()
}

/// Returns rows that sum to 1. The largest weight is 0.5, in region 1.
fn weights() -> Vec<Vec<f64>> {
    vec![vec![0.25, 0.25, 0.25, 0.125, 0.0625, 0.0625], vec![0.125, 0.125, 0.125, 0.125, 0.0, 0.5]]
}

fn vectors() -> Vec<Vec<f64>> {
    let mut stream = test_stream(1);
    (0..6).map(|n| stream.normals(3).iter().map(|x| x * [0.2, 3.0][n % 2]).collect()).collect()
}

fn rows<K>(release: &PaperRelease<K>) -> Vec<Vec<f64>> {
    release.region_weights().map(<[f64]>::to_vec).collect()
}

fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>]) {
    assert_eq!(found.len(), expected.len());
    for (x, y) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((x - y).abs() < 1e-13 * (1.0 + y.abs()), "{x} {y}");
    }
}

/// Evaluates the formula (1/q) Σ φ_n^(i) ω_n / max(1, ‖ω_n‖ / (S/√P)).
fn weighted(vectors: &[Vec<f64>], sampled: &[bool], q: f64) -> Vec<Vec<f64>> {
    let clip = 2.0 / 2_f64.sqrt();
    let average = |row: &Vec<f64>| {
        let mut sum = vec![0.0; 3];
        for ((vector, weight), _) in vectors.iter().zip(row).zip(sampled).filter(|(_, s)| **s) {
            let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            for (s, x) in sum.iter_mut().zip(vector) {
                *s += weight / q * x / (norm / clip).max(1.0);
            }
        }
        sum
    };
    weights().iter().map(average).collect()
}

#[test]
fn without_noise_and_sampling_it_is_the_weighted_average_of_clipped_vectors() {
    let closed = paper(poisson(1.0), 0.0)
        .aggregate(3, &vectors(), weights(), &mut SecureNoise::new())
        .unwrap();
    assert_close(&rows(&closed.release), &weighted(&vectors(), &[true; 6], 1.0));
    assert_eq!(closed.event, None, "nothing is private without noise");
    assert_eq!(closed.release.noise_stds(), [0.0; 2]);
    assert_eq!(closed.release.round(), 3);
    let unclipped = PaperMechanism::new(PaperSettings {
        max_norm: f64::INFINITY,
        ..settings(poisson(1.0), 0.0)
    });
    let small: Vec<Vec<f64>> =
        vectors().iter().map(|v| v.iter().map(|x| x * 0.1).collect()).collect();
    let closed = unclipped.unwrap().aggregate(0, &small, weights(), &mut source(1)).unwrap();
    assert_close(&rows(&closed.release), &weighted(&small, &[true; 6], 1.0));
}

/// Each agent takes part with probability q, and sums are divided by q. The release of a round
/// matches one of the 64 possible samples.
#[test]
fn poisson_samples_are_divided_by_q() {
    let (mechanism, vectors, mut counts) = (paper(poisson(0.25), 0.0), vectors(), [0_u64; 6]);
    let n_rounds = 4_000;
    let mut source = source(2);
    for round in 0..n_rounds {
        let closed = mechanism.aggregate(round, &vectors, weights(), &mut source).unwrap();
        let found = rows(&closed.release);
        let sample = (0_u32..64)
            .map(|bits| [0, 1, 2, 3, 4, 5].map(|slot| bits >> slot & 1 == 1))
            .find(|sample| {
                let expected = weighted(&vectors, sample, 0.25);
                let both = found.iter().flatten().zip(expected.iter().flatten());
                both.into_iter().all(|(x, y)| (x - y).abs() < 1e-12)
            })
            .expect("the release is of no sample");
        counts.iter_mut().zip(sample).for_each(|(count, s)| *count += u64::from(s));
    }
    let n = float(n_rounds);
    let deviation = |hits: &u64| (float(*hits) - 0.25 * n).powi(2) / (n * 0.25 * 0.75);
    check_chi_squared(counts.iter().map(deviation).sum(), 6.0, 1e-6).unwrap();
}

/// Samples contain ⌊q N⌋ agents, and each subset occurs equally often. Sums are also divided by q.
#[test]
fn samples_of_fixed_size_have_it_and_are_uniform() {
    let (mechanism, vectors) = (paper(fixed(0.4), 0.0), vectors()); // ⌊0.4 · 6⌋ = 2
    let pairs: Vec<[bool; 6]> = (0..6)
        .flat_map(|a| (0..a).map(move |b| [0, 1, 2, 3, 4, 5].map(|s| s == a || s == b)))
        .collect();
    let (mut counts, mut source) = (vec![0_u64; pairs.len()], source(3));
    for round in 0..3_000 {
        let closed = mechanism.aggregate(round, &vectors, weights(), &mut source).unwrap();
        let found = rows(&closed.release);
        let place = pairs.iter().position(|sample| {
            let expected = weighted(&vectors, sample, 0.4);
            let both = found.iter().flatten().zip(expected.iter().flatten());
            both.into_iter().all(|(x, y)| (x - y).abs() < 1e-12)
        });
        counts[place.expect("the release is of no pair")] += 1;
    }
    let statistic = counts.iter().map(|found| (float(*found) - 200.0).powi(2) / 200.0).sum();
    check_chi_squared(statistic, 14.0, 1e-6).unwrap();
    let mechanism = paper(fixed(0.4), 1.0);
    let sampling = Sampling::WithoutReplacement { n_sampled: 2, n_agents: 6 };
    assert_eq!(mechanism.event().unwrap().sampling, sampling);
}

/// The noise is normal with standard deviation z φ_max S/q, where φ_max is taken over all regions
/// or for each region, and is independent of participation.
#[test]
fn the_noise_is_normal_with_the_papers_standard_deviation() {
    for (weight_max, expected) in [
        (WeightMax::Overall, [1.5 * 0.5 * 2.0 / 0.25; 2]),
        (WeightMax::PerRegion, [1.5 * 0.25 * 2.0 / 0.25, 1.5 * 0.5 * 2.0 / 0.25]),
    ] {
        let mechanism =
            PaperMechanism::new(PaperSettings { weight_max, ..settings(poisson(0.25), 1.5) })
                .unwrap();
        let mut noise = Vec::new();
        for round in 0..1_000 {
            let empty = mechanism.aggregate(round, &[], weights(), &mut source(4)).unwrap();
            let full = mechanism.aggregate(round, &vectors(), weights(), &mut source(4)).unwrap();
            assert_eq!(empty.release.noise_stds(), expected);
            assert_eq!(
                (full.release.noise_stds(), full.event),
                (empty.release.noise_stds(), empty.event)
            );
            for (row, std) in empty.release.region_weights().zip(expected) {
                noise.extend(row.iter().map(|x| x / std));
            }
        }
        check_standard_normal(&noise, 1e-6).unwrap();
        let Noise::Gaussian(multiplier) = mechanism.event().unwrap().noise else {
            panic!("another noise");
        };
        assert!((multiplier.get() - 1.5).abs() < 1e-300);
    }
}

/// Vectors can arrive in any order, and are refused for the same reasons as by the lattice
/// mechanism. Non-finite vectors are treated as zero, and huge ones are clipped.
#[test]
fn vectors_are_taken_by_slot_and_checked() {
    let mechanism = paper(poisson(1.0), 1.0);
    let vectors = vectors();
    let round = |order: &[u32]| {
        let mut collecting = mechanism.begin(1, weights()).unwrap();
        for slot in order {
            collecting.receive(*slot, &vectors[*slot as usize]).unwrap();
        }
        assert_eq!(collecting.receive(0, &[0.0; 3]), Err(VectorRefused::Repeated { slot: 0 }));
        let unknown = VectorRefused::UnknownSlot { slot: 6, last: 5 };
        assert_eq!(collecting.receive(6, &[0.0; 3]), Err(unknown));
        assert!(matches!(collecting.receive(5, &[0.0; 2]), Err(VectorRefused::WrongLength { .. })));
        collecting.close(&mut source(5)).unwrap().release
    };
    assert_eq!(round(&[0, 1, 2, 3, 4]), round(&[4, 2, 0, 3, 1]));

    let mechanism = paper(poisson(1.0), 0.0);
    let of = |vector: [f64; 3]| {
        let closed = mechanism.aggregate(0, &[vector.to_vec()], weights(), &mut source(6)).unwrap();
        rows(&closed.release)
    };
    assert_close(&of([f64::NAN, 1.0, 1.0]), &[vec![0.0; 3], vec![0.0; 3]]);
    assert_close(&of([f64::INFINITY, 1.0, 1.0]), &[vec![0.0; 3], vec![0.0; 3]]);
    let clip = 2.0 / 2_f64.sqrt();
    for huge in [1e200, f64::MAX] {
        let expected = |weight: f64| {
            vec![weight * clip * 0.5_f64.sqrt(), 0.0, -weight * clip * 0.5_f64.sqrt()]
        };
        assert_close(&of([huge, 0.0, -huge]), &[expected(0.25), expected(0.125)]);
    }
    assert_close(&of([5e-324, 0.0, -0.0]), &[vec![0.0; 3], vec![0.0; 3]]);
}

#[test]
fn bad_settings_and_weights_are_refused() {
    let refused = |change: fn(&mut PaperSettings)| {
        let mut settings = settings(poisson(0.5), 1.0);
        change(&mut settings);
        PaperMechanism::new(settings).unwrap_err()
    };
    for error in [
        refused(|s| s.noise_multiplier = -1.0),
        refused(|s| s.noise_multiplier = f64::NAN),
        refused(|s| s.noise_multiplier = f64::INFINITY),
        refused(|s| s.max_norm = 0.0),
        refused(|s| s.max_norm = f64::INFINITY),
        refused(|s| s.sampling = poisson(1e-12)),
    ] {
        assert!(matches!(error, PaperError::Number { .. }), "{error}");
    }
    assert!(matches!(refused(|s| s.n_slots = 0), PaperError::Dimensions(_)));
    assert!(matches!(refused(|s| s.sampling = fixed(0.1)), PaperError::NobodySampled { .. }));

    let mechanism = paper(poisson(0.5), 1.0);
    let weighted = |change: fn(&mut Vec<Vec<f64>>)| {
        let mut weights = weights();
        change(&mut weights);
        mechanism.begin(0, weights).unwrap_err()
    };
    for error in [
        weighted(Vec::clear),
        weighted(|w| w.truncate(1)),
        weighted(|w| w.push(w[0].clone())),
        weighted(|w| w[1].truncate(5)),
    ] {
        assert!(matches!(error, PaperError::WeightShape { .. }), "{error}");
    }
    for error in [
        weighted(|w| w[0][0] = 0.26),
        weighted(|w| w[1][4] = f64::NAN),
        weighted(|w| {
            w[0][0] = -0.25;
            w[0][1] = 0.75;
        }),
    ] {
        assert!(matches!(error, PaperError::Weights { .. }), "{error}");
    }
}

#[test]
fn a_release_is_read_back_and_nothing_else_is() {
    let closed =
        paper(poisson(0.5), 1.0).aggregate(8, &vectors(), weights(), &mut source(7)).unwrap();
    let bytes = closed.release.to_bytes();
    assert_eq!(PaperRelease::<Simulated>::from_bytes(&bytes), Ok(closed.release));
    assert_eq!(PaperRelease::<Secure>::from_bytes(&bytes), Err(ReleaseRefused::OtherKind));
    for length in 0..bytes.len() {
        assert!(PaperRelease::<Simulated>::from_bytes(&bytes[..length]).is_err());
    }
    for extra in [1, 8, 100] {
        let longer = [bytes.clone(), vec![0; extra]].concat();
        assert!(PaperRelease::<Simulated>::from_bytes(&longer).is_err());
    }
    let last = bytes.len() - 8;
    for (place, number) in [(last, f64::NAN), (last, f64::INFINITY), (25, f64::NAN), (25, -1.0)] {
        let mut bad = bytes.clone();
        bad[place..place + 8].copy_from_slice(&number.to_bits().to_le_bytes());
        let refused = PaperRelease::<Simulated>::from_bytes(&bad);
        assert!(matches!(refused, Err(ReleaseRefused::Field { .. })), "{refused:?}");
    }
}
