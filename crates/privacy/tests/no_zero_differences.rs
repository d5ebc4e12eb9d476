//! Tests that no two rounds, regions or coordinates share noise or a key (INV-2, INV-8).

use crate::common;

use std::collections::BTreeSet;

use common::{mechanism, release, source};
use fedbo_privacy::mechanism::{Mechanism, NoiseSource, ReleaseShape, SecureNoise};

/// Creates a mechanism with σ = 2^16 K, near 2^40. Two of 15,000 honest draws have equal magnitudes
/// with probability below 1e-4.
fn wide_noise() -> Mechanism {
    mechanism(10, 4, 30, 0.5, 65_536.0)
}

/// Returns all noise of 50 rounds: P sums and one total, of M numbers each.
fn noise<S: NoiseSource>(mechanism: &Mechanism, source: &mut S) -> Vec<i64> {
    let mut all = Vec::new();
    for round in 0..50 {
        for (round, shape) in
            [(2 * round, ReleaseShape::Regions), (2 * round + 1, ReleaseShape::Total)]
        {
            let closed = mechanism.begin(round, shape).close(source);
            all.extend(closed.unwrap_or_else(|e| panic!("{e}")).release.sums());
        }
    }
    all
}

/// Checks the differences of all pairs at once, because equal values or magnitudes would be
/// adjacent after sorting.
fn assert_all_different(noise: &[i64]) {
    let values: BTreeSet<u64> = noise.iter().map(|k| k.unsigned_abs()).collect();
    assert_eq!(values.len(), noise.len(), "noise is shared");
    // The differences of adjacent pairs are also unique, so shared noise that is shifted would be
    // detected here.
    let differences: BTreeSet<u64> =
        noise.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
    assert_eq!(differences.len(), noise.len() - 1);
}

#[test]
fn no_two_rounds_regions_or_coordinates_share_noise() {
    let mechanism = wide_noise();
    assert_all_different(&noise(&mechanism, &mut source(5)));
    assert_all_different(&noise(&mechanism, &mut SecureNoise::new()));
}

/// A restarted round in production has new noise, so two releases of one round would differ. A
/// simulation repeats its noise.
#[test]
fn secure_noise_never_repeats_and_simulated_noise_does() {
    let mechanism = wide_noise();
    let mut twice = noise(&mechanism, &mut SecureNoise::new());
    twice.extend(noise(&mechanism, &mut SecureNoise::new()));
    assert_all_different(&twice);
    assert_eq!(noise(&mechanism, &mut source(5)), noise(&mechanism, &mut source(5)));
    let mut seeds = noise(&mechanism, &mut source(5));
    seeds.extend(noise(&mechanism, &mut source(6)));
    assert_all_different(&seeds);
}

/// Coins and noise use different random words, so a different q with the same seed leaves the noise
/// unchanged.
#[test]
fn noise_does_not_depend_on_the_rate() {
    let sums = |q| {
        let mechanism = mechanism(10, 4, 30, q, 1.0);
        release(&mechanism, 3, ReleaseShape::Regions, &mut source(7), &[]).sums().to_vec()
    };
    assert_eq!(sums(0.25), sums(1.0));
}
