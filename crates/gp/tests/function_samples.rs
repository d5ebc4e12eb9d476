//! Compares pathwise and joint function samples with the exact posterior.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use fedbo_gp::{Family, GpError, JointSampler, Kernel, PathwiseSample, Posterior, Prior};
use fedbo_optim::{Function, Points};
use fedbo_testkit::dense::{self, Matrix};
use fedbo_testkit::{statistics, test_stream, uniform_points};

const FAMILIES: [Family; 3] = [Family::SquaredExponential, Family::Matern32, Family::Matern52];
const NOISE: f64 = 0.05;

fn posterior(family: Family, n: usize, dim: usize) -> Posterior {
    let mut stream = test_stream(50);
    let x = uniform_points(n, dim, &mut stream);
    let y = x.rows().map(|x| (6.0 * x[0]).cos() + 0.2 * stream.normal()).collect();
    let kernel = Kernel::isotropic(family, dim, 0.3, 1.4).unwrap();
    Posterior::new(kernel, NOISE, x, y).unwrap()
}

fn oracle(p: &Posterior, at: &Points) -> (Vec<f64>, Matrix) {
    dense::posterior(p.kernel(), p.noise_variance(), p.inputs(), p.outputs(), at)
}

/// Pathwise draws have the posterior mean and β² times the posterior covariance within 5 standard
/// errors. A wrong β or the covariance of the prior exceeds this tolerance.
#[test]
fn pathwise_draws_have_the_posterior_law() {
    for family in FAMILIES {
        let posterior = posterior(family, 8, 2);
        let mut at = uniform_points(3, 2, &mut test_stream(51));
        at.push(posterior.inputs().row(2));
        let (mean, covariance) = oracle(&posterior, &at);
        for beta in [1.0, 2.0] {
            let mut stream = test_stream(52);
            let prior = Prior { n_features: 1000 };
            let draws: Vec<Vec<f64>> = (0..3000)
                .map(|_| {
                    let sample =
                        PathwiseSample::draw(&posterior, prior, beta, &mut stream).unwrap();
                    sample.values(&at)
                })
                .collect();
            let law = |c: f64| {
                statistics::check_mean_and_covariance(&draws, &mean, &covariance.scaled(c * c), 5.0)
            };
            law(beta).unwrap();
            law(1.15 * beta).unwrap_err();
            let unconditioned = dense::covariance(posterior.kernel(), &at, &at);
            statistics::check_mean_and_covariance(&draws, &mean, &unconditioned, 5.0).unwrap_err();
        }
    }
}

/// At the data, the correction is exact for any number of features, so without noise every draw
/// interpolates.
#[test]
fn pathwise_draws_interpolate_noiseless_data() {
    let noisy = posterior(Family::Matern52, 8, 2);
    let (x, y) = (noisy.inputs().clone(), noisy.outputs().to_vec());
    let posterior = Posterior::new(noisy.kernel().clone(), 0.0, x.clone(), y.clone()).unwrap();
    for n_features in [1, 10, 1000] {
        let mut stream = test_stream(53);
        let sample =
            PathwiseSample::draw(&posterior, Prior { n_features }, 3.0, &mut stream).unwrap();
        for (value, y) in sample.values(&x).iter().zip(&y) {
            assert!((value - y).abs() < 1e-9, "{n_features}: {value} {y}");
        }
    }
    let sample = PathwiseSample::draw(&noisy, Prior::default(), 1.0, &mut test_stream(53)).unwrap();
    assert!(sample.values(&x).iter().zip(&y).any(|(v, y)| (v - y).abs() > 1e-3));
}

/// With β = 0 the draw is the posterior mean.
#[test]
fn without_widening_the_draw_is_the_mean() {
    let posterior = posterior(Family::SquaredExponential, 11, 3);
    let at = uniform_points(20, 3, &mut test_stream(54));
    let sample =
        PathwiseSample::draw(&posterior, Prior::default(), 0.0, &mut test_stream(55)).unwrap();
    for (value, x) in sample.values(&at).iter().zip(at.rows()) {
        assert!((value - posterior.mean_variance(x).0).abs() < 1e-12);
    }
}

