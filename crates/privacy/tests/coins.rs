//! Coins have the declared rate and are independent of each other and across rounds (INV-3, INV-8).
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use crate::common;

use common::{float, mechanism, pre_noise, release, signed, source};
use fedbo_privacy::accounting::Sampling;
use fedbo_privacy::mechanism::{Mechanism, ReleaseShape};
use fedbo_testkit::statistics::check_chi_squared;

/// Number of slots in a round.
const N_SLOTS: u32 = 1000;

/// Number of slots that share a coordinate: slot s adds 2^(s mod 22) lattice units to coordinate ⌊s
/// / 22⌋, so the sum without noise encodes the coins.
const PER_COORDINATE: u32 = 22;

fn with_rate(q: f64) -> Mechanism {
    mechanism(N_SLOTS, 1, N_SLOTS.div_ceil(PER_COORDINATE), q, 1.0)
}

/// Returns the participation of all slots, round by round.
fn toss(mechanism: &Mechanism, n_rounds: u64) -> Vec<Vec<bool>> {
    let n_features = mechanism.settings().n_features as usize;
    let spacing = mechanism.lattice().spacing();
    let uploads: Vec<(u32, Vec<f64>)> = (0..N_SLOTS)
        .map(|slot| {
            let mut vector = vec![0.0; n_features];
            let power = f64::from(1_u32 << (slot % PER_COORDINATE));
            vector[(slot / PER_COORDINATE) as usize] = power * spacing;
            (slot, vector)
        })
        .collect();
    (0..n_rounds)
        .map(|round| {
            let sums = pre_noise(mechanism, round, ReleaseShape::Regions, 77, &uploads);
            let coin =
                |slot| (sums[(slot / PER_COORDINATE) as usize] >> (slot % PER_COORDINATE)) & 1;
            assert!(sums.iter().all(|sum| (0..1 << PER_COORDINATE).contains(sum)));
            (0..N_SLOTS).map(|slot| coin(slot) == 1).collect()
        })
        .collect()
}

/// Returns the distance of `hits` from the mean of a binomial distribution, in standard deviations.
fn deviation(hits: u64, tries: u64, probability: f64) -> f64 {
    let n = float(tries);
    (float(hits) - n * probability) / (n * probability * (1.0 - probability)).sqrt()
}

/// Checks the rate of all coins, the counts per slot and per round (their spread reveals dependent
/// coins), and pairs of slots and of rounds at a given distance. For honest coins, each statistic
/// exceeds its limit with probability below 1e-6.
fn check(rounds: &[Vec<bool>], q: f64) {
    let n_rounds = float(rounds.len() as u64);
    let total: u64 = rounds.iter().flatten().map(|coin| u64::from(*coin)).sum();
    let tries = rounds.len() as u64 * u64::from(N_SLOTS);
    let rate = deviation(total, tries, q);
    assert!(rate.abs() < 5.0, "rate {rate:.2} standard deviations from {q}");

    let spread = |counts: &[u64], tries: u64| -> f64 {
        counts.iter().map(|hits| deviation(*hits, tries, q).powi(2)).sum()
    };
    let of_slots: Vec<u64> = (0..N_SLOTS as usize)
        .map(|slot| rounds.iter().map(|coins| u64::from(coins[slot])).sum())
        .collect();
    let of_rounds: Vec<u64> =
        rounds.iter().map(|coins| coins.iter().map(|coin| u64::from(*coin)).sum()).collect();
    let slots = spread(&of_slots, rounds.len() as u64);
    check_chi_squared(slots, f64::from(N_SLOTS), 1e-6).unwrap();
    let sizes = spread(&of_rounds, u64::from(N_SLOTS));
    check_chi_squared(sizes, n_rounds, 1e-6).unwrap();

    let both = q * q;
    for distance in [1, 2, 3, 7, 31, 32, 63, 64, 65, 128, 500] {
        let pairs = rounds.iter().flat_map(|coins| coins.iter().zip(&coins[distance..]));
        let tries = rounds.len() as u64 * (u64::from(N_SLOTS) - distance as u64);
        let found = pairs.filter(|(a, b)| **a && **b).count() as u64;
        let error = pair_error(found, tries, q, both);
        assert!(error.abs() < 5.0, "slots at distance {distance}: {error:.2}");
    }
    for distance in [1, 2, 3, 8, 64] {
        let pairs = rounds.iter().zip(&rounds[distance..]).flat_map(|(a, b)| a.iter().zip(b));
        let tries = (rounds.len() - distance) as u64 * u64::from(N_SLOTS);
        let found = pairs.filter(|(a, b)| **a && **b).count() as u64;
        let error = pair_error(found, tries, q, both);
        assert!(error.abs() < 5.0, "rounds at distance {distance}: {error:.2}");
    }
}

