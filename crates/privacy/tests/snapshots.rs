//! Tests of a machine that is cloned while a round collects and continued twice, so that one round
//! is released twice. Each continuation has its own noise and coins, so the difference between two
//! releases is never free of noise. INV-2 cannot hold in this case, but INV-8 does.
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{mechanism, pre_noise, source};
use fedbo_privacy::accounting::SamplingRate;
use fedbo_privacy::mechanism::{
    Collecting, Mechanism, PaperMechanism, PaperSampling, PaperSettings, ReleaseShape, SecureNoise,
    VectorRefused, WeightMax,
};

const SHAPES: [ReleaseShape; 2] = [ReleaseShape::Regions, ReleaseShape::Total];

const N: u32 = 8;
const M: u32 = 40;

fn vector(slot: u32) -> Vec<f64> {
    vec![0.01 * f64::from(slot + 1); M as usize]
}

/// Returns two copies of one round. They are equivalent to a snapshot, because both have the same
/// history.
fn copies(mechanism: &Mechanism, shape: ReleaseShape) -> [Collecting; 2] {
    std::array::from_fn(|_| {
        let mut collecting = mechanism.begin(7, shape);
        for slot in 0..N - 1 {
            collecting.receive(slot, &vector(slot)).unwrap();
        }
        collecting
    })
}

/// One copy receives an additional vector. If both copies drew the same noise, the difference
/// between their releases would be that vector.
#[test]
fn a_snapshot_that_is_continued_twice_releases_with_noise_of_its_own() {
    let mechanism = mechanism(N, 2, M, 1.0, 1.0);
    let uploads: Vec<(u32, Vec<f64>)> = (0..N).map(|slot| (slot, vector(slot))).collect();
    for shape in SHAPES {
        let [mut first, second] = copies(&mechanism, shape);
        first.receive(N - 1, &vector(N - 1)).unwrap();
        // One process continues twice, with a single source.
        let mut secure = SecureNoise::new();
        let first = first.close(&mut secure).unwrap().release;
        let second = second.close(&mut secure).unwrap().release;
        let noise = |sums: &[i64], uploads: &[_]| -> Vec<i64> {
            let beneath = pre_noise(&mechanism, 7, shape, 3, uploads);
            sums.iter().zip(beneath).map(|(sum, v)| sum - v).collect()
        };
        let first = noise(first.sums(), &uploads);
        let second = noise(second.sums(), &uploads[..uploads.len() - 1]);
        // The noise is on the order of 2^23, so two draws are equal about once in several million.
        let n_equal = first.iter().zip(&second).filter(|(a, b)| a == b).count();
        assert!(n_equal <= 1, "{n_equal} of {} are shared", first.len());
    }
}

/// The paper's mechanism also draws its noise when it closes.
#[test]
fn a_snapshot_of_the_papers_mechanism_draws_its_own_noise_too() {
    let mechanism = PaperMechanism::new(PaperSettings {
        n_slots: N,
        n_regions: 1,
        n_features: M,
        max_norm: 1.0,
        sampling: PaperSampling::Poisson(SamplingRate::ALL),
        noise_multiplier: 1.0,
        weight_max: WeightMax::Overall,
    })
    .unwrap();
    let weights = vec![vec![1.0 / f64::from(N); N as usize]];
    let mut secure = SecureNoise::new();
    let released: [Vec<u8>; 2] = std::array::from_fn(|_| {
        let mut collecting = mechanism.begin(7, weights.clone()).unwrap();
        for slot in 0..N {
            collecting.receive(slot, &vector(slot)).unwrap();
        }
        collecting.close(&mut secure).unwrap().release.to_bytes()
    });
    assert_ne!(released[0], released[1]);
}

/// Vectors are checked only against public data, and their order of arrival does not matter: equal
/// seeds give equal releases.
#[test]
fn vectors_are_read_in_the_order_of_slots_once_the_noise_is_drawn() {
    let mechanism = mechanism(N, 2, M, 0.5, 1.0);
    for shape in SHAPES {
        let release = |order: &[u32]| {
            let mut collecting = mechanism.begin(7, shape);
            for slot in order {
                collecting.receive(*slot, &vector(*slot)).unwrap();
                let again = collecting.receive(*slot, &vector(0));
                assert_eq!(again, Err(VectorRefused::Repeated { slot: *slot }));
            }
            collecting.close(&mut source(5)).unwrap().release
        };
        let forwards = release(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(forwards, release(&[7, 2, 5, 0, 1, 6, 4, 3]));
    }
}
