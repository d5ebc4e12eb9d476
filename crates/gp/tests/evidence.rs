//! Compares the evidence with a dense computation, gradients with central differences, and fits
//! with a search of the whole box.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use fedbo_gp::{Family, FitCriterion, FitOptions, GpError, Hyperparameters, Kernel, evidence, fit};
use fedbo_optim::Points;
use fedbo_testkit::{dense, test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

fn data(n: usize, dim: usize, number: u64) -> (Points, Vec<f64>) {
    let mut stream = test_stream(number);
    let x = uniform_points(n, dim, &mut stream);
    let y =
        x.rows().map(|x| (7.0 * x[0]).sin() + 0.5 * x[dim - 1] + 0.2 * stream.normal()).collect();
    (x, y)
}

#[test]
fn the_evidence_is_the_dense_gaussian_density() {
    for family in FAMILIES {
        for (n, dim) in [(0, 1), (1, 1), (5, 2), (60, 3), (550, 2)] {
            let (x, y) = data(n, dim, 20);
            let kernel = Kernel::isotropic(family, dim, 0.5, 1.3).unwrap();
            let found = evidence(&kernel, 0.05, &x, &y).unwrap();
            let expected = dense::log_evidence(&kernel, 0.05, &x, &y);
            assert!(
                (found.value - expected).abs() < 1e-9,
                "{family:?} n={n}: {} {expected}",
                found.value
            );
            assert!(found.jitter.abs() < f64::MIN_POSITIVE);
        }
    }
}

/// ∂/∂ln θ for every hyperparameter θ agrees with central differences of the dense evidence to a
/// relative error of 1e-6.
#[test]
fn the_gradient_agrees_with_central_differences() {
    let sizes = [30, 30, 550]; // the last is computed in blocks
    for (family, n) in FAMILIES.into_iter().zip(sizes) {
        let (x, y) = data(n, 3, 21);
        let theta = [0.4_f64.ln(), 0.8_f64.ln(), 3.0_f64.ln(), 1.5_f64.ln(), 0.03_f64.ln()];
        let at = |theta: &[f64]| {
            let e: Vec<f64> = theta.iter().map(|t| t.exp()).collect();
            (Kernel::new(family, e[..3].to_vec(), e[3]).unwrap(), e[4])
        };
        let (kernel, noise) = at(&theta);
        let gradient = evidence(&kernel, noise, &x, &y).unwrap().gradient;
        for i in 0..theta.len() {
            let shifted = |h: f64| {
                let mut moved = theta;
                moved[i] += h;
                let (kernel, noise) = at(&moved);
                match n {
                    0..100 => dense::log_evidence(&kernel, noise, &x, &y),
                    _ => evidence(&kernel, noise, &x, &y).unwrap().value, // checked above
                }
            };
            let difference = (shifted(1e-4) - shifted(-1e-4)) / 2e-4;
            let error = (gradient[i] - difference).abs();
            assert!(
                error < 1e-6 * difference.abs().max(1.0),
                "{family:?} {i}: {} {difference}",
                gradient[i]
            );
        }
        // The derivative with respect to the signal variance stays exact when noise dominates and
        // the trace cancels.
        let (x, y) = data(30, 3, 21);
        let tiny = Kernel::new(family, vec![0.4; 3], 1e-3).unwrap();
        let gradient = evidence(&tiny, 10.0, &x, &y).unwrap().gradient;
        let value = |a: f64| {
            let kernel = Kernel::new(family, vec![0.4; 3], a).unwrap();
            dense::log_evidence(&kernel, 10.0, &x, &y)
        };
        let difference = (value(1e-3 * 1.01) - value(1e-3 / 1.01)) / (2.0 * 1.01_f64.ln());
        assert!((gradient[3] - difference).abs() < 1e-7, "{} {difference}", gradient[3]);
    }
}

/// Returns the largest value of `criterion` on a grid over the box that is refined twelve times
/// around its best point.
fn brute_force(criterion: impl Fn(&[f64]) -> f64, lower: &[f64], upper: &[f64], n: u32) -> f64 {
    let dim = lower.len();
    let (mut low, mut high) = (lower.to_vec(), upper.to_vec());
    let (mut best, mut best_at) = (f64::NEG_INFINITY, lower.to_vec());
    for _ in 0..12 {
        for k in 0..n.pow(u32::try_from(dim).unwrap()) {
            let mut rest = k;
            let theta: Vec<f64> = (0..dim)
                .map(|j| {
                    let share = f64::from(rest % n) / f64::from(n - 1);
                    rest /= n;
                    low[j] + share * (high[j] - low[j])
                })
                .collect();
            let value = criterion(&theta);
            if value > best {
                (best, best_at) = (value, theta);
            }
        }
        for j in 0..dim {
            let half = 0.3 * (high[j] - low[j]);
            low[j] = (best_at[j] - half).max(lower[j]);
            high[j] = (best_at[j] + half).min(upper[j]);
        }
    }
    best
}

fn options(criterion: FitCriterion, isotropic: bool) -> FitOptions {
    FitOptions {
        criterion,
        isotropic,
        n_restarts: 3,
        lengthscale_bounds: (0.02, 50.0),
        outputscale_bounds: (1e-2, 1e2),
        noise_bounds: (1e-4, 1.0),
        ..FitOptions::default()
    }
}

/// Returns the log densities of the three log-normal priors in t = ln θ, without constants: −t − (t
/// − m)²/2s².
fn log_prior(theta: &[f64], n_lengthscales: usize, dim: f64) -> f64 {
    let term = |t: f64, m: f64, variance: f64| -t - (t - m).powi(2) / (2.0 * variance);
    let lengthscales: f64 = theta[..n_lengthscales]
        .iter()
        .map(|t| term(*t, 2.0_f64.sqrt() + dim.ln() / 2.0, 3.0))
        .sum();
    lengthscales
        + term(theta[n_lengthscales], 0.0, 1.0)
        + term(theta[n_lengthscales + 1], -4.0, 1.0)
}

/// A fit reaches the best value of a refined grid search over its whole box within 1e-4, with a
/// single length scale or one per dimension, with or without priors.
#[test]
fn a_fit_finds_the_optimum_of_the_whole_box() {
    let dim = 2;
    for (family, isotropic, criterion) in [
        (Family::SquaredExponential, false, FitCriterion::MaximumLikelihood),
        (Family::Matern52, true, FitCriterion::MaximumLikelihood),
        (Family::Matern32, true, FitCriterion::MaximumPosterior),
        (Family::SquaredExponential, true, FitCriterion::MaximumPosterior),
    ] {
        let (x, y) = data(24, dim, 22);
        let options = options(criterion, isotropic);
        let start = Hyperparameters {
            kernel: Kernel::isotropic(family, dim, 1.0, 1.0).unwrap(),
            noise_variance: 0.1,
        };
        let fitted = fit(&start, &x, &y, &options, &mut test_stream(23)).unwrap();
        let n = if isotropic { 1 } else { dim };
        let value = |theta: &[f64]| {
            let e: Vec<f64> = theta.iter().map(|t| t.exp()).collect();
            let lengthscales = if isotropic { vec![e[0]; dim] } else { e[..n].to_vec() };
            let kernel = Kernel::new(family, lengthscales, e[n]).unwrap();
            let prior = match criterion {
                FitCriterion::MaximumLikelihood => 0.0,
                FitCriterion::MaximumPosterior => log_prior(theta, n, 2.0),
            };
            evidence(&kernel, e[n + 1], &x, &y).unwrap().value + prior
        };
        let (mut lower, mut upper) = (vec![0.02_f64.ln(); n], vec![50.0_f64.ln(); n]);
        lower.extend([1e-2_f64.ln(), 1e-4_f64.ln()]);
        upper.extend([1e2_f64.ln(), 0.0]);
        let best = brute_force(value, &lower, &upper, if isotropic { 11 } else { 7 });
        assert!(
            (fitted.value - best).abs() < 1e-4,
            "{family:?} {criterion:?}: {} {best}",
            fitted.value
        );
        // The reported value is the criterion at the hyperparameters, and half the length scale is
        // clearly worse.
        let h = &fitted.hyperparameters;
        let mut theta: Vec<f64> = h.kernel.lengthscales()[..n].iter().map(|l| l.ln()).collect();
        theta.extend([h.kernel.outputscale().ln(), h.noise_variance.ln()]);
        assert!((value(&theta) - fitted.value).abs() < 1e-9);
        theta[0] -= 2.0_f64.ln();
        assert!(value(&theta) < best - 0.1);
        if isotropic {
            let l = h.kernel.lengthscales();
            assert_eq!(l[0].to_bits(), l[1].to_bits());
        }
        assert!(fitted.n_evaluations < 300 && fitted.n_failed_starts == 0);
    }
}

/// Equal streams give equal fits, and a fit of non-finite outputs is an error.
#[test]
fn a_fit_is_deterministic_and_refuses_nan() {
    let (x, mut y) = data(15, 2, 24);
    let start = Hyperparameters {
        kernel: Kernel::isotropic(Family::Matern52, 2, 1.0, 1.0).unwrap(),
        noise_variance: 0.1,
    };
    let run = |y: &[f64]| fit(&start, &x, y, &FitOptions::default(), &mut test_stream(25));
    assert_eq!(run(&y), run(&y));
    y[3] = f64::NAN;
    assert!(matches!(run(&y), Err(GpError::Hyperparameter { .. } | GpError::NotFinite { .. })));
}

/// With many observations, the search first uses a quarter of them. The result is a maximum of the
/// criterion for all observations.
#[test]
fn a_fit_of_many_observations_ends_where_the_gradient_of_all_vanishes() {
    let (x, y) = data(700, 2, 26);
    let start = Hyperparameters {
        kernel: Kernel::isotropic(Family::Matern52, 2, 1.0, 1.0).unwrap(),
        noise_variance: 0.1,
    };
    let options = FitOptions {
        criterion: FitCriterion::MaximumLikelihood,
        n_restarts: 1,
        ..FitOptions::default()
    };
    let fitted = fit(&start, &x, &y, &options, &mut test_stream(27)).unwrap();
    let Hyperparameters { kernel, noise_variance } = fitted.hyperparameters;
    let found = evidence(&kernel, noise_variance, &x, &y).unwrap();
    assert!((found.value - fitted.value).abs() < 1e-9 * found.value.abs());
    assert!(found.gradient.iter().all(|g| g.abs() < 0.05), "{:?}", found.gradient);
    assert!((noise_variance - 0.04).abs() < 0.01, "{noise_variance}");
    // Without the curvature from the quarter, the fit takes 17 evaluations.
    assert!(fitted.n_evaluations <= 10, "{}", fitted.n_evaluations);
}

/// If observations alternate between classes, the quarter that a fit uses first covers every class.
#[test]
fn a_fit_of_observations_that_come_in_turn_is_that_of_any_order() {
    let value = |order: &[usize]| {
        let points = uniform_points(640, 2, &mut test_stream(28));
        let row = |i: usize| [f64::from(u8::try_from(i % 4).unwrap()) / 3.0, points.row(i)[1]];
        let rows: Vec<[f64; 2]> = order.iter().map(|i| row(*i)).collect();
        let y: Vec<f64> =
            rows.iter().map(|x| if x[0] > 0.0 { (4.0 * x[1]).sin() + x[0] } else { 0.0 }).collect();
        let start = Hyperparameters {
            kernel: Kernel::isotropic(Family::Matern52, 2, 1.0, 1.0).unwrap(),
            noise_variance: 0.1,
        };
        let options =
            FitOptions { criterion: FitCriterion::MaximumLikelihood, ..FitOptions::default() };
        let inputs = Points::from_rows(2, rows);
        fit(&start, &inputs, &y, &options, &mut test_stream(29)).unwrap().value
    };
    let mut order: Vec<usize> = (0..640).collect();
    let in_turn = value(&order);
    test_stream(30).shuffle(&mut order);
    let mixed = value(&order);
    assert!((in_turn - mixed).abs() < 0.5, "{in_turn} {mixed}");
}
