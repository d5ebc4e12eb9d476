//! The log marginal likelihood of a Gaussian process, and its gradient.

use std::ops::Range;

use fedbo_optim::Points;

use crate::linalg::{self, Square};
use crate::{Columns, GpError, Kernel, lanes, parallel};

/// ln p(y | X) and its gradient with respect to the logarithms of the hyperparameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// ln p(y | X) = −½ yᵀα − Σ_i ln L_ii − n/2 ln 2π.
    pub value: f64,
    /// ∂/∂ln ℓ_1 … ∂/∂ln ℓ_d, ∂/∂ln a², ∂/∂ln σ²: d + 2 numbers.
    pub gradient: Vec<f64>,
    /// Jitter added by the factorization.
    pub jitter: f64,
}

/// Returns the evidence for a kernel and a noise variance σ² (Rasmussen & Williams 2006, eqs. (5.8)
/// and (5.9)).
///
/// ∂/∂θ = ½ tr((α αᵀ − K⁻¹) ∂K/∂θ),   α = K⁻¹ y,   K = k(X, X) + σ² I
///
/// Cost: O(n³ + n² d).
///
/// # Errors
/// If K has no Cholesky factor.
pub fn evidence(
    kernel: &Kernel,
    noise_variance: f64,
    inputs: &Points,
    y: &[f64],
) -> Result<Evidence, GpError> {
    Workspace::new(inputs, y).evidence(kernel, noise_variance)
}

/// The observations, and scratch space for the matrices in an evaluation of the evidence. Allocated
/// once per fit.
pub(crate) struct Workspace<'a> {
    inputs: &'a Points,
    y: &'a [f64],
    columns: Columns,
    /// K, then L, then K⁻¹.
    covariance: Square,
    /// a² g(r).
    slopes: Square,
    /// L⁻¹.
    factor_inverse: Square,
}

impl<'a> Workspace<'a> {
    pub(crate) fn new(inputs: &'a Points, y: &'a [f64]) -> Self {
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        let square = || Square::new(y.len());
        Self {
            inputs,
            y,
            columns: Columns::new(inputs),
            covariance: square(),
            slopes: square(),
            factor_inverse: square(),
        }
    }

    /// Returns the [`evidence`] of these observations.
    pub(crate) fn evidence(
        &mut self,
        kernel: &Kernel,
        noise_variance: f64,
    ) -> Result<Evidence, GpError> {
        let (inputs, columns, slopes) = (self.inputs, &self.columns, &mut self.slopes);
        let jitter = self.covariance.factor(|covariance| {
            fill(kernel, noise_variance, inputs, columns, covariance, slopes)
        })?;
        let mut alpha = self.y.to_vec();
        self.covariance.solve(&mut alpha);
        let data_fit = lanes::wide_dot(self.y, &alpha);
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let n = self.y.len() as f64;
        let constant = 0.5 * n * std::f64::consts::TAU.ln();
        let value = -0.5 * data_fit - 0.5 * self.covariance.log_determinant() - constant;
        self.covariance.invert_factor(&mut self.factor_inverse);
        let inverse = &self.covariance;
        let dim = kernel.dim();
        let mut gradient = vec![0.0; dim + 2];
        moments(&self.columns, &alpha, inverse, &self.slopes, &mut gradient[..dim]);
        for (g, lengthscale) in gradient.iter_mut().zip(kernel.lengthscales()) {
            *g = *g / lengthscale / lengthscale; // not by ℓ², which can underflow
        }
        // tr(ααᵀ − K⁻¹) yields the derivative in ln σ². Because K = k(X, X) + (σ² + jitter) I, the
        // derivative in ln a² then needs no further pass over k(X, X).
        let trace = lanes::wide_dot(&alpha, &alpha) - inverse.trace();
        gradient[dim] = 0.5 * (data_fit - n - (noise_variance + jitter) * trace);
        gradient[dim + 1] = 0.5 * noise_variance * trace;
        Ok(Evidence { value, gradient, jitter })
    }
}

/// Computes k(X, X) + σ² I and a² g(r) as lower triangles.
fn fill(
    kernel: &Kernel,
    noise_variance: f64,
    inputs: &Points,
    columns: &Columns,
    covariance: &mut Square,
    slopes: &mut Square,
) {
    lanes::vectorized! {
        fn work(kernel: &Kernel, x: &[f64], columns: &Columns, i: usize, values: &mut [f64], slopes: &mut [f64]) {
            kernel.slopes_into(x, columns, i, values, slopes);
        }
    }
    covariance.for_each_column_of_two(slopes, |i, column, slopes| {
        work(kernel, inputs.row(i), columns, i, column, slopes);
        column[0] += noise_variance;
    });
}

/// Computes Σ_{i>j} (α_i α_j − K⁻¹_ij) a² g_ij (x_i − x_j)² for every coordinate. The factor ½ of
/// the trace cancels the factor 2 for the omitted triangle.
fn moments(columns: &Columns, alpha: &[f64], inverse: &Square, slopes: &Square, sums: &mut [f64]) {
    lanes::vectorized! {
        fn work(
            columns: &Columns,
            alpha: &[f64],
            inverse: &Square,
            slopes: &Square,
            range: Range<usize>,
            sums: &mut [f64],
        ) {
            let mut weights = vec![0.0; alpha.len()];
            for j in range {
                let weights = &mut weights[j..];
                let terms = alpha[j..].iter().zip(inverse.column(j)).zip(slopes.column(j));
                for (w, ((alpha_i, inverse), slope)) in weights.iter_mut().zip(terms) {
                    *w = (alpha[j] * alpha_i - inverse) * slope;
                }
                for (axis, sum) in sums.iter_mut().enumerate() {
                    let x = &columns.coordinate(axis)[j..alpha.len()];
                    *sum += lanes::dot_squared_difference(weights, x[0], x);
                }
            }
        }
    }
    let n = alpha.len();
    let width = linalg::width_of_piece(n);
    let mut parts = vec![vec![0.0; sums.len()]; n.div_ceil(width.max(1))];
    parallel::for_each(parts.iter_mut().enumerate().collect(), |(piece, part)| {
        let range = piece * width..n.min((piece + 1) * width);
        work(columns, alpha, inverse, slopes, range, part);
    });
    for part in parts {
        for (sum, part) in sums.iter_mut().zip(part) {
            *sum += part;
        }
    }
}
