//! A posterior over weights as its mean and covariance: a whole model of a function, in numbers that can be sent.

use std::fmt;
use std::sync::Arc;

use fedbo_optim::Points;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{FeatureMap, GpError, lanes};

/// The Gaussian process f(x) = φ(x)·ω with ω ~ N(ν, C), on a feature map that sender and receiver share (FTS section 3.2).
///
/// mean(x) = φ(x)·ν,   var(x) = φ(x)ᵀ C φ(x) = ‖T φ(x)‖²,   C = σ² Σ⁻¹ = Tᵀ T
/// Shapes: ν M, C M×M, T M×M lower triangular, φ(x) M. Cost: O(M³) once, O(M²) a point.
///
/// Where the paper sends Σ⁻¹ this takes C: σ² is part of what all agree on, and the entries of C stay below the prior's 1
/// however small σ² is.
#[derive(Clone)]
pub struct WeightMoments {
    map: Arc<FeatureMap>,
    /// ν with padding.
    mean: Vec<f64>,
    /// T.
    factor: PackedLower,
}

impl fmt::Debug for WeightMoments {
    /// Prints lengths only: weights stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightMoments {{ {} features }}", self.map.n_features())
    }
}

impl WeightMoments {
    /// From ν (M) and C (M×M row-major, of which the lower triangle is read).
    ///
    /// # Errors
    /// If a length does not fit the map, a number is not finite, or C is not positive definite.
    pub fn new(map: Arc<FeatureMap>, mean: &[f64], covariance: &[f64]) -> Result<Self, GpError> {
        let m = map.n_features();
        for (what, numbers, expected) in
            [("weight mean", mean, m), ("weight covariance", covariance, m * m)]
        {
            if numbers.len() != expected {
                return Err(GpError::Length { what, found: numbers.len(), expected });
            }
            if let Some(index) = numbers.iter().position(|v| !v.is_finite()) {
                return Err(GpError::NotFinite { index });
            }
        }
        // With rows and columns in reverse order C = L Lᵀ, so that T_ij = L_{M−1−j, M−1−i}: T's rows are what a product reads.
        let mut reversed = PackedLower::zeros(m);
        for i in 0..m {
            for (j, entry) in reversed.row_mut(i).iter_mut().enumerate() {
                *entry = covariance[(m - 1 - j) * m + (m - 1 - i)];
            }
        }
        let lower = SpdFactor::new(&reversed)?;
        let mut factor = PackedLower::zeros(m);
        for i in 0..m {
            for (j, entry) in factor.row_mut(i).iter_mut().enumerate() {
                *entry = lower.lower().row(m - 1 - j)[m - 1 - i];
            }
        }
        let mut mean = mean.to_vec();
        mean.resize(map.stride(), 0.0);
        Ok(Self { map, mean, factor })
    }

    /// The feature map.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Means and variances of f at m points, m numbers each.
    pub fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        lanes::vectorized! {
            fn work(moments: &WeightMoments, points: &Points) -> (Vec<f64>, Vec<f64>) {
                let mut phi = vec![0.0; moments.map.stride()];
                let (mut means, mut variances) = (Vec::new(), Vec::new());
                for x in points.rows() {
                    moments.map.features_into(x, &mut phi);
                    means.push(lanes::dot(&phi, &moments.mean));
                    variances.push(moments.variance(&phi));
                }
                (means, variances)
            }
        }
        work(self, points)
    }

    /// ‖T φ‖².
    #[inline(always)]
    fn variance(&self, phi: &[f64]) -> f64 {
        let mut sum = 0.0;
        for i in 0..self.factor.size() {
            let v = lanes::dot(self.factor.row(i), &phi[..=i]);
            sum += v * v;
        }
        sum
    }

    /// Mean and variance of f at x (d); writes their gradients. Cost O(M² + M d).
    ///
    /// # Panics
    /// If a length differs from d.
    pub fn predict(
        &self,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64) {
        lanes::vectorized! {
            fn work(
                moments: &WeightMoments,
                x: &[f64],
                mean_gradient: &mut [f64],
                variance_gradient: &mut [f64],
            ) -> (f64, f64) {
                let (map, m) = (&moments.map, moments.factor.size());
                let mut buffer = vec![0.0; 3 * map.stride()];
                let (phi, rest) = buffer.split_at_mut(map.stride());
                let (sines, weights) = rest.split_at_mut(map.stride());
                map.features_into(x, phi);
                // C φ = Tᵀ (T φ), row by row of T.
                let mut variance = 0.0;
                for i in 0..m {
                    let row = moments.factor.row(i);
                    let v = lanes::dot(row, &phi[..=i]);
                    variance += v * v;
                    lanes::add_scaled(&mut weights[..=i], v, row);
                }
                mean_gradient.fill(0.0);
                let mean = map.weighted_sum_gradient(x, &moments.mean, phi, sines, mean_gradient);
                // ∇(φᵀ C φ) = 2 ∇(φ·w) with w = C φ held fixed.
                variance_gradient.fill(0.0);
                map.weighted_sum_gradient(x, weights, phi, sines, variance_gradient);
                for slope in variance_gradient {
                    *slope *= 2.0;
                }
                (mean, variance)
            }
        }
        let dim = self.map.dim();
        assert_eq!((x.len(), mean_gradient.len(), variance_gradient.len()), (dim, dim, dim));
        work(self, x, mean_gradient, variance_gradient)
    }

    /// Joint law of f at m points: mean (m) and the covariance's lower triangle. Cost O(M² m + M m²).
    pub fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower) {
        let features = self.map.feature_rows(points);
        let (mut means, mut whitened) = (Vec::new(), Vec::new());
        for phi in features.chunks_exact(self.map.stride()) {
            means.push(lanes::wide_dot(phi, &self.mean));
            whitened.push(self.factor.multiply(&phi[..self.factor.size()]));
        }
        let mut covariance = PackedLower::zeros(points.len());
        for i in 0..points.len() {
            for (j, entry) in covariance.row_mut(i).iter_mut().enumerate() {
                *entry = lanes::wide_dot(&whitened[i], &whitened[j]);
            }
        }
        (means, covariance)
    }
}