/// Returns the deviation of the number of pairs that took part together, in standard deviations.
/// Overlapping pairs share a coin, which increases the variance to n q² (1 − q²) + 2 n (q³ − q⁴).
fn pair_error(found: u64, tries: u64, q: f64, both: f64) -> f64 {
    let variance = float(tries) * (both * (1.0 - both) + 2.0 * (q.powi(3) - q.powi(4)));
    (float(found) - float(tries) * both) / variance.sqrt()
}

#[test]
fn a_million_coins_have_the_declared_rate_and_are_independent() {
    check(&toss(&with_rate(0.25), 500), 0.25);
    check(&toss(&with_rate(0.7), 500), 0.7);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn ten_million_coins_have_the_declared_rate_and_are_independent() {
    for q in [0.05, 0.25, 0.7] {
        check(&toss(&with_rate(q), 10_000), q);
    }
}

/// Control: each kind of wrong coin is detected.
#[test]
fn wrong_coins_are_seen() {
    let honest = toss(&with_rate(0.25), 300);
    let seen = |rounds: Vec<Vec<bool>>| std::panic::catch_unwind(|| check(&rounds, 0.25)).is_err();
    assert!(!seen(honest.clone()));
    assert!(seen(toss(&with_rate(0.256), 300)));
    let reused_in_rounds = honest.iter().map(|_| honest[0].clone()).collect();
    assert!(seen(reused_in_rounds));
    let doubled = |coins: &Vec<bool>| -> Vec<bool> { (0..1000).map(|s| coins[s / 2]).collect() };
    assert!(seen(honest.iter().map(doubled).collect()));
    let quota = |coins: &Vec<bool>| -> Vec<bool> {
        let mut coins = coins.clone();
        while coins.iter().filter(|coin| **coin).count() < 250 {
            let place = coins.iter().position(|coin| !coin).unwrap();
            coins[place] = true;
        }
        coins
    };
    assert!(seen(honest.iter().map(quota).collect()));
}

/// The event states the actual rate of the coins: the nearest k / 2^32.
#[test]
fn the_event_names_the_rate_of_the_coins() {
    for q in [1.0, 0.25, 0.15, 1.0 / 3.0, 2_f64.powi(-32)] {
        let mechanism = mechanism(1, 1, 1, q, 1.0);
        let Sampling::Poisson(rate) = mechanism.event().sampling else {
            panic!("not Poisson sampling");
        };
        let numerator = rate.get() * 2_f64.powi(32);
        assert!(numerator.fract().abs() < 1e-300 && numerator >= 1.0, "{numerator}");
        assert!((rate.get() - q).abs() <= 2_f64.powi(-33));
        assert!((rate.get() - mechanism.sampling_rate()).abs() < 1e-300);
    }
}

/// With q = 1, every slot takes part; with the smallest q, almost none.
#[test]
fn both_ends_of_the_rate_work() {
    assert!(toss(&with_rate(1.0), 3).iter().flatten().all(|coin| *coin));
    assert!(!toss(&with_rate(2_f64.powi(-32)), 3).iter().flatten().any(|coin| *coin));
}

/// The noise of a round reveals nothing about participation: for each slot, rounds with the slot
/// and rounds without it have the same noise distribution over 32 cells. The noise is so large that
/// its proposals use 32 bits each, like coins, so that shared random words would be detected.
#[test]
fn coins_are_independent_of_the_noise() {
    let (n_slots, n_rounds, q) = (16_u32, 30_000_u64, 0.25);
    let mechanism = mechanism(n_slots, 1, 1, q, 400.0);
    let std = 400.0 * float(mechanism.lattice().bound());
    assert!((2_f64.powi(31)..2_f64.powi(32)).contains(&std));
    let spacing = mechanism.lattice().spacing();
    let uploads: Vec<(u32, Vec<f64>)> =
        (0..n_slots).map(|slot| (slot, vec![f64::from(1_u32 << slot) * spacing])).collect();
    let mut cells = vec![[[0_u64; 32]; 2]; n_slots as usize];
    let mut source = source(78);
    for round in 0..n_rounds {
        let mut play = |uploads| {
            let release = release(&mechanism, round, ReleaseShape::Regions, &mut source, uploads);
            release.sums()[0]
        };
        let (noise, sum) = (play(&[]), play(&uploads));
        let place = (signed(noise) / std * 8.0 + 16.0).clamp(0.0, 31.0);
        let cell = (0_u8..32).rev().find(|cell| f64::from(*cell) <= place).unwrap();
        for (slot, cells) in cells.iter_mut().enumerate() {
            let coin = usize::from(((sum - noise) >> slot) & 1 == 1);
            cells[coin][usize::from(cell)] += 1;
        }
    }
    for (slot, [without, with]) in cells.iter().enumerate() {
        let share = float(with.iter().sum()) / float(n_rounds);
        let statistic = with.iter().zip(without).map(|(with, without)| {
            let (all, with) = (float(with + without), float(*with));
            (with - all * share).powi(2) / (all * share * (1.0 - share))
        });
        check_chi_squared(statistic.sum(), 31.0, 1e-6)
            .unwrap_or_else(|figures| panic!("slot {slot}: {figures}"));
    }
}
