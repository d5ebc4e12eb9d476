//! Symmetric positive-definite matrices and their Cholesky factors: the one place that names the backend (faer).
//!
//! Factors are kept as packed rows, so that a solve runs over contiguous memory and appending an observation costs O(n²).

use std::ops::Range;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use crate::{lanes, parallel};

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
        Self { n, data: vec![0.0; n * (n + 1) / 2] }
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

    /// A b for this lower-triangular A. Cost O(n²).
    ///
    /// # Panics
    /// If `b` has not n entries.
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

    /// b ← Aᵀ b for this lower-triangular A. Cost O(n²).
    ///
    /// # Panics
    /// If `b` has not n entries.
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
        Self::filled(matrix.size(), |square| square.unpack(matrix))
    }

    /// [`SpdFactor::new`] of the n×n matrix that `fill` writes, anew before every attempt.
    pub(crate) fn filled(
        n: usize,
        fill: impl FnMut(&mut Square),
    ) -> Result<Self, NotPositiveDefinite> {
        let mut square = Square::new(n);
        let jitter = square.factor(fill)?;
        Ok(Self { lower: square.pack(), jitter })
    }

    /// Number of rows n.
    pub fn size(&self) -> usize {
        self.lower.size()
    }

    /// The jitter that was added to the diagonal, in absolute terms; 0 for a well-conditioned matrix.
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

    /// Extends A by several rows as [`SpdFactor::append`] does one by one, to the last bit, but reading the factor once:
    /// `rows[k]` holds the entries (n + k, 0) to (n + k, n + k). Returns how many were appended before the first whose
    /// matrix is not positive definite at the jitter in use. Cost O(n²) a row.
    ///
    /// # Panics
    /// If a row has another length.
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

    /// The diagonal entry of L for a new row: `solved` holds its other entries, `diagonal` that of A.
    fn pivot(&self, solved: &[f64], diagonal: f64) -> Option<f64> {
        let pivot = diagonal + self.jitter - lanes::wide_dot(solved, solved);
        // A pivot at rounding level relative to the diagonal is noise: refactor with a jitter instead.
        (pivot.is_finite() && pivot > 1e-14 * diagonal.abs()).then(|| pivot.sqrt())
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
        self.lower.multiply(b)
    }

    /// ln det(L Lᵀ) = 2 Σ_i ln L_ii.
    pub fn log_determinant(&self) -> f64 {
        (0..self.size()).map(|i| 2.0 * self.lower.row(i)[i].ln()).sum()
    }

    /// Lower triangle of (L Lᵀ)⁻¹; never used to draw. Cost O(n³).
    pub fn inverse(&self) -> PackedLower {
        let (mut square, mut room) = (Square::new(self.size()), Square::new(self.size()));
        square.unpack(&self.lower);
        square.invert_factor(&mut room);
        square.pack()
    }

    /// L⁻¹, for many solves with one right-hand side each: they then wait for no earlier entry of their own result.
    /// Cost O(n³).
    pub(crate) fn inverse_factor(&self) -> PackedLower {
        let (factor, mut inverse) = (self.unpacked(), Square::new(self.size()));
        let (n, stride) = (inverse.n, inverse.stride);
        invert_lower_triangular(
            MatMut::from_column_major_slice_with_stride_mut(&mut inverse.data, n, n, stride),
            factor.as_ref(),
            Par::Seq,
        );
        inverse.pack()
    }

    /// L in the backend's layout, for many solves of [`solve_lower_block`]. Cost O(n²).
    pub(crate) fn unpacked(&self) -> Square {
        let mut square = Square::new(self.size());
        square.unpack(&self.lower);
        square
    }

    /// L⁻¹ B for an n×m matrix given as m columns of length n, in place. Cost O(n² m).
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

