use fedbo_optim::Function;
use fedbo_testkit::dense::Matrix;
use fedbo_testkit::{test_stream, uniform_points};

use super::*;
use crate::function_basis::tests::map;
use crate::{Family, Implausible, Prior, WeightPriorSettings, WeightStatistics};

const REMAINDER: Remainder =
    Remainder { own_variance: 0.2, level_variance: 0.5, noise_variance: 1e-3 };

fn basis() -> Arc<FunctionBasis> {
    Arc::new(FunctionBasis::new(map(), 8).unwrap())
}

fn kernel() -> Kernel {
    Kernel::new(Family::Matern52, vec![0.3, 0.5], 1.7).unwrap()
}

/// Returns the inputs and outputs of several parties.
fn parties(n: u64) -> Vec<(Points, Vec<f64>)> {
    let party = |n: u64| {
        let inputs = uniform_points(15, 2, &mut test_stream(100 + n));
        let shift = test_stream(200 + n).uniform();
        let y = inputs.rows().map(|x| (4.0 * x[0] + shift).sin() + x[1] * x[1] * shift);
        let y = y.collect();
        (inputs, y)
    };
    (0..n).map(party).collect()
}

fn statistics(basis: &FunctionBasis, data: &[(Points, Vec<f64>)]) -> Vec<WeightStatistics> {
    let of = |(inputs, y): &(Points, Vec<f64>)| {
        WeightStatistics::of_observations(basis, &kernel(), &REMAINDER, inputs, y).unwrap().0
    };
    data.iter().map(of).collect()
}

fn learned(basis: &FunctionBasis) -> WeightPrior {
    let found = statistics(basis, &parties(6));
    let found: Vec<&WeightStatistics> = found.iter().collect();
    WeightPrior::fit(&found, basis.rank(), &WeightPriorSettings::default()).unwrap()
}

/// Returns Λ as a dense matrix.
fn dense(lower: &PackedLower) -> Matrix {
    let n = lower.size();
    Matrix::from_fn(n, n, |i, j| if j <= i { lower.row(i)[j] } else { lower.row(j)[i] })
}

/// Computes k̄(x, z) = ψ(x)ᵀΛψ(z) + ρ k(x, z) + τ² directly.
fn covariance(basis: &FunctionBasis, prior: &WeightPrior, x: &Points, z: &Points) -> Matrix {
    let lambda = dense(prior.covariance());
    let (kernel, unit) = (kernel(), kernel().outputscale());
    let (of_x, of_z) = (basis.rows(x), basis.rows(z));
    Matrix::from_fn(x.len(), z.len(), |i, j| {
        let common: f64 =
            of_x[i].iter().zip(lambda.times_vector(&of_z[j])).map(|(a, b)| a * b).sum();
        common
            + REMAINDER.own_variance * kernel.value(x.row(i), z.row(j)) / unit
            + REMAINDER.level_variance
    })
}

/// For known m and Λ, the posterior and the evidence equal those of the Gaussian process with this
/// mean and covariance, computed by dense linear algebra. Tests several scales, including one that
/// negates the function.
#[test]
fn the_posterior_is_that_of_the_composed_kernel() {
    let basis = basis();
    let prior = learned(&basis);
    let inputs = uniform_points(12, 2, &mut test_stream(5));
    let y: Vec<f64> = inputs.rows().map(|x| 3.0 * (5.0 * x[0]).sin() - x[1]).collect();
    let shared =
        SharedPosterior::new(Arc::clone(&basis), &prior, kernel(), REMAINDER, &inputs, &y).unwrap();
    let points = uniform_points(7, 2, &mut test_stream(6));
    let mean_of = |points: &Points| -> Vec<f64> {
        let rows = basis.rows(points);
        rows.iter().map(|row| lanes::wide_dot(row, prior.mean())).collect()
    };
    let gram = covariance(&basis, &prior, &inputs, &inputs).plus_identity(REMAINDER.noise_variance);
    let cross = covariance(&basis, &prior, &points, &inputs);
    for size in [-0.6, 0.3, 1.0, 4.0] {
        let residual: Vec<f64> =
            y.iter().zip(mean_of(&inputs)).map(|(y, m)| y - size * m).collect();
        let weights = gram.solve_vector(&residual);
        let before = mean_of(&points);
        for (i, x) in points.rows().enumerate() {
            let row: Vec<f64> = (0..12).map(|j| cross.at(i, j)).collect();
            let at = Points::from_rows(2, [x]);
            let explained: f64 = row.iter().zip(gram.solve_vector(&row)).map(|(a, b)| a * b).sum();
            let variance = covariance(&basis, &prior, &at, &at).at(0, 0) - explained;
            let mean = size * before[i] + row.iter().zip(&weights).map(|(a, b)| a * b).sum::<f64>();
            let found = shared.predict(x, &basis.values(x));
            assert!((found.means[0] + size * found.means[1] - mean).abs() < 1e-8);
            assert!((found.variance - variance).abs() < 1e-8, "{} {variance}", found.variance);
        }
        let quadratic: f64 = residual.iter().zip(&weights).map(|(a, b)| a * b).sum();
        let expected = -0.5 * quadratic / size / size
            - 0.5 * gram.scaled(size * size).log_determinant()
            - 6.0 * std::f64::consts::TAU.ln();
        assert!((shared.log_evidence(size) - expected).abs() < 1e-8);
    }
}

