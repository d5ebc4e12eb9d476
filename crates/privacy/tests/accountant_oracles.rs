//! Comparison of the accountants with closed forms, quadrature, sums and enumeration that share no
//! code with the accountants.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use fedbo_privacy::accounting::{
    Accountant, AccountantKind, Delta, FixedSizeAccountant, Noise, NoiseMultiplier, PldAccountant,
    PrivacyEvent, RenyiAccountant, Sampling, SamplingRate,
};

fn event(rate: f64, multiplier: f64) -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::new(rate).unwrap()),
        noise: Noise::Gaussian(NoiseMultiplier::new(multiplier).unwrap()),
    }
}

fn pld(events: &[(f64, f64, u64)]) -> PldAccountant {
    let mut accountant = PldAccountant::new();
    for &(rate, multiplier, count) in events {
        accountant.compose(&event(rate, multiplier), count).unwrap();
    }
    accountant
}

/// Returns Φ(t), with full relative accuracy in the tails.
fn normal(t: f64) -> f64 {
    0.5 * libm::erfc(-t / std::f64::consts::SQRT_2)
}

/// Returns the hockey-stick divergences of one release at any real `epsilon`: (P to Q, Q to P).
fn one_release(rate: f64, z: f64, epsilon: f64) -> (f64, f64) {
    // ln(P/Q)(x) = v at x(v); there is no such x for v ≤ ln(1 − q).
    let position = |v: f64| {
        let odds = (v.exp() - (1.0 - rate)) / rate;
        if odds > 0.0 { 0.5 + z * z * odds.ln() } else { f64::NEG_INFINITY }
    };
    let q = |x: f64| (normal(-x / z), normal(x / z)); // above, below
    let p = |x: f64| {
        let (above, below) = (normal((1.0 - x) / z), normal((x - 1.0) / z));
        let (above_q, below_q) = q(x);
        ((1.0 - rate) * above_q + rate * above, (1.0 - rate) * below_q + rate * below)
    };
    let (up, down) = (position(epsilon), position(-epsilon));
    let remove = p(up).0 - epsilon.exp() * q(up).0;
    let add = if down == f64::NEG_INFINITY { 0.0 } else { q(down).1 - epsilon.exp() * p(down).1 };
    (remove, add)
}

/// Asserts that `epsilon` is an upper bound, given the true δ `truth(ε)`, and exceeds the true ε by
/// less than `tightness`.
fn tight(epsilon: f64, delta: f64, tightness: f64, truth: impl Fn(f64) -> f64) {
    let here = truth(epsilon);
    assert!(here <= delta * (1.0 + 1e-9), "δ({epsilon}) = {here:e}, claimed {delta:e}");
    let below = truth(epsilon * (1.0 - tightness));
    assert!(
        below > delta,
        "ε = {epsilon} is too large: δ is {below:e} already below, not {delta:e}"
    );
}

/// Without sampling, T releases are the Gaussian mechanism with s = z/√T (Balle and Wang 2018):
/// δ(ε) = Φ(1/(2s) − ε s) − e^ε Φ(−1/(2s) − ε s).
#[test]
fn without_sampling_it_is_the_gaussian_mechanism() {
    for (z, rounds) in [(2.0, 10_u32), (0.5, 1), (1.0, 40), (30.0, 7), (100.0, 10_000)] {
        let s = z / f64::from(rounds).sqrt();
        let truth = |epsilon: f64| {
            normal(0.5 / s - epsilon * s) - epsilon.exp() * normal(-0.5 / s - epsilon * s)
        };
        for delta in [0.1, 1e-3, 1e-5, 1e-8] {
            let accountant = pld(&[(1.0, z, u64::from(rounds))]);
            let epsilon = accountant.epsilon(Delta::new(delta).unwrap()).unwrap();
            if epsilon == 0.0 {
                assert!(truth(0.0) <= delta);
            } else {
                tight(epsilon, delta, 1e-3, truth);
            }
            let back = accountant.delta(epsilon).unwrap();
            assert!(back >= truth(epsilon) && back <= 1.01 * delta, "{back:e}");
        }
    }
    // Control: if the noise were 2 % less than claimed, the figure would be too small.
    let epsilon = pld(&[(1.0, 2.0, 10)]).epsilon(Delta::new(1e-5).unwrap()).unwrap();
    let s = 0.98 * 2.0 / 10.0_f64.sqrt();
    assert!(normal(0.5 / s - epsilon * s) - epsilon.exp() * normal(-0.5 / s - epsilon * s) > 1e-5);
}