/// B ← L⁻¹ B for whole columns of length n, one after the other in `columns`. Cost O(n²) a column.
pub(crate) fn solve_lower_block(factor: &Square, columns: &mut [f64]) {
    let n = factor.n;
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

/// Rows that [`Square::unpack`] and [`Square::pack`] copy together, so that both sides are read by whole cache lines.
const TILE: usize = 8;

/// Lower triangle of an n×n matrix by columns, the backend's layout, where it is factored and inverted in place. What a
/// fit keeps between evaluations.
pub(crate) struct Square {
    n: usize,
    /// Distance between columns.
    stride: usize,
    data: Vec<f64>,
    scratch: MemBuffer,
}

impl Square {
    /// An n×n triangle of zeros.
    pub(crate) fn new(n: usize) -> Self {
        // Columns a multiple of 4 KiB apart would share their cache lines' places.
        let stride = lanes::padded(n) + if n > 256 { lanes::LANES } else { 0 };
        let need = llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
        Self { n, stride, data: vec![0.0; n * stride], scratch: MemBuffer::new(need) }
    }

    /// Column j of the triangle: entries (j, j) to (n−1, j).
    #[inline(always)]
    pub(crate) fn column(&self, j: usize) -> &[f64] {
        &self.data[j * self.stride + j..j * self.stride + self.n]
    }

    /// Column j of the triangle, to be written.
    #[inline(always)]
    pub(crate) fn column_mut(&mut self, j: usize) -> &mut [f64] {
        &mut self.data[j * self.stride + j..j * self.stride + self.n]
    }

    /// A ← L with A + jitter·I = L Lᵀ for the smallest jitter of the ladder that succeeds, which is returned. `fill`
    /// writes A, anew before every attempt. Cost O(n³).
    pub(crate) fn factor(
        &mut self,
        mut fill: impl FnMut(&mut Self),
    ) -> Result<f64, NotPositiveDefinite> {
        let mut mean_diagonal = f64::NAN;
        for relative in JITTER_LADDER {
            fill(self);
            if !self.is_finite() {
                mean_diagonal = self.mean_diagonal();
                break;
            }
            mean_diagonal = self.mean_diagonal();
            let jitter = relative * mean_diagonal;
            for j in 0..self.n {
                self.column_mut(j)[0] += jitter;
            }
            if self.factor_in_place() && self.is_finite() {
                return Ok(jitter);
            }
        }
        Err(NotPositiveDefinite { size: self.n, mean_diagonal })
    }

    /// A ← L, or false if A is not positive definite.
    fn factor_in_place(&mut self) -> bool {
        let (n, stride) = (self.n, self.stride);
        let matrix = MatMut::from_column_major_slice_with_stride_mut(&mut self.data, n, n, stride);
        let factor = if n < parallel::LARGE { factor_alone } else { factor_blocks };
        factor(matrix, &mut self.scratch)
    }

    /// Calls `write` with every j and column j, on several threads if there are many columns.
    pub(crate) fn for_each_column(&mut self, write: impl Fn(usize, &mut [f64]) + Sync) {
        let (n, stride) = (self.n, self.stride);
        if n == 0 {
            return;
        }
        parallel::for_each(
            self.data.chunks_mut(stride * width_of_piece(n)).enumerate().collect(),
            |(piece, columns): (usize, &mut [f64])| {
                for (offset, column) in columns.chunks_mut(stride).enumerate() {
                    let j = piece * width_of_piece(n) + offset;
                    write(j, &mut column[j..n]);
                }
            },
        );
    }

    /// The same with the columns of another triangle of the same size.
    pub(crate) fn for_each_column_of_two(
        &mut self,
        other: &mut Self,
        write: impl Fn(usize, &mut [f64], &mut [f64]) + Sync,
    ) {
        let (n, stride) = (self.n, self.stride);
        assert_eq!(other.n, n);
        if n == 0 {
            return;
        }
        let width = stride * width_of_piece(n);
        parallel::for_each(
            self.data.chunks_mut(width).zip(other.data.chunks_mut(width)).enumerate().collect(),
            |(piece, (left, right)): (usize, (&mut [f64], &mut [f64]))| {
                let pairs = left.chunks_mut(stride).zip(right.chunks_mut(stride));
                for (offset, (left, right)) in pairs.enumerate() {
                    let j = piece * width_of_piece(n) + offset;
                    write(j, &mut left[j..n], &mut right[j..n]);
                }
            },
        );
    }

    /// [`Square::invert_factor`] by pieces of columns on several threads:
    ///
    /// columns J of L⁻¹ are those of L_JJ⁻¹ I, with L_JJ from J's first row on; columns J of L⁻ᵀL⁻¹ are (L⁻¹_JJ)ᵀ times those of L⁻¹.
    fn invert_pieces(&mut self, inverse: &mut Self) {
        let (n, stride) = (self.n, self.stride);
        let factor = MatRef::from_column_major_slice_with_stride(&self.data, n, n, stride);
        let whole =
            MatMut::from_column_major_slice_with_stride_mut(&mut inverse.data, n, n, stride);
        parallel::for_each(column_pieces(whole), |(first, columns)| {
            let (_, mut columns) = columns.split_at_row_mut(first);
            columns.fill(0.0);
            columns.as_mut().diagonal_mut().fill(1.0);
            let factor = factor.submatrix(first, first, n - first, n - first);
            solve_lower_triangular_in_place(factor, columns, Par::Seq);
        });
        let inverse = inverse.as_ref();
        let whole = MatMut::from_column_major_slice_with_stride_mut(&mut self.data, n, n, stride);
        parallel::for_each(column_pieces(whole), |(first, columns)| {
            let (_, columns) = columns.split_at_row_mut(first);
            let below = inverse.submatrix(first, first, n - first, n - first);
            let right = below.subcols(0, columns.ncols());
            triangular::matmul(
                columns,
                BlockStructure::Rectangular,
                Accum::Replace,
                below.transpose(),
                BlockStructure::TriangularUpper,
                right,
                BlockStructure::Rectangular,
                1.0,
                Par::Seq,
            );
        });
    }

    /// L ← (L Lᵀ)⁻¹, for gradients of the evidence; never used to draw. `inverse` is room for L⁻¹. Cost O(n³).
    pub(crate) fn invert_factor(&mut self, inverse: &mut Self) {
        let (n, stride) = (self.n, self.stride);
        if n >= parallel::LARGE {
            return self.invert_pieces(inverse);
        }
        invert_lower_triangular(
            MatMut::from_column_major_slice_with_stride_mut(&mut inverse.data, n, n, stride),
            self.as_ref(),
            Par::Seq,
        );
        triangular::matmul(
            MatMut::from_column_major_slice_with_stride_mut(&mut self.data, n, n, stride),
            BlockStructure::TriangularLower,
            Accum::Replace,
            inverse.as_ref().transpose(),
            BlockStructure::TriangularUpper,
            inverse.as_ref(),
            BlockStructure::TriangularLower,
            1.0,
            Par::Seq,
        );
    }

    /// b ← (L Lᵀ)⁻¹ b. Cost O(n²).
    pub(crate) fn solve(&self, b: &mut [f64]) {
        lanes::vectorized! {
            fn work(factor: &Square, b: &mut [f64]) {
                for j in 0..b.len() {
                    let (done, rest) = b.split_at_mut(j + 1);
                    let column = factor.column(j);
                    done[j] /= column[0];
                    lanes::add_scaled(rest, -done[j], &column[1..]);
                }
                for j in (0..b.len()).rev() {
                    let column = factor.column(j);
                    let known = lanes::dot(&column[1..], &b[j + 1..]);
                    b[j] = (b[j] - known) / column[0];
                }
            }
        }
        assert_eq!(b.len(), self.n);
        work(self, b);
    }

    /// ln det(L Lᵀ) = 2 Σ_j ln L_jj.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.n).map(|j| 2.0 * self.column(j)[0].ln()).sum()
    }

    /// Sum of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        (0..self.n).map(|j| self.column(j)[0]).sum()
    }

    fn as_ref(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice_with_stride(&self.data, self.n, self.n, self.stride)
    }

    fn is_finite(&self) -> bool {
        lanes::vectorized! {
            fn work(square: &Square) -> bool {
                let mut finite = true;
                for j in 0..square.n {
                    for v in square.column(j) {
                        finite &= v.is_finite(); // no early end, so that it vectorises
                    }
                }
                finite
            }
        }
        work(self)
    }

    fn mean_diagonal(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "matrix sizes are far below 2^53")]
        let n = self.n.max(1) as f64;
        (0..self.n).map(|j| self.column(j)[0] / n).sum()
    }

    fn unpack(&mut self, packed: &PackedLower) {
        for top in (0..self.n).step_by(TILE) {
            let bottom = (top + TILE).min(self.n);
            for j in 0..bottom {
                let first = top.max(j);
                let place = j * self.stride + first;
                for (offset, value) in
                    self.data[place..place + bottom - first].iter_mut().enumerate()
                {
                    *value = packed.row(first + offset)[j];
                }
            }
        }
    }

    fn pack(&self) -> PackedLower {
        let mut packed = PackedLower::zeros(self.n);
        let (mut groups, mut rest) = (Vec::new(), &mut packed.data[..]);
        for top in (0..self.n).step_by(width_of_piece(self.n)) {
            let bottom = (top + width_of_piece(self.n)).min(self.n);
            let n_entries = (bottom * (bottom + 1) - top * (top + 1)) / 2;
            let (group, others) = std::mem::take(&mut rest).split_at_mut(n_entries);
            groups.push((top..bottom, group));
            rest = others;
        }
        parallel::for_each(groups, |(rows, group)| self.pack_rows(rows, group));
        packed
    }

    /// Writes these rows of the triangle, one after the other.
    fn pack_rows(&self, rows: Range<usize>, packed: &mut [f64]) {
        let entries_before = |row: usize| (row * (row + 1) - rows.start * (rows.start + 1)) / 2;
        for top in rows.clone().step_by(TILE) {
            let bottom = (top + TILE).min(rows.end);
            for j in 0..bottom {
                let first = top.max(j);
                let place = j * self.stride + first;
                for (offset, value) in self.data[place..place + bottom - first].iter().enumerate() {
                    packed[entries_before(first + offset) + j] = *value;
                }
            }
        }
    }
}

