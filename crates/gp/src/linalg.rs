//! Symmetric positive-definite matrices and their Cholesky factors. Only this module uses the
//! backend (faer).
//!
//! Factors are stored as packed rows, so that a solve runs over contiguous memory and appending an
//! observation costs O(n²).

mod square;

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use crate::lanes;

pub(crate) use square::{Square, width_of_piece};

/// The error for a matrix that is not finite, or has no Cholesky factor even with the largest
/// jitter.
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

/// Lower triangle of a symmetric matrix, or a lower-triangular matrix, as packed rows. Row i has
/// i+1 numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedLower {
    n: usize,
    data: Vec<f64>,
}

impl PackedLower {
    /// Creates an n×n triangle of zeros.
    pub fn zeros(n: usize) -> Self {
        Self { n, data: vec![0.0; n * (n + 1) / 2] }
    }

    /// Returns the number of rows.
    pub fn size(&self) -> usize {
        self.n
    }

    /// Returns row i, with entries (i, 0) to (i, i).
    #[inline(always)]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * (i + 1) / 2..(i + 1) * (i + 2) / 2]
    }

    /// Returns row i, mutable.
    #[inline(always)]
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * (i + 1) / 2..(i + 1) * (i + 2) / 2]
    }

    /// Returns A b, where A is this lower-triangular matrix. Cost: O(n²).
    ///
    /// # Panics
    /// If `b` does not have n entries.
    pub(crate) fn multiply(&self, b: &[f64]) -> Vec<f64> {
        assert_eq!(b.len(), self.n);
        lanes::vectorized! {
            fn work(lower: &PackedLower, b: &[f64]) -> Vec<f64> {
                let mut product = vec![0.0; b.len()];
                for (i, value) in product.iter_mut().enumerate() {
                    *value = lanes::dot(lower.row(i), &b[..=i]);
                }
                product
            }
        }
        work(self, b)
    }

    /// Computes b ← Aᵀ b, where A is this lower-triangular matrix. Cost: O(n²).
    ///
    /// # Panics
    /// If `b` does not have n entries.
    pub(crate) fn transpose_multiply(&self, b: &mut [f64]) {
        assert_eq!(b.len(), self.n);
        lanes::vectorized! {
            fn work(lower: &PackedLower, b: &mut [f64]) {
                for i in 0..b.len() {
                    let factor = b[i];
                    let row = lower.row(i);
                    lanes::add_scaled(&mut b[..i], factor, &row[..i]);
                    b[i] = factor * row[i];
                }
            }
        }
        work(self, b);
    }

    fn push_row(&mut self, row: &[f64]) {
        self.data.extend_from_slice(row);
        self.n += 1;
    }
}

/// The Cholesky factor L of an n×n symmetric positive-definite matrix A + jitter·I = L Lᵀ.
#[derive(Clone, Debug)]
pub struct SpdFactor {
    lower: PackedLower,
    jitter: f64,
}

impl SpdFactor {
    /// Factors A, given by its lower triangle, with the smallest jitter among 0, 1e-13, 1e-12, …,
    /// 1e-6 times the mean diagonal that succeeds. Cost: O(n³).
    ///
    /// # Errors
    /// If A is not finite, or not positive definite with the largest jitter.
    pub fn new(matrix: &PackedLower) -> Result<Self, NotPositiveDefinite> {
        Self::filled(matrix.size(), |square| square.unpack(matrix))
    }

    /// Like [`SpdFactor::new`], for the n×n matrix that `fill` writes. `fill` is called before
    /// every attempt.
    pub(crate) fn filled(
        n: usize,
        fill: impl FnMut(&mut Square),
    ) -> Result<Self, NotPositiveDefinite> {
        let mut square = Square::new(n);
        let jitter = square.factor(fill)?;
        Ok(Self { lower: square.pack(), jitter })
    }

    /// Returns the number of rows n.
    pub fn size(&self) -> usize {
        self.lower.size()
    }

    /// Returns the absolute jitter added to the diagonal, which is 0 for a well-conditioned matrix.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    /// Returns the factor L.
    pub fn lower(&self) -> &PackedLower {
        &self.lower
    }

