//! Mean and variance of a posterior at one point with gradients, and at many points.

use fedbo_optim::Points;

use crate::linalg::solve_lower_block;
use crate::{Posterior, lanes};

/// Points that are solved for together: a block of right-hand sides stays in the cache.
const BLOCK: usize = 64;

/// What a posterior says of the latent function at one point x.
///
/// mean(x) = k(x, X) α,   var(x) = k(x, x) − ‖v‖²,   v = L⁻¹ k(X, x)
#[derive(Clone, Debug)]
pub struct Prediction<'a> {
    posterior: &'a Posterior,
    x: &'a [f64],
    mean: f64,
    whitened: Vec<f64>,
    /// a² g(r), padded: see the kernel's profile.
    slopes: Vec<f64>,
}

impl Prediction<'_> {
    /// mean(x).
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// var(x), never below 0.
    pub fn variance(&self) -> f64 {
        let explained = lanes::wide_dot(&self.whitened, &self.whitened);
        (self.posterior.kernel().outputscale() - explained).max(0.0)
    }

    /// v, n numbers in the order of the observations. A new observation adds one number and leaves the others.
    pub fn whitened(&self) -> &[f64] {
        &self.whitened
    }

    /// Writes the gradient in x of m·mean(x) + w·v(x) for constants m and w (n), d numbers: with m = 0 and w = −2v that
    /// of the variance. Cost O(n²).
    ///
    /// (m α + L⁻ᵀ w)·∂k(X, x)/∂x_j,   ∂k(X_i, x)/∂x_j = −a² g(r_i) (x_j − X_ij)/ℓ_j²
    ///
    /// # Panics
    /// If w has not n entries, or `gradient` not d.
    pub fn gradient(&self, mean_weight: f64, mut whitened_weights: Vec<f64>, gradient: &mut [f64]) {
        let posterior = self.posterior;
        assert_eq!(gradient.len(), self.x.len());
        posterior.factor().solve_upper(&mut whitened_weights);
        let mut weights = self.slopes.clone();
        for ((weight, w), alpha) in weights
            .iter_mut()
            .zip(&whitened_weights)
            .zip(posterior.alpha())
        {
            *weight *= mean_weight * alpha + w;
        }
        lanes::vectorized! {
            fn work(posterior: &Posterior, x: &[f64], weights: &[f64], gradient: &mut [f64]) {
                let lengthscales = posterior.kernel().lengthscales();
                for (j, g) in gradient.iter_mut().enumerate() {
                    let moment = lanes::dot_difference(weights, x[j], posterior.columns().coordinate(j));
                    *g = -moment / lengthscales[j] / lengthscales[j]; // twice, as ℓ² may underflow
                }
            }
        }
        work(posterior, self.x, &weights, gradient);
    }
}

impl Posterior {
    /// The prediction at x (d). Cost O(n²).
    ///
    /// # Panics
    /// If x has another dimension than the kernel.
    pub fn predict<'a>(&'a self, x: &'a [f64]) -> Prediction<'a> {
        assert_eq!(x.len(), self.kernel().dim());
        lanes::vectorized! {
            fn work(posterior: &Posterior, x: &[f64], cross: &mut [f64], slopes: &mut [f64]) {
                posterior.kernel().slopes_into(x, posterior.columns(), 0, cross, slopes);
            }
        }
        let mut cross = vec![0.0; self.len()];
        let mut slopes = vec![0.0; self.columns().padded_len()];
        work(self, x, &mut cross, &mut slopes[..self.len()]);
        let mean = lanes::wide_dot(&cross, self.alpha());
        self.factor().solve_lower(&mut cross);
        Prediction {
            posterior: self,
            x,
            mean,
            whitened: cross,
            slopes,
        }
    }

    /// Mean, variance (never below 0) and v of every point in turn, to `visit`; agrees with [`Posterior::predict`] to
    /// rounding. Cost O(n² m) for m points, by blocked triangular solves.
    pub fn predict_each(&self, points: &Points, mut visit: impl FnMut(f64, f64, &[f64])) {
        let n = self.len();
        let factor = self.factor().unpacked();
        let mut block = vec![0.0; n * BLOCK];
        for first in (0..points.len()).step_by(BLOCK) {
            let size = BLOCK.min(points.len() - first);
            let mut means = Vec::with_capacity(size);
            for offset in 0..size {
                let row = self
                    .kernel()
                    .row(points.row(first + offset), self.columns());
                means.push(lanes::wide_dot(&row[..n], self.alpha()));
                block[offset * n..(offset + 1) * n].copy_from_slice(&row[..n]);
            }
            solve_lower_block(&factor, &mut block[..size * n]);
            for (offset, mean) in means.into_iter().enumerate() {
                let whitened = &block[offset * n..(offset + 1) * n];
                let explained = lanes::wide_dot(whitened, whitened);
                let variance = (self.kernel().outputscale() - explained).max(0.0);
                visit(mean, variance, whitened);
            }
        }
    }

    /// Means and variances at m points, m numbers each: see [`Posterior::predict_each`].
    pub fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        self.predict_each(points, |mean, variance, _| {
            means.push(mean);
            variances.push(variance);
        });
        (means, variances)
    }
}