/// Compares δ(ε) near the smallest float with the same closed form, and checks that ε at 1e−300
/// lies midway between its neighbours.
#[test]
fn a_delta_near_the_smallest_number_keeps_its_digits() {
    let z = 1.5_f64;
    let at = |delta: f64| {
        let delta = Delta::new(delta).unwrap();
        pld(&[(1.0, z, 1)]).epsilon(delta).unwrap()
    };
    let truth = |epsilon: f64| {
        normal(0.5 / z - epsilon * z) - epsilon.exp() * normal(-0.5 / z - epsilon * z)
    };
    for delta in [1e-100, 1e-280] {
        tight(at(delta), delta, 1e-3, truth);
    }
    let [before, here, after] = [1e-299, 1e-300, 1e-301].map(at);
    assert!(((here - before) / (after - here) - 1.0).abs() < 0.05, "{before} {here} {after}");
}

#[test]
fn one_sampled_release_is_its_hockey_stick_divergence() {
    for (rate, z) in [(0.25, 1.0), (0.01, 5.0), (0.9, 0.7), (0.5, 0.4), (1e-3, 1.0), (0.999, 2.0)] {
        for delta in [1e-2, 1e-4, 1e-6, 1e-9] {
            let accountant = pld(&[(rate, z, 1)]);
            let epsilon = accountant.epsilon(Delta::new(delta).unwrap()).unwrap();
            let truth = |epsilon: f64| {
                let (remove, add) = one_release(rate, z, epsilon);
                remove.max(add)
            };
            if epsilon > 0.0 {
                // Tight to 0.3 %, or to 1e−6 absolute if ε itself is tiny.
                tight(epsilon, delta, (1e-6 / epsilon).clamp(3e-3, 1.0), truth);
            } else {
                assert!(truth(0.0) <= delta);
            }
        }
    }
}

/// The δ of two different releases is the mean, over the first release's loss, of the second
/// release's δ. The mean is evaluated by the trapezoid rule.
#[test]
fn two_different_releases_are_the_convolution_of_their_losses() {
    for ((q1, z1), (q2, z2)) in [((0.3, 1.0), (0.6, 1.7)), ((0.05, 0.8), (1.0, 3.0))] {
        let truth = |epsilon: f64| {
            let step = 12.0 * z1 / 20_000.0;
            let (mut remove, mut add) = (0.0, 0.0);
            for k in -20_000..=25_000 {
                let x = f64::from(k) * step;
                let v = (1.0 - q1 + q1 * ((2.0 * x - 1.0) / (2.0 * z1 * z1)).exp()).ln();
                let q =
                    (-x * x / (2.0 * z1 * z1)).exp() / (z1 * (2.0 * std::f64::consts::PI).sqrt());
                remove += step * q * v.exp() * one_release(q2, z2, epsilon - v).0;
                add += step * q * one_release(q2, z2, epsilon + v).1;
            }
            remove.max(add)
        };
        for delta in [1e-2, 1e-5] {
            let accountant = pld(&[(q1, z1, 1), (q2, z2, 1)]);
            let epsilon = accountant.epsilon(Delta::new(delta).unwrap()).unwrap();
            tight(epsilon, delta, 2e-3, truth);
        }
    }
}