/// Gradients agree with central differences to 1e-6. A batch equals its points one by one, bit for
/// bit.
#[test]
fn pathwise_gradients_agree_with_differences_and_batches_with_points() {
    for family in FAMILIES {
        for (n, dim) in [(0, 1), (1, 2), (13, 2), (40, 5)] {
            let posterior = posterior(family, n, dim);
            let prior = Prior { n_features: 150 };
            let f = PathwiseSample::draw(&posterior, prior, 1.3, &mut test_stream(56)).unwrap();
            assert_eq!(f.dim(), dim);
            let points = uniform_points(10, dim, &mut test_stream(57));
            let batch = f.values(&points);
            for (x, value) in points.rows().zip(&batch) {
                assert_eq!(f.values(&Points::from_rows(dim, [x]))[0].to_bits(), value.to_bits());
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
                    assert!(
                        error < 1e-6 * (1.0 + difference.abs()),
                        "{family:?} n={n} d={dim}: {gradient:?} {difference}"
                    );
                }
            }
        }
    }
}

/// The joint sampler and the dense sampler draw from N(mean, β²cov) on a finite domain. Checked by
/// chi-square and Kolmogorov–Smirnov tests at level 1e-6, with entries within 5 standard errors.
#[test]
fn joint_and_dense_draws_have_the_posterior_law() {
    for family in FAMILIES {
        let posterior = posterior(family, 6, 2);
        let mut domain = uniform_points(5, 2, &mut test_stream(58));
        for x in posterior.inputs().rows() {
            domain.push(x);
        }
        let (mean, covariance) = oracle(&posterior, &domain);
        let sampler = JointSampler::new(posterior.kernel().clone(), domain.clone()).unwrap();
        let direction = test_stream(59).normals(domain.len());
        for beta in [1.0, 0.6] {
            let mut stream = test_stream(60);
            let joint: Vec<_> =
                (0..4000).map(|_| sampler.sample(&posterior, beta, &mut stream).unwrap()).collect();
            let dense: Vec<_> = (0..4000)
                .map(|_| posterior.sample_dense(&domain, beta, &mut stream).unwrap())
                .collect();
            for draws in [joint, dense] {
                let law = |c: f64| {
                    let c = covariance.scaled(c * c);
                    statistics::check_gaussian_law(&draws, &mean, &c, &direction, 1e-6)?;
                    statistics::check_mean_and_covariance(&draws, &mean, &c, 5.0)
                };
                law(beta).unwrap();
                law(1.05 * beta).unwrap_err();
            }
        }
    }
}

#[test]
fn an_observation_off_the_domain_is_an_error_that_names_it() {
    let mut posterior = posterior(Family::Matern32, 3, 2);
    let mut domain = posterior.inputs().clone();
    domain.push(&[0.0, 1.0]);
    let sampler = JointSampler::new(posterior.kernel().clone(), domain).unwrap();
    assert!(sampler.sample(&posterior, 1.0, &mut test_stream(61)).is_ok());
    assert_eq!(sampler.index_of(&[-0.0, 1.0]), Some(3), "the two zeros are one point");
    assert_eq!(sampler.index_of(&[0.0, 1.0 - f64::EPSILON]), None);
    posterior.append(&[0.25, 0.5], 0.0).unwrap();
    let found = sampler.sample(&posterior, 1.0, &mut test_stream(61));
    assert_eq!(found, Err(GpError::OffDomain { index: 3 }));
}

/// With a low-rank factor, draws follow the posterior at points near the data and far from them. A
/// wrong covariance between a point and an input would change the remaining variance.
#[test]
fn low_rank_draws_have_the_posteriors_law() {
    let kernel = Kernel::new(Family::SquaredExponential, vec![0.15, 0.4], 1.7).unwrap();
    let domain = uniform_points(100, 2, &mut test_stream(51));
    let sampler = JointSampler::low_rank(kernel.clone(), domain.clone());
    let inputs = Points::from_rows(2, [3, 40, 77].map(|i| domain.row(i)));
    let posterior = Posterior::new(kernel, NOISE, inputs, vec![1.0, -0.5, 2.0]).unwrap();
    let mut stream = test_stream(52);
    let (n_draws, watched) = (20_000_u32, [0, 3, 41, 77, 99]);
    let (mut sums, mut squares) = ([0.0; 5], [0.0; 5]);
    for _ in 0..n_draws {
        let f = sampler.sample(&posterior, 1.0, &mut stream).unwrap();
        for (i, at) in watched.iter().enumerate() {
            sums[i] += f[*at];
            squares[i] += f[*at] * f[*at];
        }
    }
    let n = f64::from(n_draws);
    for (i, at) in watched.iter().enumerate() {
        let (mean, variance) = posterior.mean_variance(domain.row(*at));
        let found = sums[i] / n;
        let error = 5.0 * (variance / n).sqrt();
        assert!((found - mean).abs() < error, "mean {i}: {found} and {mean}");
        let spread = squares[i] / n - found * found;
        let error = 5.0 * (2.0 / n).sqrt();
        assert!((spread / variance - 1.0).abs() < error, "variance {i}: {spread} and {variance}");
    }
}
