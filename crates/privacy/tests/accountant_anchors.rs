//! Reference figures for the accountants, their relative order, and the ends of all ranges.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![expect(clippy::cast_possible_truncation, reason = "a drawn count of rounds")]

use fedbo_privacy::accounting::{
    Accountant, AccountantKind, Adjacency, Budget, CalibrationError, Claim, Delta, Mode, Noise,
    NoiseMultiplier, PldAccountant, PrivacyEvent, RenyiAccountant, Sampling, SamplingRate,
    Unproved, UnsupportedEvent, largest_rate, largest_rounds, smallest_multiplier,
};
use proptest::prelude::*;

fn event(rate: f64, multiplier: f64) -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::new(rate).unwrap()),
        noise: Noise::Gaussian(NoiseMultiplier::new(multiplier).unwrap()),
    }
}

fn epsilon(kind: AccountantKind, rate: f64, z: f64, rounds: u64, delta: f64) -> f64 {
    let mut accountant = kind.accountant();
    accountant.compose(&event(rate, z), rounds).unwrap();
    accountant.epsilon(Delta::new(delta).unwrap()).unwrap()
}

const POISSON: [AccountantKind; 3] =
    [AccountantKind::Pld, AccountantKind::Renyi, AccountantKind::Moments];

/// The table in the threat model: q, z, T, δ, the paper's figure, and the bracket in which the PLD
/// figure must lie (or just above it). A central-limit estimate lies below the bracket in three of
/// the paper's five settings.
#[test]
fn accountant_anchors() {
    let (d200, d29) = (200_f64.powf(-1.1), 29_f64.powf(-1.1));
    let anchors = [
        (0.25, 1.0, 40, d200, Some(9.9085), [7.0518, 7.0538]),
        (0.15, 1.0, 40, d200, Some(5.9341), [3.9616, 3.9636]),
        (0.50, 1.0, 40, d200, Some(20.1231), [15.7080, 15.7100]),
        (0.25, 1.2, 40, d200, Some(7.3906), [5.1504, 5.1524]),
        (0.25, 1.5, 40, d200, Some(5.2225), [3.5952, 3.5972]),
        (0.35, 1.0, 60, d29, Some(15.1655), [10.3804, 10.3834]),
        (0.35, 4.0, 60, d29, Some(2.1608), [1.1312, 1.1342]),
        (0.25, 1.0, 40, 1e-5, Some(14.3901), [11.2817, 11.2837]),
        (1.0, 2.0, 10, 1e-5, None, [7.51078, 7.51128]),
    ];
    for (q, z, rounds, delta, paper, [lower, upper]) in anchors {
        let [pld, renyi, moments] = POISSON.map(|kind| epsilon(kind, q, z, rounds, delta));
        if let Some(paper) = paper {
            assert_eq!(format!("{moments:.4}"), format!("{paper:.4}"));
        }
        assert!(lower <= pld && pld <= 1.005 * upper, "q {q} z {z}: {pld}, not [{lower}, {upper}]");
        assert!(pld < renyi && renyi < moments, "q {q} z {z}: {pld} {renyi} {moments}");
        let mut accountant = PldAccountant::new();
        accountant.compose(&event(q, z), rounds).unwrap();
        let bracket = accountant.epsilon_bracket(Delta::new(delta).unwrap()).unwrap();
        assert!(bracket.lower <= upper && lower <= bracket.upper, "{bracket:?}");
        assert!(
            bracket.lower < bracket.upper && bracket.upper < 1.002 * bracket.lower,
            "q {q} z {z}: {bracket:?} is wider than 0.2 %"
        );
    }
}