/// Rényi divergence at integer orders: A_α = Σ_k C(α, k) (1 − q)^{α−k} q^k exp((k² − k)/(2z²)), exactly.
#[test]
fn at_integer_orders_the_integral_is_the_binomial_sum() {
    for (q, z) in [(0.25, 1.0), (0.01, 0.5), (0.7, 3.0), (1e-4, 1.0), (0.5, 20.0), (1e-6, 0.6)] {
        let mut accountant = RenyiAccountant::new();
        accountant.compose(&event(q, z), 1).unwrap();
        for order in [2, 3, 8, 15] {
            let a = f64::from(order);
            // The excess over 1, with positive terms: Σ_k C q^k (1 − q)^{a−k} (e^… − 1).
            let (mut binomial, mut excess) = (1.0_f64, 0.0);
            for k in 0..=order {
                let k = f64::from(k);
                let grown = ((k * k - k) / (2.0 * z * z)).exp_m1();
                excess += binomial * (1.0 - q).powf(a - k) * q.powf(k) * grown;
                binomial *= (a - k) / (k + 1.0);
            }
            let exact = excess.ln_1p() / (a - 1.0);
            let found = accountant.divergence(a).unwrap();
            assert!(
                found >= exact * (1.0 - 1e-13) && found <= exact * (1.0 + 1e-9),
                "q {q} z {z} order {order}: {found:e}, not {exact:e}"
            );
        }
        // Divergences increase with the order, and at orders near 1 they are close to the
        // Kullback-Leibler divergence.
        let at = |order: f64| accountant.divergence(order).unwrap();
        assert!(at(2.0) < at(2.5) && at(2.5) < at(3.0));
        let (near, nearer) = (at(1.0 + 1e-6), at(1.0 + 1e-8));
        assert!(nearer > 0.0 && (near / nearer - 1.0).abs() < 1e-4, "{near:e} {nearer:e}");
    }
}

/// Compares with the Rényi divergence by plain quadrature at real orders. The direction from P to Q
/// is the larger one.
#[test]
fn real_orders_are_plain_quadrature_in_the_larger_direction() {
    for (q, z) in [(0.3, 1.0), (0.05, 2.0), (0.8, 0.8)] {
        let mut accountant = RenyiAccountant::new();
        accountant.compose(&event(q, z), 1).unwrap();
        for order in [1.01, 1.5, 2.7, 9.3] {
            let (step, mut remove, mut add) = (1e-3 * z, 0.0, 0.0);
            for k in -15_000..=30_000 {
                let x = f64::from(k) * step;
                let ratio = 1.0 - q + q * ((2.0 * x - 1.0) / (2.0 * z * z)).exp();
                let weight = (-x * x / (2.0 * z * z)).exp() * step
                    / (z * (2.0 * std::f64::consts::PI).sqrt());
                remove += weight * ratio.powf(order);
                add += weight * ratio.powf(1.0 - order);
            }
            assert!(add <= remove);
            let exact = remove.ln() / (order - 1.0);
            let found = accountant.divergence(order).unwrap();
            assert!((found / exact - 1.0).abs() < 1e-8, "{found} {exact}");
        }
    }
}

/// Enumerates the discrete Gaussian: pmf ∝ exp(−k²/(2σ²)) on integers, shifted by K with
/// probability q.
#[test]
fn discrete_noise_is_bounded_by_what_it_is_reduced_to() {
    let (variance, bound) = (400.0_f64, 20_i32);
    let reach = 400_i32;
    let weight = |k: i32| (-f64::from(k * k) / (2.0 * variance)).exp();
    let total: f64 = (-2000..=2000).map(weight).sum();
    for rate in [1.0, 0.3] {
        let q: Vec<f64> = (-reach..=reach).map(|k| weight(k) / total).collect();
        let p: Vec<f64> = (-reach..=reach)
            .map(|k| ((1.0 - rate) * weight(k) + rate * weight(k - bound)) / total)
            .collect();
        let one = |epsilon: f64, p: &[f64], q: &[f64]| -> f64 {
            let each = p.iter().zip(q);
            each.map(|(p, q)| (p - epsilon.exp() * q).max(0.0)).sum()
        };
        // For two releases, sums over all pairs of outcomes.
        let two = |p: &[f64], q: &[f64]| -> (Vec<f64>, Vec<f64>) {
            let pairs = |law: &[f64]| {
                let all = law.iter().flat_map(|a| law.iter().map(move |b| a * b));
                all.collect::<Vec<f64>>()
            };
            (pairs(p), pairs(q))
        };
        let (p2, q2) = two(&p, &q);
        let discrete = PrivacyEvent {
            sampling: Sampling::Poisson(SamplingRate::new(rate).unwrap()),
            noise: Noise::DiscreteGaussian { variance: 400, bound: 20, n_coordinates: 1 },
        };
        for (count, p, q) in [(1, &p, &q), (2, &p2, &q2)] {
            for delta in [1e-2, 1e-4, 1e-6] {
                let mut accountant = PldAccountant::new();
                accountant.compose(&discrete, count).unwrap();
                let epsilon = accountant.epsilon(Delta::new(delta).unwrap()).unwrap();
                let truth = |epsilon: f64| one(epsilon, p, q).max(one(epsilon, q, p));
                // The reduction subtracts 9 from a variance of 400, which is 1.2 % of z.
                tight(epsilon, delta, 0.05, truth);
            }
        }
    }
}

