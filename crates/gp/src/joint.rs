//! Exact function samples on a finite domain.

use std::collections::HashMap;

use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::linalg::SpdFactor;
use crate::{Columns, GpError, Kernel, Posterior, lanes};

/// Draws the latent function jointly at all N points of a finite domain that contains the observed inputs.
///
/// f = β f₀ + k(D, X) v,   v = α + β (K + σ²I)⁻¹(−f₀(X) − σ ε),   f₀ = L z ~ N(0, k(D, D))
///
/// The law is N(mean, β² cov) as with [`Posterior::sample_dense`]; the prior's factor L is kept, so a draw costs
/// O(N² + N n) instead of O(N³) as long as the kernel stays the same.
#[derive(Clone, Debug)]
pub struct JointSampler {
    kernel: Kernel,
    domain: Points,
    prior_factor: SpdFactor,
    index_of: HashMap<Vec<u64>, usize>,
}

impl JointSampler {
    /// Factors the prior covariance of the domain. Cost O(N³).
    ///
    /// # Errors
    /// If the prior covariance has no Cholesky factor.
    pub fn new(kernel: Kernel, domain: Points) -> Result<Self, GpError> {
        let prior_factor = SpdFactor::new(&kernel.gram(&domain))?;
        let index_of = domain
            .rows()
            .enumerate()
            .map(|(index, x)| (bits(x), index))
            .collect();
        Ok(Self {
            kernel,
            domain,
            prior_factor,
            index_of,
        })
    }

    /// The kernel whose prior is factored.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The finite domain D.
    pub fn domain(&self) -> &Points {
        &self.domain
    }

    /// Index of a point in the domain, if it is exactly one of its points.
    pub fn index_of(&self, x: &[f64]) -> Option<usize> {
        self.index_of.get(&bits(x)).copied()
    }

    /// Draws the function at every point of the domain, in its order.
    ///
    /// # Errors
    /// If an observed input is not in the domain.
    ///
    /// # Panics
    /// If the posterior has another kernel.
    pub fn sample(
        &self,
        posterior: &Posterior,
        beta: f64,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, GpError> {
        assert_eq!(
            posterior.kernel(),
            &self.kernel,
            "the sampler's prior has another kernel"
        );
        let prior = self
            .prior_factor
            .multiply_lower(&stream.normals(self.domain.len()));
        let mut at_inputs = Vec::with_capacity(posterior.len());
        for (index, x) in posterior.inputs().rows().enumerate() {
            let at = self.index_of(x).ok_or(GpError::OffDomain { index })?;
            at_inputs.push(prior[at]);
        }
        let coefficients = posterior.path_coefficients(at_inputs, beta, stream);
        let columns = posterior.columns();
        lanes::vectorized! {
            /// f₀ ← β f₀ + k(D, X) v.
            fn work(sampler: &JointSampler, columns: &Columns, beta: f64, v: &[f64], f: &mut [f64]) {
                let mut cross = vec![0.0; columns.padded_len()];
                for (x, f) in sampler.domain.rows().zip(f) {
                    sampler.kernel.row_into(x, columns, &mut cross);
                    *f = beta * *f + lanes::dot(&cross, v);
                }
            }
        }
        let mut values = prior;
        work(self, columns, beta, &coefficients[..], &mut values);
        Ok(values)
    }
}

/// Coordinates as bit patterns, −0 and 0 alike, so that exact equality can be hashed.
fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|v| (v + 0.0).to_bits()).collect()
}
