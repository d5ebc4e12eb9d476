//! Tests that the noise follows the discrete Gaussian, in direct draws and in releases (INV-8).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{float, mechanism, release, settings, signed, source};
use fedbo_privacy::mechanism::{DiscreteGaussian, Mechanism, ReleaseShape, SecureNoise, Server};
use fedbo_testkit::statistics::{check_chi_squared, normal_cdf};

/// Probability that a correct sampler fails one comparison.
const LEVEL: f64 = 1e-6;

/// Returns P(k) ∝ exp(−k²/(2σ²)), normalised over all k whose weight does not underflow.
fn exact_pmf(variance: f64) -> impl Fn(i64) -> f64 {
    let weight = move |k: i64| (-signed(k).powi(2) / (2.0 * variance)).exp();
    let total: f64 = (-2000..=2000).map(weight).sum();
    move |k| weight(k) / total
}

/// Checks Pearson's statistic over cells with at least 20 expected draws each. Each tail is one
/// cell.
fn check_against_pmf(draws: &[i64], pmf: impl Fn(i64) -> f64) -> Result<(), String> {
    let n = float(draws.len() as u64);
    let last = (0..2000).take_while(|k| n * pmf(*k) >= 20.0).last().unwrap();
    let (mut statistic, mut inside) = (0.0, 0.0);
    for k in -last..=last {
        let found = float(draws.iter().filter(|draw| **draw == k).count() as u64);
        statistic += (found - n * pmf(k)).powi(2) / (n * pmf(k));
        inside += pmf(k);
    }
    let tail = n * 0.5 * (1.0 - inside);
    for beyond in [
        draws.iter().filter(|draw| **draw > last).count(),
        draws.iter().filter(|draw| **draw < -last).count(),
    ] {
        statistic += (float(beyond as u64) - tail).powi(2) / tail;
    }
    check_chi_squared(statistic, signed(2 * last + 2), LEVEL)
}

/// For a large σ, the distribution is normal, with a relative error of about 1/σ² in each cell.
/// Checks 60 cells of 0.15 σ, both tails beyond 4.5 σ, which contain 7e-6 of all draws, and the
/// variance.
fn check_against_normal(draws: &[i64], std: f64) -> Result<(), String> {
    let n = float(draws.len() as u64);
    let mut cells = [0_u64; 62];
    for draw in draws {
        let place = (signed(*draw) / std / 0.15).floor() + 31.0;
        let cell = (0_u8..62).rev().find(|cell| f64::from(*cell) <= place).unwrap_or(0);
        cells[usize::from(cell)] += 1;
    }
    let edge = |cell: u8| 0.15 * (f64::from(cell) - 31.0);
    let mut statistic = 0.0;
    for (cell, found) in (0_u8..).zip(cells) {
        let below = if cell == 0 { 0.0 } else { normal_cdf(edge(cell)) };
        let above = if cell == 61 { 0.0 } else { normal_cdf(-edge(cell + 1)) };
        let expected = n * (1.0 - below - above);
        statistic += (float(found) - expected).powi(2) / expected;
    }
    check_chi_squared(statistic, 61.0, LEVEL)?;
    for beyond in [2.0, 2.5, 3.0, 3.5] {
        for side in [-1.0, 1.0] {
            let found = draws.iter().filter(|k| side * signed(**k) > beyond * std).count();
            let expected = n * normal_cdf(-beyond);
            let error = (float(found as u64) - expected) / expected.sqrt();
            if error.abs() > 6.0 {
                return Err(format!(
                    "tail beyond {} σ: {found}, expected {expected}",
                    side * beyond
                ));
            }
        }
    }
    let squares: f64 = draws.iter().map(|k| (signed(*k) / std).powi(2)).sum();
    check_chi_squared(squares, n, LEVEL)
}

fn draws(variance: u128, n: usize, seed: u64) -> Vec<i64> {
    let law = DiscreteGaussian::new(variance).unwrap();
    law.draws(n, 0, &mut source(seed)).unwrap()
}

/// Checks every cell of the exact distribution for small σ², including values with a non-integer
/// root.
fn small_variances(n: usize) {
    for (seed, variance) in (0..).zip([1_u32, 2, 3, 7, 10, 50, 400, 1_000, 10_000]) {
        let draws = draws(u128::from(variance), n, seed);
        check_against_pmf(&draws, exact_pmf(f64::from(variance)))
            .unwrap_or_else(|figures| panic!("variance {variance}: {figures}"));
    }
}