/// Compares with the 14 losses printed in the DP-FTS-DE paper (figures 2 and 3 of arXiv
/// 2110.14153), to the printed digit, and with an independent evaluation of the paper's formula, to
/// four digits: N, T, q, z, printed, evaluated. δ = N^-1.1.
#[test]
fn the_papers_losses_are_those_of_the_moments_accountant() {
    let losses = [
        (29.0, 60, 0.35, 1.0, "15.17", "15.1655"),
        (29.0, 60, 0.35, 1.6, "7.12", "7.1176"),
        (29.0, 60, 0.35, 2.0, "5.14", "5.1375"),
        (29.0, 60, 0.35, 3.0, "3.05", "3.0464"),
        (29.0, 60, 0.35, 4.0, "2.16", "2.1608"),
        (29.0, 60, 0.1, 1.0, "3.75", "3.7548"),
        (29.0, 60, 0.15, 1.0, "5.98", "5.9800"),
        (29.0, 60, 0.2, 1.0, "7.69", "7.6924"),
        (29.0, 60, 0.25, 1.0, "9.82", "9.8245"),
        (200.0, 40, 0.15, 1.0, "5.93", "5.9341"),
        (200.0, 40, 0.25, 1.0, "9.91", "9.9085"),
        (200.0, 40, 0.5, 1.0, "20.12", "20.1231"),
        (200.0, 40, 0.25, 1.2, "7.39", "7.3906"),
        (200.0, 40, 0.25, 1.5, "5.22", "5.2225"),
    ];
    for (n_agents, rounds, q, z, printed, evaluated) in losses {
        let delta = f64::powf(n_agents, -1.1);
        let found = epsilon(AccountantKind::Moments, q, z, rounds, delta);
        assert_eq!(format!("{found:.2}"), printed, "q {q} z {z}");
        assert_eq!(format!("{found:.4}"), evaluated, "q {q} z {z}");
    }
}

/// INV-14: the reported figure never exceeds the Rényi bound, which is derived independently.
fn renyi_bounds_pld(n_settings: u32, first: u32) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(first) + 1);
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for setting_idx in 0..n_settings {
        let q = if uniform() < 0.1 { 1.0 } else { 10_f64.powf(-3.0 * uniform()) };
        let z = 10_f64.powf(-0.5 + 2.0 * uniform());
        let rounds = 10_f64.powf(3.2 * uniform()) as u64;
        let delta = 10_f64.powf(-1.0 - 11.0 * uniform());
        let [pld, renyi, moments] = POISSON.map(|kind| epsilon(kind, q, z, rounds, delta));
        let setting = format!("q {q} z {z} T {rounds} delta {delta:e}: {pld} {renyi} {moments}");
        assert!(pld <= renyi * (1.0 + 1e-4) + 1e-9, "{setting}");
        assert!(renyi <= moments, "{setting}");
        if n_settings > 1000 && setting_idx % 10 != 0 {
            continue;
        }
        let mut accountant = PldAccountant::new();
        accountant.compose(&event(q, z), rounds).unwrap();
        let bracket = accountant.epsilon_bracket(Delta::new(delta).unwrap()).unwrap();
        assert!(bracket.lower <= bracket.upper, "{setting}: {bracket:?}");
        // The lower end is not a guarantee, but it is close.
        assert!(bracket.upper <= 1.03 * bracket.lower + 1e-3, "{setting}: {bracket:?}");
        // ε and δ are inverse functions, up to the accuracy of the bounds.
        if pld > 0.0 {
            let back = accountant.delta(pld).unwrap();
            assert!(back <= 1.01 * delta && back >= 0.97 * delta, "{setting}: back {back:e}");
        }
    }
}

