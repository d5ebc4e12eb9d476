//! Exact function samples on a finite domain.

use std::collections::HashMap;

use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::linalg::SpdFactor;
use crate::{Columns, GpError, Kernel, Posterior, lanes};

/// Draws the latent function jointly at all N points of a finite domain that contains the observed
/// inputs.
///
/// f = β f₀ + k(D, X) v,   v = α + β (K + σ²I)⁻¹(−f₀(X) − σ ε),   f₀ = L z ~ N(0, k(D, D))
///
/// The distribution is N(mean, β² cov), as for [`Posterior::sample_dense`]. The factor L of the
/// prior is cached. As long as the kernel stays the same, a draw therefore costs O(N² + N n)
/// instead of O(N³), or O(N r + N n) with a factor of rank r.
#[derive(Clone, Debug)]
pub struct JointSampler {
    kernel: Kernel,
    domain: Points,
    prior_factor: PriorFactor,
    index_of: HashMap<Vec<u64>, usize>,
}

/// L with L Lᵀ = k(D, D).
#[derive(Clone, Debug)]
enum PriorFactor {
    Square(SpdFactor),
    LowRank(LowRank),
}

impl JointSampler {
    /// Largest prior variance that a low-rank factor omits at a point, as a fraction of the signal
    /// variance.
    const MISSING: f64 = 1e-12;

    /// Factors the prior covariance of the domain. Cost: O(N³).
    ///
    /// # Errors
    /// If the prior covariance has no Cholesky factor.
    pub fn new(kernel: Kernel, domain: Points) -> Result<Self, GpError> {
        let prior_factor = PriorFactor::Square(SpdFactor::new(&kernel.gram(&domain))?);
        Ok(Self::with_factor(kernel, domain, prior_factor))
    }

    /// Factors the prior covariance by a Cholesky factorization that pivots on the largest
    /// remaining variance. The factorization stops when this variance is 1e-12 of the signal
    /// variance. The remainder is positive semidefinite, so every entry of L Lᵀ differs from the
    /// kernel by at most this amount. For a smooth kernel on a dense domain, the rank r is far
    /// below N. Cost: O(N r²) time and N r numbers of memory.
    pub fn low_rank(kernel: Kernel, domain: Points) -> Self {
        let prior_factor = pivoted_factor(&kernel, &domain, Self::MISSING);
        Self::with_factor(kernel, domain, prior_factor)
    }

    /// Returns a sampler on the same domain for a different kernel, factored in the same way.
    ///
    /// # Errors
    /// Same as [`JointSampler::new`].
    pub fn with_kernel(&self, kernel: Kernel) -> Result<Self, GpError> {
        match &self.prior_factor {
            PriorFactor::Square(_) => Self::new(kernel, self.domain.clone()),
            PriorFactor::LowRank(_) => Ok(Self::low_rank(kernel, self.domain.clone())),
        }
    }

    fn with_factor(kernel: Kernel, domain: Points, prior_factor: PriorFactor) -> Self {
        let index_of = domain.rows().enumerate().map(|(index, x)| (bits(x), index)).collect();
        Self { kernel, domain, prior_factor, index_of }
    }

    /// Returns the kernel of the factored prior.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the finite domain D.
    pub fn domain(&self) -> &Points {
        &self.domain
    }

    /// Returns the index of a point in the domain, or `None` if no point of the domain is exactly
    /// equal.
    pub fn index_of(&self, x: &[f64]) -> Option<usize> {
        self.index_of.get(&bits(x)).copied()
    }

