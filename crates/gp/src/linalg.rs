//! Symmetric positive-definite matrices and their Cholesky factors: the one place that names the backend (faer).
//!
//! Factors are kept as packed rows, so that a solve runs over contiguous memory and appending an observation costs O(n²).

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::{Accum, Mat, MatRef, Par};

use crate::lanes;

/// Jitters that are tried in turn, as multiples of the mean diagonal (INV-22).
const JITTER_LADDER: [f64; 9] = [0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6];

/// A matrix has no Cholesky factor even with the largest jitter, or is not finite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "a {size}×{size} covariance matrix is not positive definite, even with jitter of 1e-6 times its mean diagonal {mean_diagonal}"
)]
pub struct NotPositiveDefinite {
    /// Number of rows.
    pub size: usize,
    /// Mean of the diagonal.
    pub mean_diagonal: f64,
}

/// Lower triangle of a symmetric matrix, or a lower-triangular matrix: packed rows, row i has i+1 numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedLower {
    n: usize,
    data: Vec<f64>,
}

impl PackedLower {
    /// An n×n triangle of zeros.
    pub fn zeros(n: usize) -> Self {
        Self {
            n,
            data: vec![0.0; n * (n + 1) / 2],
        }
    }

    /// Number of rows.
    pub fn size(&self) -> usize {
        self.n
    }

    /// Row i: entries (i, 0) to (i, i).
    #[inline(always)]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * (i + 1) / 2..(i + 1) * (i + 2) / 2]
    }

    /// Row i, to be written.
    #[inline(always)]
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * (i + 1) / 2..(i + 1) * (i + 2) / 2]
    }

    fn push_row(&mut self, row: &[f64]) {
        self.data.extend_from_slice(row);
        self.n += 1;
    }

    fn mean_diagonal(&self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "matrix sizes are far below 2^53"
        )]
        let n = self.n.max(1) as f64;
        (0..self.n).map(|i| self.row(i)[i] / n).sum()
    }
}

/// Cholesky factor L of an n×n symmetric positive-definite matrix A + jitter·I = L Lᵀ.
#[derive(Clone, Debug)]
pub struct SpdFactor {
    lower: PackedLower,
    jitter: f64,
}

impl SpdFactor {
    /// Factors A, given by its lower triangle, with the smallest jitter of the ladder that succeeds:
    /// 0, 1e-13, 1e-12, …, 1e-6 times the mean diagonal. Cost O(n³).
    ///
    /// # Errors
    /// If A is not finite, or not positive definite with the largest jitter.
    pub fn new(matrix: &PackedLower) -> Result<Self, NotPositiveDefinite> {
        let n = matrix.size();
        let mean_diagonal = matrix.mean_diagonal();
        let failure = NotPositiveDefinite {
            size: n,
            mean_diagonal,
        };
        if !matrix.data.iter().all(|v| v.is_finite()) {
            return Err(failure);
        }
        let mut workspace = MemBuffer::new(llt::factor::cholesky_in_place_scratch::<f64>(
            n,
            Par::Seq,
            Default::default(),
        ));
        let mut full = Mat::<f64>::zeros(n, n);
        for relative in JITTER_LADDER {
            let jitter = relative * mean_diagonal;
            for i in 0..n {
                for (j, value) in matrix.row(i).iter().enumerate() {
                    full[(i, j)] = *value;
                }
                full[(i, i)] += jitter;
            }
            let stack = MemStack::new(&mut workspace);
            let done = llt::factor::cholesky_in_place(
                full.as_mut(),
                Default::default(),
                Par::Seq,
                stack,
                Default::default(),
            );
            if done.is_ok() {
                let mut lower = PackedLower::zeros(n);
                for i in 0..n {
                    for (j, value) in lower.row_mut(i).iter_mut().enumerate() {
                        *value = full[(i, j)];
                    }
                }
                if lower.data.iter().all(|v| v.is_finite()) {
                    return Ok(Self { lower, jitter });
                }
            }
        }
        Err(failure)
    }

    /// Number of rows n.
    pub fn size(&self) -> usize {
        self.lower.size()
    }

    /// What was added to the diagonal, in absolute terms; 0 for a well-conditioned matrix.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    /// The factor L.
    pub fn lower(&self) -> &PackedLower {
        &self.lower
    }

    /// Extends A by one row and column: `row` holds A's new entries (n, 0) to (n, n). Cost O(n²).
    ///
    /// # Errors
    /// If the extended matrix is not positive definite at the jitter in use; the factor is then unchanged and the
    /// caller factors the whole matrix anew.
    ///
    /// # Panics
    /// If `row` has not n+1 entries.
    pub fn append(&mut self, row: &[f64]) -> Result<(), NotPositiveDefinite> {
        let n = self.size();
        assert_eq!(
            row.len(),
            n + 1,
            "a row of {} entries for a factor of size {n}",
            row.len()
        );
        let mut new = row.to_vec();
        self.solve_lower(&mut new[..n]);
        let pivot = new[n] + self.jitter - lanes::wide_dot(&new[..n], &new[..n]);
        // A pivot at rounding level relative to the diagonal is noise: refactor with a jitter instead.
        if !(pivot.is_finite() && pivot > 1e-14 * row[n].abs()) {
            return Err(NotPositiveDefinite {
                size: n + 1,
                mean_diagonal: row[n],
            });
        }
        new[n] = pivot.sqrt();
        self.lower.push_row(&new);
        Ok(())
    }

