//! Function samples on the whole box by pathwise conditioning, which adds an exact correction at
//! the data to a prior draw.

use fedbo_optim::{Function, Points};
use fedbo_streams::Stream;

use crate::{FeatureMap, GpError, Posterior, lanes, parallel};

/// Settings for the prior draw in a [`PathwiseSample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prior {
    /// Number of random features in the prior draw. More features give a more accurate prior away
    /// from the data. At the data, the correction is exact for any number of features.
    pub n_features: usize,
}

impl Default for Prior {
    /// 1024 features, for which the error of the prior covariance is about 3 %.
    fn default() -> Self {
        Self { n_features: 1024 }
    }
}

/// A draw f ~ GP(mean, β² cov) from a posterior, by decoupled sampling (Wilson et al. 2020,
/// "Efficiently sampling functions from Gaussian process posteriors"), widened by β as in FTS
/// Algorithm 1 line 4.
///
/// f(x) = β f₀(x) + k(x, X) v,   v = α + β (K + σ²I)⁻¹(−f₀(X) − σ ε),   f₀ = φ·ω₀ a draw of the prior
#[derive(Clone, Debug)]
pub struct PathwiseSample<'a> {
    posterior: &'a Posterior,
    map: FeatureMap,
    /// β ω₀, padded.
    prior_weights: Vec<f64>,
    /// v, padded to the row length of the kernel.
    coefficients: Vec<f64>,
}

impl<'a> PathwiseSample<'a> {
    /// Draws a function. Cost: O(n² + n·n_features).
    ///
    /// # Errors
    /// If the prior has no features.
    pub fn draw(
        posterior: &'a Posterior,
        prior: Prior,
        beta: f64,
        stream: &mut Stream,
    ) -> Result<Self, GpError> {
        let map = FeatureMap::for_kernel(posterior.kernel(), prior.n_features, stream)?;
        let mut prior_weights = stream.normals(map.n_features());
        prior_weights.resize(map.stride(), 0.0);
        let at_inputs = map.weighted_sums(posterior.inputs(), &prior_weights);
        let coefficients = posterior.path_coefficients(at_inputs, beta, stream);
        prior_weights.iter_mut().for_each(|w| *w *= beta);
        Ok(Self { posterior, map, prior_weights, coefficients })
    }
}

impl Function for PathwiseSample<'_> {
    fn dim(&self) -> usize {
        self.map.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        lanes::vectorized! {
            fn work(sample: &PathwiseSample<'_>, points: &[f64], values: &mut [f64]) {
                let (kernel, columns) = (sample.posterior.kernel(), sample.posterior.columns());
                let mut features = vec![0.0; sample.map.stride()];
                let mut cross = vec![0.0; columns.padded_len()];
                for (x, value) in points.chunks_exact(kernel.dim()).zip(values) {
                    kernel.row_into(x, columns, &mut cross);
                    let prior = sample.map.weighted_sum(x, &sample.prior_weights, &mut features);
                    *value = prior + lanes::dot(&cross, &sample.coefficients);
                }
            }
        }
        let is_large = self.posterior.len() >= parallel::LARGE;
        parallel::map_points(is_large, points, |points, values| work(self, points, values))
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        lanes::vectorized! {
            fn work(sample: &PathwiseSample<'_>, x: &[f64], gradient: &mut [f64]) -> f64 {
                let (kernel, columns) = (sample.posterior.kernel(), sample.posterior.columns());
                let mut buffer = vec![0.0; 2 * sample.map.stride()];
                let (cosines, sines) = buffer.split_at_mut(sample.map.stride());
                let prior = sample.map.weighted_sum_gradient(x, &sample.prior_weights, cosines, sines, gradient);
                let mut buffer = vec![0.0; 2 * columns.padded_len()];
                let (cross, slopes) = buffer.split_at_mut(columns.padded_len());
                let n = columns.len();
                kernel.slopes_into(x, columns, 0, &mut cross[..n], &mut slopes[..n]);
                for (slope, v) in slopes.iter_mut().zip(&sample.coefficients) {
                    *slope *= v;
                }
                // Σ_i v_i ∂k/∂x_j = −Σ_i v_i a² g_i (x_j − X_ij)/ℓ_j²
                for (j, g) in gradient.iter_mut().enumerate() {
                    let moment = lanes::dot_difference(slopes, x[j], columns.coordinate(j));
                    let lengthscale = kernel.lengthscales()[j];
                    *g -= moment / lengthscale / lengthscale; // not by ℓ², which can underflow
                }
                prior + lanes::dot(cross, &sample.coefficients)
            }
        }
        gradient.fill(0.0);
        work(self, point, gradient)
    }
}