    /// Draws the function at every point of the domain, in order.
    ///
    /// # Errors
    /// If an observed input is not in the domain.
    ///
    /// # Panics
    /// If the posterior's kernel differs from the kernel of this sampler.
    pub fn sample(
        &self,
        posterior: &Posterior,
        beta: f64,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, GpError> {
        assert_eq!(posterior.kernel(), &self.kernel, "the sampler's prior has another kernel");
        let mut at = Vec::with_capacity(posterior.len());
        for (index, x) in posterior.inputs().rows().enumerate() {
            at.push(self.index_of(x).ok_or(GpError::OffDomain { index })?);
        }
        Ok(match &self.prior_factor {
            PriorFactor::Square(factor) => self.square_sample(factor, posterior, &at, beta, stream),
            PriorFactor::LowRank(factor) => factor.sample(posterior, &at, beta, stream),
        })
    }

    fn square_sample(
        &self,
        factor: &SpdFactor,
        posterior: &Posterior,
        at: &[usize],
        beta: f64,
        stream: &mut Stream,
    ) -> Vec<f64> {
        let prior = factor.multiply_lower(&stream.normals(self.domain.len()));
        let at_inputs = at.iter().map(|index| prior[*index]).collect();
        let coefficients = posterior.path_coefficients(at_inputs, beta, stream);
        let columns = posterior.columns();
        lanes::vectorized! {
            /// Computes f₀ ← β f₀ + k(D, X) v.
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
        values
    }
}

/// L of rank r: N rows of r numbers, padded to whole lanes.
#[derive(Clone, Debug)]
struct LowRank {
    rank: usize,
    stride: usize,
    rows: Vec<f64>,
}

impl LowRank {
    fn row(&self, index: usize) -> &[f64] {
        &self.rows[index * self.stride..(index + 1) * self.stride]
    }

    /// Returns f = L (β z + L_Xᵀ v). Because k(D, X) = L L_Xᵀ, a single product with L gives both
    /// the prior draw and the correction. Cost: O(N r + n r).
    fn sample(
        &self,
        posterior: &Posterior,
        at: &[usize],
        beta: f64,
        stream: &mut Stream,
    ) -> Vec<f64> {
        lanes::vectorized! {
            fn work(rows: &[f64], z: &[f64], f: &mut [f64]) {
                for (row, f) in rows.chunks_exact(z.len()).zip(f) {
                    *f = lanes::dot(row, z);
                }
            }
        }
        let mut z = stream.normals(self.rank);
        z.resize(self.stride, 0.0);
        let prior_at = |index: &usize| lanes::wide_dot(self.row(*index), &z);
        let at_inputs = at.iter().map(prior_at).collect();
        let coefficients = posterior.path_coefficients(at_inputs, beta, stream);
        z.iter_mut().for_each(|z| *z *= beta);
        for (index, v) in at.iter().zip(&coefficients) {
            z.iter_mut().zip(self.row(*index)).for_each(|(z, l)| *z += v * l);
        }
        let mut values = vec![0.0; self.rows.len() / self.stride];
        work(&self.rows, &z[..], &mut values);
        values
    }
}

/// Returns L by rows. L Lᵀ omits at most the fraction `missing` of the signal variance at each
/// point.
fn pivoted_factor(kernel: &Kernel, domain: &Points, missing: f64) -> PriorFactor {
    let (n, all) = (domain.len(), Columns::new(domain));
    let mut left = vec![kernel.outputscale(); n];
    let mut columns: Vec<Vec<f64>> = Vec::new();
    while columns.len() < n {
        let pivot = (0..n).fold(0, |best, i| if left[i] > left[best] { i } else { best });
        if left[pivot] <= missing * kernel.outputscale() {
            break;
        }
        let mut column = kernel.row(domain.row(pivot), &all);
        column.truncate(n);
        for earlier in &columns {
            let at_pivot = earlier[pivot];
            for (entry, other) in column.iter_mut().zip(earlier) {
                *entry -= at_pivot * other;
            }
        }
        let root = left[pivot].sqrt();
        for (entry, left) in column.iter_mut().zip(&mut left) {
            *entry /= root;
            *left = (*left - *entry * *entry).max(0.0);
        }
        left[pivot] = 0.0;
        columns.push(column);
    }
    let rank = columns.len().max(1);
    let stride = lanes::padded(rank);
    let mut rows = vec![0.0; n * stride];
    for (j, column) in columns.iter().enumerate() {
        for (row, entry) in rows.chunks_exact_mut(stride).zip(column) {
            row[j] = *entry;
        }
    }
    PriorFactor::LowRank(LowRank { rank, stride, rows })
}

/// Returns the coordinates as bit patterns, with −0 equal to 0, so that exact equality can be
/// hashed.
fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|v| (v + 0.0).to_bits()).collect()
}
