//! Compares posteriors that are sent as the mean and covariance of weights with dense linear
//! algebra.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::sync::Arc;

use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Form, FunctionBasis, GpError, Kernel, LengthscaleLaw,
    Remainder, WeightMoments, WeightPosterior, WeightStatistics,
};
use fedbo_optim::{Points, sobol};
use fedbo_testkit::dense::{self, Matrix};
use fedbo_testkit::{test_stream, uniform_points};

fn map(n_features: usize) -> Arc<FeatureMap> {
    let description = FeatureDescription::random(n_features, 2, LengthscaleLaw::Fixed(0.3));
    Arc::new(FeatureMap::draw(&description, &mut test_stream(40)).unwrap())
}

fn data(n: usize) -> (Points, Vec<f64>) {
    let x = uniform_points(n, 2, &mut test_stream(41));
    let y = x.rows().map(|x| (6.0 * x[0]).cos() + x[1]).collect();
    (x, y)
}

/// Covariances, means, variances and joint distributions equal those of the dense oracle in both
/// forms, for t below and above M and down to the paper's σ² = 1e-6. Rounding errors are amplified
/// by at most 1/σ².
#[test]
fn moments_are_those_of_the_dense_oracle() {
    let points = uniform_points(7, 2, &mut test_stream(42));
    for (m, t, noise) in [(12, 5, 0.04), (9, 30, 0.04), (40, 20, 1e-6), (1, 1, 0.5)] {
        let (map, (x, y)) = (map(m), data(t));
        let rows = |points: &Points| {
            let rows: Vec<Vec<f64>> = points.rows().map(|x| map.features(x)).collect();
            Matrix::from_rows(&rows)
        };
        let (mean, covariance) = dense::weight_posterior(&rows(&x), noise, &y);
        let phi = rows(&points);
        let joint = phi.times(&covariance).times(&phi.transpose());
        let expected_means = phi.times_vector(&mean);
        let tolerance = 1e-13 / noise;
        for form in [Form::Primal, Form::Dual] {
            let sent = WeightPosterior::in_form(form, &map, noise, &x, &y).unwrap();
            let entries = sent.covariance();
            for i in 0..m {
                for j in 0..m {
                    let difference = entries[i * m + j] - covariance.at(i, j);
                    assert!(difference.abs() < tolerance, "{form:?} ({i}, {j}): {difference:e}");
                }
            }
            let received = WeightMoments::new(Arc::clone(&map), sent.mean(), &entries).unwrap();
            let (means, variances) = received.mean_variances(&points);
            let (joint_means, found) = received.joint(&points);
            for i in 0..points.len() {
                assert!((means[i] - expected_means[i]).abs() < 1e-6_f64.max(tolerance));
                assert!((joint_means[i] - means[i]).abs() < 1e-12);
                assert!((variances[i] - joint.at(i, i)).abs() < tolerance);
                for j in 0..=i {
                    assert!((found.row(i)[j] - joint.at(i, j)).abs() < tolerance);
                }
            }
        }
    }
}

/// Returns the statistics of a set of outputs for 6 shared functions.
fn statistics(n: usize) -> (FunctionBasis, WeightStatistics) {
    let basis = FunctionBasis::new(map(30), 6).unwrap();
    let kernel = Kernel::isotropic(Family::Matern52, 2, 0.4, 1.0).unwrap();
    let remainder = Remainder { own_variance: 0.1, level_variance: 10.0, noise_variance: 1e-2 };
    let (x, y) = data(n);
    let statistics = WeightStatistics::of_observations(&basis, &kernel, &remainder, &x, &y);
    (basis, statistics.unwrap().0)
}

