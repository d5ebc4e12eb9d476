//! Means and variances of a posterior, at a single point with gradients or at many points.

use std::borrow::Cow;

use fedbo_optim::Points;

use crate::linalg::{PackedLower, solve_lower_block};
use crate::{Posterior, lanes};

/// Maximum number of observations for which a search computes L⁻¹.
///
/// Up to this number, two products with L⁻¹ are several times faster than two triangular solves,
/// which have row-by-row dependencies. With more observations, both are limited by memory
/// bandwidth.
const INVERTED_MAX: usize = 700;

/// Number of points solved together. Small enough for a block of right-hand sides to stay in the
/// cache.
const BLOCK: usize = 64;

/// Fewer points than this are solved one by one, because the blocked solve must first copy the
/// factor.
const FEW: usize = 16;

/// A posterior prepared for predictions at one point after another, as in a search.
#[derive(Clone, Debug)]
pub struct Predictor<'a> {
    posterior: Cow<'a, Posterior>,
    /// L⁻¹.
    inverse: Option<PackedLower>,
}

/// A posterior's prediction of the latent function at a point x.
///
/// mean(x) = k(x, X) α,   var(x) = k(x, x) − ‖v‖²,   v = L⁻¹ k(X, x)
#[derive(Clone, Debug)]
pub struct Prediction<'a> {
    posterior: &'a Posterior,
    inverse: Option<&'a PackedLower>,
    x: &'a [f64],
    mean: f64,
    whitened: Vec<f64>,
    /// a² g(r), padded; see `profile` in the kernel module.
    slopes: Vec<f64>,
}

impl Prediction<'_> {
    /// Returns mean(x).
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns var(x), which is never below 0.
    pub fn variance(&self) -> f64 {
        let explained = lanes::wide_dot(&self.whitened, &self.whitened);
        (self.posterior.kernel().outputscale() - explained).max(0.0)
    }

    /// Returns v, n numbers in the order of the observations. Adding an observation appends one
    /// number and leaves the others unchanged.
    pub fn whitened(&self) -> &[f64] {
        &self.whitened
    }

    /// Writes the gradient in x of m·mean(x) + w·v(x), d numbers, for constants m and w (n). With
    /// m = 0 and w = −2v, this is the gradient of the variance. Cost: O(n²).
    ///
    /// (m α + L⁻ᵀ w)·∂k(X, x)/∂x_j,   ∂k(X_i, x)/∂x_j = −a² g(r_i) (x_j − X_ij)/ℓ_j²
    ///
    /// # Panics
    /// If w does not have n entries, or `gradient` does not have d entries.
    pub fn gradient(&self, mean_weight: f64, mut whitened_weights: Vec<f64>, gradient: &mut [f64]) {
        let posterior = self.posterior;
        assert_eq!(gradient.len(), self.x.len());
        match self.inverse {
            Some(inverse) => inverse.transpose_multiply(&mut whitened_weights),
            None => posterior.factor().solve_upper(&mut whitened_weights),
        }
        let mut weights = self.slopes.clone();
        for ((weight, w), alpha) in weights.iter_mut().zip(&whitened_weights).zip(posterior.alpha())
        {
            *weight *= mean_weight * alpha + w;
        }
        lanes::vectorized! {
            fn work(posterior: &Posterior, x: &[f64], weights: &[f64], gradient: &mut [f64]) {
                let lengthscales = posterior.kernel().lengthscales();
                for (j, g) in gradient.iter_mut().enumerate() {
                    let moment = lanes::dot_difference(weights, x[j], posterior.columns().coordinate(j));
                    *g = -moment / lengthscales[j] / lengthscales[j]; // not by ℓ², which can underflow
                }
            }
        }
        work(posterior, self.x, &weights, gradient);
    }
}

