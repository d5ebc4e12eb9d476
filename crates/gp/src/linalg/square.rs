//! A triangle in the layout of the backend, filled, factored and inverted in blocks on several
//! threads.

use std::ops::Range;

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, MatMut, MatRef, Par};

use super::{NotPositiveDefinite, PackedLower};
use crate::{lanes, parallel};

/// Jitters tried in order, as multiples of the mean diagonal (INV-22).
const JITTER_LADDER: [f64; 9] = [0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6];

/// Number of rows that [`Square::unpack`] and [`Square::pack`] copy together, so that both sides
/// use whole cache lines.
const TILE: usize = 8;

/// The lower triangle of an n×n matrix stored by columns, the layout of the backend. Factored and
/// inverted in place. A fit reuses it for every evaluation.
pub(crate) struct Square {
    n: usize,
    /// Distance between columns.
    stride: usize,
    data: Vec<f64>,
    scratch: MemBuffer,
}

impl Square {
    /// Creates an n×n triangle of zeros.
    pub(crate) fn new(n: usize) -> Self {
        // Columns at distances of a multiple of 4 KiB would compete for the same cache sets.
        let stride = lanes::padded(n) + if n > 256 { lanes::LANES } else { 0 };
        let need = llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
        Self { n, stride, data: vec![0.0; n * stride], scratch: MemBuffer::new(need) }
    }

    /// Returns column j of the triangle, with entries (j, j) to (n−1, j).
    #[inline(always)]
    pub(crate) fn column(&self, j: usize) -> &[f64] {
        &self.data[j * self.stride + j..j * self.stride + self.n]
    }

    /// Returns column j of the triangle, mutable.
    #[inline(always)]
    pub(crate) fn column_mut(&mut self, j: usize) -> &mut [f64] {
        &mut self.data[j * self.stride + j..j * self.stride + self.n]
    }

    /// Computes A ← L with A + jitter·I = L Lᵀ, where the jitter is the smallest in
    /// [`JITTER_LADDER`] that succeeds. Returns the jitter. `fill` writes A before every attempt.
    /// Cost: O(n³).
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

    /// Computes A ← L. Returns false if A is not positive definite.
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

    /// Like [`Square::for_each_column`], for pairs of columns of this triangle and a second
    /// triangle of the same size.
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

    /// Does the work of [`Square::invert_factor`] by blocks of columns on several threads.
    ///
    /// The columns J of L⁻¹ are the columns of L_JJ⁻¹ I, where L_JJ starts at the first row of J.
    /// The columns J of L⁻ᵀL⁻¹ are (L⁻¹_JJ)ᵀ times the columns J of L⁻¹.
    fn invert_pieces(&mut self, inverse: &mut Self) {
        let (n, stride) = (self.n, self.stride);
        let factor = MatRef::from_column_major_slice_with_stride(&self.data, n, n, stride);
        let whole = inverse.as_mut();
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

    /// Computes L ← (L Lᵀ)⁻¹, for gradients of the evidence. Never used for draws. `inverse` is
    /// scratch space for L⁻¹. Cost: O(n³).
    pub(crate) fn invert_factor(&mut self, inverse: &mut Self) {
        let (n, stride) = (self.n, self.stride);
        if n >= parallel::LARGE {
            return self.invert_pieces(inverse);
        }
        invert_lower_triangular(inverse.as_mut(), self.as_ref(), Par::Seq);
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

    /// Computes b ← (L Lᵀ)⁻¹ b. Cost: O(n²).
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

    /// Returns ln det(L Lᵀ) = 2 Σ_j ln L_jj.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.n).map(|j| 2.0 * self.column(j)[0].ln()).sum()
    }

    /// Returns the sum of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        (0..self.n).map(|j| self.column(j)[0]).sum()
    }

    /// Returns the number of rows.
    pub(super) fn size(&self) -> usize {
        self.n
    }

    pub(super) fn as_mut(&mut self) -> MatMut<'_, f64> {
        MatMut::from_column_major_slice_with_stride_mut(&mut self.data, self.n, self.n, self.stride)
    }

    pub(super) fn as_ref(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice_with_stride(&self.data, self.n, self.n, self.stride)
    }

    pub(super) fn is_finite(&self) -> bool {
        lanes::vectorized! {
            fn work(square: &Square) -> bool {
                let mut finite = true;
                for j in 0..square.n {
                    for v in square.column(j) {
                        finite &= v.is_finite(); // no early exit, so that the loop vectorises
                    }
                }
                finite
            }
        }
        work(self)
    }

    pub(super) fn mean_diagonal(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "matrix sizes are far below 2^53")]
        let n = self.n.max(1) as f64;
        (0..self.n).map(|j| self.column(j)[0] / n).sum()
    }

    pub(super) fn unpack(&mut self, packed: &PackedLower) {
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

    pub(super) fn pack(&self) -> PackedLower {
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

    /// Writes the given rows of the triangle consecutively.
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

/// Number of columns of a large matrix per block of work.
const PIECE: usize = 64;

/// Returns the number of columns of an n×n triangle per block of work, which is all columns if the
/// triangle is small.
pub(crate) fn width_of_piece(n: usize) -> usize {
    if n < parallel::LARGE { n.max(1) } else { PIECE }
}

/// Computes A ← L on this thread. Returns false if A is not positive definite.
fn factor_alone(matrix: MatMut<'_, f64>, scratch: &mut MemBuffer) -> bool {
    let (regularization, settings) = (Default::default(), Default::default());
    let stack = MemStack::new(scratch);
    llt::factor::cholesky_in_place(matrix, regularization, Par::Seq, stack, settings).is_ok()
}

/// Computes A ← L by blocks of columns. The blocks are the same as in [`factor_alone`], so the
/// results are bitwise equal, but the updates after each block run on several threads. Returns
/// false if A is not positive definite.
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

/// Splits the matrix into blocks of [`PIECE`] columns, each with the index of its first column.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::SpdFactor;

    /// Returns exp(−|i − j|/30) with 0.01 added on the diagonal.
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
        // L Lᵀ times a column of the inverse must be a column of the identity.
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