/// Computes the function of a message by dense linear algebra: the posterior of w under N(0, I),
/// minus the mean of the functions over the cube, in units of the expected spread over the cube,
/// computed point by point.
#[test]
fn the_function_of_statistics_is_that_of_the_dense_oracle() {
    let points = uniform_points(7, 2, &mut test_stream(44));
    for n in [1, 4, 40] {
        let (basis, statistics) = statistics(n);
        let rank = basis.rank();
        let numbers = statistics.numbers();
        let precision = Matrix::from_fn(rank, rank, |i, j| {
            let (i, j) = (i.max(j), i.min(j));
            numbers[rank + i * (i + 1) / 2 + j]
        });
        let precision = precision.plus_identity(1.0);
        let mean = precision.solve_vector(&numbers[..rank]);
        let cube = basis.rows(&sobol(2, 1024, 0));
        let centre: Vec<f64> =
            (0..rank).map(|j| cube.iter().map(|row| row[j]).sum::<f64>() / 1024.0).collect();
        let centred = |row: &[f64]| -> Vec<f64> {
            row.iter().zip(&centre).map(|(psi, mean)| psi - mean).collect()
        };
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let covariance = |a: &[f64], b: &[f64]| product(a, &precision.solve_vector(b));
        let square = cube.iter().map(|row| centred(row)).map(|row| {
            let value = product(&row, &mean);
            value * value + covariance(&row, &row)
        });
        let size = (square.sum::<f64>() / 1024.0).sqrt();
        let moments = WeightMoments::of_statistics(&basis, &statistics).unwrap();
        let rows: Vec<Vec<f64>> = basis.rows(&points).iter().map(|row| centred(row)).collect();
        let (means, variances) = moments.mean_variances(&points);
        let (joint_means, joint) = moments.joint(&points);
        for i in 0..points.len() {
            let expected = product(&rows[i], &mean) / size;
            assert!((means[i] - expected).abs() < 1e-9, "{n}: {} {expected}", means[i]);
            assert!((joint_means[i] - means[i]).abs() < 1e-12);
            let expected = covariance(&rows[i], &rows[i]) / size / size;
            assert!((variances[i] - expected).abs() < 1e-9, "{n}: {} {expected}", variances[i]);
            for j in 0..=i {
                let expected = covariance(&rows[i], &rows[j]) / size / size;
                assert!((joint.row(i)[j] - expected).abs() < 1e-9);
            }
        }
        check_gradients(&moments);
    }
}

#[test]
fn gradients_agree_with_differences() {
    let (map, (x, y)) = (map(30), data(15));
    let sent = WeightPosterior::new(&map, 0.01, &x, &y).unwrap();
    check_gradients(
        &WeightMoments::new(Arc::clone(&map), sent.mean(), &sent.covariance()).unwrap(),
    );
}

/// Compares with central differences with a step of 1e-6. Values at single points must agree with
/// batch values.
fn check_gradients(moments: &WeightMoments) {
    let points = uniform_points(10, 2, &mut test_stream(43));
    let (means, variances) = moments.mean_variances(&points);
    for ((x, mean), variance) in points.rows().zip(means).zip(variances) {
        let (mut of_mean, mut of_variance) = ([0.0; 2], [0.0; 2]);
        let found = moments.predict(x, &mut of_mean, &mut of_variance);
        assert!((found.0 - mean).abs() < 1e-12 && (found.1 - variance).abs() < 1e-12);
        for j in 0..2 {
            let at = |step: f64| {
                let mut near = x.to_vec();
                near[j] += step;
                moments.predict(&near, &mut [0.0; 2], &mut [0.0; 2])
            };
            let (up, down) = (at(1e-6), at(-1e-6));
            assert!((of_mean[j] - (up.0 - down.0) / 2e-6).abs() < 1e-5);
            assert!((of_variance[j] - (up.1 - down.1) / 2e-6).abs() < 1e-5);
        }
    }
}

#[test]
fn numbers_that_are_no_posterior_are_refused() {
    let map = map(3);
    let new = |mean: &[f64], covariance: &[f64]| {
        WeightMoments::new(Arc::clone(&map), mean, covariance).map(|_| ())
    };
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    assert_eq!(new(&[0.0; 3], &identity), Ok(()));
    assert!(matches!(
        new(&[0.0; 2], &identity),
        Err(GpError::Length { found: 2, expected: 3, .. })
    ));
    assert!(matches!(
        new(&[0.0; 3], &identity[..8]),
        Err(GpError::Length { found: 8, expected: 9, .. })
    ));
    assert_eq!(new(&[0.0, f64::NAN, 0.0], &identity), Err(GpError::NotFinite { index: 1 }));
    let mut indefinite = identity;
    indefinite[4] = -1.0;
    assert!(matches!(new(&[0.0; 3], &indefinite), Err(GpError::NotPositiveDefinite(_))));
}