impl Predictor<'_> {
    /// Returns the posterior.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Returns the prediction at x (d). Cost: O(n²).
    ///
    /// # Panics
    /// If the dimension of x differs from the dimension of the kernel.
    pub fn predict<'b>(&'b self, x: &'b [f64]) -> Prediction<'b> {
        let posterior = self.posterior();
        assert_eq!(x.len(), posterior.kernel().dim());
        lanes::vectorized! {
            fn work(posterior: &Posterior, x: &[f64], cross: &mut [f64], slopes: &mut [f64]) {
                posterior.kernel().slopes_into(x, posterior.columns(), 0, cross, slopes);
            }
        }
        let mut cross = vec![0.0; posterior.len()];
        let mut slopes = vec![0.0; posterior.columns().padded_len()];
        work(posterior, x, &mut cross, &mut slopes[..posterior.len()]);
        let mean = lanes::wide_dot(&cross, posterior.alpha());
        let whitened = match &self.inverse {
            Some(inverse) => inverse.multiply(&cross),
            None => {
                posterior.factor().solve_lower(&mut cross);
                cross
            }
        };
        Prediction { posterior, inverse: self.inverse.as_ref(), x, mean, whitened, slopes }
    }
}

impl Posterior {
    /// Returns a predictor for many single points. Cost: O(n³) for up to a few hundred
    /// observations.
    pub fn predictor(&self) -> Predictor<'_> {
        Predictor { inverse: self.inverse_for_search(), posterior: Cow::Borrowed(self) }
    }

    /// Like [`Posterior::predictor`], for a posterior that no longer changes, so that the work is
    /// done once for all searches.
    pub fn into_predictor(self) -> Predictor<'static> {
        Predictor { inverse: self.inverse_for_search(), posterior: Cow::Owned(self) }
    }

    fn inverse_for_search(&self) -> Option<PackedLower> {
        (self.len() <= INVERTED_MAX).then(|| self.factor().inverse_factor())
    }

    /// Passes the mean, the variance (never below 0) and v of every point to `visit`, in order.
    /// Agrees with [`Predictor::predict`] up to rounding. Cost: O(n² m) for m points, by blocked
    /// triangular solves.
    pub fn predict_each(&self, points: &Points, mut visit: impl FnMut(f64, f64, &[f64])) {
        let n = self.len();
        if points.len() < FEW {
            let predictor = Predictor { posterior: Cow::Borrowed(self), inverse: None };
            for x in points.rows() {
                let found = predictor.predict(x);
                visit(found.mean(), found.variance(), found.whitened());
            }
            return;
        }
        let factor = self.factor().unpacked();
        let mut block = vec![0.0; n * BLOCK];
        for first in (0..points.len()).step_by(BLOCK) {
            let size = BLOCK.min(points.len() - first);
            let mut means = Vec::with_capacity(size);
            for offset in 0..size {
                let row = self.kernel().row(points.row(first + offset), self.columns());
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

    /// Returns the means (m) and variances (m) at m points. See [`Posterior::predict_each`].
    pub fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        self.predict_each(points, |mean, variance, _| {
            means.push(mean);
            variances.push(variance);
        });
        (means, variances)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::{Family, Kernel};

    fn posterior(family: Family, n: usize) -> Posterior {
        let kernel = Kernel::new(family, vec![0.3, 0.7, 0.5], 1.3).unwrap();
        let inputs = uniform_points(n, 3, &mut test_stream(1));
        let y = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        Posterior::new(kernel, 1e-4, inputs, y).unwrap()
    }

    /// Compares with the joint posterior, for few points and for several blocks. Noise of 1e-4
    /// amplifies rounding errors by a factor of 1e4.
    #[test]
    fn means_and_variances_are_those_of_the_joint_posterior() {
        for n in [0, 1, 37] {
            let posterior = posterior(Family::Matern52, n);
            for m in [0, 1, 5, 150] {
                let points = uniform_points(m, 3, &mut test_stream(2));
                let (mean, covariance) = posterior.joint(&points);
                let (means, variances) = posterior.mean_variances(&points);
                assert_eq!((means.len(), variances.len()), (m, m));
                for i in 0..m {
                    assert!((means[i] - mean[i]).abs() < 1e-10);
                    assert!((variances[i] - covariance.row(i)[i]).abs() < 1e-10);
                }
            }
        }
    }

    /// L⁻¹ and triangular solves agree even for noise so small that rounding errors are amplified
    /// by a factor of 1e6.
    #[test]
    fn a_formed_inverse_gives_what_solves_give() {
        let kernel = Kernel::isotropic(Family::Matern52, 3, 0.5, 1.0).unwrap();
        let inputs = uniform_points(200, 3, &mut test_stream(1));
        let y = inputs.rows().map(|x| (5.0 * x[0]).sin() + x[1]).collect();
        let posterior = Posterior::new(kernel, 1e-6, inputs, y).unwrap();
        let (formed, solved) = (
            posterior.predictor(),
            Predictor { posterior: Cow::Borrowed(&posterior), inverse: None },
        );
        assert!(formed.inverse.is_some());
        for x in uniform_points(20, 3, &mut test_stream(2)).rows() {
            let (a, b) = (formed.predict(x), solved.predict(x));
            assert!((a.variance() - b.variance()).abs() < 1e-10);
            let (mut of_a, mut of_b) = ([0.0; 3], [0.0; 3]);
            let weights = |p: &Prediction<'_>| p.whitened().iter().map(|v| -2.0 * v).collect();
            a.gradient(0.0, weights(&a), &mut of_a);
            b.gradient(0.0, weights(&b), &mut of_b);
            for (u, v) in of_a.iter().zip(of_b) {
                assert!((u - v).abs() < 1e-8, "{of_a:?} {of_b:?}");
            }
        }
    }

    /// Central differences with a step of 1e-5, for m·mean + w·v with random w and for the
    /// variance.
    #[test]
    fn gradients_agree_with_differences() {
        for family in [Family::SquaredExponential, Family::Matern32, Family::Matern52] {
            let posterior = posterior(family, 20);
            let predictor = posterior.predictor();
            let w = test_stream(4).normals(20);
            for x in uniform_points(5, 3, &mut test_stream(3)).rows() {
                let combined = |x: &[f64]| {
                    let found = predictor.predict(x);
                    0.7 * found.mean() + lanes::wide_dot(&w, found.whitened())
                };
                let variance = |x: &[f64]| predictor.predict(x).variance();
                let found = predictor.predict(x);
                let (mut of_combined, mut of_variance) = ([0.0; 3], [0.0; 3]);
                found.gradient(0.7, w.clone(), &mut of_combined);
                let weights = found.whitened().iter().map(|v| -2.0 * v).collect();
                found.gradient(0.0, weights, &mut of_variance);
                for j in 0..3 {
                    let moved = |step: f64| {
                        let mut near = x.to_vec();
                        near[j] += step;
                        near
                    };
                    let (up, down) = (moved(1e-5), moved(-1e-5));
                    let slope = (combined(&up) - combined(&down)) / 2e-5;
                    assert!((of_combined[j] - slope).abs() < 1e-4 * slope.abs().max(1.0));
                    let slope = (variance(&up) - variance(&down)) / 2e-5;
                    assert!((of_variance[j] - slope).abs() < 1e-6, "{of_variance:?} {slope}");
                }
            }
        }
    }

    /// A block of observations gives the same factor as single appends, bit for bit. This holds
    /// even for an observation that cannot be appended at the current jitter (a repeated point
    /// without noise).
    #[test]
    fn blocks_are_appended_as_single_observations_are() {
        for (noise_variance, repeated) in [(1e-6, false), (0.0, true)] {
            let kernel = Kernel::isotropic(Family::Matern52, 2, 0.4, 1.0).unwrap();
            let mut inputs = uniform_points(10, 2, &mut test_stream(1));
            if repeated {
                let again = inputs.row(4).to_vec();
                inputs.push(&again);
            }
            for x in uniform_points(9, 2, &mut test_stream(2)).rows() {
                inputs.push(x);
            }
            let y: Vec<f64> = inputs.rows().map(|x| x[0]).collect();
            let empty = Posterior::new(kernel, noise_variance, Points::new(2), Vec::new()).unwrap();
            let mut single = empty.clone();
            for (x, y) in inputs.rows().zip(&y) {
                single.append(x, *y).unwrap();
            }
            let block = empty.extended(&inputs, &y).unwrap();
            assert_eq!(block.factor().lower(), single.factor().lower());
            assert_eq!(block.alpha(), single.alpha());
            assert_eq!(block.factor().jitter() > 0.0, repeated);
        }
    }
}
