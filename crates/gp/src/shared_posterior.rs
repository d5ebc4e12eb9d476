//! A Gaussian process with a prior mean and covariance from other parties, conditioned on a party's
//! own observations.

mod draw;

use std::sync::Arc;

use fedbo_optim::Points;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{Columns, FunctionBasis, GpError, Kernel, Remainder, WeightPrior, lanes};

pub use draw::SharedDraw;

/// The Gaussian process y = s (ψ(x)·w + r(x) + level + noise) with w ~ N(m, Λ), conditioned on n
/// observations, for all scales s ≠ 0 at once.
///
/// K = Ψ Λ Ψᵀ + ρ k(X, X) + τ² 1 1ᵀ + σ² I = L Lᵀ,   c(x) = Ψ Λ ψ(x) + ρ k(X, x) + τ² 1
///
/// mean_s(x) = s ψ(x)·m + c(x)·K⁻¹(y − s Ψ m),   var_s(x) = s² (ψ(x)ᵀΛψ(x) + ρ + τ² − ‖L⁻¹ c(x)‖²)
///
/// ln p(y | s) = −½ ‖L⁻¹(y − s Ψ m)‖²/s² − n ln |s| − ½ ln |K| − n/2 ln 2π
///
/// Shapes: X n×d, y n, Ψ n×r. Cost: O(n³ + n² r), and O(M r + r² + n²) per point. Except for the
/// mean, s enters only as a factor, so a grid of scales costs hardly more than a single scale. See
/// [`WeightPrior`] for m and Λ, and [`Remainder`] for ρ, τ² and σ².
#[derive(Clone)]
pub struct SharedPosterior {
    /// `None` if no functions are shared.
    basis: Option<Arc<FunctionBasis>>,
    /// Upper-triangular T with Λ = Tᵀ T, stored as Tᵀ.
    root: PackedLower,
    kernel: Kernel,
    /// ρ/a², so that the signal variance of the kernel cancels.
    own_scale: f64,
    remainder: Remainder,
    columns: Columns,
    factor: SpdFactor,
    inverse: PackedLower,
    /// T ψ(x_i).
    whitened_rows: Vec<Vec<f64>>,
    /// L⁻¹ y and L⁻¹ Ψ m.
    residuals: [Vec<f64>; 2],
    /// K⁻¹ y, and minus K⁻¹ Ψ m.
    coefficients: [Vec<f64>; 2],
    /// Weights of ψ(x) in the mean: first the part from y, then the coefficient of s.
    slopes: [Vec<f64>; 2],
}

/// The prediction of a [`SharedPosterior`] at a point.
#[derive(Clone)]
pub struct SharedPrediction {
    /// The mean at scale s is `means[0]` + s `means[1]`.
    pub means: [f64; 2],
    /// The variance at scale s is s² `variance`.
    pub variance: f64,
    /// L⁻¹ c(x).
    whitened: Vec<f64>,
    /// T ψ(x).
    root: Vec<f64>,
    /// ρ a² g(r).
    kernel_slopes: Vec<f64>,
}

impl SharedPrediction {
    /// Returns the mean at this scale.
    pub fn mean(&self, size: f64) -> f64 {
        self.means[0] + size * self.means[1]
    }
}

impl SharedPosterior {
    /// Conditions on inputs X (n×d) and outputs y (n). Only the shape of the kernel matters; its
    /// signal variance does not.
    ///
    /// # Errors
    /// If Λ or K has no Cholesky factor.
    ///
    /// # Panics
    /// If shapes differ.
    pub fn new(
        basis: Arc<FunctionBasis>,
        prior: &WeightPrior,
        kernel: Kernel,
        remainder: Remainder,
        inputs: &Points,
        y: &[f64],
    ) -> Result<Self, GpError> {
        assert_eq!(prior.mean().len(), basis.rank(), "a prior of other functions");
        let root = SpdFactor::new(prior.covariance())?.lower().clone();
        let rows = basis.rows(inputs);
        Self::of_rows(Some(basis), prior.mean(), root, &rows, kernel, remainder, inputs, y)
    }