    /// b ← L⁻¹ b. Cost O(n²).
    ///
    /// # Panics
    /// If `b` has not n entries.
    pub fn solve_lower(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.size());
        lanes::vectorized! {
            fn work(lower: &PackedLower, b: &mut [f64]) {
                for i in 0..b.len() {
                    let row = lower.row(i);
                    let known = lanes::dot(&row[..i], &b[..i]);
                    b[i] = (b[i] - known) / row[i];
                }
            }
        }
        work(&self.lower, b);
    }

    /// b ← L⁻ᵀ b. Cost O(n²).
    ///
    /// # Panics
    /// If `b` has not n entries.
    pub fn solve_upper(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.size());
        lanes::vectorized! {
            fn work(lower: &PackedLower, b: &mut [f64]) {
                for i in (0..b.len()).rev() {
                    let row = lower.row(i);
                    b[i] /= row[i];
                    let (rest, solved) = b.split_at_mut(i);
                    lanes::add_scaled(rest, -solved[0], &row[..i]);
                }
            }
        }
        work(&self.lower, b);
    }

    /// b ← (L Lᵀ)⁻¹ b. Cost O(n²).
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    /// L b. Cost O(n²).
    pub fn multiply_lower(&self, b: &[f64]) -> Vec<f64> {
        assert_eq!(b.len(), self.size());
        lanes::vectorized! {
            fn work(lower: &PackedLower, b: &[f64]) -> Vec<f64> {
                (0..b.len()).map(|i| lanes::dot(lower.row(i), &b[..=i])).collect()
            }
        }
        work(&self.lower, b)
    }

    /// ln det(L Lᵀ) = 2 Σ_i ln L_ii.
    pub fn log_determinant(&self) -> f64 {
        (0..self.size())
            .map(|i| 2.0 * self.lower.row(i)[i].ln())
            .sum()
    }

    /// Lower triangle of (L Lᵀ)⁻¹, for gradients of the evidence; never used to draw. Cost O(n³).
    pub fn inverse(&self) -> PackedLower {
        let n = self.size();
        let full = self.full();
        let mut inverse = Mat::<f64>::zeros(n, n);
        let mut workspace = MemBuffer::new(llt::inverse::inverse_scratch::<f64>(n, Par::Seq));
        llt::inverse::inverse(
            inverse.as_mut(),
            full.as_ref(),
            Par::Seq,
            MemStack::new(&mut workspace),
        );
        let mut packed = PackedLower::zeros(n);
        for i in 0..n {
            for (j, value) in packed.row_mut(i).iter_mut().enumerate() {
                *value = inverse[(i, j)];
            }
        }
        packed
    }

    /// L⁻¹ B for an n×m matrix given as m columns of length n, in place. Cost O(n² m).
    pub(crate) fn solve_lower_columns(&self, columns: &mut [Vec<f64>]) {
        let mut rhs = Mat::from_fn(self.size(), columns.len(), |i, j| columns[j][i]);
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(
            self.full().as_ref(),
            rhs.as_mut(),
            Par::Seq,
        );
        for (j, column) in columns.iter_mut().enumerate() {
            for (i, value) in column.iter_mut().enumerate() {
                *value = rhs[(i, j)];
            }
        }
    }

    fn full(&self) -> Mat<f64> {
        Mat::from_fn(self.size(), self.size(), |i, j| {
            if j <= i { self.lower.row(i)[j] } else { 0.0 }
        })
    }
}

/// Lower triangle of BᵀB for the t×m matrix B given by `rows` (t rows of stride `stride`, first m used). Cost O(t m²).
pub(crate) fn gram_of_columns(rows: &[f64], stride: usize, m: usize) -> PackedLower {
    if m == 0 || rows.is_empty() {
        return PackedLower::zeros(m);
    }
    let b = MatRef::from_row_major_slice_with_stride(rows, rows.len() / stride, m, stride);
    pack_product(b.transpose(), b)
}

/// Lower triangle of BBᵀ for the matrix B of [`gram_of_columns`]. Cost O(t² m).
pub(crate) fn gram_of_rows(rows: &[f64], stride: usize, m: usize) -> PackedLower {
    if rows.is_empty() {
        return PackedLower::zeros(0);
    }
    let b = MatRef::from_row_major_slice_with_stride(rows, rows.len() / stride, m, stride);
    pack_product(b, b.transpose())
}

fn pack_product(left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> PackedLower {
    let n = left.nrows();
    let mut product = Mat::<f64>::zeros(n, n);
    faer::linalg::matmul::matmul(product.as_mut(), Accum::Replace, left, right, 1.0, Par::Seq);
    let mut packed = PackedLower::zeros(n);
    for i in 0..n {
        for (j, value) in packed.row_mut(i).iter_mut().enumerate() {
            *value = product[(i, j)];
        }
    }
    packed
}
