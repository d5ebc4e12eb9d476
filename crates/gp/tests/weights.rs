//! Compares weight posteriors and draws from them with a dense oracle, in both forms.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use fedbo_gp::{
    FeatureDescription, FeatureMap, Form, GpError, LengthscaleLaw, WeightPosterior,
    WeightSpaceSample,
};
use fedbo_optim::{Function, Points};
use fedbo_testkit::dense::{self, Matrix};
use fedbo_testkit::{statistics, test_stream, uniform_points};

const FORMS: [Form; 2] = [Form::Primal, Form::Dual];
const NOISE: f64 = 0.04;

fn map(n_features: usize, dim: usize) -> FeatureMap {
    let description = FeatureDescription::random(n_features, dim, LengthscaleLaw::Fixed(0.3));
    FeatureMap::draw(&description, &mut test_stream(40)).unwrap()
}

fn data(n: usize, dim: usize) -> (Points, Vec<f64>) {
    let mut stream = test_stream(41);
    let x = uniform_points(n, dim, &mut stream);
    let y = x.rows().map(|x| (6.0 * x[0]).cos() + 0.2 * stream.normal()).collect();
    (x, y)
}

fn oracle(map: &FeatureMap, x: &Points, y: &[f64]) -> (Vec<f64>, Matrix) {
    let rows: Vec<Vec<f64>> = x.rows().map(|x| map.features(x)).collect();
    dense::weight_posterior(&Matrix::from_rows(&rows), NOISE, y)
}

/// ν = (ΦᵀΦ + σ²I)⁻¹Φᵀy in both forms to 1e-9, for t below, at and above M.
#[test]
fn both_forms_have_the_mean_of_the_dense_oracle() {
    for (m, t) in [(1, 1), (9, 4), (16, 16), (20, 60), (50, 13)] {
        let (map, (x, y)) = (map(m, 2), data(t, 2));
        let (mean, _) = oracle(&map, &x, &y);
        for form in FORMS {
            let posterior = WeightPosterior::in_form(form, &map, NOISE, &x, &y).unwrap();
            assert_eq!(posterior.mean().len(), m);
            for (found, expected) in posterior.mean().iter().zip(&mean) {
                assert!(
                    (found - expected).abs() < 1e-9,
                    "M={m} t={t} {form:?}: {found} {expected}"
                );
            }
        }
        let smaller = WeightPosterior::new(&map, NOISE, &x, &y).unwrap().form();
        assert_eq!(smaller, if t < m { Form::Dual } else { Form::Primal });
    }
}

/// Draws have the distribution N(ν, β²σ²Σ⁻¹) in both forms. Checked by a chi-square test of all
/// coordinates and a Kolmogorov–Smirnov test of a projection (each at level 1e-6), with means and
/// covariances within 5 standard errors. Draws with a different β fail the tests.
#[test]
fn draws_have_the_posterior_law_in_both_forms() {
    for (m, t) in [(12, 5), (6, 30)] {
        let (map, (x, y)) = (map(m, 2), data(t, 2));
        let (mean, covariance) = oracle(&map, &x, &y);
        let direction = test_stream(42).normals(m);
        for form in FORMS {
            let posterior = WeightPosterior::in_form(form, &map, NOISE, &x, &y).unwrap();
            for beta in [1.0, 2.5] {
                let mut stream = test_stream(43);
                let draws: Vec<Vec<f64>> =
                    (0..4000).map(|_| posterior.sample(beta, &mut stream)).collect();
                let law = |widening: f64| {
                    let c = covariance.scaled(widening * widening);
                    statistics::check_gaussian_law(&draws, &mean, &c, &direction, 1e-6)?;
                    statistics::check_mean_and_covariance(&draws, &mean, &c, 5.0)
                };
                law(beta).unwrap();
                law(1.05 * beta).unwrap_err();
                let moved: Vec<f64> = mean.iter().map(|v| v + 0.2 * beta).collect();
                statistics::check_mean_and_covariance(&draws, &moved, &covariance, 5.0)
                    .unwrap_err();
            }
        }
    }
}

/// Without observations, a draw is a draw from the prior N(0, I). β = 0 gives the mean itself.
#[test]
fn the_prior_and_the_mean_are_the_ends() {
    let map = map(10, 2);
    let (none, y) = (Points::new(2), vec![]);
    for form in FORMS {
        let prior = WeightPosterior::in_form(form, &map, NOISE, &none, &y).unwrap();
        let mut stream = test_stream(44);
        let draws: Vec<f64> = (0..1000).flat_map(|_| prior.sample(1.0, &mut stream)).collect();
        statistics::check_standard_normal(&draws, 1e-6).unwrap();
        let (x, y) = data(7, 2);
        let posterior = WeightPosterior::in_form(form, &map, NOISE, &x, &y).unwrap();
        assert_eq!(posterior.sample(0.0, &mut stream), posterior.mean());
    }
}

/// Checks the value φ(x)·ω, the gradient against central differences, and batches against single
/// points.
#[test]
fn the_function_of_a_weight_vector_and_its_gradient() {
    for dim in [1, 2, 5] {
        for m in [1, 3, 8, 100] {
            let map = map(m, dim);
            let weights = test_stream(45).normals(m);
            let f = WeightSpaceSample::new(&map, &weights).unwrap();
            let points = uniform_points(20, dim, &mut test_stream(46));
            let batch = f.values(&points);
            for (x, value) in points.rows().zip(&batch) {
                let expected: f64 = map.features(x).iter().zip(&weights).map(|(p, w)| p * w).sum();
                assert!((value - expected).abs() < 1e-12 * (1.0 + expected.abs()));
                let alone = f.values(&Points::from_rows(dim, [x]))[0];
                assert_eq!(alone.to_bits(), value.to_bits());
                let mut gradient = vec![f64::NAN; dim];
                let single = f.value_gradient(x, &mut gradient);
                assert!((single - value).abs() < 1e-12 * (1.0 + value.abs()), "{single} {value}");
                for j in 0..dim {
                    let shifted = |h: f64| {
                        let mut moved = x.to_vec();
                        moved[j] += h;
                        f.values(&Points::from_rows(dim, [moved]))[0]
                    };
                    let difference = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                    let error = (gradient[j] - difference).abs();
                    // With few features, the normalization changes sharply where all cosines are
                    // small.
                    let scale = if m < 8 { 1e-2 } else { 1e-6 };
                    assert!(
                        error < scale * (1.0 + difference.abs()),
                        "d={dim} M={m}: {gradient:?} {difference}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_weight_vectors_are_refused() {
    let map = map(4, 2);
    let made = |weights: &[f64]| WeightSpaceSample::new(&map, weights).map(|_| ()).unwrap_err();
    assert_eq!(made(&[0.0; 3]), GpError::Length { what: "weight sample", found: 3, expected: 4 });
    assert_eq!(made(&[0.0, 1.0, f64::NAN, 0.0]), GpError::NotFinite { index: 2 });
    let (x, y) = data(3, 2);
    for bad in [0.0, -1.0, f64::NAN] {
        assert!(matches!(
            WeightPosterior::new(&map, bad, &x, &y),
            Err(GpError::Hyperparameter { .. })
        ));
    }
}
