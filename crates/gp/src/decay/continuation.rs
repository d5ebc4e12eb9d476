//! The distribution of a curve's continuation.

use fedbo_streams::Stream;

use crate::lanes;

/// Residual variance at which a factor is truncated, as a fraction of the largest variance.
/// Standard deviations are then accurate to 1e-5.
const MISSING: f64 = 1e-10;

/// Returns the columns of a factor F with F Fᵀ = C for an n×n covariance C, by pivoted Cholesky.
/// Cost: O(n r²), reading n r entries of C.
pub(super) fn low_rank(n: usize, covariance: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    let mut left: Vec<f64> = (0..n).map(|i| covariance(i, i).max(0.0)).collect();
    let largest = left.iter().copied().fold(0.0, f64::max);
    let mut columns: Vec<Vec<f64>> = Vec::new();
    while columns.len() < n {
        let pivot = (0..n).fold(0, |best, i| if left[i] > left[best] { i } else { best });
        if left[pivot] <= MISSING * largest || left[pivot] <= 0.0 {
            break;
        }
        let root = left[pivot].sqrt();
        let column: Vec<f64> = (0..n)
            .map(|i| {
                let known: f64 = columns.iter().map(|other| other[i] * other[pivot]).sum();
                (covariance(i, pivot) - known) / root
            })
            .collect();
        for (left, entry) in left.iter_mut().zip(&column) {
            *left = (*left - entry * entry).max(0.0);
        }
        left[pivot] = 0.0;
        columns.push(column);
    }
    columns
}

/// The distribution of a curve's noise-free errors after its first epochs: N(mean, F Fᵀ). F has low
/// rank because the curves are smooth.
#[derive(Clone, Debug, PartialEq)]
pub struct Continuation {
    mean: Vec<f64>,
    /// The r columns of F.
    factor: Vec<Vec<f64>>,
}

impl Continuation {
    pub(super) fn new(mean: Vec<f64>, factor: Vec<Vec<f64>>) -> Self {
        Self { mean, factor }
    }

    /// Returns r.
    #[cfg(test)]
    pub(super) fn rank(&self) -> usize {
        self.factor.len()
    }

    /// Returns the number of epochs, N − N₀.
    pub fn n_epochs(&self) -> usize {
        self.mean.len()
    }

    /// Returns the mean at each epoch.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the standard deviation at each epoch.
    pub fn std(&self) -> Vec<f64> {
        (0..self.mean.len())
            .map(|i| {
                let squares = self.factor.iter().map(|column| column[i] * column[i]);
                squares.sum::<f64>().sqrt()
            })
            .collect()
    }

    /// Returns the mean and standard deviation of the averages over the first 1, 2, … epochs.
    pub fn averages(&self) -> Vec<(f64, f64)> {
        let mut sums = vec![0.0; self.factor.len()];
        let (mut total, mut count) = (0.0, 0.0);
        let each = self.mean.iter().enumerate().map(|(i, mean)| {
            total += mean;
            count += 1.0;
            for (sum, column) in sums.iter_mut().zip(&self.factor) {
                *sum += column[i];
            }
            let square: f64 = sums.iter().map(|sum| sum * sum).sum();
            (total / count, square.sqrt() / count)
        });
        each.collect()
    }

    /// Draws `n_paths` curves, stored by epoch: the errors of all paths at the first epoch, then at
    /// the second epoch, and so on. Cost: O(N r) per path.
    pub fn draw(&self, n_paths: usize, stream: &mut Stream) -> Vec<f64> {
        lanes::vectorized! {
            fn work(mean: &[f64], factor: &[Vec<f64>], normals: &[f64], paths: &mut [f64]) {
                let n_paths = paths.len() / mean.len();
                for (i, paths) in paths.chunks_exact_mut(n_paths).enumerate() {
                    paths.fill(mean[i]);
                    for (column, normals) in factor.iter().zip(normals.chunks_exact(n_paths)) {
                        lanes::add_scaled(paths, column[i], normals);
                    }
                }
            }
        }
        if n_paths == 0 {
            return Vec::new();
        }
        let normals = stream.normals(n_paths * self.factor.len());
        let mut paths = vec![0.0; n_paths * self.mean.len()];
        work(&self.mean, &self.factor[..], &normals, &mut paths);
        paths
    }
}
