//! Stationary covariance functions with one length scale per input dimension.

use fedbo_optim::Points;
use serde::{Deserialize, Serialize};

use crate::linalg::{PackedLower, Square};
use crate::{GpError, lanes, positive};

/// The shape of a covariance function: a function ρ of the scaled distance r.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// ρ(r) = exp(−r²/2).
    SquaredExponential,
    /// ρ(r) = (1 + √3 r) exp(−√3 r).
    Matern32,
    /// ρ(r) = (1 + √5 r + 5r²/3) exp(−√5 r).
    Matern52,
}

/// Stationary covariance with automatic relevance determination (Rasmussen & Williams 2006,
/// sections 4.2 and 5.1).
///
/// k(x, x') = a² ρ(r),   r² = Σ_j (x_j − x'_j)² / ℓ_j²
///
/// a² (`outputscale`) and every ℓ_j (`lengthscales`) are finite and > 0, which [`Kernel::new`]
/// checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    family: Family,
    lengthscales: Vec<f64>,
    outputscale: f64,
}

impl Kernel {
    /// Creates a kernel from its family, length scales ℓ (length d) and signal variance a².
    ///
    /// # Errors
    /// If a length scale or the signal variance is not finite and positive.
    ///
    /// # Panics
    /// If there are no length scales.
    pub fn new(family: Family, lengthscales: Vec<f64>, outputscale: f64) -> Result<Self, GpError> {
        assert!(!lengthscales.is_empty(), "a kernel needs at least one input dimension");
        for value in &lengthscales {
            positive("lengthscale", *value)?;
        }
        positive("outputscale", outputscale)?;
        Ok(Self { family, lengthscales, outputscale })
    }

    /// Creates a kernel with the same length scale in all `dim` dimensions.
    ///
    /// # Errors
    /// Same as [`Kernel::new`].
    pub fn isotropic(
        family: Family,
        dim: usize,
        lengthscale: f64,
        outputscale: f64,
    ) -> Result<Self, GpError> {
        Self::new(family, vec![lengthscale; dim], outputscale)
    }

    /// Returns the kernel family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the length scales ℓ.
    pub fn lengthscales(&self) -> &[f64] {
        &self.lengthscales
    }

    /// Returns the signal variance a² = k(x, x).
    pub fn outputscale(&self) -> f64 {
        self.outputscale
    }

    /// Returns the input dimension d.
    pub fn dim(&self) -> usize {
        self.lengthscales.len()
    }

    /// Returns k(x, z) for a pair of points.
    pub fn value(&self, x: &[f64], z: &[f64]) -> f64 {
        let r2 =
            x.iter().zip(z).zip(&self.lengthscales).map(|((x, z), l)| ((x - z) / l).powi(2)).sum();
        self.outputscale * profile(self.family, r2).0
    }

    /// Returns the covariances of a point with every column point. The result has length
    /// `columns.padded_len()`; padding entries are 0.
    pub fn row(&self, x: &[f64], columns: &Columns) -> Vec<f64> {
        let mut out = vec![0.0; columns.padded_len()];
        self.row_to(x, columns, &mut out);
        out
    }

    fn row_to(&self, x: &[f64], columns: &Columns, out: &mut [f64]) {
        lanes::vectorized! {
            fn work(kernel: &Kernel, x: &[f64], columns: &Columns, out: &mut [f64]) {
                kernel.row_into(x, columns, out);
            }
        }
        work(self, x, columns, out);
    }

    /// The body of [`Kernel::row`], for inlining into a vectorised caller.
    #[inline(always)]
    pub(crate) fn row_into(&self, x: &[f64], columns: &Columns, out: &mut [f64]) {
        let (present, padding) = out.split_at_mut(columns.len());
        self.values_into(x, columns, 0, present);
        padding.fill(0.0);
    }

    /// Writes the covariances with the column points `first`, `first` + 1, … into `values`.
    #[inline(always)]
    fn values_into(&self, x: &[f64], columns: &Columns, first: usize, values: &mut [f64]) {
        self.squared_distances(x, columns, first, values);
        let a = self.outputscale;
        match self.family {
            Family::SquaredExponential => {
                for v in values {
                    *v = a * squared_exponential(*v).0;
                }
            }
            Family::Matern32 => {
                for v in values {
                    *v = a * matern32(*v).0;
                }
            }
            Family::Matern52 => {
                for v in values {
                    *v = a * matern52(*v).0;
                }
            }
        }
    }

    /// Writes the covariances with the column points `first`, `first` + 1, … into `values`, and
    /// a²·g(r) (see [`profile`]), which gradients need, into `slopes`.
    #[inline(always)]
    pub(crate) fn slopes_into(
        &self,
        x: &[f64],
        columns: &Columns,
        first: usize,
        values: &mut [f64],
        slopes: &mut [f64],
    ) {
        self.squared_distances(x, columns, first, values);
        let a = self.outputscale;
        let pairs = values.iter_mut().zip(slopes.iter_mut());
        match self.family {
            Family::SquaredExponential => {
                for (v, s) in pairs {
                    (*v, *s) = scaled(a, squared_exponential(*v));
                }
            }
            Family::Matern32 => {
                for (v, s) in pairs {
                    (*v, *s) = scaled(a, matern32(*v));
                }
            }
            Family::Matern52 => {
                for (v, s) in pairs {
                    (*v, *s) = scaled(a, matern52(*v));
                }
            }
        }
    }