/// Central differences with a step of 1e-5.
#[test]
fn gradients_are_those_of_the_values() {
    let basis = basis();
    let inputs = uniform_points(9, 2, &mut test_stream(5));
    let y: Vec<f64> = inputs.rows().map(|x| (5.0 * x[0]).sin() - x[1]).collect();
    let shared = SharedPosterior::new(
        Arc::clone(&basis),
        &learned(&basis),
        kernel(),
        REMAINDER,
        &inputs,
        &y,
    )
    .unwrap();
    for weights in [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.4, -0.3, 0.8]] {
        for x in uniform_points(5, 2, &mut test_stream(8)).rows() {
            let value = |x: &[f64]| {
                let found = shared.predict(x, &basis.values(x));
                let [a, b, c] = weights;
                a * found.means[0] + b * found.means[1] + c * found.variance
            };
            let mut gradient = vec![0.0; 2];
            shared.add_gradient(x, &shared.predict(x, &basis.values(x)), weights, &mut gradient);
            for j in 0..2 {
                let near = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    value(&near)
                };
                let slope = (near(1e-5) - near(-1e-5)) / 2e-5;
                assert!((gradient[j] - slope).abs() < 1e-6, "{gradient:?} {slope}");
            }
        }
    }
}

/// Without shared functions, the model is an ordinary Gaussian process with a level.
#[test]
fn alone_it_is_an_ordinary_gaussian_process() {
    let inputs = uniform_points(9, 2, &mut test_stream(5));
    let y: Vec<f64> = inputs.rows().map(|x| (5.0 * x[0]).sin() - x[1]).collect();
    let remainder = Remainder { own_variance: 1.7, level_variance: 0.0, noise_variance: 1e-3 };
    let shared = SharedPosterior::alone(kernel(), remainder, &inputs, &y).unwrap();
    let plain = crate::Posterior::new(kernel(), 1e-3, inputs, y).unwrap();
    for x in uniform_points(5, 2, &mut test_stream(8)).rows() {
        let found = shared.predict(x, &[]);
        let (mean, variance) = plain.mean_variance(x);
        assert!((found.means[0] - mean).abs() < 1e-9 && found.means[1].abs() < 1e-15);
        assert!((found.variance - variance).abs() < 1e-9);
    }
}

/// The distribution of w given only the statistics equals that of a Gaussian process on the outputs
/// themselves. Differences in evidence between priors equal those computed from the outputs.
#[test]
fn statistics_say_all_that_outputs_say() {
    let basis = basis();
    let data = parties(2);
    let found = statistics(&basis, &data);
    let (inputs, y) = &data[0];
    let rows = Matrix::from_rows(&basis.rows(inputs));
    let remainder = {
        let zero = WeightPrior::with_mean(vec![0.0; basis.rank()], 1e-300).unwrap();
        covariance(&basis, &zero, inputs, inputs).plus_identity(REMAINDER.noise_variance)
    };
    let standard = WeightPrior::standard(basis.rank());
    let total = |prior: &WeightPrior| {
        rows.times(&dense(prior.covariance())).times(&rows.transpose()).plus(&remainder)
    };
    let size = {
        let whitened = total(&standard).solve_vector(y);
        let of_outputs = y.iter().zip(&whitened).map(|(a, b)| a * b).sum::<f64>() / 15.0;
        let mean = rows.transpose().times_vector(&whitened);
        let (gain, _) = total(&standard).solve(&rows);
        let explained = rows.transpose().times(&gain);
        let known: f64 = (0..basis.rank()).map(|i| explained.at(i, i)).sum();
        of_outputs.max(mean.iter().map(|v| v * v).sum::<f64>() / known).sqrt()
    };
    let y: Vec<f64> = y.iter().map(|v| v / size).collect();
    let evidence = |prior: &WeightPrior| {
        let mean = rows.times_vector(prior.mean());
        let off: Vec<f64> = y.iter().zip(&mean).map(|(y, m)| y - m).collect();
        let gram = total(prior);
        let quadratic: f64 = off.iter().zip(gram.solve_vector(&off)).map(|(a, b)| a * b).sum();
        -0.5 * (quadratic + gram.log_determinant())
    };
    let prior = learned(&basis);
    let expected = evidence(&prior) - evidence(&standard);
    let difference = prior.evidence(&found[0]).unwrap() - standard.evidence(&found[0]).unwrap();
    assert!((difference - expected).abs() < 1e-7, "{difference} {expected}");

    let (mean, covariance) = prior.given(&found[0]).unwrap();
    let lambda = dense(prior.covariance());
    let gram = total(&prior);
    let off: Vec<f64> = {
        let before = rows.times_vector(prior.mean());
        y.iter().zip(&before).map(|(y, m)| y - m).collect()
    };
    let gain = lambda.times(&rows.transpose());
    let update = gain.times_vector(&gram.solve_vector(&off));
    let (explained, _) = gram.solve(&gain.transpose());
    let explained = gain.times(&explained);
    for i in 0..basis.rank() {
        assert!((mean[i] - prior.mean()[i] - update[i]).abs() < 1e-8);
        for j in 0..=i {
            let expected = lambda.at(i, j) - explained.at(i, j);
            assert!((covariance.row(i)[j] - expected).abs() < 1e-8);
        }
    }
}

