//! The similarity of two problems, measured at random points.

use fedbo_research_problems::Problem;
use fedbo_strategies::Domain;
use fedbo_streams::Seed;

/// Returns a problem's values at random points, which are the same for all problems on the same
/// space.
pub(super) fn surface(problem: &dyn Problem, n_points: usize, seed: &Seed) -> Vec<f64> {
    let domain = Domain::Space(problem.space().clone());
    let mut stream = seed.stream(fedbo_study::SENSITIVITY, 0, 0);
    (0..n_points)
        .filter_map(|_| {
            let unit = domain.random(&mut stream);
            problem.noiseless(&problem.space().decode(&unit))
        })
        .collect()
}

/// Returns Pearson's correlation of two surfaces, or NaN if one is flat or they differ in length.
pub(in super::super) fn correlation(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::NAN;
    }
    let centred = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|v| v - mean).collect::<Vec<f64>>()
    };
    let (a, b) = (centred(a), centred(b));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// Returns the mean, or NaN without values.
pub(in super::super) fn mean(values: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand values")]
    let n = values.len() as f64;
    values.iter().sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_of_known_surfaces() {
        let a = [1.0, 2.0, 4.0];
        assert!((correlation(&a, &[3.0, 5.0, 9.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&a, &[-1.0, -2.0, -4.0]) + 1.0).abs() < 1e-12);
        // By hand: with the deviations (−4, −1, 5)/3 and (−1, 1, 0), the covariance sum is 3/3 and
        // the norms' product is √(42/9·2).
        let expected = 1.0 / (42.0_f64 / 9.0 * 2.0).sqrt();
        assert!((correlation(&a, &[0.0, 2.0, 1.0]) - expected).abs() < 1e-12);
        assert!(correlation(&a, &[1.0, 1.0, 1.0]).is_nan());
        assert!(correlation(&a, &[1.0]).is_nan());
    }
}