#[test]
fn renyi_bounds_pld_on_sixty_settings() {
    renyi_bounds_pld(60, 0);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn renyi_bounds_pld_on_ten_thousand_settings() {
    renyi_bounds_pld(10_000, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// ε increases with q, T, 1/z and 1/δ: strictly for the exact sums, up to an accuracy of 1e−3
    /// for PLD.
    #[test]
    fn epsilon_is_monotone(
        q in 0.001..0.9_f64, z in 0.4..20.0_f64, rounds in 1..2000_u64, digits in 1.0..12.0_f64, more in 1.01..1.5_f64,
    ) {
        let delta = 10_f64.powf(-digits);
        for kind in POISSON {
            let slack = if kind == AccountantKind::Pld { 1.0 - 1e-3 } else { 1.0 - 1e-6 };
            let floor = 1e-6;
            let here = epsilon(kind, q, z, rounds, delta);
            let others = [
                ("rate", epsilon(kind, (q * more).min(1.0), z, rounds, delta)),
                ("noise", epsilon(kind, q, z / more, rounds, delta)),
                ("rounds", epsilon(kind, q, z, rounds + rounds.div_ceil(50), delta)),
                ("delta", epsilon(kind, q, z, rounds, delta / more)),
            ];
            for (what, larger) in others {
                prop_assert!(larger >= here * slack - floor, "{} {}: {} then {}", kind, what, here, larger);
            }
        }
    }

    /// Checks that the result is a number or an error for any events.
    #[test]
    fn no_setting_panics(
        log_q in -700.0..0.0_f64, log_z in -700.0..700.0_f64, count in 0..=10_000_000_u64, log_delta in -690.0..-1e-9_f64,
        epsilon in 0.0..1e6_f64,
    ) {
        let Ok(z) = NoiseMultiplier::new(log_z.exp()) else { return Ok(()) };
        let sampling = Sampling::Poisson(SamplingRate::new(log_q.exp()).unwrap());
        let event = PrivacyEvent { sampling, noise: Noise::Gaussian(z) };
        for kind in POISSON {
            let mut accountant = kind.accountant();
            accountant.compose(&event, count).unwrap();
            let found = accountant.epsilon(Delta::new(log_delta.exp()).unwrap());
            prop_assert!(found.is_err() || found.is_ok_and(|found| found >= 0.0 && found.is_finite()));
            let found = accountant.delta(epsilon);
            prop_assert!(found.is_err() || found.is_ok_and(|found| (0.0..=1.0).contains(&found)));
        }
    }
}

#[test]
fn no_release_costs_nothing_and_refused_ones_are_not_counted() {
    for kind in AccountantKind::ALL {
        let mut accountant = kind.accountant();
        let delta = Delta::new(1e-5).unwrap();
        assert_eq!((accountant.epsilon(delta), accountant.delta(0.0)), (Ok(0.0), Ok(0.0)));
        let (good, bad) = match kind {
            AccountantKind::FixedSize => (fixed_size(10), event(0.5, 1.0)),
            _ => (event(0.5, 1.0), fixed_size(10)),
        };
        accountant.compose(&good, 0).unwrap();
        assert_eq!(accountant.epsilon(delta), Ok(0.0));
        let refused = accountant.compose(&bad, 1).unwrap_err();
        assert!(matches!(refused, UnsupportedEvent::Sampling { .. }), "{refused}");
        let many = accountant.compose(&good, u64::MAX).unwrap_err();
        assert!(matches!(many, UnsupportedEvent::TooMany { .. }), "{many}");
        assert_eq!(accountant.n_releases(), 0);
        accountant.compose(&good, 1).unwrap();
        assert!(accountant.epsilon(delta).unwrap() > 0.0);
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(accountant.delta(wrong), Err(Unproved::Epsilon(_))));
        }
    }
}

fn fixed_size(n_sampled: u32) -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::WithoutReplacement { n_sampled, n_agents: 100 },
        noise: Noise::Gaussian(NoiseMultiplier::new(4.0).unwrap()),
    }
}

/// Covers both ends of every range (threat model, section 6, "Accounting").
#[test]
fn the_ends_of_the_ranges() {
    let pld = |q, z, rounds, delta| epsilon(AccountantKind::Pld, q, z, rounds, delta);
    // Covers an agent that is almost never sampled, unlimited noise, and δ near 1.
    assert!(pld(1e-12, 1.0, 10_000_000, 1e-4) < 1e-9);
    assert!(pld(f64::MIN_POSITIVE, 0.001, 1000, 1e-5) < 1e-9);
    assert!(pld(0.5, 1e300, 10_000_000, 1e-5) < 1e-3);
    assert!(pld(0.5, 1.0, 1, 0.999_999) < 1e-9);
    // With ten million rounds, an epsilon above 700 and a delta of 1e−300, the result lies between
    // RDP and the unsampled mechanism.
    for (q, z, rounds, delta) in [
        (0.25, 1.0, 10_000_000, 1e-5),
        (0.5, 0.1, 100, 1e-5),
        (0.25, 1.0, 40, 1e-300),
        (0.999_999_9, 1.0, 5, 1e-9),
    ] {
        let [pld, renyi, moments] = POISSON.map(|kind| epsilon(kind, q, z, rounds, delta));
        assert!(
            pld > 0.3 * renyi && pld < renyi * (1.0 + 1e-4) && renyi <= moments,
            "{pld} {renyi} {moments}"
        );
    }
    // Too little noise is refused, not extrapolated. Without sampling, the closed form works until
    // it overflows.
    let tiny = |rate: f64, z: f64| {
        let mut accountant = PldAccountant::new();
        accountant.compose(&event(rate, z), 1).unwrap();
        accountant.epsilon(Delta::new(1e-5).unwrap())
    };
    assert!(matches!(tiny(0.5, 0.01), Err(Unproved::TooLittleNoise { .. })));
    let large = tiny(1.0, 1e-3).unwrap();
    assert!((large / 504_264.9 - 1.0).abs() < 1e-3, "{large}");
    assert!(matches!(tiny(1.0, f64::MIN_POSITIVE), Err(Unproved::NoFiniteEpsilon { .. })));
}