    /// Extends A by one row and column. `row` contains the new entries (n, 0) to (n, n). Cost:
    /// O(n²).
    ///
    /// # Errors
    /// If the extended matrix is not positive definite at the current jitter. The factor is then
    /// unchanged, and the caller should refactor the whole matrix.
    ///
    /// # Panics
    /// If `row` does not have n+1 entries.
    pub fn append(&mut self, row: &[f64]) -> Result<(), NotPositiveDefinite> {
        let n = self.size();
        assert_eq!(row.len(), n + 1, "a row of {} entries for a factor of size {n}", row.len());
        let mut new = row.to_vec();
        self.solve_lower(&mut new[..n]);
        match self.pivot(&new[..n], row[n]) {
            Some(pivot) => new[n] = pivot,
            None => {
                return Err(NotPositiveDefinite { size: n + 1, mean_diagonal: row[n] });
            }
        }
        self.lower.push_row(&new);
        Ok(())
    }

    /// Extends A by several rows. Gives the same bits as repeated [`SpdFactor::append`], but reads
    /// the factor once. `rows[k]` contains the entries (n + k, 0) to (n + k, n + k). Stops before
    /// the first row that would make the matrix indefinite at the current jitter, and returns the
    /// number of rows appended. Cost: O(n²) per row.
    ///
    /// # Panics
    /// If the length of `rows[k]` is not n + k + 1.
    pub(crate) fn append_rows(&mut self, mut rows: Vec<Vec<f64>>) -> usize {
        lanes::vectorized! {
            fn work(lower: &PackedLower, rows: &mut [Vec<f64>]) {
                for i in 0..lower.size() {
                    let row = lower.row(i);
                    for b in rows.iter_mut() {
                        let known = lanes::dot(&row[..i], &b[..i]);
                        b[i] = (b[i] - known) / row[i];
                    }
                }
            }
        }
        lanes::vectorized! {
            fn finish(lower: &PackedLower, n: usize, b: &mut [f64]) {
                for i in n..lower.size() {
                    let row = lower.row(i);
                    let known = lanes::dot(&row[..i], &b[..i]);
                    b[i] = (b[i] - known) / row[i];
                }
            }
        }
        let n = self.size();
        work(&self.lower, &mut rows);
        for (k, mut row) in rows.into_iter().enumerate() {
            assert_eq!(row.len(), n + k + 1);
            let (known, diagonal) = row.split_at_mut(n + k);
            finish(&self.lower, n, known);
            match self.pivot(known, diagonal[0]) {
                Some(pivot) => diagonal[0] = pivot,
                None => return k,
            }
            self.lower.push_row(&row);
        }
        self.size() - n
    }

    /// Returns the diagonal entry of L for a new row. `solved` contains the other entries of the
    /// row, and `diagonal` is the diagonal entry of A.
    fn pivot(&self, solved: &[f64], diagonal: f64) -> Option<f64> {
        let pivot = diagonal + self.jitter - lanes::wide_dot(solved, solved);
        // A pivot as small as the rounding errors of the diagonal is noise. The caller must
        // refactor with a jitter.
        (pivot.is_finite() && pivot > 1e-14 * diagonal.abs()).then(|| pivot.sqrt())
    }

    /// Computes b ← L⁻¹ b. Cost: O(n²).
    ///
    /// # Panics
    /// If `b` does not have n entries.
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

    /// Computes b ← L⁻ᵀ b. Cost: O(n²).
    ///
    /// # Panics
    /// If `b` does not have n entries.
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

    /// Computes b ← (L Lᵀ)⁻¹ b. Cost: O(n²).
    pub fn solve(&self, b: &mut [f64]) {
        self.solve_lower(b);
        self.solve_upper(b);
    }

    /// Returns L b. Cost: O(n²).
    pub fn multiply_lower(&self, b: &[f64]) -> Vec<f64> {
        self.lower.multiply(b)
    }

    /// Returns ln det(L Lᵀ) = 2 Σ_i ln L_ii.
    pub fn log_determinant(&self) -> f64 {
        (0..self.size()).map(|i| 2.0 * self.lower.row(i)[i].ln()).sum()
    }

    /// Returns the lower triangle of (L Lᵀ)⁻¹. Never used for draws. Cost: O(n³).
    pub fn inverse(&self) -> PackedLower {
        let (mut square, mut room) = (Square::new(self.size()), Square::new(self.size()));
        square.unpack(&self.lower);
        square.invert_factor(&mut room);
        square.pack()
    }

