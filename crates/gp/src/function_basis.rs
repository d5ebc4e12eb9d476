//! The leading directions of a feature map, which represent a function by a short vector.

use std::fmt;
use std::sync::Arc;

use fedbo_optim::{Points, sobol};

use crate::linalg::{gram_of_columns, leading_eigenvectors};
use crate::{FeatureMap, GpError, lanes};

/// Number of points for computing means over the cube.
const N_POINTS: usize = 1024;

/// The r functions ψ_1 … ψ_r of a feature map that explain most of its variance over the cube
/// (Mercer's expansion in the features).
///
/// ψ(x) = Rᵀ φ(x),   E_x[φ(x) φ(x)ᵀ] = R diag(γ) Rᵀ + rest,   γ_1 ≥ γ_2 ≥ … ≥ γ_r
///
/// With w ~ N(0, I), the function ψ(x)·w is φ(x)·ω with ω ~ N(0, I), projected onto these
/// directions. The values ψ_j(x) are uncorrelated over the cube and have mean squares γ_j. Shapes:
/// φ M, R M×r, ψ r. Means are taken over 1024 points of a Sobol sequence.
///
/// Parties with equal maps have equal directions up to rounding, because the variances γ_j of
/// random features differ. If a variance is as small as the rounding errors, the corresponding
/// function is arbitrary.
#[derive(Clone)]
pub struct FunctionBasis {
    map: Arc<FeatureMap>,
    /// Rᵀ, r rows with padding.
    directions: Vec<f64>,
    variances: Vec<f64>,
    means: Vec<f64>,
}

impl fmt::Debug for FunctionBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionBasis {{ {} of {} features }}", self.rank(), self.map.n_features())
    }
}

impl FunctionBasis {
    /// Computes the first `rank` directions, but at most M. Cost: O(M³).
    ///
    /// # Errors
    /// If the decomposition fails.
    pub fn new(map: Arc<FeatureMap>, rank: usize) -> Result<Self, GpError> {
        let (m, stride) = (map.n_features(), map.stride());
        let rows = map.feature_rows(&sobol(map.dim(), N_POINTS, 0));
        let (values, vectors) = leading_eigenvectors(&gram_of_columns(&rows, stride, m), rank)?;
        let mut directions = Vec::with_capacity(rank.min(m) * stride);
        for vector in vectors {
            directions.extend(vector);
            directions.resize(directions.len().next_multiple_of(stride), 0.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "a small constant")]
        let variances =
            values.into_iter().map(|value| (value / N_POINTS as f64).max(0.0)).collect();
        let mut mean = vec![0.0; stride];
        for row in rows.chunks_exact(stride) {
            mean.iter_mut().zip(row).for_each(|(sum, phi)| *sum += phi);
        }
        #[expect(clippy::cast_precision_loss, reason = "a small constant")]
        mean.iter_mut().for_each(|sum| *sum /= N_POINTS as f64);
        let means = directions.chunks_exact(stride).map(|row| lanes::wide_dot(row, &mean));
        Ok(Self { means: means.collect(), map, directions, variances })
    }

    /// Returns the number of functions r.
    pub fn rank(&self) -> usize {
        self.variances.len()
    }

