//! The exact posterior of a Gaussian process.

use std::ops::Range;

use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::linalg::{PackedLower, SpdFactor};
use crate::{Columns, GpError, Kernel, lanes};

/// Number of observations appended in one pass over the factor. Small enough for their rows to stay
/// in the cache.
const BLOCK: usize = 8;

/// A Gaussian process conditioned on n observations (FTS eq. (1)).
///
/// mean(x) = k(x, X) α,   var(x) = k(x, x) − ‖L⁻¹ k(X, x)‖²,   α = (L Lᵀ)⁻¹ y,   L Lᵀ = k(X, X) + σ² I
///
/// The prior mean is 0. The caller decides whether to standardize the outputs. With n = 0, this is
/// the prior.
#[derive(Clone, Debug)]
pub struct Posterior {
    kernel: Kernel,
    noise_variance: f64,
    inputs: Points,
    columns: Columns,
    y: Vec<f64>,
    factor: SpdFactor,
    alpha: Vec<f64>,
}

impl Posterior {
    /// Conditions on inputs X (n×d) and outputs y (n) with noise variance σ² ≥ 0. Cost: O(n³).
    ///
    /// # Errors
    /// If σ² is negative or not finite, an observation is not finite, or the covariance has no
    /// Cholesky factor.
    ///
    /// # Panics
    /// If shapes differ.
    pub fn new(
        kernel: Kernel,
        noise_variance: f64,
        inputs: Points,
        y: Vec<f64>,
    ) -> Result<Self, GpError> {
        assert_eq!(inputs.dim(), kernel.dim(), "inputs have a different dimension than the kernel");
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        if !(noise_variance.is_finite() && noise_variance >= 0.0) {
            return Err(GpError::Hyperparameter {
                name: "noise variance",
                value: noise_variance,
                expected: "of at least 0",
            });
        }
        check_finite(&inputs, &y)?;
        let columns = Columns::new(&inputs);
        let factor = SpdFactor::filled(inputs.len(), |gram| {
            kernel.noisy_gram_into(noise_variance, &inputs, &columns, gram);
        })?;
        let mut alpha = y.clone();
        factor.solve(&mut alpha);
        Ok(Self { columns, kernel, noise_variance, inputs, y, factor, alpha })
    }

    /// Adds one observation. Cost: O(n²), because the factor is extended rather than rebuilt,
    /// unless the new pivot is too small for the current jitter.
    ///
    /// # Errors
    /// Same as [`Posterior::new`]. The posterior is then unchanged.
    pub fn append(&mut self, x: &[f64], y: f64) -> Result<(), GpError> {
        if !(y.is_finite() && x.iter().all(|v| v.is_finite())) {
            return Err(GpError::NotFinite { index: self.len() });
        }
        self.push(x, y)?;
        self.refresh_alpha();
        Ok(())
    }

    /// Adds the given observations up to the first one that cannot extend the factor, without
    /// updating α. Returns the number of added observations.
    fn push_block(&mut self, inputs: &Points, y: &[f64], range: Range<usize>) -> usize {
        let (n, dim) = (self.len(), inputs.dim());
        let mut all = self.inputs.clone();
        for index in range.clone() {
            all.push(inputs.row(index));
        }
        let columns = Columns::new(&all);
        let rows = (n..all.len()).map(|place| {
            let mut row = self.kernel.row(all.row(place), &columns);
            row.truncate(place);
            row.push(self.kernel.outputscale() + self.noise_variance);
            row
        });
        let n_added = self.factor.append_rows(rows.collect());
        self.inputs = Points::from_flat(dim, all.as_flat()[..(n + n_added) * dim].to_vec());
        self.columns = Columns::new(&self.inputs);
        self.y.extend_from_slice(&y[range.start..range.start + n_added]);
        n_added
    }

    /// Adds one observation without updating α.
    fn push(&mut self, x: &[f64], y: f64) -> Result<(), GpError> {
        let mut row = self.kernel.row(x, &self.columns);
        row.truncate(self.len());
        row.push(self.kernel.outputscale() + self.noise_variance);
        if self.factor.append(&row).is_err() {
            let (mut inputs, mut outputs) = (self.inputs.clone(), self.y.clone());
            inputs.push(x);
            outputs.push(y);
            *self = Self::new(self.kernel.clone(), self.noise_variance, inputs, outputs)?;
            return Ok(());
        }
        self.inputs.push(x);
        self.columns = Columns::new(&self.inputs);
        self.y.push(y);
        Ok(())
    }

    /// Adds m observations in order. Gives the same bits as repeated [`Posterior::append`]. Cost:
    /// O(n² m).
    ///
    /// # Errors
    /// Same as [`Posterior::new`].
    ///
    /// # Panics
    /// If shapes differ.
    pub fn extended(mut self, inputs: &Points, y: &[f64]) -> Result<Self, GpError> {
        assert_eq!(inputs.len(), y.len(), "{} inputs and {} outputs", inputs.len(), y.len());
        check_finite(inputs, y)?;
        let mut done = 0;
        while done < y.len() {
            let end = (done + BLOCK).min(y.len());
            done += self.push_block(inputs, y, done..end);
            if done < end {
                self.push(inputs.row(done), y[done])?; // refactors the covariance
                done += 1;
            }
        }
        self.refresh_alpha();
        Ok(self)
    }