/// Ten thousand different releases cost more than ten thousand releases like the cheapest one, and
/// less than ten thousand like the most expensive one.
#[test]
fn ten_thousand_different_releases_are_composed() {
    let delta = Delta::new(1e-6).unwrap();
    for kind in POISSON {
        let mut accountant = kind.accountant();
        for round in 0..10_000 {
            accountant.compose(&event(0.1, 1.0 + f64::from(round) * 1e-4), 1).unwrap();
        }
        let mixed = accountant.epsilon(delta).unwrap();
        let [harsh, mild] = [1.0, 1.9999].map(|z| epsilon(kind, 0.1, z, 10_000, 1e-6));
        assert!(mild < mixed && mixed < harsh, "{kind}: {mild} {mixed} {harsh}");
        // The same range with only a few different releases, which needs no approximation.
        let mut few = kind.accountant();
        for step in 0..100 {
            few.compose(&event(0.1, 1.005 + f64::from(step) * 1e-2), 100).unwrap();
        }
        let few = few.epsilon(delta).unwrap();
        assert!((mixed / few - 1.0).abs() < 0.01, "{kind}: {mixed} {few}");
    }
}

/// Neither the order nor the grouping of releases changes the result.
#[test]
fn the_order_of_releases_does_not_matter() {
    let delta = Delta::new(1e-5).unwrap();
    let cost = |events: &[(f64, f64, u64)]| {
        let mut accountant = PldAccountant::new();
        for &(q, z, count) in events {
            accountant.compose(&event(q, z), count).unwrap();
        }
        accountant.epsilon(delta).unwrap()
    };
    let there = cost(&[(0.3, 1.0, 5), (0.1, 2.0, 7), (1.0, 3.0, 2)]);
    let back = cost(&[(1.0, 3.0, 1), (0.1, 2.0, 7), (1.0, 3.0, 1), (0.3, 1.0, 5)]);
    assert_eq!(there.to_bits(), back.to_bits());
    assert!(cost(&[(0.3, 1.0, 5), (0.1, 2.0, 7)]) < there);
}

#[test]
fn an_order_next_to_one_does_not_overflow() {
    let mut accountant = RenyiAccountant::new();
    accountant.compose(&event(0.3, 1.0), 1_000_000).unwrap();
    let near = accountant.divergence(1.0 + 1e-8).unwrap();
    // The result is 1e6 times the Kullback-Leibler divergence, which is 0.0525 by quadrature.
    let (mut divergence, step) = (0.0, 1e-3);
    for k in -12_000..13_000 {
        let x = f64::from(k) * step;
        let ratio: f64 = 0.7 + 0.3 * (x - 0.5).exp();
        divergence +=
            step * ratio * ratio.ln() * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    }
    assert!((near / (1e6 * divergence) - 1.0).abs() < 1e-6, "{near} {divergence}");
    assert!(accountant.divergence(1e4).unwrap().is_finite());
}