    /// Returns L⁻¹, for many solves with one right-hand side each. Unlike a triangular solve, a
    /// product with L⁻¹ does not wait for earlier entries of the result. Cost: O(n³).
    pub(crate) fn inverse_factor(&self) -> PackedLower {
        let (factor, mut inverse) = (self.unpacked(), Square::new(self.size()));
        invert_lower_triangular(inverse.as_mut(), factor.as_ref(), Par::Seq);
        inverse.pack()
    }

    /// Returns L in the layout of the backend, for many calls to [`solve_lower_block`]. Cost:
    /// O(n²).
    pub(crate) fn unpacked(&self) -> Square {
        let mut square = Square::new(self.size());
        square.unpack(&self.lower);
        square
    }

    /// Computes L⁻¹ B in place, for an n×m matrix B given as m columns of length n. Cost: O(n² m).
    pub(crate) fn solve_lower_columns(&self, columns: &mut [Vec<f64>]) {
        let square = self.unpacked();
        let mut rhs = Mat::<f64>::zeros(self.size(), columns.len());
        for (j, column) in columns.iter().enumerate() {
            rhs.col_as_slice_mut(j).copy_from_slice(column);
        }
        solve_lower_triangular_in_place(square.as_ref(), rhs.as_mut(), Par::Seq);
        for (j, column) in columns.iter_mut().enumerate() {
            column.copy_from_slice(rhs.col_as_slice(j));
        }
    }
}

/// Computes B ← L⁻¹ B for whole columns of length n, stored consecutively in `columns`. Cost: O(n²)
/// per column.
pub(crate) fn solve_lower_block(factor: &Square, columns: &mut [f64]) {
    let n = factor.size();
    if n == 0 {
        return;
    }
    let m = columns.len() / n;
    solve_lower_triangular_in_place(
        factor.as_ref(),
        MatMut::from_column_major_slice_mut(columns, n, m),
        Par::Seq,
    );
}

/// Returns the `n` largest eigenvalues of a symmetric matrix in descending order, and their unit
/// eigenvectors, each with a positive largest entry. Cost: O(n³) in the number of rows of the
/// matrix.
///
/// # Errors
/// If the matrix is not finite or the iteration does not converge.
pub(crate) fn leading_eigenvectors(
    matrix: &PackedLower,
    n: usize,
) -> Result<(Vec<f64>, Vec<Vec<f64>>), NotPositiveDefinite> {
    let mut square = Square::new(matrix.size());
    square.unpack(matrix);
    let failed = NotPositiveDefinite { size: square.size(), mean_diagonal: square.mean_diagonal() };
    if !square.is_finite() {
        return Err(failed);
    }
    let whole = square.as_ref().to_owned();
    let found = whole.self_adjoint_eigen(faer::Side::Lower).map_err(|_| failed)?;
    let (values, vectors) = (found.S().column_vector(), found.U());
    let last = square.size();
    let of_rank = |rank: usize| {
        let mut vector: Vec<f64> = vectors.col(last - 1 - rank).iter().copied().collect();
        let largest =
            vector.iter().copied().fold(0.0_f64, |a, b| if b.abs() > a.abs() { b } else { a });
        if largest < 0.0 {
            vector.iter_mut().for_each(|entry| *entry = -*entry);
        }
        (values[last - 1 - rank], vector)
    };
    Ok((0..n.min(last)).map(of_rank).unzip())
}

/// Returns the lower triangle of BᵀB for the t×m matrix B given by `rows` (t rows of `stride`
/// numbers, of which the first m are used). Cost: O(t m²).
pub(crate) fn gram_of_columns(rows: &[f64], stride: usize, m: usize) -> PackedLower {
    if m == 0 || rows.is_empty() {
        return PackedLower::zeros(m);
    }
    let b = MatRef::from_row_major_slice_with_stride(rows, rows.len() / stride, m, stride);
    pack_product(b.transpose(), b)
}

/// Returns the lower triangle of BBᵀ for a matrix B given as in [`gram_of_columns`]. Cost: O(t² m).
pub(crate) fn gram_of_rows(rows: &[f64], stride: usize, m: usize) -> PackedLower {
    if rows.is_empty() {
        return PackedLower::zeros(0);
    }
    let b = MatRef::from_row_major_slice_with_stride(rows, rows.len() / stride, m, stride);
    pack_product(b, b.transpose())
}

fn pack_product(left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> PackedLower {
    let mut product = Square::new(left.nrows());
    triangular::matmul(
        product.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Replace,
        left,
        BlockStructure::Rectangular,
        right,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
    product.pack()
}