/// Columns of a large matrix that one thread works on together.
const PIECE: usize = 64;

/// Columns of an n×n triangle that one thread works on together: all of a small one.
pub(crate) fn width_of_piece(n: usize) -> usize {
    if n < parallel::LARGE { n.max(1) } else { PIECE }
}

/// A ← L on this thread, or false if A is not positive definite.
fn factor_alone(matrix: MatMut<'_, f64>, scratch: &mut MemBuffer) -> bool {
    let (regularization, settings) = (Default::default(), Default::default());
    let stack = MemStack::new(scratch);
    llt::factor::cholesky_in_place(matrix, regularization, Par::Seq, stack, settings).is_ok()
}

/// A ← L by blocks of columns, to the last bit as [`factor_alone`], whose blocks they are, but what follows from a block is
/// computed on several threads; false if A is not positive definite.
///
/// L_11 = chol(A_11),   L_21 = A_21 L_11⁻ᵀ,   A_22 ← A_22 − L_21 L_21ᵀ
fn factor_blocks(mut matrix: MatMut<'_, f64>, scratch: &mut MemBuffer) -> bool {
    const BLOCK: usize = 128;
    while matrix.nrows() > 0 {
        let (mut first, _, mut below, mut rest) = {
            let width = BLOCK.min(matrix.nrows());
            matrix.split_at_mut(width, width)
        };
        if !factor_alone(first.as_mut(), scratch) {
            return false;
        }
        let first = first.as_ref();
        let rows = column_pieces(below.as_mut().transpose_mut());
        parallel::for_each(rows, |(_, rows)| {
            solve_lower_triangular_in_place(first, rows, Par::Seq)
        });
        let below = below.as_ref();
        parallel::for_each(column_pieces(rest.as_mut()), |(top, columns)| {
            let width = columns.ncols();
            let (_, columns) = columns.split_at_row_mut(top);
            let (diagonal, lower) = columns.split_at_row_mut(width);
            let (factors, right) =
                (below.split_at_row(top).1, below.subrows(top, width).transpose());
            let (left, left_below) = factors.split_at_row(width);
            let (rectangle, accumulated) = (BlockStructure::Rectangular, Accum::Add);
            triangular::matmul(
                diagonal,
                BlockStructure::TriangularLower,
                accumulated,
                left,
                rectangle,
                right,
                rectangle,
                -1.0,
                Par::Seq,
            );
            matmul(lower, accumulated, left_below, right, -1.0, Par::Seq);
        });
        matrix = rest;
    }
    true
}