/// The text of a claim always contains everything on which it depends.
#[test]
fn a_claim_says_all_that_it_rests_on() {
    let mut accountant = AccountantKind::Pld.accountant();
    accountant.compose(&event(0.25, 1.0), 40).unwrap();
    let claim = Claim::of(&*accountant, Delta::new(1e-5).unwrap(), Mode::Default).unwrap();
    let text = claim.to_string();
    for part in [
        "epsilon = 11.28",
        "zero-out",
        "delta = 1e-5",
        "40 rounds",
        "accountant pld",
        "mode default",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // ε is rounded up to the digits shown.
    let shown: f64 = text["epsilon = ".len()..].split(' ').next().unwrap().parse().unwrap();
    assert!(shown >= claim.epsilon && shown < claim.epsilon * (1.0 + 1e-5), "{text}");
    let paper = Claim { mode: Mode::Paper, accountant: AccountantKind::Moments, ..claim };
    assert!(paper.to_string().contains("the paper's guarantee"), "{paper}");
    assert_eq!(AccountantKind::FixedSize.adjacency(), Adjacency::ReplaceOne);
    for kind in AccountantKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert_eq!("rdp".parse(), Ok(AccountantKind::Renyi));
    assert!("clt".parse::<AccountantKind>().is_err());
}

/// The calibrated value is within the budget, and a slightly larger one is not.
#[test]
fn calibration_uses_the_budget_up() {
    for kind in POISSON {
        for (q, rounds, target, delta) in [
            (0.25, 40, 7.0, 0.003),
            (0.01, 10_000, 1.0, 1e-6),
            (1.0, 10, 0.5, 1e-5),
            (0.5, 3, 12.0, 1e-9),
        ] {
            let budget = Budget::new(target, Delta::new(delta).unwrap()).unwrap();
            let sampling = Sampling::Poisson(SamplingRate::new(q).unwrap());
            let noise = smallest_multiplier(kind, sampling, rounds, budget).unwrap();
            let z = noise.value.get();
            assert!(noise.epsilon <= target, "{kind}: {noise:?}");
            assert_eq!(noise.epsilon.to_bits(), epsilon(kind, q, z, rounds, delta).to_bits());
            assert!(epsilon(kind, q, 0.998 * z, rounds, delta) > target);

            let most = largest_rounds(kind, &event(q, z), budget).unwrap();
            assert!(most.value >= rounds && most.epsilon <= target, "{kind}: {most:?}");
            let over = most.value + 1 + most.value / 500;
            assert!(epsilon(kind, q, z, over, delta) > target);

            let rate = largest_rate(kind, noise.value, rounds, budget).unwrap();
            assert!(rate.value.get() >= 0.999 * q && rate.epsilon <= target, "{kind}: {rate:?}");
            if rate.value < SamplingRate::ALL {
                assert!(epsilon(kind, 1.002 * rate.value.get(), z, rounds, delta) > target);
            }
        }
    }
}

#[test]
fn an_impossible_budget_is_named() {
    let delta = Delta::new(1e-5).unwrap();
    let budget = Budget::new(0.01, delta).unwrap();
    let sampling = Sampling::Poisson(SamplingRate::new(0.5).unwrap());
    // The moments accountant cannot go below ln(1/δ)/32.
    let error = smallest_multiplier(AccountantKind::Moments, sampling, 10, budget).unwrap_err();
    let CalibrationError::Impossible { what, .. } = &error else { panic!("{error}") };
    assert_eq!(*what, "noise multiplier");
    assert!(
        error.to_string().contains("epsilon at most 0.01") && error.to_string().contains("1e-5"),
        "{error}"
    );
    let error = largest_rounds(AccountantKind::Pld, &event(0.5, 0.5), budget).unwrap_err();
    assert!(error.to_string().contains("number of rounds"), "{error}");
    let error = smallest_multiplier(AccountantKind::FixedSize, sampling, 10, budget).unwrap_err();
    assert!(error.to_string().contains("use the accountant pld"), "{error}");
    let wor = Sampling::WithoutReplacement { n_sampled: 20, n_agents: 100 };
    let found =
        smallest_multiplier(AccountantKind::FixedSize, wor, 10, Budget::new(2.0, delta).unwrap())
            .unwrap();
    assert!(found.epsilon <= 2.0 && found.epsilon > 1.99, "{found:?}");
    assert!(Budget::new(0.0, delta).is_err() && Budget::new(f64::NAN, delta).is_err());
}

/// Reference values of ε for one Gaussian, from scipy (erfcx and brentq) to 15 digits. The bound is
/// above the exact value, and as tight as the bounds from a lattice.
#[test]
fn little_noise_costs_what_the_gaussian_does() {
    for (z, delta, exact) in [
        (1e-6, 1e-5, 500_004_264_889.793_95),
        (1e-6, 1e-100, 500_021_273_452.561),
        (1e-3, 1e-5, 504_263.892_920_654_1),
        (0.02, 1e-5, 1_462.285_015_964_779_7),
        (0.049_9, 1e-100, 626_442.721_724_62 / 1e3),
    ] {
        let mut accountant = PldAccountant::new();
        accountant.compose(&event(1.0, z), 1).unwrap();
        let bracket = accountant.epsilon_bracket(Delta::new(delta).unwrap()).unwrap();
        assert!(bracket.upper >= exact && bracket.upper < exact * (1.0 + 1e-9), "{z}: {bracket:?}");
        assert!(bracket.lower <= exact && bracket.lower > exact * (1.0 - 1e-9), "{z}: {bracket:?}");
        // δ at that ε agrees.
        let back = accountant.delta(exact).unwrap();
        assert!(back >= delta && back < delta * 1.05, "{z}: {back:e}");
    }
}

/// Sampled releases are counted in addition to a release with little noise, and need no lattice.
#[test]
fn little_noise_beside_sampled_releases_costs_more_than_alone() {
    let delta = Delta::new(1e-5).unwrap();
    let mut accountant = PldAccountant::new();
    accountant.compose(&event(1.0, 1e-6), 1).unwrap();
    let alone = accountant.epsilon(delta).unwrap();
    accountant.compose(&event(0.5, 0.05), 3).unwrap();
    let both = accountant.epsilon_bracket(delta).unwrap();
    assert!(both.upper > alone && both.upper < alone * (1.0 + 1e-5), "{alone} {both:?}");
    assert!(both.lower <= alone, "{alone} {both:?}");
    assert!(accountant.delta(both.upper * 1.01).unwrap() < 1e-5);
}

/// 0.036135898927116 is the exact Gaussian's z for ε = 500 at δ = 1e−5, and 7.092420868656718e−4
/// for ε = 1e6.
#[test]
fn the_smallest_multiplier_is_the_smallest_or_says_so() {
    let budget = |epsilon| Budget::new(epsilon, Delta::new(1e-5).unwrap()).unwrap();
    let whole = Sampling::Poisson(SamplingRate::ALL);
    for (epsilon, exact) in [(500.0, 0.036_135_898_927_116), (1e6, 7.092_420_868_656_718e-4)] {
        let found = smallest_multiplier(AccountantKind::Pld, whole, 1, budget(epsilon)).unwrap();
        let z = found.value.get();
        assert!(z >= exact && z < exact * (1.0 + 2e-4) && !found.is_limit, "{epsilon}: {z}");
    }
    // With sampling, no bound is proved below 0.05.
    let half = Sampling::Poisson(SamplingRate::new(0.5).unwrap());
    let found = smallest_multiplier(AccountantKind::Pld, half, 1, budget(500.0)).unwrap();
    assert!((found.value.get() - 0.05).abs() < 1e-12 && found.is_limit);
    // The budget allows more rounds than the accountants compose.
    let quiet = event(1.0, 1e6);
    let found = largest_rounds(AccountantKind::Pld, &quiet, budget(500.0)).unwrap();
    assert_eq!((found.value, found.is_limit), (1_000_000_000, true));
    let found = largest_rounds(AccountantKind::Pld, &event(1.0, 1.0), budget(50.0)).unwrap();
    assert!(!found.is_limit);
}

#[test]
fn the_largest_rate_is_everybody_where_sampling_is_not_evaluated() {
    let budget = |epsilon| Budget::new(epsilon, Delta::new(1e-5).unwrap()).unwrap();
    let z = NoiseMultiplier::new(0.04).unwrap();
    let found = largest_rate(AccountantKind::Pld, z, 1, budget(500.0)).unwrap();
    assert!(found.value == SamplingRate::ALL && found.epsilon <= 500.0);
    // With this noise, no bound is proved at a rate above δ. At a lower rate, the probability of
    // being sampled at all is within δ.
    let found = largest_rate(AccountantKind::Pld, z, 1, budget(100.0)).unwrap();
    assert!(found.value.get() < 1e-5 && found.value.get() > 0.99e-5, "{found:?}");
    assert!(found.epsilon == 0.0 && !found.is_limit, "{found:?}");
}

#[test]
fn a_claim_warns_above_an_epsilon_of_ten() {
    let claim = |epsilon| Claim {
        epsilon,
        delta: 1e-5,
        n_releases: 1,
        accountant: AccountantKind::Pld,
        adjacency: Adjacency::ZeroOut,
        mode: Mode::Default,
    };
    assert_eq!(claim(10.0).warning(), None);
    let warning = claim(746.0).warning().unwrap();
    assert!(warning.contains("epsilon = 746 protects hardly anybody"), "{warning}");
    assert!(warning.contains("e^746 (about 10^324) times as likely"), "{warning}");
}
