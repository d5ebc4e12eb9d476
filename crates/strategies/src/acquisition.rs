//! Acquisition functions of the posterior mean and standard deviation.

use fedbo_gp::Predictor;
use fedbo_optim::{Function, Points};

/// The value of an acquisition function a(μ, σ) at a mean and a standard deviation, with its
/// derivatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// a(μ, σ), to be maximized.
    pub value: f64,
    /// ∂a/∂μ.
    pub d_mean: f64,
    /// ∂a/∂σ.
    pub d_std: f64,
}

/// An acquisition function on the unit cube: x ↦ a(μ(x), σ(x)), where μ and σ are the mean and the
/// standard deviation of a posterior.
///
/// ∇a = ∂a/∂μ ∇μ + ∂a/∂σ ∇σ,   σ ∇σ = −v·∇v   ([`fedbo_gp::Prediction`])
///
/// ∇σ is taken as 0 where rounding dominates σ². Evaluating a value or a gradient costs O(n²).
#[derive(Clone, Debug)]
pub struct Acquisition<'a, F> {
    predictor: &'a Predictor<'a>,
    score: F,
}

impl<'a, F: Fn(f64, f64) -> Score + Sync> Acquisition<'a, F> {
    /// Creates the function from a(μ, σ). μ and σ ≥ 0 are in the surrogate's units.
    pub fn new(predictor: &'a Predictor<'a>, score: F) -> Self {
        Self { predictor, score }
    }
}

/// Returns the function μ(x) + β σ(x).
pub(crate) fn upper_bound<'a>(
    predictor: &'a Predictor<'a>,
    beta: f64,
) -> Acquisition<'a, impl Fn(f64, f64) -> Score + Sync> {
    Acquisition::new(predictor, move |mean, std| Score {
        value: mean + beta * std,
        d_mean: 1.0,
        d_std: beta,
    })
}

impl<F: Fn(f64, f64) -> Score + Sync> Function for Acquisition<'_, F> {
    fn dim(&self) -> usize {
        self.predictor.posterior().kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let (means, variances) = self.predictor.posterior().mean_variances(points);
        let value = |(mean, variance): (&f64, f64)| (self.score)(*mean, variance.sqrt()).value;
        means.iter().zip(variances).map(value).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let prediction = self.predictor.predict(point);
        let std = prediction.variance().sqrt();
        let score = (self.score)(prediction.mean(), std);
        let slope = if std > 0.0 { -score.d_std / std } else { 0.0 };
        let weights = prediction.whitened().iter().map(|v| slope * v).collect();
        prediction.gradient(score.d_mean, weights, gradient);
        score.value
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Kernel, Posterior};
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;

    /// Central differences with a step of 1e-5 have an error of about 1e-8. Batch values must agree
    /// with values at single points.
    #[test]
    fn values_and_gradients_of_the_bound_agree() {
        let kernel = Kernel::new(Family::Matern52, vec![0.3, 0.7], 1.3).unwrap();
        let inputs = uniform_points(12, 2, &mut test_stream(1));
        let y = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        let posterior = Posterior::new(kernel, 1e-4, inputs, y).unwrap();
        let predictor = posterior.predictor();
        let bound = upper_bound(&predictor, 1.5);
        let points = uniform_points(20, 2, &mut test_stream(2));
        for (x, value) in points.rows().zip(bound.values(&points)) {
            let mut gradient = [0.0; 2];
            assert!((bound.value_gradient(x, &mut gradient) - value).abs() < 1e-10);
            for j in 0..2 {
                let at = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    bound.value_gradient(&near, &mut [0.0; 2])
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((gradient[j] - slope).abs() < 1e-5, "{gradient:?}, {slope}");
            }
        }
    }
}