/// No step decreases the penalized evidence, which increases considerably overall. Statistics
/// survive a round trip through a message.
#[test]
fn no_step_lowers_the_penalized_evidence() {
    let basis = basis();
    let found = statistics(&basis, &parties(9));
    let sent: Vec<WeightStatistics> = found
        .iter()
        .map(|each| WeightStatistics::from_numbers(basis.rank(), &each.numbers()).unwrap())
        .collect();
    assert_eq!(sent, found);
    let settings = WeightPriorSettings { covariance_weight: 2.0, ..WeightPriorSettings::default() };
    let objective = |n_steps: u32| {
        let all: Vec<&WeightStatistics> = found.iter().collect();
        let steps = WeightPriorSettings { n_steps, least_gain: f64::NEG_INFINITY, ..settings };
        let prior = WeightPrior::fit(&all, basis.rank(), &steps).unwrap();
        let lambda = dense(prior.covariance());
        let inverse = lambda.inverse();
        let trace: f64 = (0..basis.rank()).map(|i| inverse.at(i, i)).sum();
        let pull = inverse.times_vector(prior.mean());
        let square: f64 = pull.iter().zip(prior.mean()).map(|(a, b)| a * b).sum();
        let evidence: f64 = found.iter().map(|each| prior.evidence(each).unwrap()).sum();
        evidence
            - 0.5 * settings.covariance_weight * (lambda.log_determinant() + trace)
            - 0.5 * settings.mean_weight * square
    };
    let values: Vec<f64> = (0..25).map(objective).collect();
    assert!(values.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9), "{values:?}");
    assert!(values[24] > values[0] + 5.0, "{values:?}");
}

/// Matrices that no observations can produce are rejected, including those that leave Λ⁻¹ + A
/// positive definite under the first prior.
#[test]
fn hostile_statistics_are_refused() {
    let basis = basis();
    let rank = basis.rank();
    let honest = statistics(&basis, &parties(4));
    assert!(honest.iter().all(|each| each.check(5000, 1e-3) == Ok(())));
    let mut numbers = honest[0].numbers();
    assert!(WeightStatistics::from_numbers(rank, &numbers[1..]).is_err());
    numbers[3] = f64::NAN;
    assert!(WeightStatistics::from_numbers(rank, &numbers).is_err());
    let of = |diagonal: f64, information: f64| {
        let mut numbers = vec![0.0; WeightStatistics::n_numbers(rank)];
        numbers[..rank].fill(information);
        for i in 0..rank {
            numbers[rank + i * (i + 3) / 2] = diagonal;
        }
        WeightStatistics::from_numbers(rank, &numbers).unwrap().check(5000, 1e-2)
    };
    assert_eq!(of(-(1.0 - 1e-6), 0.0), Err(Implausible::NoCovariance));
    assert_eq!(of(-1e3, 0.0), Err(Implausible::NoCovariance));
    assert_eq!(of(1e300, 0.0), Err(Implausible::TooMuch));
    assert_eq!(of(f64::MAX, 1.0), Err(Implausible::TooMuch));
    assert_eq!(of(1.0, 1e9), Err(Implausible::TooLarge));
    assert_eq!(of(1.0, 1.0), Ok(()));
    // b points in a direction without information in A, so the evidence would have no maximum.
    assert_eq!(of(0.0, 3.0), Err(Implausible::TooLarge));
    assert_eq!(of(1e-6, 3.0), Err(Implausible::TooLarge));
}

