//! Predictions for curves with known ends.

use fedbo_streams::Stream;
use fedbo_testkit::test_stream;

use super::curves::{Epochs, Family};
use super::posterior::{CurvePosterior, END, EnsembleWalker, NOISE_STD, WEIGHT_MAX};
use super::{CurvePrediction, CurvePredictor, CurveSampling};
use fedbo_strategies::early_stopping::LearningCurve;

const N: usize = 50;

fn predict(y: Vec<f64>, stream: &mut Stream) -> CurvePrediction {
    let predictor = CurvePredictor::new(N, (0.0, 1.0), CurveSampling::default()).unwrap();
    predictor.predict(&LearningCurve::new(y), stream)
}

/// Draws a curve of one family with parameters around the start values, at epochs 1, …, N. Returns
/// `None` unless it rises and stays in `[0, 1]`.
fn random_curve(family: Family, stream: &mut Stream) -> Option<Vec<f64>> {
    let parameters: Vec<f64> = family
        .parameters()
        .iter()
        .map(|p| {
            let (lower, upper) = p.bounds;
            (p.start + 0.1 * (upper - lower) * stream.normal()).clamp(lower, upper)
        })
        .collect();
    let mut values = vec![0.0; N];
    family.values(&parameters, &Epochs::up_to(N - 1, N), &mut values);
    let inside = values.iter().all(|v| (0.0..=1.0).contains(v));
    (inside && values[0] < values[N - 1]).then_some(values)
}

fn drawn(family: Family, stream: &mut Stream) -> Vec<f64> {
    loop {
        if let Some(curve) = random_curve(family, stream) {
            return curve;
        }
    }
}

fn noisy(curve: &[f64], std: f64, stream: &mut Stream) -> Vec<f64> {
    curve.iter().map(|v| v + std * stream.normal()).collect()
}

/// The first half of a curve with little noise determines its end within 0.03, on average over 8
/// curves per family, and the predicted uncertainty matches the error. The last observed value has
/// a larger error.
#[test]
fn curves_of_every_family_are_recovered() {
    let (mut ours, mut last) = (0.0, 0.0);
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let mut error = 0.0;
        for run in 0..8 {
            let mut stream = test_stream(1000 + 10 * index as u64 + run);
            let curve = drawn(family, &mut stream);
            let y = noisy(&curve[..25], 0.005, &mut stream);
            let prediction = predict(y.clone(), &mut stream);
            error += (prediction.mean() - curve[N - 1]).abs() / 8.0;
            last += (y[24] - curve[N - 1]).abs() / 88.0;
            assert!(prediction.std() < 0.15, "{family:?}: {}", prediction.std());
        }
        assert!(error < 0.03, "{family:?}: {error}");
        ours += error / 11.0;
    }
    assert!(ours < 0.6 * last, "{ours} {last}");
}

/// The 90 % interval of f(N) contains the true value of 200 random sums of curves in 75 to 99 % of
/// the cases, for few and many epochs.
#[test]
fn intervals_are_calibrated() {
    for (n_seen, first) in [(8, 2000), (20, 3000)] {
        let mut covered = 0;
        for run in 0..200 {
            let mut stream = test_stream(first + run);
            let shares: Vec<f64> = (0..11).map(|_| -(1.0 - stream.uniform()).ln()).collect();
            let total: f64 = shares.iter().sum();
            let mut curve = vec![0.0; N];
            for (family, share) in Family::ALL.into_iter().zip(&shares) {
                for (sum, value) in curve.iter_mut().zip(drawn(family, &mut stream)) {
                    *sum += share / total * value;
                }
            }
            let std = 0.005 + 0.025 * stream.uniform();
            let prediction = predict(noisy(&curve[..n_seen], std, &mut stream), &mut stream);
            let interval = prediction.quantile(0.05)..=prediction.quantile(0.95);
            covered += u32::from(interval.contains(&curve[N - 1]));
        }
        assert!((150..=198).contains(&covered), "{n_seen}: {covered}");
    }
}

#[test]
fn a_prediction_is_a_function_of_curve_and_stream() {
    let y: Vec<f64> = (1..=10).map(|n| 1.0 - 1.0 / f64::from(n)).collect();
    let first = predict(y.clone(), &mut test_stream(5));
    assert_eq!(first, predict(y.clone(), &mut test_stream(5)));
    assert_ne!(first, predict(y, &mut test_stream(6)));
}

/// An affine transformation of the values and the range transforms the prediction likewise.
#[test]
fn predictions_follow_the_units() {
    let y: Vec<f64> = (1..=10).map(|n| 1.0 - 1.0 / f64::from(n)).collect();
    let plain = predict(y.clone(), &mut test_stream(5));
    let scaled = CurvePredictor::new(N, (-40.0, 60.0), CurveSampling::default()).unwrap();
    let curve = LearningCurve::new(y.iter().map(|v| 100.0 * v - 40.0).collect());
    let scaled = scaled.predict(&curve, &mut test_stream(5));
    // Rounding can change a draw, which then changes the rest of the chain. The distribution is the
    // same.
    assert!((scaled.mean() - (100.0 * plain.mean() - 40.0)).abs() < 2.0);
    assert!((scaled.std() / (100.0 * plain.std()) - 1.0).abs() < 0.4);
}

