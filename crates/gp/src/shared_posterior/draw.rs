//! Functions drawn from a [`SharedPosterior`].

use std::sync::Arc;

use fedbo_optim::{Function, Points};
use fedbo_streams::Stream;

use super::SharedPosterior;
use crate::{Columns, FeatureMap, FunctionBasis, GpError, Kernel, Prior, lanes};

/// A draw of the latent function of a [`SharedPosterior`] at a scale s: a prior draw with an exact
/// correction at the data (Wilson et al. 2020).
///
/// f(x)/s = ψ(x)·w₀ + r₀(x) + level₀ + c(x)·K⁻¹(y/s − Ψ w₀ − r₀(X) − level₀ − e₀)
///
/// w₀ ~ N(m, Λ),   r₀ ~ GP(0, ρ k) by random features,   level₀ ~ N(0, τ²),   e₀ ~ N(0, σ² I)
#[derive(Clone)]
pub struct SharedDraw {
    size: f64,
    /// The shared functions with their feature weights, padded.
    shared: Option<(Arc<FunctionBasis>, Vec<f64>)>,
    /// The features of r₀ with their weights, padded.
    map: FeatureMap,
    weights: Vec<f64>,
    kernel: Kernel,
    columns: Columns,
    /// Weights of k(X, x), padded.
    coefficients: Vec<f64>,
    /// The part of the value that is the same at every point.
    level: f64,
}

impl SharedPosterior {
    /// Draws a function at a scale. Cost: O(n² + n r + n M) for M features of `prior`.
    ///
    /// # Errors
    /// If the prior has no features.
    pub fn draw(
        &self,
        size: f64,
        prior: Prior,
        stream: &mut Stream,
    ) -> Result<SharedDraw, GpError> {
        let map = FeatureMap::for_kernel(&self.kernel, prior.n_features, stream)?;
        let mut weights = stream.normals(map.n_features());
        weights.iter_mut().for_each(|w| *w *= self.own_scale.sqrt());
        weights.resize(map.stride(), 0.0);
        let z = stream.normals(self.root.size());
        let level = self.remainder.level_variance.sqrt() * stream.normal();
        let noise_std = self.remainder.noise_variance.sqrt();
        // K⁻¹(y/s − Ψ m) minus K⁻¹ times the other draws at the data.
        let mut drawn = map.weighted_sums(&self.columns.points(), &weights);
        for (value, row) in drawn.iter_mut().zip(&self.whitened_rows) {
            *value += lanes::wide_dot(row, &z) + level + noise_std * stream.normal();
        }
        self.factor.solve(&mut drawn);
        let [y, mean] = &self.coefficients;
        let coefficients: Vec<f64> =
            (0..self.len()).map(|i| y[i] / size + mean[i] - drawn[i]).collect();
        let mut pulled = z;
        for (row, v) in self.whitened_rows.iter().zip(&drawn) {
            pulled.iter_mut().zip(row).for_each(|(sum, w)| *sum -= v * w);
        }
        let mut of_psi = self.root.multiply(&pulled);
        for (i, sum) in of_psi.iter_mut().enumerate() {
            *sum += self.slopes[0][i] / size + self.slopes[1][i];
        }
        let shared = self.basis.as_ref().map(|basis| {
            let mut weights = vec![0.0; basis.map().stride()];
            basis.combine_into(&of_psi, &mut weights);
            (Arc::clone(basis), weights)
        });
        let total: f64 = coefficients.iter().sum();
        let mut padded: Vec<f64> = coefficients.iter().map(|v| self.own_scale * v).collect();
        padded.resize(self.columns.padded_len(), 0.0);
        Ok(SharedDraw {
            size,
            shared,
            map,
            weights,
            kernel: self.kernel.clone(),
            columns: self.columns.clone(),
            coefficients: padded,
            level: level + self.remainder.level_variance * total,
        })
    }
}

impl SharedDraw {
    /// Returns the value at x and adds its gradient to `gradient`.
    #[inline(always)]
    fn add_gradient(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let mut sum = self.level;
        let parts =
            [Some((&self.map, &self.weights)), self.shared.as_ref().map(|(b, w)| (b.map(), w))];
        for (map, weights) in parts.into_iter().flatten() {
            let mut buffer = vec![0.0; 2 * map.stride()];
            let (cosines, sines) = buffer.split_at_mut(map.stride());
            sum += map.weighted_sum_gradient(x, weights, cosines, sines, gradient);
        }
        let mut buffer = vec![0.0; 2 * self.columns.padded_len()];
        let (cross, slopes) = buffer.split_at_mut(self.columns.padded_len());
        let n = self.columns.len();
        self.kernel.slopes_into(x, &self.columns, 0, &mut cross[..n], &mut slopes[..n]);
        for (slope, v) in slopes.iter_mut().zip(&self.coefficients) {
            *slope *= v;
        }
        for (j, (g, l)) in gradient.iter_mut().zip(self.kernel.lengthscales()).enumerate() {
            *g -= lanes::dot_difference(slopes, x[j], self.columns.coordinate(j)) / l / l;
        }
        sum + lanes::dot(cross, &self.coefficients)
    }
}

impl Function for SharedDraw {
    fn dim(&self) -> usize {
        self.map.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut gradient = vec![0.0; self.dim()];
        points.rows().map(|x| self.value_gradient(x, &mut gradient)).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        lanes::vectorized! {
            fn work(draw: &SharedDraw, x: &[f64], gradient: &mut [f64]) -> f64 {
                draw.add_gradient(x, gradient)
            }
        }
        gradient.fill(0.0);
        let value = work(self, point, gradient);
        gradient.iter_mut().for_each(|g| *g *= self.size);
        self.size * value
    }
}