    /// Creates the process without shared functions: a party's own Gaussian process, also with an
    /// unknown level and scale.
    ///
    /// # Errors
    /// If K has no Cholesky factor.
    ///
    /// # Panics
    /// If shapes differ.
    pub fn alone(
        kernel: Kernel,
        remainder: Remainder,
        inputs: &Points,
        y: &[f64],
    ) -> Result<Self, GpError> {
        let rows = vec![Vec::new(); inputs.len()];
        Self::of_rows(None, &[], PackedLower::zeros(0), &rows, kernel, remainder, inputs, y)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of two constructors")]
    fn of_rows(
        basis: Option<Arc<FunctionBasis>>,
        prior_mean: &[f64],
        root: PackedLower,
        rows: &[Vec<f64>],
        kernel: Kernel,
        remainder: Remainder,
        inputs: &Points,
        y: &[f64],
    ) -> Result<Self, GpError> {
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        let whitened_rows: Vec<Vec<f64>> = rows.iter().map(|row| transposed(&root, row)).collect();
        let covariance = remainder.covariance_with(&kernel, inputs, &whitened_rows);
        let factor = SpdFactor::new(&covariance)?;
        let of_mean: Vec<f64> = rows.iter().map(|row| lanes::wide_dot(row, prior_mean)).collect();
        let mut residuals = [y.to_vec(), of_mean.clone()];
        let mut coefficients = [y.to_vec(), of_mean.iter().map(|v| -v).collect()];
        for (residual, coefficient) in residuals.iter_mut().zip(&mut coefficients) {
            factor.solve_lower(residual);
            factor.solve(coefficient);
        }
        let slopes = [0, 1].map(|part: usize| {
            let mut sum = vec![0.0; prior_mean.len()];
            for (row, c) in whitened_rows.iter().zip(&coefficients[part]) {
                sum.iter_mut().zip(row).for_each(|(sum, v)| *sum += c * v);
            }
            let mut slopes = root.multiply(&sum);
            if part == 1 {
                slopes.iter_mut().zip(prior_mean).for_each(|(slope, m)| *slope += m);
            }
            slopes
        });
        Ok(Self {
            own_scale: remainder.own_variance / kernel.outputscale(),
            columns: Columns::new(inputs),
            inverse: factor.inverse_factor(),
            basis,
            root,
            kernel,
            remainder,
            factor,
            whitened_rows,
            residuals,
            coefficients,
            slopes,
        })
    }

    /// Returns the number of observations n.
    pub fn len(&self) -> usize {
        self.whitened_rows.len()
    }

    /// Returns true if there are no observations.
    pub fn is_empty(&self) -> bool {
        self.whitened_rows.is_empty()
    }

    /// Returns the input dimension d.
    pub fn dim(&self) -> usize {
        self.kernel.dim()
    }

    /// Returns ln p(y | s), which equals ln p(−y | −s), since negative scales negate the functions.
    /// Cost: O(n).
    pub fn log_evidence(&self, size: f64) -> f64 {
        let [y, mean] = &self.residuals;
        let quadratic: f64 = y.iter().zip(mean).map(|(y, m)| (y / size - m).powi(2)).sum();
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let n = self.len() as f64;
        -0.5 * (quadratic + self.factor.log_determinant())
            - n * (size.abs().ln() + 0.5 * std::f64::consts::TAU.ln())
    }

    /// Returns the mean and variance of the latent function at a point, for all scales. `psi` is
    /// ψ(x), which is ignored if there are no shared functions.
    ///
    /// # Panics
    /// If x or ψ(x) has the wrong length.
    pub fn predict(&self, x: &[f64], psi: &[f64]) -> SharedPrediction {
        assert_eq!(x.len(), self.dim());
        lanes::vectorized! {
            fn work(shared: &SharedPosterior, x: &[f64], psi: &[f64]) -> SharedPrediction {
                shared.predict_one(x, psi)
            }
        }
        work(self, x, &psi[..self.root.size()])
    }

    #[inline(always)]
    fn predict_one(&self, x: &[f64], psi: &[f64]) -> SharedPrediction {
        let n = self.len();
        let mut root = vec![0.0; psi.len()];
        for (i, value) in psi.iter().enumerate() {
            lanes::add_scaled(&mut root[..=i], *value, self.root.row(i));
        }
        let mut cross = vec![0.0; n];
        let mut kernel_slopes = vec![0.0; self.columns.padded_len()];
        self.kernel.slopes_into(x, &self.columns, 0, &mut cross, &mut kernel_slopes[..n]);
        kernel_slopes.iter_mut().for_each(|slope| *slope *= self.own_scale);
        let mut means = [lanes::dot(psi, &self.slopes[0]), lanes::dot(psi, &self.slopes[1])];
        for (i, entry) in cross.iter_mut().enumerate() {
            *entry = self.own_scale * *entry + self.remainder.level_variance;
            means[0] += *entry * self.coefficients[0][i];
            means[1] += *entry * self.coefficients[1][i];
            *entry += lanes::dot(&self.whitened_rows[i], &root);
        }
        let mut whitened = vec![0.0; n];
        let mut explained = 0.0;
        for (i, value) in whitened.iter_mut().enumerate() {
            *value = lanes::dot(self.inverse.row(i), &cross[..=i]);
            explained += *value * *value;
        }
        let before =
            lanes::dot(&root, &root) + self.remainder.own_variance + self.remainder.level_variance;
        SharedPrediction {
            means,
            variance: (before - explained).max(0.0),
            whitened,
            root,
            kernel_slopes,
        }
    }

    /// Adds the gradient of a·means\[0\] + b·means\[1\] + c·variance at x to `gradient`, for
    /// constants a, b, c.
    ///
    /// ∇var = 2 (Λψ − (Tᵀ Wᵀ L⁻ᵀ v))·∇ψ − 2 ρ (L⁻ᵀ v)·∇k(X, x),   v = L⁻¹ c(x)
    ///
    /// # Panics
    /// If lengths differ.
    pub fn add_gradient(
        &self,
        x: &[f64],
        prediction: &SharedPrediction,
        [a, b, c]: [f64; 3],
        gradient: &mut [f64],
    ) {
        assert_eq!((x.len(), gradient.len()), (self.dim(), self.dim()));
        let mut pulled = prediction.whitened.clone();
        self.inverse.transpose_multiply(&mut pulled);
        let mut root: Vec<f64> = prediction.root.iter().map(|v| 2.0 * c * v).collect();
        for (row, pull) in self.whitened_rows.iter().zip(&pulled) {
            root.iter_mut().zip(row).for_each(|(sum, v)| *sum -= 2.0 * c * pull * v);
        }
        let mut of_psi = self.root.multiply(&root);
        for (sum, (first, second)) in
            of_psi.iter_mut().zip(self.slopes[0].iter().zip(&self.slopes[1]))
        {
            *sum += a * first + b * second;
        }
        let mut of_kernel = prediction.kernel_slopes.clone();
        for (i, slope) in of_kernel[..pulled.len()].iter_mut().enumerate() {
            let [first, second] = [self.coefficients[0][i], self.coefficients[1][i]];
            *slope *= a * first + b * second - 2.0 * c * pulled[i];
        }
        lanes::vectorized! {
            fn work(shared: &SharedPosterior, x: &[f64], psi: &[f64], kernel: &[f64], gradient: &mut [f64]) {
                if let Some(basis) = &shared.basis {
                    let map = basis.map();
                    let mut buffer = vec![0.0; 3 * map.stride()];
                    let (weights, rest) = buffer.split_at_mut(map.stride());
                    let (cosines, sines) = rest.split_at_mut(map.stride());
                    basis.combine_into(psi, weights);
                    map.weighted_sum_gradient(x, weights, cosines, sines, gradient);
                }
                for (j, (g, l)) in gradient.iter_mut().zip(shared.kernel.lengthscales()).enumerate() {
                    let moment = lanes::dot_difference(kernel, x[j], shared.columns.coordinate(j));
                    *g -= moment / l / l;
                }
            }
        }
        work(self, x, &of_psi[..], &of_kernel[..], gradient);
    }
}

/// Returns Lᵀ b for a lower-triangular L.
fn transposed(lower: &PackedLower, b: &[f64]) -> Vec<f64> {
    let mut product = b.to_vec();
    lower.transpose_multiply(&mut product);
    product
}

#[cfg(test)]
mod tests;