/// A party's units do not depend on the number of observations. The mean square of the coefficients
/// stays near 1.
#[test]
fn units_do_not_shrink_with_the_number_of_observations() {
    let basis = basis();
    for n in [1, 2, 10, 50, 200, 800] {
        let inputs = uniform_points(n, 2, &mut test_stream(77));
        let y: Vec<f64> = inputs
            .rows()
            .map(|x| 7.0 * (-8.0 * ((x[0] - 0.6).powi(2) + (x[1] - 0.4).powi(2))).exp())
            .collect();
        let (found, _) =
            WeightStatistics::of_observations(&basis, &kernel(), &REMAINDER, &inputs, &y).unwrap();
        assert_eq!(found.check(5000, REMAINDER.noise_variance), Ok(()), "{n}");
        let mean = found.mean().unwrap();
        let mean_square = lanes::wide_dot(&mean, &mean) / 8.0;
        assert!(mean_square <= 1.0 && (n < 10 || mean_square > 0.1), "{n}: {mean_square}");
    }
}

/// The level and the scale change with the units of the outputs. For 3 y + 40, the level is 40 plus
/// 3 times the level for y, apart from the effect of the level's prior, and the scale is 3 times as
/// large. The level equals its mean under the prior, computed by dense linear algebra. Outputs that
/// are all 0 have no units.
#[test]
fn level_and_size_go_with_the_outputs() {
    let basis = basis();
    let remainder = Remainder { level_variance: 1e6, ..REMAINDER };
    let inputs = uniform_points(12, 2, &mut test_stream(78));
    let of = |y: &[f64]| {
        WeightStatistics::of_observations(&basis, &kernel(), &remainder, &inputs, y).unwrap().1
    };
    let y: Vec<f64> = inputs.rows().map(|x| (4.0 * x[0]).sin() + x[1]).collect();
    let other: Vec<f64> = y.iter().map(|y| 3.0 * y + 40.0).collect();
    let (first, second) = (of(&y).unwrap(), of(&other).unwrap());
    assert!((second.level - 3.0 * first.level - 40.0).abs() < 1e-3, "{}", second.level);
    assert!((second.size / first.size - 3.0).abs() < 1e-2, "{}", second.size);
    let rows = basis.rows(&inputs);
    let gram = dense(&kernel().gram(&inputs));
    let covariance = Matrix::from_fn(12, 12, |i, j| {
        let own = remainder.own_variance / kernel().outputscale() * gram.at(i, j);
        let noise = if i == j { remainder.noise_variance } else { 0.0 };
        own + noise + remainder.level_variance + lanes::wide_dot(&rows[i], &rows[j])
    });
    let solved = covariance.solve_vector(&y);
    let level = remainder.level_variance * solved.iter().sum::<f64>();
    assert!((level - first.level).abs() < 1e-6, "{level} {}", first.level);
    assert!(of(&[0.0; 12]).is_none());
}

/// Draws have the mean and variance of the posterior, with and without shared functions, near the
/// data and far from them. For 4,000 draws, the standard error of the mean is 1/60 of the spread.
/// The gradients of the draws match their values.
#[test]
fn draws_are_of_the_posterior() {
    let basis = basis();
    let inputs = uniform_points(6, 2, &mut test_stream(5));
    let y: Vec<f64> = inputs.rows().map(|x| 3.0 * (5.0 * x[0]).sin() - x[1]).collect();
    let prior = learned(&basis);
    let shared = SharedPosterior::new(Arc::clone(&basis), &prior, kernel(), REMAINDER, &inputs, &y);
    let alone = SharedPosterior::alone(kernel(), REMAINDER, &inputs, &y);
    let points = uniform_points(5, 2, &mut test_stream(6));
    let size = 1.7;
    for posterior in [shared.unwrap(), alone.unwrap()] {
        let mut stream = test_stream(9);
        let n = 4000;
        let draws: Vec<Vec<f64>> = (0..n)
            .map(|_| {
                let draw = posterior.draw(size, Prior { n_features: 64 }, &mut stream).unwrap();
                draw.values(&points)
            })
            .collect();
        for (i, x) in points.rows().enumerate() {
            let found = posterior.predict(x, &basis.values(x));
            let mean = draws.iter().map(|draw| draw[i]).sum::<f64>() / f64::from(n);
            let square = draws.iter().map(|draw| (draw[i] - mean).powi(2)).sum::<f64>();
            let (std, expected) = ((square / f64::from(n)).sqrt(), size * found.variance.sqrt());
            assert!((mean - found.mean(size)).abs() < 5.0 * expected / f64::from(n).sqrt());
            assert!((std / expected - 1.0).abs() < 0.08, "{std} {expected}");
        }
        let draw = posterior.draw(size, Prior::default(), &mut stream).unwrap();
        for x in points.rows() {
            let mut gradient = [0.0; 2];
            draw.value_gradient(x, &mut gradient);
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    draw.values(&Points::from_rows(2, [&near[..]]))[0]
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((gradient[j] - slope).abs() < 1e-5 * slope.abs().max(1.0));
            }
        }
    }
}
