//! Slow, simple linear algebra, independent of the backend, and Gaussian processes based on it.

use fedbo_gp::{Family, Kernel};
use fedbo_optim::Points;

/// A row-major matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    n_rows: usize,
    n_columns: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// Creates the matrix with entries f(i, j).
    pub fn from_fn(
        n_rows: usize,
        n_columns: usize,
        mut f: impl FnMut(usize, usize) -> f64,
    ) -> Self {
        let data = (0..n_rows * n_columns).map(|k| f(k / n_columns, k % n_columns)).collect();
        Self { n_rows, n_columns, data }
    }

    /// Creates the matrix with these rows.
    ///
    /// # Panics
    /// If the rows differ in length.
    pub fn from_rows(rows: &[Vec<f64>]) -> Self {
        let n_columns = rows.first().map_or(0, Vec::len);
        assert!(rows.iter().all(|row| row.len() == n_columns));
        Self::from_fn(rows.len(), n_columns, |i, j| rows[i][j])
    }

    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Returns the number of columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Returns entry (i, j).
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.n_columns + j]
    }

    /// Returns Aᵀ.
    #[must_use]
    pub fn transpose(&self) -> Self {
        Self::from_fn(self.n_columns, self.n_rows, |i, j| self.at(j, i))
    }

    /// Returns A B.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.n_columns, other.n_rows);
        Self::from_fn(self.n_rows, other.n_columns, |i, j| {
            (0..self.n_columns).map(|k| self.at(i, k) * other.at(k, j)).sum()
        })
    }

    /// Returns A v.
    pub fn times_vector(&self, v: &[f64]) -> Vec<f64> {
        assert_eq!(self.n_columns, v.len());
        (0..self.n_rows).map(|i| (0..v.len()).map(|j| self.at(i, j) * v[j]).sum()).collect()
    }

    /// Returns A + B.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        assert_eq!((self.n_rows, self.n_columns), (other.n_rows, other.n_columns));
        Self::from_fn(self.n_rows, self.n_columns, |i, j| self.at(i, j) + other.at(i, j))
    }

    /// Returns A + c I.
    #[must_use]
    pub fn plus_identity(&self, c: f64) -> Self {
        Self::from_fn(self.n_rows, self.n_columns, |i, j| {
            self.at(i, j) + if i == j { c } else { 0.0 }
        })
    }

    /// Returns c A.
    #[must_use]
    pub fn scaled(&self, c: f64) -> Self {
        Self::from_fn(self.n_rows, self.n_columns, |i, j| c * self.at(i, j))
    }

    /// Returns A⁻¹ B and ln |det A|, computed by Gaussian elimination with partial pivoting.
    ///
    /// # Panics
    /// If A is exactly singular.
    pub fn solve(&self, rhs: &Self) -> (Self, f64) {
        let n = self.n_rows;
        assert_eq!((n, n), (self.n_columns, rhs.n_rows));
        let mut rows: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let left = (0..n).map(|j| self.at(i, j));
                left.chain((0..rhs.n_columns).map(|j| rhs.at(i, j))).collect()
            })
            .collect();
        let mut log_determinant = 0.0;
        for k in 0..n {
            let pivot = (k..n)
                .max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()))
                .expect("k is below n");
            rows.swap(k, pivot);
            assert!(rows[k][k].abs() > 0.0, "a singular matrix");
            log_determinant += rows[k][k].abs().ln();
            let pivot_row = rows[k].clone();
            for (i, row) in rows.iter_mut().enumerate() {
                if i != k {
                    let factor = row[k] / pivot_row[k];
                    for (value, above) in row[k..].iter_mut().zip(&pivot_row[k..]) {
                        *value -= factor * above;
                    }
                }
            }
        }
        let solution = Self::from_fn(n, rhs.n_columns, |i, j| rows[i][n + j] / rows[i][i]);
        (solution, log_determinant)
    }

    /// Returns A⁻¹ b.
    pub fn solve_vector(&self, b: &[f64]) -> Vec<f64> {
        self.solve(&Self::from_fn(b.len(), 1, |i, _| b[i])).0.data
    }

    /// Returns A⁻¹.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let n = self.n_rows;
        self.solve(&Self::from_fn(n, n, |i, j| if i == j { 1.0 } else { 0.0 })).0
    }

    /// Returns ln |det A|.
    pub fn log_determinant(&self) -> f64 {
        self.solve(&Self::from_fn(self.n_rows, 0, |_, _| 0.0)).1
    }

    /// Returns the eigenvalues of a symmetric matrix in ascending order, computed by cyclic Jacobi
    /// rotations.
    pub fn eigenvalues(&self) -> Vec<f64> {
        let n = self.n_rows;
        let mut a = self.clone();
        for _ in 0..30 {
            for p in 0..n {
                for q in p + 1..n {
                    let off = a.at(p, q);
                    if off.abs() < f64::MIN_POSITIVE {
                        continue;
                    }
                    let theta = 0.5 * (a.at(q, q) - a.at(p, p)) / off;
                    let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                    let c = 1.0 / t.hypot(1.0);
                    let s = t * c;
                    for k in 0..n {
                        let (x, y) = (a.at(k, p), a.at(k, q));
                        a.data[k * n + p] = c * x - s * y;
                        a.data[k * n + q] = s * x + c * y;
                    }
                    for k in 0..n {
                        let (x, y) = (a.at(p, k), a.at(q, k));
                        a.data[p * n + k] = c * x - s * y;
                        a.data[q * n + k] = s * x + c * y;
                    }
                }
            }
        }
        let mut values: Vec<f64> = (0..n).map(|i| a.at(i, i)).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Computes k(x, z) with the formulas of Rasmussen & Williams 2006, chapter 4, and functions of the
/// standard library.
pub fn kernel_value(kernel: &Kernel, x: &[f64], z: &[f64]) -> f64 {
    let r = x
        .iter()
        .zip(z)
        .zip(kernel.lengthscales())
        .map(|((x, z), l)| ((x - z) / l).powi(2))
        .sum::<f64>()
        .sqrt();
    let rho = match kernel.family() {
        Family::SquaredExponential => (-0.5 * r * r).exp(),
        Family::Matern32 => (1.0 + 3.0_f64.sqrt() * r) * (-(3.0_f64.sqrt()) * r).exp(),
        Family::Matern52 => {
            (1.0 + 5.0_f64.sqrt() * r + 5.0 / 3.0 * r * r) * (-(5.0_f64.sqrt()) * r).exp()
        }
    };
    kernel.outputscale() * rho
}

/// Returns k(X, Z).
pub fn covariance(kernel: &Kernel, x: &Points, z: &Points) -> Matrix {
    Matrix::from_fn(x.len(), z.len(), |i, j| kernel_value(kernel, x.row(i), z.row(j)))
}

/// Returns the posterior mean and covariance of the latent function at `at`: k(x, X) (K + σ²I)⁻¹ y
/// and k(x, x') − k(x, X) (K + σ²I)⁻¹ k(X, x').
pub fn posterior(
    kernel: &Kernel,
    noise_variance: f64,
    inputs: &Points,
    y: &[f64],
    at: &Points,
) -> (Vec<f64>, Matrix) {
    let k = covariance(kernel, inputs, inputs).plus_identity(noise_variance);
    let cross = covariance(kernel, at, inputs);
    let mean = cross.times_vector(&k.solve_vector(y));
    let explained = cross.times(&k.solve(&cross.transpose()).0);
    (mean, covariance(kernel, at, at).plus(&explained.scaled(-1.0)))
}

/// Returns ln N(y; 0, K + σ²I).
pub fn log_evidence(kernel: &Kernel, noise_variance: f64, inputs: &Points, y: &[f64]) -> f64 {
    let k = covariance(kernel, inputs, inputs).plus_identity(noise_variance);
    let fit: f64 = k.solve_vector(y).iter().zip(y).map(|(a, y)| a * y).sum();
    let n = f64::from(u32::try_from(y.len()).expect("few observations in an oracle"));
    -0.5 * (fit + k.log_determinant() + n * std::f64::consts::TAU.ln())
}

/// Returns the mean ν = Σ⁻¹ Φᵀ y and covariance σ² Σ⁻¹ of the regression weights for the rows of Φ,
/// with Σ = ΦᵀΦ + σ²I.
pub fn weight_posterior(features: &Matrix, noise_variance: f64, y: &[f64]) -> (Vec<f64>, Matrix) {
    let transposed = features.transpose();
    let sigma = transposed.times(features).plus_identity(noise_variance);
    let mean = sigma.solve_vector(&transposed.times_vector(y));
    (mean, sigma.inverse().scaled(noise_variance))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A = [[4, 2], [2, 3]]: A⁻¹ = [[3, −2], [−2, 4]]/8, det A = 8, eigenvalues (7 ± √17)/2.
    #[test]
    fn a_small_matrix_by_hand() {
        let a = Matrix::from_rows(&[vec![4.0, 2.0], vec![2.0, 3.0]]);
        let expected = Matrix::from_rows(&[vec![0.375, -0.25], vec![-0.25, 0.5]]);
        let inverse = a.inverse();
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            assert!((inverse.at(i, j) - expected.at(i, j)).abs() < 1e-15);
        }
        assert!((a.log_determinant() - 8.0_f64.ln()).abs() < 1e-15);
        let root = 17.0_f64.sqrt();
        let values = a.eigenvalues();
        assert!((values[0] - (7.0 - root) / 2.0).abs() < 1e-14);
        assert!((values[1] - (7.0 + root) / 2.0).abs() < 1e-14);
    }
}