/// The matrix cut into pieces of [`PIECE`] columns, each with the place of its first.
fn column_pieces(mut matrix: MatMut<'_, f64>) -> Vec<(usize, MatMut<'_, f64>)> {
    let mut pieces = Vec::with_capacity(matrix.ncols().div_ceil(PIECE));
    let mut first = 0;
    while matrix.ncols() > PIECE {
        let (piece, rest) = matrix.split_at_col_mut(PIECE);
        pieces.push((first, piece));
        first += PIECE;
        matrix = rest;
    }
    pieces.push((first, matrix));
    pieces
}

/// The `n` largest eigenvalues of a symmetric matrix, largest first, and their eigenvectors of length 1 whose largest entry is
/// positive. Cost O(n³) of the matrix's rows.
///
/// # Errors
/// If the matrix is not finite or the iteration does not converge.
pub(crate) fn leading_eigenvectors(
    matrix: &PackedLower,
    n: usize,
) -> Result<(Vec<f64>, Vec<Vec<f64>>), NotPositiveDefinite> {
    let mut square = Square::new(matrix.size());
    square.unpack(matrix);
    let failed = NotPositiveDefinite { size: square.n, mean_diagonal: square.mean_diagonal() };
    if !square.is_finite() {
        return Err(failed);
    }
    let whole = square.as_ref().to_owned();
    let found = whole.self_adjoint_eigen(faer::Side::Lower).map_err(|_| failed)?;
    let (values, vectors) = (found.S().column_vector(), found.U());
    let last = square.n;
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
    let mut product = Square::new(left.nrows());
    triangular::matmul(
        MatMut::from_column_major_slice_with_stride_mut(
            &mut product.data,
            product.n,
            product.n,
            product.stride,
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// exp(−|i − j|/30) with 0.01 on the diagonal.
    fn covariance(n: usize) -> Square {
        let mut square = Square::new(n);
        square.for_each_column(|j, column| {
            for (offset, value) in column.iter_mut().enumerate() {
                *value = (-f64::from(u32::try_from(offset).unwrap()) / 30.0).exp();
                *value += f64::from(u8::from(offset == 0))
                    * (0.01 + 1e-5 * f64::from(u32::try_from(j).unwrap()));
            }
        });
        square
    }

    #[test]
    fn a_factor_by_blocks_is_that_of_one_thread_to_the_last_bit() {
        for n in [129, 300, parallel::LARGE, 700, 1000, 1025] {
            let factors = [factor_blocks, factor_alone].map(|factor| {
                let mut square = covariance(n);
                let stride = square.stride;
                let whole =
                    MatMut::from_column_major_slice_with_stride_mut(&mut square.data, n, n, stride);
                assert!(factor(whole, &mut square.scratch));
                square.pack()
            });
            assert!(factors[0] == factors[1], "{n}");
        }
    }

    #[test]
    fn a_large_matrix_that_is_not_positive_definite_is_refused() {
        for (n, bad) in [(600, 0), (600, 300), (600, 599)] {
            let mut square = covariance(n);
            square.column_mut(bad)[0] = -1.0;
            assert!(!square.factor_in_place(), "{bad}");
        }
    }

    #[test]
    fn the_inverse_by_pieces_is_that_of_the_whole() {
        let n = parallel::LARGE + 37;
        let (mut pieces, mut room) = (covariance(n), Square::new(n));
        assert!(pieces.factor_in_place());
        let factor = pieces.pack();
        pieces.invert_factor(&mut room);
        // L Lᵀ times each column of the inverse is one of the identity.
        let factor = SpdFactor { lower: factor, jitter: 0.0 };
        let inverse = pieces.pack();
        for j in [0, 1, 63, 64, 200, n - 1] {
            let mut column: Vec<f64> = (0..n).map(|i| inverse.row(i.max(j))[i.min(j)]).collect();
            factor.lower.transpose_multiply(&mut column);
            let product = factor.multiply_lower(&column);
            for (i, value) in product.iter().enumerate() {
                let expected = f64::from(u8::from(i == j));
                assert!((value - expected).abs() < 1e-10, "({i}, {j}): {value}");
            }
        }
    }

    #[test]
    fn packing_a_large_triangle_keeps_every_entry() {
        let square = covariance(parallel::LARGE + 5);
        let packed = square.pack();
        let mut again = Square::new(packed.size());
        again.unpack(&packed);
        assert!((0..packed.size()).all(|j| square.column(j) == again.column(j)));
    }
}