/// On a fine lattice, the reduction costs almost nothing. A coarse lattice is refused.
#[test]
fn a_fine_lattice_costs_what_the_continuous_noise_costs() {
    let discrete = |variance: u128, bound: u64| PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::new(0.25).unwrap()),
        noise: Noise::DiscreteGaussian { variance, bound, n_coordinates: 1_000_000 },
    };
    let delta = Delta::new(1e-5).unwrap();
    for kind in [AccountantKind::Pld, AccountantKind::Renyi, AccountantKind::Moments] {
        let epsilon = |event: &PrivacyEvent| {
            let mut accountant = kind.accountant();
            accountant.compose(event, 40).unwrap();
            accountant.epsilon(delta).unwrap()
        };
        let bound = 1_u64 << 23;
        let fine = epsilon(&discrete(u128::from(bound) * u128::from(bound), bound));
        let continuous = epsilon(&event(0.25, 1.0));
        assert!(fine >= continuous && fine < continuous * (1.0 + 1e-9), "{fine} {continuous}");
        let huge = epsilon(&discrete(u128::MAX, u64::MAX));
        assert!((huge / continuous - 1.0).abs() < 1e-6);
        let mut accountant = kind.accountant();
        let coarse = accountant.compose(&discrete(99, 10), 1).unwrap_err();
        assert!(coarse.to_string().contains("at least 100"), "{coarse}");
        assert!(accountant.compose(&discrete(400, 0), 1).is_err());
        assert_eq!(accountant.n_releases(), 0);
    }
}

/// For samples of a fixed size, the result is never below that of `dp_accounting` 0.6.0
/// (replace-one, multiplier z/2), which has a tighter form for Gaussian noise, and never above the
/// bound without sampling.
#[test]
fn fixed_size_samples_lie_between_the_published_bound_and_no_sampling() {
    // n, N, z, T, δ and ε of dp_accounting's RdpAccountant with noise multiplier z/2.
    let reference = [
        (50, 200, 4.0, 40, 200_f64.powf(-1.1), 6.28152),
        (50, 200, 8.0, 40, 1e-5, 3.78424),
        (10, 1000, 4.0, 100, 1e-6, 0.50277),
        (10, 29, 10.0, 60, 29_f64.powf(-1.1), 2.66865),
        (100, 100_000, 2.0, 1000, 1e-8, 1.27897),
        (1, 1_000_000, 1.4, 1_000_000, 1e-8, 1.24159),
    ];
    for (n_sampled, n_agents, z, rounds, delta, published) in reference {
        let epsilon = |n_sampled: u32| {
            let mut accountant = FixedSizeAccountant::new();
            let event = PrivacyEvent {
                sampling: Sampling::WithoutReplacement { n_sampled, n_agents },
                noise: Noise::Gaussian(NoiseMultiplier::new(z).unwrap()),
            };
            accountant.compose(&event, rounds).unwrap();
            accountant.epsilon(Delta::new(delta).unwrap()).unwrap()
        };
        let (found, whole) = (epsilon(n_sampled), epsilon(n_agents));
        assert!(found <= whole, "{found} {whole}");
        assert!(
            found >= published * (1.0 - 1e-5) && found < 1.65 * published,
            "{n_sampled} of {n_agents}, z {z}, {rounds} rounds: {found}, published {published}"
        );
    }
}