#[test]
fn small_variances_follow_the_exact_law() {
    small_variances(60_000);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn small_variances_follow_the_exact_law_in_five_million_draws() {
    small_variances(5_000_000);
}

/// Covers σ up to 2^40, for which every square exceeds 64 bits.
#[test]
fn large_variances_follow_the_normal_law() {
    for (seed, log) in (20..).zip([30, 47, 61, 80]) {
        let draws = draws(1 << log, 300_000, seed);
        check_against_normal(&draws, 2_f64.powf(f64::from(log) / 2.0))
            .unwrap_or_else(|figures| panic!("variance 2^{log}: {figures}"));
    }
}

/// Checks that a release of an empty round is noise of standard deviation z K, in each region and
/// in the total.
fn releases(n_rounds: u64) {
    for z in [0.6, 1.0, 2.5] {
        let mechanism = mechanism(3, 3, 50, 0.5, z);
        let std = z * float(mechanism.lattice().bound());
        assert!((mechanism.noise_std() / mechanism.lattice().spacing() / std - 1.0).abs() < 1e-12);
        let mut source = source(40);
        let mut of_parts = vec![Vec::new(); 4];
        for round in 0..n_rounds {
            let regions = release(&mechanism, 2 * round, ReleaseShape::Regions, &mut source, &[]);
            for (part, sum) in of_parts.iter_mut().zip(regions.sums().chunks_exact(50)) {
                part.extend(sum);
            }
            let total = release(&mechanism, 2 * round + 1, ReleaseShape::Total, &mut source, &[]);
            of_parts[3].extend(total.sums());
        }
        for (part, draws) in of_parts.iter().enumerate() {
            check_against_normal(draws, std)
                .unwrap_or_else(|figures| panic!("z = {z}, sum {part}: {figures}"));
        }
    }
}

#[test]
fn releases_carry_noise_of_the_declared_size() {
    releases(1_200); // 60,000 draws a sum: 2 % short is 6.9 standard deviations of the variance
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn releases_carry_noise_of_the_declared_size_in_two_million_draws() {
    releases(40_000);
}

/// Control: noise that is 2 % too small, a distribution of floats on a coarser lattice, and a
/// missing tail are detected.
#[test]
fn wrong_laws_are_seen() {
    let honest = draws(1 << 47, 60_000, 60);
    let std = 2_f64.powf(23.5);
    assert!(check_against_normal(&honest, std).is_ok());
    assert!(check_against_normal(&honest, std / 0.98).is_err());
    let cut: Vec<i64> = honest.iter().copied().filter(|k| signed(*k) < 3.0 * std).collect();
    assert!(check_against_normal(&cut, std).is_err());
    let small = draws(7, 60_000, 61);
    assert!(check_against_pmf(&small, exact_pmf(7.0)).is_ok());
    assert!(check_against_pmf(&small, exact_pmf(7.5)).is_err());
    let coarse: Vec<i64> = draws(28, 60_000, 62).iter().map(|k| k / 2).collect();
    assert!(check_against_pmf(&coarse, exact_pmf(7.0)).is_err());
}

#[test]
fn variances_out_of_range_are_refused() {
    for variance in [0, DiscreteGaussian::MAX_VARIANCE + 1, u128::MAX] {
        let error = DiscreteGaussian::new(variance).unwrap_err();
        assert_eq!(error.value, variance.to_string());
    }
    assert!(DiscreteGaussian::new(1).is_ok());
}

/// Each server of a secure sum draws the complete noise from a separate stream. With a shared
/// stream, each server would know the other's noise.
#[test]
fn the_noises_of_two_servers_are_whole_and_independent() {
    let mechanism = Mechanism::for_secure_sum(settings(3, 1, 4, 1.0, 1.5), 12).unwrap();
    let n = 20_000;
    let [leader, helper] = [Server::Leader, Server::Helper]
        .map(|server| mechanism.server_noise(server, (n, 5), &mut source(9)).unwrap());
    let variance = float(u64::try_from(mechanism.noise().variance()).unwrap());
    let product = |a: &[i64], b: &[i64]| {
        let sum: f64 = a.iter().zip(b).map(|(a, b)| signed(*a) * signed(*b)).sum();
        sum / float(n as u64) / variance
    };
    // The tolerances are five standard errors of a variance and of a correlation.
    assert!((product(&leader, &leader) - 1.0).abs() < 0.05);
    assert!((product(&helper, &helper) - 1.0).abs() < 0.05);
    assert!(product(&leader, &helper).abs() < 0.036);
    // Noise from the operating system is fresh each time.
    let mut secure = SecureNoise::new();
    let mut draw = || mechanism.server_noise(Server::Leader, (8, 5), &mut secure).unwrap();
    assert_ne!(*draw(), *draw());
}