    /// Returns the feature map.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Returns γ, r numbers in descending order.
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }

    /// Returns ψ̄ = E_x ψ(x), r numbers.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Returns another `Arc` to the feature map.
    pub(crate) fn shared_map(&self) -> Arc<FeatureMap> {
        Arc::clone(&self.map)
    }

    /// Returns ψ(x), r numbers. Cost: O(M r).
    pub fn values(&self, x: &[f64]) -> Vec<f64> {
        let mut psi = vec![0.0; self.rank()];
        let mut phi = vec![0.0; self.map.stride()];
        self.values_to(x, &mut phi, &mut psi);
        psi
    }

    /// Returns Ψ, one row of r numbers per point.
    pub fn rows(&self, points: &Points) -> Vec<Vec<f64>> {
        points.rows().map(|x| self.values(x)).collect()
    }

    fn values_to(&self, x: &[f64], phi: &mut [f64], psi: &mut [f64]) {
        lanes::vectorized! {
            fn work(basis: &FunctionBasis, x: &[f64], phi: &mut [f64], psi: &mut [f64]) {
                basis.values_into(x, phi, psi);
            }
        }
        work(self, x, phi, psi);
    }

    /// Computes φ(x), including padding, and ψ(x) from it.
    #[inline(always)]
    pub(crate) fn values_into(&self, x: &[f64], phi: &mut [f64], psi: &mut [f64]) {
        self.map.features_into(x, phi);
        for (value, direction) in psi.iter_mut().zip(self.directions.chunks_exact(phi.len())) {
            *value = lanes::dot(direction, phi);
        }
    }

    /// Returns R c, the feature weights (M) for which φ(x)·(R c) equals ψ(x)·c.
    ///
    /// # Panics
    /// If the number of coefficients is not r.
    pub fn weights(&self, coefficients: &[f64]) -> Vec<f64> {
        let mut weights = self.padded_weights(coefficients);
        weights.truncate(self.map.n_features());
        weights
    }

    /// Returns R c, including padding.
    pub(crate) fn padded_weights(&self, coefficients: &[f64]) -> Vec<f64> {
        assert_eq!(coefficients.len(), self.rank(), "coefficients of other functions");
        let mut weights = vec![0.0; self.map.stride()];
        self.combine_into(coefficients, &mut weights);
        weights
    }

    /// Returns Rᵀ ω, the coefficients (r) of the part of φ(x)·ω that is in the span of the shared
    /// functions. If ω = R c, the result is c.
    ///
    /// # Panics
    /// If the number of weights is not M.
    pub fn coefficients(&self, weights: &[f64]) -> Vec<f64> {
        assert_eq!(weights.len(), self.map.n_features(), "weights of other features");
        let directions = self.directions.chunks_exact(self.map.stride());
        directions.map(|row| lanes::wide_dot(&row[..weights.len()], weights)).collect()
    }

    /// Writes R c, the feature weights of the function ψ(x)·c, including padding.
    #[inline(always)]
    pub(crate) fn combine_into(&self, coefficients: &[f64], weights: &mut [f64]) {
        weights.fill(0.0);
        for (c, row) in coefficients.iter().zip(self.directions.chunks_exact(weights.len())) {
            lanes::add_scaled(weights, *c, row);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::{FeatureDescription, LengthscaleLaw};

    /// Returns a map with 60 features of two coordinates.
    pub(crate) fn map() -> Arc<FeatureMap> {
        let description = FeatureDescription::quasi_random(
            60,
            2,
            LengthscaleLaw::LogNormal { median: 0.5, spread: 0.5 },
        );
        Arc::new(FeatureMap::draw(&description, &mut test_stream(1)).unwrap())
    }

    /// Over different points of the cube, products ψ_i(x) ψ_j(x) average to γ_i for i = j and to 0
    /// otherwise. The part of ‖φ‖² = 1 outside the leading directions is 1 minus the sum of their
    /// variances.
    #[test]
    fn coefficients_are_uncorrelated_over_the_cube() {
        let basis = FunctionBasis::new(map(), 12).unwrap();
        assert_eq!(basis.rank(), 12);
        let rows = basis.rows(&uniform_points(20_000, 2, &mut test_stream(2)));
        let mean = |i: usize, j: usize| rows.iter().map(|r| r[i] * r[j]).sum::<f64>() / 20_000.0;
        for i in 0..12 {
            for j in 0..=i {
                let expected = if i == j { basis.variances()[i] } else { 0.0 };
                let found = mean(i, j);
                assert!((found - expected).abs() < 0.01, "{i} {j}: {found} {expected}");
            }
        }
        assert!(basis.variances().windows(2).all(|pair| pair[0] >= pair[1]));
        let kept: f64 = basis.variances().iter().sum();
        assert!(kept > 0.95 && kept <= 1.0 + 1e-9, "{kept}");
    }

    /// A function in the span has the same values whether computed from coefficients or from
    /// weights.
    #[test]
    fn coefficients_and_weights_are_one_function() {
        let map = map();
        let basis = FunctionBasis::new(Arc::clone(&map), 60).unwrap();
        let c = test_stream(3).normals(basis.rank());
        let mut weights = vec![0.0; map.stride()];
        basis.combine_into(&c, &mut weights);
        for x in uniform_points(10, 2, &mut test_stream(4)).rows() {
            let by_weights = lanes::wide_dot(&map.features(x), &weights[..60]);
            let by_basis = lanes::wide_dot(&basis.values(x), &c);
            assert!((by_weights - by_basis).abs() < 1e-10, "{by_weights} {by_basis}");
        }
    }
}
