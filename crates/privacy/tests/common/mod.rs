//! Helpers shared by the mechanism's tests: settings, rounds with a known seed, and sums without
//! noise.
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod audit;

use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, Release, ReleaseShape, SimNoise, Simulated,
};

/// The vectors of a round, in the order of arrival.
pub(crate) type Uploads = [(u32, Vec<f64>)];

/// Returns settings with S = 1.1 √(P M).
pub(crate) fn settings(
    n_slots: u32,
    n_regions: u32,
    n_features: u32,
    q: f64,
    z: f64,
) -> MechanismSettings {
    MechanismSettings {
        n_slots,
        n_regions,
        n_features,
        max_norm: 1.1 * (f64::from(n_regions) * f64::from(n_features)).sqrt(),
        sampling_rate: SamplingRate::new(q).unwrap(),
        noise_multiplier: NoiseMultiplier::new(z).unwrap(),
    }
}

/// Creates a mechanism with these settings.
pub(crate) fn mechanism(
    n_slots: u32,
    n_regions: u32,
    n_features: u32,
    q: f64,
    z: f64,
) -> Mechanism {
    Mechanism::new(settings(n_slots, n_regions, n_features, q, z)).unwrap()
}

/// Creates a source of simulated noise.
pub(crate) fn source(seed: u64) -> SimNoise {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    SimNoise::new(bytes)
}

/// Runs a whole round, ignoring refused vectors.
pub(crate) fn release(
    mechanism: &Mechanism,
    round: u64,
    shape: ReleaseShape,
    source: &mut SimNoise,
    uploads: &Uploads,
) -> Release<Simulated> {
    let mut collecting = mechanism.begin(round, shape);
    for (slot, vector) in uploads {
        let _left_out = collecting.receive(*slot, vector);
    }
    collecting.close(source).unwrap().release
}

/// Returns the sums of a round without noise: the round's release minus that of the same round
/// without vectors.
pub(crate) fn pre_noise(
    mechanism: &Mechanism,
    round: u64,
    shape: ReleaseShape,
    seed: u64,
    uploads: &Uploads,
) -> Vec<i64> {
    let full = release(mechanism, round, shape, &mut source(seed), uploads);
    let empty = release(mechanism, round, shape, &mut source(seed), &[]);
    difference(full.sums(), empty.sums())
}

/// Returns a − b.
pub(crate) fn difference(a: &[i64], b: &[i64]) -> Vec<i64> {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Returns Σ k², exactly.
pub(crate) fn squared_norm(sums: &[i64]) -> u128 {
    let squares = sums.iter().map(|k| u128::from(k.unsigned_abs()).pow(2));
    squares.sum()
}

/// Returns K².
pub(crate) fn squared_bound(mechanism: &Mechanism) -> u128 {
    u128::from(mechanism.lattice().bound()).pow(2)
}

/// Converts to a float, with a relative error of about 1e-16.
#[expect(clippy::cast_precision_loss, reason = "figures for statistics")]
pub(crate) fn float(n: u64) -> f64 {
    n as f64
}

/// Converts to a float, with a relative error of about 1e-16.
#[expect(clippy::cast_precision_loss, reason = "figures for statistics")]
pub(crate) fn signed(n: i64) -> f64 {
    n as f64
}