#[test]
fn odd_curves_are_predicted_too() {
    let curves = [
        vec![0.5],
        vec![0.0; 10],
        (0..10).map(|n| 1.0 - 0.1 * f64::from(n)).collect(),
        vec![1e6; 10],
        (0..10).map(|n| if n == 5 { -1e9 } else { 0.5 }).collect(),
        vec![0.5; N],
        vec![0.5; 2 * N],
    ];
    for (y, n_epochs) in curves.into_iter().flat_map(|y| [(y.clone(), N), (y, 1)]) {
        let sampling = CurveSampling::default();
        let predictor = CurvePredictor::new(n_epochs, (0.0, 1.0), sampling).unwrap();
        let prediction = predictor.predict(&LearningCurve::new(y.clone()), &mut test_stream(8));
        let prob = prediction.prob_at_least(0.5);
        assert!((0.0..=1.0).contains(&prob), "{y:?}");
        assert!(prediction.mean().is_finite() && prediction.std().is_finite());
    }
}

#[test]
fn summaries_are_those_of_the_samples() {
    let y = vec![0.1, 0.2, 0.3, 0.35, 0.4];
    let prediction = predict(y, &mut test_stream(7));
    let samples = prediction.samples();
    #[expect(clippy::cast_precision_loss, reason = "960 samples")]
    let n = samples.len() as f64;
    let at_or_below = |x: f64| samples.iter().map(|s| f64::from(u8::from(s.0 <= x))).sum::<f64>();
    let median = prediction.quantile(0.5);
    assert!((at_or_below(median) / n - 0.5).abs() <= 1.0 / n);
    let expected = samples
        .iter()
        .map(|(f, s)| fedbo_testkit::statistics::normal_cdf((f - 0.5) / s))
        .sum::<f64>()
        / n;
    assert!((prediction.prob_at_least(0.5) - expected).abs() < 1e-9);
    assert!(prediction.prob_at_least(-9.0) > 0.999 && prediction.prob_at_least(9.0) < 1e-6);
}

/// Uses two families and four epochs. The moments under the posterior equal those of three million
/// draws from the prior, weighted by their likelihood: the means of f(N), its square and ln σ. The
/// tolerance is five standard errors of the weighted draws, plus 0.01 for the chain's error.
#[test]
fn long_chains_have_the_moments_of_weighted_prior_draws() {
    const FAMILIES: [Family; 2] = [Family::Pow3, Family::Ilog2];
    let y = [0.2, 0.4, 0.3, 0.45];
    let mut stream = test_stream(93);
    let epochs = Epochs::up_to(y.len(), N);
    let statistics = |end: f64, std: f64| [end, end * end, std.ln()];
    let (mut total, mut squares) = (0.0, 0.0);
    let (mut sums, mut second) = ([0.0; 3], [0.0; 3]);
    for _ in 0..3_000_000 {
        let (curve, std) = drawn_from_prior(&FAMILIES, &epochs, &mut stream);
        let misfit: f64 = y.iter().zip(&curve).map(|(y, f)| (y - f).powi(2)).sum();
        let weight = (-0.5 * misfit / (std * std)).exp() * std.powi(-4);
        total += weight;
        squares += weight * weight;
        for (index, value) in statistics(curve[y.len()], std).into_iter().enumerate() {
            sums[index] += weight * value;
            second[index] += weight * value * value;
        }
    }
    let mut posterior = CurvePosterior::new(&y, N, &FAMILIES);
    let mut walkers = posterior.walkers(24, &mut stream);
    let (mut found, mut n) = ([0.0; 3], 0.0);
    for sweep in 0..40_000 {
        posterior.sweep(&mut walkers, &mut stream);
        if sweep >= 1000 {
            n += 24.0;
            for (end, std) in walkers.iter().map(EnsembleWalker::end) {
                for (found, value) in found.iter_mut().zip(statistics(end, std)) {
                    *found += value;
                }
            }
        }
    }
    let n_effective = total * total / squares;
    assert!(n_effective > 5000.0, "{n_effective}");
    for (index, found) in found.into_iter().enumerate() {
        let expected = sums[index] / total;
        let std = (second[index] / total - expected * expected).sqrt();
        let tolerance = 5.0 * std / n_effective.sqrt() + 0.01;
        let found = found / n;
        assert!((found - expected).abs() < tolerance, "{index}: {found}, {expected} ± {tolerance}");
    }
}

/// Draws a sum of curves and a noise standard deviation from the prior.
fn drawn_from_prior(families: &[Family], epochs: &Epochs, stream: &mut Stream) -> (Vec<f64>, f64) {
    loop {
        let mut sum = vec![0.0; epochs.len()];
        for family in families {
            let mut values = vec![f64::NAN; epochs.len()];
            while !values.iter().all(|v| v.is_finite())
                || !(END.0..=END.1).contains(&values[epochs.len() - 1])
            {
                let parameters: Vec<f64> = family
                    .parameters()
                    .iter()
                    .map(|p| p.bounds.0 + (p.bounds.1 - p.bounds.0) * stream.uniform())
                    .collect();
                family.values(&parameters, epochs, &mut values);
            }
            let weight = WEIGHT_MAX * stream.uniform();
            for (sum, value) in sum.iter_mut().zip(values) {
                *sum += weight * value;
            }
        }
        if sum[0] < sum[epochs.len() - 1] {
            let (low, high) = (NOISE_STD.0.ln(), NOISE_STD.1.ln());
            return (sum, (low + (high - low) * stream.uniform()).exp());
        }
    }
}