    /// Replaces the outputs and keeps the inputs, for example after standardizing again. Cost:
    /// O(n²).
    ///
    /// # Errors
    /// If an output is not finite.
    ///
    /// # Panics
    /// If the number of outputs is not n.
    pub fn set_outputs(&mut self, y: Vec<f64>) -> Result<(), GpError> {
        assert_eq!(y.len(), self.len());
        check_finite(&self.inputs, &y)?;
        self.y = y;
        self.refresh_alpha();
        Ok(())
    }

    fn refresh_alpha(&mut self) {
        self.alpha.clone_from(&self.y);
        self.factor.solve(&mut self.alpha);
    }

    /// Returns the number of observations n.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Returns true if there are no observations.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// Returns the kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the noise variance σ².
    pub fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Returns the inputs X (n×d).
    pub fn inputs(&self) -> &Points {
        &self.inputs
    }

    /// Returns the outputs y (n).
    pub fn outputs(&self) -> &[f64] {
        &self.y
    }

    /// Returns α = (k(X, X) + σ² I)⁻¹ y.
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// Returns L with its jitter.
    pub fn factor(&self) -> &SpdFactor {
        &self.factor
    }

    /// Returns the largest mean at an observed input, max_i (y − (σ² + jitter) α)_i, or −∞ if there
    /// are no observations. Cost: O(n).
    pub fn largest_mean(&self) -> f64 {
        let ridge = self.noise_variance + self.factor.jitter();
        let means = self.y.iter().zip(&self.alpha).map(|(y, a)| y - ridge * a);
        means.fold(f64::NEG_INFINITY, f64::max)
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns the posterior mean of the latent function at x. Cost: O(n).
    pub fn mean(&self, x: &[f64]) -> f64 {
        let mut cross = self.kernel.row(x, &self.columns);
        cross.truncate(self.len());
        lanes::wide_dot(&cross, &self.alpha)
    }

    /// Returns the posterior mean and variance of the latent function at x. The variance is never
    /// below 0. Cost: O(n²).
    pub fn mean_variance(&self, x: &[f64]) -> (f64, f64) {
        let mut cross = self.kernel.row(x, &self.columns);
        cross.truncate(self.len());
        let mean = lanes::wide_dot(&cross, &self.alpha);
        self.factor.solve_lower(&mut cross);
        let explained = lanes::wide_dot(&cross, &cross);
        (mean, (self.kernel.outputscale() - explained).max(0.0))
    }

    /// Returns the joint posterior of the latent function at m points: the mean (m) and the lower
    /// triangle of the covariance. Cost: O(n² m + n m²).
    pub fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower) {
        let mut mean = Vec::with_capacity(points.len());
        let mut cross: Vec<Vec<f64>> = Vec::with_capacity(points.len());
        for x in points.rows() {
            let mut row = self.kernel.row(x, &self.columns);
            row.truncate(self.len());
            mean.push(lanes::wide_dot(&row, &self.alpha));
            cross.push(row);
        }
        self.factor.solve_lower_columns(&mut cross);
        let mut covariance = self.kernel.gram(points);
        for i in 0..points.len() {
            for (j, value) in covariance.row_mut(i).iter_mut().enumerate() {
                *value -= lanes::wide_dot(&cross[i], &cross[j]);
            }
        }
        (mean, covariance)
    }

    /// Returns v = α + β (K + σ²I)⁻¹(−f₀(X) − σ ε) with ε ~ N(0, I), so that β f₀(x) + k(x, X) v is
    /// a draw from N(mean, β² cov) if f₀ is a draw from the prior (Wilson et al. 2020). `prior`
    /// contains f₀(X). v is padded to the kernel's row length. Cost: O(n²).
    pub(crate) fn path_coefficients(
        &self,
        prior: Vec<f64>,
        beta: f64,
        stream: &mut Stream,
    ) -> Vec<f64> {
        let noise_std = self.noise_variance.sqrt();
        let mut v = prior;
        for f0 in &mut v {
            *f0 = -*f0 - noise_std * stream.normal();
        }
        self.factor.solve(&mut v);
        for (v, alpha) in v.iter_mut().zip(&self.alpha) {
            *v = alpha + beta * *v;
        }
        v.resize(self.columns.padded_len(), 0.0);
        v
    }

    /// Draws the latent function at m points, f ~ N(mean, β² cov), by a Cholesky factor of the
    /// dense posterior covariance. The reference for the faster samplers. Cost: O(m³).
    ///
    /// # Errors
    /// If the covariance has no Cholesky factor.
    pub fn sample_dense(
        &self,
        points: &Points,
        beta: f64,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, GpError> {
        let (mean, covariance) = self.joint(points);
        let deviation = SpdFactor::new(&covariance)?.multiply_lower(&stream.normals(points.len()));
        Ok(mean.iter().zip(deviation).map(|(m, d)| m + beta * d).collect())
    }
}

/// Rejects NaN and infinities. The error contains the index of the observation.
fn check_finite(inputs: &Points, y: &[f64]) -> Result<(), GpError> {
    for (index, (x, y)) in inputs.rows().zip(y).enumerate() {
        if !(y.is_finite() && x.iter().all(|v| v.is_finite())) {
            return Err(GpError::NotFinite { index });
        }
    }
    Ok(())
}
