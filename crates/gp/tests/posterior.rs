//! Compares the exact posterior with a dense solve by Gaussian elimination, and updates with a
//! rebuild.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use fedbo_gp::linalg::{PackedLower, SpdFactor};
use fedbo_gp::{Family, GpError, Kernel, Posterior};
use fedbo_optim::Points;
use fedbo_testkit::{dense, test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];

fn data(n: usize, dim: usize, number: u64) -> (Points, Vec<f64>) {
    let mut stream = test_stream(number);
    let x = uniform_points(n, dim, &mut stream);
    let y = x
        .rows()
        .map(|x| (5.0 * x[0]).sin() + x.iter().sum::<f64>() + 0.1 * stream.normal())
        .collect();
    (x, y)
}

fn ard(family: Family, dim: usize) -> Kernel {
    let lengthscales = [0.5, 0.9, 0.3, 2.0, 1.1].iter().copied().cycle().take(dim);
    Kernel::new(family, lengthscales.collect(), 1.7).unwrap()
}

/// Returns the largest difference between the means and variances at the points `at`.
fn distance(a: &Posterior, b: &Posterior, at: &Points) -> f64 {
    at.rows().fold(0.0, |worst: f64, x| {
        let ((m, v), (n, w)) = (a.mean_variance(x), b.mean_variance(x));
        worst.max((m - n).abs()).max((v - w).abs())
    })
}

/// mean(x) = k(x, X)(K + σ²I)⁻¹y and cov(x, x') = k(x, x') − k(x, X)(K + σ²I)⁻¹k(X, x') to 1e-10,
/// for single points and jointly.
#[test]
fn mean_and_covariance_are_those_of_a_dense_solve() {
    for family in FAMILIES {
        for (n, dim) in [(0, 2), (1, 1), (2, 3), (9, 2), (40, 1), (75, 5)] {
            let (x, y) = data(n, dim, 10);
            let kernel = ard(family, dim);
            let at = uniform_points(7, dim, &mut test_stream(11));
            let posterior = Posterior::new(kernel.clone(), 0.01, x.clone(), y.clone()).unwrap();
            let (mean, covariance) = dense::posterior(&kernel, 0.01, &x, &y, &at);
            let (joint_mean, joint_covariance) = posterior.joint(&at);
            let mut worst = 0.0_f64;
            for i in 0..at.len() {
                let (m, v) = posterior.mean_variance(at.row(i));
                worst = worst.max((m - mean[i]).abs()).max((joint_mean[i] - mean[i]).abs());
                worst = worst.max((v - covariance.at(i, i)).abs());
                for j in 0..=i {
                    worst = worst.max((joint_covariance.row(i)[j] - covariance.at(i, j)).abs());
                }
            }
            assert!(worst < 1e-10, "{family:?} n={n} d={dim}: {worst}");
            assert!(posterior.factor().jitter().abs() < f64::MIN_POSITIVE);
            // A noise variance that is wrong by one per cent exceeds the tolerance.
            if n > 1 {
                let (other, _) = dense::posterior(&kernel, 0.0101, &x, &y, &at);
                assert!(other.iter().zip(&mean).any(|(a, b)| (a - b).abs() > 1e-6));
            }
        }
    }
}

/// Appending observations one by one gives the same posterior as conditioning on all of them at
/// once.
#[test]
fn appending_is_refitting() {
    for family in FAMILIES {
        let (x, y) = data(60, 3, 12);
        let at = uniform_points(20, 3, &mut test_stream(13));
        let whole = Posterior::new(ard(family, 3), 0.01, x.clone(), y.clone()).unwrap();
        let mut grown = Posterior::new(ard(family, 3), 0.01, Points::new(3), vec![]).unwrap();
        for (x, y) in x.rows().zip(&y) {
            grown.append(x, *y).unwrap();
        }
        assert_eq!((grown.len(), grown.outputs()), (60, whole.outputs()));
        assert!(distance(&grown, &whole, &at) < 1e-11, "{family:?}");
        let mut short = Posterior::new(ard(family, 3), 0.01, x.clone(), y.clone()).unwrap();
        short.append(x.row(0), y[0]).unwrap();
        assert!(distance(&short, &whole, &at) > 1e-5, "one more observation must show");
    }
}

