//! Random features: what their inner products approximate, and how fast.

use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, FeatureSampling, GpError, Kernel, LengthscaleLaw,
};
use fedbo_optim::{Points, sobol};
use fedbo_testkit::{dense, test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

/// max_ij |φ(x_i)·φ(x_j) − expected(x_i, x_j)|.
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

/// φ(x)·φ(x') is within 5/√M of k(x, x')/a² (Rahimi & Recht 2007: standard deviation at most 1/√M), at three sizes M.
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
        // Frequencies 1.4 times as large: so it can fail.
        let narrow = Kernel::new(family, vec![0.4 / 1.4, 0.9 / 1.4], 1.0).unwrap();
        let map = FeatureMap::for_kernel(&narrow, 4096, &mut test_stream(30)).unwrap();
        assert!(max_error(&map, &x, exact) > 5.0 / 4096_f64.sqrt(), "{family:?}");
        // So do the frequencies of another family.
        let other = FAMILIES[usize::from(family == Family::SquaredExponential)];
        let wrong = Kernel::new(other, vec![0.4, 0.9], 1.0).unwrap();
        let map = FeatureMap::for_kernel(&wrong, 16384, &mut test_stream(30)).unwrap();
        assert!(max_error(&map, &x, exact) > 5.0 / 16384_f64.sqrt(), "{family:?} as {other:?}");
    }
}

/// With ln ℓ ~ N(ln m, s²) the features approximate ∫ k_ℓ(x, x') p(ℓ) dℓ (trapezoidal rule in ln ℓ), not the kernel of the
/// median length scale.
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
        // Without spread, the law is the one kernel.
        let fixed =
            FeatureDescription { lengthscale: LengthscaleLaw::Fixed(median), ..description };
        let map = FeatureMap::draw(&fixed, &mut test_stream(31)).unwrap();
        assert!(max_error(&map, &x, at_median) < tolerance);
    }
}

/// ‖φ(x)‖² = a² to rounding, for every M, also those that are no multiple of the vector width.
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

/// Each feature is proportional to cos(s·x + b) of the numbers it was made of.
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
    let description = FeatureDescription {
        n_features: 20,
        dim: 2,
        family: Family::SquaredExponential,
        lengthscale: LengthscaleLaw::Fixed(0.3),
        sampling: FeatureSampling::Random,
    };
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

/// Quasi-random maps: features come in pairs of cosine and sine, so that φ(x)·φ(x) is 1 before normalization too; their
/// error at M = 50 in one and two dimensions is below that of random maps on average, and shrinks with M towards the kernel,
/// Matérn and mixtures of length scales included.
#[test]
fn quasi_random_features_approximate_the_kernel_better() {
    let error = |family, lengthscale, dim: usize, n_features, sampling| {
        let description = FeatureDescription { n_features, dim, family, lengthscale, sampling };
        let kernel = |r: f64| -> f64 {
            let at = |l: f64| Kernel::isotropic(family, 1, l, 1.0).unwrap().value(&[0.0], &[r]);
            match lengthscale {
                LengthscaleLaw::Fixed(l) => at(l),
                // ∫ k_l p(l) dl by the midpoint rule over 8 deviations of ln l.
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
