//! Tests the kernel that inner products of random features approximate, and the rate of
//! convergence.

use fedbo_gp::{
    Family, FeatureDescription, FeatureError, FeatureMap, FeatureSampling, GpError, Kernel,
    LengthscaleLaw,
};
use fedbo_optim::{Points, sobol};
use fedbo_testkit::{dense, test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

/// Returns max_ij |φ(x_i)·φ(x_j) − expected(x_i, x_j)|.
fn max_error(map: &FeatureMap, x: &Points, expected: impl Fn(&[f64], &[f64]) -> f64) -> f64 {
    let features: Vec<Vec<f64>> = x.rows().map(|x| map.features(x)).collect();
    let mut worst = 0.0_f64;
    for (x_i, f) in x.rows().zip(&features) {
        for (x_j, g) in x.rows().zip(&features) {
            let product: f64 = f.iter().zip(g).map(|(a, b)| a * b).sum();
            worst = worst.max((product - expected(x_i, x_j)).abs());
        }
    }
    worst
}

/// φ(x)·φ(x') is within 5/√M of k(x, x')/a² for three values of M (Rahimi & Recht 2007: the
/// standard deviation is at most 1/√M).
#[test]
fn features_approximate_the_kernel_at_rate_one_over_sqrt_m() {
    let x = sobol(2, 64, 1);
    for family in FAMILIES {
        let kernel = Kernel::new(family, vec![0.4, 0.9], 1.0).unwrap();
        let exact = |x: &[f64], z: &[f64]| dense::kernel_value(&kernel, x, z);
        for n_features in [256, 1024, 4096] {
            let tolerance = 5.0 / f64::from(n_features).sqrt();
            let m = usize::try_from(n_features).unwrap();
            let map = FeatureMap::for_kernel(&kernel, m, &mut test_stream(30)).unwrap();
            let error = max_error(&map, &x, exact);
            assert!(error < tolerance, "{family:?} M={m}: {error} {tolerance}");
        }
        // Frequencies that are 1.4 times as large exceed the tolerance.
        let narrow = Kernel::new(family, vec![0.4 / 1.4, 0.9 / 1.4], 1.0).unwrap();
        let map = FeatureMap::for_kernel(&narrow, 4096, &mut test_stream(30)).unwrap();
        assert!(max_error(&map, &x, exact) > 5.0 / 4096_f64.sqrt(), "{family:?}");
        // So do the frequencies of a different family.
        let other = FAMILIES[usize::from(family == Family::SquaredExponential)];
        let wrong = Kernel::new(other, vec![0.4, 0.9], 1.0).unwrap();
        let map = FeatureMap::for_kernel(&wrong, 16384, &mut test_stream(30)).unwrap();
        assert!(max_error(&map, &x, exact) > 5.0 / 16384_f64.sqrt(), "{family:?} as {other:?}");
    }
}

/// With ln ℓ ~ N(ln m, s²), the features approximate ∫ k_ℓ(x, x') p(ℓ) dℓ (computed by the
/// trapezoidal rule in ln ℓ), not the kernel with the median length scale.
#[test]
fn a_law_of_length_scales_gives_the_mixture_kernel() {
    let x = sobol(2, 48, 2);
    let (median, spread) = (0.3_f64, 1.0);
    for family in FAMILIES {
        let description = FeatureDescription {
            n_features: 8192,
            dim: 2,
            family,
            lengthscale: LengthscaleLaw::LogNormal { median, spread },
            sampling: FeatureSampling::Random,
        };
        let map = FeatureMap::draw(&description, &mut test_stream(31)).unwrap();
        let one = |lengthscale| Kernel::isotropic(family, 2, lengthscale, 1.0).unwrap();
        let nodes: Vec<(Kernel, f64)> = (-80..=80)
            .map(|i| {
                let t = f64::from(i) / 10.0;
                let density = (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
                (one(median * (spread * t).exp()), 0.1 * density)
            })
            .collect();
        let mixture = |x: &[f64], z: &[f64]| -> f64 {
            nodes.iter().map(|(k, p)| p * dense::kernel_value(k, x, z)).sum()
        };
        let tolerance = 5.0 / 8192_f64.sqrt();
        let error = max_error(&map, &x, mixture);
        assert!(error < tolerance, "{family:?}: {error}");
        let at_median = |x: &[f64], z: &[f64]| dense::kernel_value(&one(median), x, z);
        assert!(max_error(&map, &x, at_median) > tolerance);
        // Without spread, the kernel is the one with the median length scale.
        let fixed =
            FeatureDescription { lengthscale: LengthscaleLaw::Fixed(median), ..description };
        let map = FeatureMap::draw(&fixed, &mut test_stream(31)).unwrap();
        assert!(max_error(&map, &x, at_median) < tolerance);
    }
}

/// ‖φ(x)‖² = a² up to rounding, for every M, including values that are not multiples of the vector
/// width.
#[test]
fn features_have_the_signal_variance_as_square_norm() {
    for n_features in [1, 2, 7, 8, 9, 100, 1000] {
        let kernel = Kernel::isotropic(Family::Matern32, 3, 0.2, 2.5).unwrap();
        let map = FeatureMap::for_kernel(&kernel, n_features, &mut test_stream(32)).unwrap();
        for x in sobol(3, 50, 3).rows() {
            let phi = map.features(x);
            assert_eq!(phi.len(), n_features);
            let square: f64 = phi.iter().map(|v| v * v).sum();
            assert!((square / 2.5 - 1.0).abs() < 1e-12, "M={n_features}: {square}");
        }
    }
}

/// Each feature is proportional to cos(s·x + b) with the given numbers.
#[test]
fn features_are_the_cosines_of_their_numbers() {
    let (frequencies, phases) = ([3.0, -40.0, 0.5, 700.0, -1.0, 1e5], [0.1, 2.0, 6.0]);
    let map = FeatureMap::new(2, &frequencies, &phases, 4.0).unwrap();
    for x in sobol(2, 100, 4).rows() {
        let cosines: Vec<f64> = frequencies
            .chunks_exact(2)
            .zip(phases)
            .map(|(s, b)| (s[0] * x[0] + s[1] * x[1] + b).cos())
            .collect();
        let norm = cosines.iter().map(|c| c * c).sum::<f64>().sqrt();
        for (phi, c) in map.features(x).iter().zip(&cosines) {
            assert!((phi - 2.0 * c / norm).abs() < 1e-10, "{phi} {}", 2.0 * c / norm);
        }
    }
}

#[test]
fn equal_streams_give_equal_fingerprints_and_one_changed_number_another() {
    let description = FeatureDescription::random(20, 2, LengthscaleLaw::Fixed(0.3));
    let draw = |n| FeatureMap::draw(&description, &mut test_stream(n)).unwrap().hash();
    assert_eq!(draw(33), draw(33));
    assert_ne!(draw(33), draw(34));
    let hash = |s: f64, a| FeatureMap::new(1, &[s, 2.0], &[0.0, 1.0], a).unwrap().hash();
    assert_ne!(hash(1.0, 1.0), hash(1.0 + f64::EPSILON, 1.0));
    assert_ne!(hash(1.0, 1.0), hash(1.0, 2.0));
    assert_eq!(draw(33).to_string().len(), 64);
}

#[test]
fn impossible_maps_are_refused() {
    let with = |n_features, lengthscale| {
        let family = Family::Matern52;
        let description = FeatureDescription {
            n_features,
            dim: 2,
            family,
            lengthscale,
            sampling: FeatureSampling::Random,
        };
        FeatureMap::draw(&description, &mut test_stream(35)).map(|_| ())
    };
    let refused = |made| matches!(made, Err(GpError::Hyperparameter { .. }));
    assert!(refused(with(0, LengthscaleLaw::Fixed(0.1))));
    assert!(refused(with(5, LengthscaleLaw::Fixed(0.0))));
    assert!(refused(with(5, LengthscaleLaw::LogNormal { median: 0.1, spread: -1.0 })));
    assert!(refused(with(5, LengthscaleLaw::LogNormal { median: 0.1, spread: f64::NAN })));
    assert!(matches!(FeatureMap::new(2, &[1.0], &[0.0], 1.0), Err(GpError::Length { .. })));
    assert!(matches!(
        FeatureMap::new(1, &[1.0, f64::NAN], &[0.0, 0.0], 1.0),
        Err(GpError::NotFinite { index: 1 })
    ));
}

/// Quasi-random features come in pairs of a cosine and a sine, so φ(x)·φ(x) is 1 even before
/// normalization. At M = 50 in one and two dimensions, their error is on average below that of
/// random maps. The error shrinks as M grows, also for Matérn kernels and mixtures of length
/// scales.
#[test]
fn quasi_random_features_approximate_the_kernel_better() {
    let error = |family, lengthscale, dim: usize, n_features, sampling| {
        let description = FeatureDescription { n_features, dim, family, lengthscale, sampling };
        let kernel = |r: f64| -> f64 {
            let at = |l: f64| Kernel::isotropic(family, 1, l, 1.0).unwrap().value(&[0.0], &[r]);
            match lengthscale {
                LengthscaleLaw::Fixed(l) => at(l),
                // ∫ k_l p(l) dl by the midpoint rule over 8 standard deviations of ln l.
                LengthscaleLaw::LogNormal { median, spread } => {
                    let nodes = (0..400).map(|i| -4.0 + (f64::from(i) + 0.5) * 0.02);
                    let density = |t: f64| (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
                    nodes.map(|t| 0.02 * density(t) * at(median * (spread * t).exp())).sum()
                }
            }
        };
        let points = uniform_points(40, dim, &mut test_stream(77));
        let mut sum = 0.0;
        for draw in 0..12 {
            let map = FeatureMap::draw(&description, &mut test_stream(900 + draw)).unwrap();
            let features: Vec<Vec<f64>> = points.rows().map(|x| map.features(x)).collect();
            for (x, a) in points.rows().zip(&features) {
                for (z, b) in points.rows().zip(&features) {
                    let r = x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                    let inner: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    sum += (inner - kernel(r.sqrt())).powi(2);
                }
            }
        }
        (sum / (12.0 * 1600.0)).sqrt()
    };
    let (random, quasi) = (FeatureSampling::Random, FeatureSampling::QuasiRandom);
    let mixture = LengthscaleLaw::LogNormal { median: 0.3, spread: 0.5 };
    for (family, law, dim) in [
        (Family::SquaredExponential, LengthscaleLaw::Fixed(0.1), 1),
        (Family::SquaredExponential, LengthscaleLaw::Fixed(0.3), 2),
        (Family::Matern52, LengthscaleLaw::Fixed(0.3), 2),
        (Family::SquaredExponential, mixture, 1),
    ] {
        let (few, fewer) =
            (error(family, law, dim, 50, quasi), error(family, law, dim, 50, random));
        assert!(few < 0.8 * fewer, "{family:?} {law:?}: {few} and {fewer}");
        let many = error(family, law, dim, 1600, quasi);
        assert!(many < 0.35 * few && many < 0.02, "{family:?} {law:?}: {few}, then {many}");
    }
}

fn described(
    family: Family,
    dim: usize,
    lengthscale: LengthscaleLaw,
    n_features: usize,
    sampling: FeatureSampling,
) -> FeatureDescription {
    FeatureDescription { n_features, dim, family, lengthscale, sampling }
}

/// E s_1² equals the curvature of the kernel at 0, computed by differences as 2(1 − k(h))/h², for
/// every family and for a log-normal distribution of length scales. The closed form of the former
/// and the quadrature of the latter check each other.
#[test]
fn the_mean_square_frequency_is_the_kernels_curvature() {
    let laws = [LengthscaleLaw::Fixed(0.3), LengthscaleLaw::LogNormal { median: 0.4, spread: 0.5 }];
    let h = 1e-4;
    for (family, law) in FAMILIES.into_iter().flat_map(|f| laws.map(|law| (f, law))) {
        let description = described(family, 2, law, 1, FeatureSampling::Random);
        // A map with one constant feature has φ(x)·φ(x') = 1, so the error is 1 − k(x, x').
        let constant = FeatureMap::new(2, &[0.0, 0.0], &[0.0], 1.0).unwrap();
        let pair = Points::from_flat(4, vec![0.5, 0.5, 0.5 + h, 0.5]);
        let error = FeatureError::measure(&constant, &description, &pair).unwrap();
        let curvature = 2.0 * error.max / (h * h);
        let expected = description.mean_square_frequency() / 2.0;
        assert!((curvature / expected - 1.0).abs() < 2e-3, "{family:?} {law:?}: {curvature}");
    }
}

/// Claim 1 of Rahimi & Recht covers the bound in the claim's proof. With (4 diam/r)^d balls of
/// radius r, the probability is at most 2 (4 diam/r)^d e^(−Mε²/8) + (2 r σ_p/ε)², minimized here
/// over r on a fine grid. The claim rounds this up for σ_p diam/ε ≥ 1.
#[test]
fn the_uniform_bound_follows_from_a_cover() {
    for (dim, lengthscale, n_features, error) in
        [(1, 0.3, 2000, 0.4), (2, 0.2, 3000, 0.5), (3, 0.9, 4000, 0.6), (6, 0.7, 9000, 0.4)]
    {
        let law = LengthscaleLaw::Fixed(lengthscale);
        let family = Family::SquaredExponential;
        let random = FeatureSampling::Random;
        let claim =
            described(family, dim, law, n_features, random).uniform_error_probability(error);
        let (d, m) = (dim as f64, n_features as f64);
        let (diameter, sigma) = (d.sqrt(), d.sqrt() / lengthscale);
        assert!(sigma * diameter / error >= 1.0);
        let of_cover = |r: f64| {
            2.0 * (4.0 * diameter / r).powf(d) * (-m * error * error / 8.0).exp()
                + (2.0 * r * sigma / error).powi(2)
        };
        let least = (-60_000..20_000).map(|i| of_cover((f64::from(i) / 1000.0).exp()));
        let least = least.fold(f64::INFINITY, f64::min);
        assert!(claim >= least && least > 0.0, "d={dim}: {claim} below {least}");
    }
}

/// Computed by hand for d = 2, ℓ = 0.5, M = 1600 and ε = 0.5: 256 · 8 · 2/0.25 · e^(−25). The bound
/// falls with M and satisfies its defining equation. For the values of M in the papers it exceeds
/// 1, so it is vacuous there.
#[test]
fn the_uniform_bound_falls_with_features_and_is_vacuous_at_the_papers_sizes() {
    let of = |dim, lengthscale, n_features| {
        let law = LengthscaleLaw::Fixed(lengthscale);
        let family = Family::SquaredExponential;
        described(family, dim, law, n_features, FeatureSampling::Random)
    };
    let by_hand = 256.0 * 64.0 * (-25.0_f64).exp();
    let found = of(2, 0.5, 1600).uniform_error_probability(0.5);
    assert!((found / by_hand - 1.0).abs() < 1e-12, "{found} {by_hand}");
    let bounds = [50, 100, 200, 1000, 10_000, 100_000].map(|m| of(2, 0.3, m).uniform_error(0.1));
    assert!(bounds.is_sorted_by(|a, b| a > b), "{bounds:?}");
    // The numbers in docs/privacy.md and papers/fts.md.
    for (bound, expected) in bounds.into_iter().zip([1.83, 1.33, 0.97, 0.46, 0.157, 0.053]) {
        assert!((bound - expected).abs() < 0.006, "{bound} {expected}");
    }
    let solved = of(2, 0.3, 1000).uniform_error_probability(bounds[3]);
    assert!((solved - 0.1).abs() < 1e-9, "{solved}");
    // M = 50, ℓ = 0.03 on a line; M = 100, ℓ = 0.01 on a square (DP-FTS-DE B.1 and B.2.1). Kernel
    // values are at most 1.
    assert!(of(1, 0.03, 50).uniform_error(0.1) > 1.0 && of(2, 0.01, 100).uniform_error(0.1) > 1.0);
}

/// Returns every pair of a grid with `side` points per coordinate.
fn grid_pairs(dim: u32, side: u32) -> Points {
    let point = |code: u32| {
        (0..dim).map(move |j| f64::from(code / side.pow(j) % side) / f64::from(side - 1))
    };
    let n = side.pow(dim);
    let codes = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    let flat = codes.flat_map(|(a, b)| point(a).chain(point(b))).collect();
    Points::from_flat(2 * dim as usize, flat)
}

/// Over every pair of a grid, for 20 maps each, the error of independent frequencies is at most
/// √(3/2)/√M (root mean square; Sutherland & Schneider 2015 give (1 + ½ k(2Δ) − k²)/M before
/// normalization). Quasi-random frequencies have a smaller error in one and two dimensions. Both
/// errors fall with more features, and the largest error is below the uniform bound unless the
/// bound is vacuous.
#[test]
fn measured_errors_on_a_grid_fall_with_features_and_quasi_random_ones_are_smaller() {
    for (dim, side, lengthscale) in [(1, 64, 0.2), (2, 12, 0.3)] {
        let pairs = grid_pairs(dim, side);
        let law = LengthscaleLaw::Fixed(lengthscale);
        let family = Family::SquaredExponential;
        let errors = |m, sampling| {
            let description = described(family, dim as usize, law, m, sampling);
            let of_map = |draw: u64| {
                let map = FeatureMap::draw(&description, &mut test_stream(500 + draw)).unwrap();
                FeatureError::measure(&map, &description, &pairs).unwrap()
            };
            let errors: Vec<FeatureError> = (0..20).map(of_map).collect();
            let square = errors.iter().map(|e| e.rms * e.rms).sum::<f64>() / 20.0;
            let max = errors.iter().map(|e| e.max).fold(0.0, f64::max);
            (square.sqrt(), max)
        };
        let mut before = f64::INFINITY;
        for n_features in [50, 100, 200, 1000] {
            let (random, max) = errors(n_features, FeatureSampling::Random);
            let (quasi, _) = errors(n_features, FeatureSampling::QuasiRandom);
            let root = (n_features as f64).sqrt();
            assert!(random < 1.5_f64.sqrt() / root && random > 0.4 / root, "{random}");
            assert!(quasi < 0.7 * random && random < before, "{quasi} {random} {before}");
            before = random;
            let description =
                described(family, dim as usize, law, n_features, FeatureSampling::Random);
            // The probability that one of 20 maps exceeds the bound is at most 20 · 0.005.
            let bound = description.uniform_error(0.005);
            assert!(bound > 1.0 || max < bound, "{max} above {bound}");
        }
        // The measurement detects features of a different length scale.
        let description = described(family, dim as usize, law, 1000, FeatureSampling::Random);
        let wide = FeatureDescription {
            lengthscale: LengthscaleLaw::Fixed(1.5 * lengthscale),
            ..description
        };
        let map = FeatureMap::draw(&wide, &mut test_stream(520)).unwrap();
        let error = FeatureError::measure(&map, &description, &pairs).unwrap();
        assert!(error.rms > 3.0 * before, "{error:?}");
    }
}

/// The features that the papers share in real experiments (ℓ = 0.01, M = 100, two dimensions) have
/// an error of about five times the root mean square of the kernel, which is √π ℓ in the plane
/// (about ten of 8192 pairs are close enough to count). For features with ℓ = 0.3, the error is at
/// most a fifth of the kernel's root mean square.
#[test]
fn features_of_a_tiny_length_scale_say_less_than_nothing() {
    let relative = |lengthscale| {
        let law = LengthscaleLaw::Fixed(lengthscale);
        let family = Family::SquaredExponential;
        let description = described(family, 2, law, 100, FeatureSampling::Random);
        let map = FeatureMap::draw(&description, &mut test_stream(521)).unwrap();
        FeatureError::on_unit_cube(&map, &description).unwrap()
    };
    let (papers, usual) = (relative(0.01), relative(0.3));
    let ratio = papers.kernel_rms / (std::f64::consts::PI.sqrt() * 0.01);
    assert!(ratio > 0.6 && ratio < 1.6, "{papers:?}");
    assert!(papers.relative() > 4.0 && usual.relative() < 0.2, "{papers:?} {usual:?}");
}