/// After 2,000 appends, the difference from a rebuild is less than 1e-9.
#[test]
fn a_long_run_of_appends_does_not_drift() {
    let (x, y) = data(2000, 2, 14);
    let at = uniform_points(50, 2, &mut test_stream(15));
    let kernel = Kernel::isotropic(Family::Matern52, 2, 0.2, 1.0).unwrap();
    let mut grown = Posterior::new(kernel.clone(), 0.01, Points::new(2), vec![]).unwrap();
    for (x, y) in x.rows().zip(&y) {
        grown.append(x, *y).unwrap();
    }
    let whole = Posterior::new(kernel, 0.01, x, y).unwrap();
    let worst = distance(&grown, &whole, &at);
    assert!(worst < 1e-9, "{worst}");
}

/// A repeated input without noise cannot extend the factor. The posterior is rebuilt with jitter
/// and stays correct.
#[test]
fn appending_a_repeated_input_without_noise_falls_back_to_jitter() {
    let (x, y) = data(12, 2, 16);
    let kernel = ard(Family::Matern32, 2);
    let mut posterior = Posterior::new(kernel, 0.0, x.clone(), y.clone()).unwrap();
    assert!(posterior.factor().jitter().abs() < f64::MIN_POSITIVE);
    posterior.append(x.row(3), y[3]).unwrap();
    assert!(posterior.factor().jitter() > 0.0);
    let (mean, variance) = posterior.mean_variance(x.row(3));
    assert!((mean - y[3]).abs() < 1e-4 && variance < 1e-4, "{mean} {variance}");
}

#[test]
fn set_outputs_is_refitting_to_the_last_bit() {
    let (x, y) = data(30, 2, 17);
    let other: Vec<f64> = y.iter().map(|y| 3.0 - 2.0 * y).collect();
    let kernel = ard(Family::SquaredExponential, 2);
    let mut posterior = Posterior::new(kernel.clone(), 0.01, x.clone(), y.clone()).unwrap();
    posterior.set_outputs(other.clone()).unwrap();
    let expected = Posterior::new(kernel, 0.01, x, other).unwrap();
    assert_eq!(posterior.alpha(), expected.alpha());
    let mut bad = y;
    bad[4] = f64::NAN;
    assert_eq!(posterior.set_outputs(bad), Err(GpError::NotFinite { index: 4 }));
    assert_eq!(posterior.alpha(), expected.alpha(), "an error leaves the posterior as it was");
}

/// Checks the factor, determinant, solves and inverse of [`SpdFactor`], at sizes around the tile
/// size used for copying.
#[test]
fn the_factor_solves_and_inverts() {
    for n in [1, 2, 7, 8, 9, 16, 31, 64, 65, 130, 300] {
        let (x, y) = data(n, 2, 18);
        let kernel = Kernel::isotropic(Family::Matern32, 2, 0.4, 1.0).unwrap();
        let mut gram = kernel.gram(&x);
        for i in 0..n {
            gram.row_mut(i)[i] += 0.1;
        }
        let factor = SpdFactor::new(&gram).unwrap();
        let at = |m: &PackedLower, i: usize, j: usize| m.row(i.max(j))[i.min(j)];
        let times = |m: &PackedLower, v: &[f64]| -> Vec<f64> {
            let row = |i| (0..n).map(|j| at(m, i, j) * v[j]).sum();
            (0..n).map(row).collect()
        };
        let close = |a: &[f64], b: &[f64], what: &str| {
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() < 1e-10, "{what} at n={n}: {a} {b}");
            }
        };
        let mut solved = y.clone();
        factor.solve(&mut solved);
        close(&times(&gram, &solved), &y, "solve");
        close(&times(&factor.inverse(), &y), &solved, "inverse");
        let mut half = y.clone();
        factor.solve_lower(&mut half);
        close(&factor.multiply_lower(&half), &y, "multiply_lower");
        if n <= 65 {
            let k = dense::covariance(&kernel, &x, &x).plus_identity(0.1);
            assert!((factor.log_determinant() - k.log_determinant()).abs() < 1e-10);
        }
    }
}