    /// Computes r² = Σ_j (x_j − X_j)²/ℓ_j² from a point to the column points `first`, `first` + 1,
    /// …, by subtraction.
    #[inline(always)]
    fn squared_distances(&self, x: &[f64], columns: &Columns, first: usize, out: &mut [f64]) {
        let range = first..first + out.len();
        out.fill(0.0);
        for (j, l) in self.lengthscales.iter().enumerate() {
            let (xj, inverse) = (x[j], 1.0 / l);
            for (r2, z) in out.iter_mut().zip(&columns.coordinate(j)[range.clone()]) {
                let difference = (xj - z) * inverse;
                *r2 += difference * difference;
            }
        }
    }

    /// Returns the lower triangle of k(X, X) for n points. Cost: O(n² d).
    pub fn gram(&self, points: &Points) -> PackedLower {
        lanes::vectorized! {
            fn work(kernel: &Kernel, points: &Points, columns: &Columns, gram: &mut PackedLower) {
                for i in 0..points.len() {
                    kernel.values_into(points.row(i), columns, 0, gram.row_mut(i));
                }
            }
        }
        let mut gram = PackedLower::zeros(points.len());
        work(self, points, &Columns::new(points), &mut gram);
        gram
    }

    /// Writes k(X, X) + σ² I for n points into the lower triangle `gram`, by columns. Cost: O(n²
    /// d).
    pub(crate) fn noisy_gram_into(
        &self,
        noise_variance: f64,
        points: &Points,
        columns: &Columns,
        gram: &mut Square,
    ) {
        lanes::vectorized! {
            fn work(kernel: &Kernel, x: &[f64], columns: &Columns, i: usize, values: &mut [f64]) {
                kernel.values_into(x, columns, i, values);
            }
        }
        gram.for_each_column(|i, column| {
            work(self, points.row(i), columns, i, column);
            column[0] += noise_variance;
        });
    }
}

#[inline(always)]
fn scaled(a: f64, pair: (f64, f64)) -> (f64, f64) {
    (a * pair.0, a * pair.1)
}

/// Returns ρ(r) and g(r) = −ρ'(r)/r, computed from r², so that ∂k/∂x_j = −a² g (x_j − z_j)/ℓ_j² and
/// ∂k/∂ln ℓ_j = a² g (x_j − z_j)²/ℓ_j².
#[inline(always)]
pub(crate) fn profile(family: Family, r2: f64) -> (f64, f64) {
    match family {
        Family::SquaredExponential => squared_exponential(r2),
        Family::Matern32 => matern32(r2),
        Family::Matern52 => matern52(r2),
    }
}

#[inline(always)]
fn squared_exponential(r2: f64) -> (f64, f64) {
    let e = lanes::exp_negative(-0.5 * r2);
    (e, e)
}

#[inline(always)]
fn matern32(r2: f64) -> (f64, f64) {
    let s = (3.0 * r2).sqrt();
    let e = lanes::exp_negative(-s);
    ((1.0 + bounded(s)) * e, 3.0 * e)
}

#[inline(always)]
fn matern52(r2: f64) -> (f64, f64) {
    let s = (5.0 * r2).sqrt();
    let e = lanes::exp_negative(-s);
    let s = bounded(s);
    ((1.0 + s + s * s / 3.0) * e, (5.0 / 3.0) * (1.0 + s) * e)
}

/// Caps s, so that points that are infinitely far apart in units of a tiny length scale have
/// covariance 0 instead of inf·0.
#[inline(always)]
fn bounded(s: f64) -> f64 {
    if s > 1e100 { 1e100 } else { s }
}

/// Points stored by coordinate, the layout that kernels read. Each coordinate is padded to whole
/// vector lanes.
#[derive(Clone, Debug)]
pub struct Columns {
    dim: usize,
    n: usize,
    stride: usize,
    data: Vec<f64>,
}

impl Columns {
    /// Transposes a block of points.
    pub fn new(points: &Points) -> Self {
        let (dim, n) = (points.dim(), points.len());
        let stride = lanes::padded(n);
        let mut data = vec![0.0; dim * stride];
        for (i, row) in points.rows().enumerate() {
            for (j, value) in row.iter().enumerate() {
                data[j * stride + i] = *value;
            }
        }
        Self { dim, n, stride, data }
    }

    /// Returns the points, n×d.
    pub(crate) fn points(&self) -> Points {
        let row = |i: usize| (0..self.dim).map(move |j| self.data[j * self.stride + i]);
        Points::from_flat(self.dim, (0..self.n).flat_map(row).collect())
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns true if there are no points.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the number of points rounded up to whole vector lanes.
    pub fn padded_len(&self) -> usize {
        self.stride
    }

    /// Returns coordinate j of all points, including padding.
    #[inline(always)]
    pub(crate) fn coordinate(&self, j: usize) -> &[f64] {
        debug_assert!(j < self.dim);
        &self.data[j * self.stride..(j + 1) * self.stride]
    }
}
