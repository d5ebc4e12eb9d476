//! The affine-invariant ensemble sampler, moving one block of coordinates at a time.

use std::ops::Range;

use fedbo_streams::Stream;

/// A density over states with coordinates in blocks.
pub(super) trait Target {
    /// A walker's state, with cached intermediate results of its density.
    type State;

    /// Returns all coordinates of a state.
    fn coordinates<'a>(&self, state: &'a Self::State) -> &'a [f64];

    /// Returns ln π of the state with `block` replaced, minus ln π of the state itself; −∞ or NaN
    /// if π is 0.
    fn gain(&mut self, state: &Self::State, block: &Range<usize>, proposed: &[f64]) -> f64;

    /// Applies the proposal of the last [`Target::gain`] to the state.
    fn accept_proposal(&mut self, state: &mut Self::State, block: &Range<usize>, proposed: &[f64]);
}

/// Makes one stretch move of every walker in a block of d coordinates (Goodman & Weare 2010):
///
/// Y = X_j + Z (X_k − X_j),   Z ~ g(z) ∝ 1/√z on [1/2, 2],   accepted with probability min(1, Z^{d−1} π(Y)/π(X_k)),
///
/// where X_j is a different walker, drawn uniformly, and only the coordinates of the block move. A
/// move in a block is a stretch move of π conditional on the walker's other coordinates, towards a
/// point that does not depend on the block. It therefore also leaves π invariant, and in few
/// dimensions it is accepted far more often. Walkers move sequentially. Returns the number of
/// accepted moves.
///
/// # Panics
/// If there are fewer than two walkers.
pub(super) fn stretch<T: Target>(
    target: &mut T,
    walkers: &mut [T::State],
    block: &Range<usize>,
    stream: &mut Stream,
) -> usize {
    /// Parameter a of g, as in the paper.
    const REACH: f64 = 2.0;
    let mut n_accepted = 0;
    let mut proposed = Vec::with_capacity(block.len());
    let others = i32::try_from(block.len()).unwrap_or(i32::MAX) - 1;
    for k in 0..walkers.len() {
        let j = (k + 1 + stream.below(walkers.len() - 1)) % walkers.len();
        let z = (1.0 + (REACH - 1.0) * stream.uniform()).powi(2) / REACH;
        let to = &target.coordinates(&walkers[j])[block.clone()];
        let from = &target.coordinates(&walkers[k])[block.clone()];
        proposed.clear();
        proposed.extend(to.iter().zip(from).map(|(to, from)| to + z * (from - to)));
        let gain = target.gain(&walkers[k], block, &proposed);
        // 1 − U is above 0.
        if (1.0 - stream.uniform()) < z.powi(others) * gain.exp() {
            target.accept_proposal(&mut walkers[k], block, &proposed);
            n_accepted += 1;
        }
    }
    n_accepted
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::dense::Matrix;
    use fedbo_testkit::statistics::check_mean_and_covariance;
    use fedbo_testkit::test_stream;

    use super::*;

    /// N(m, C) in three dimensions, represented by its precision matrix.
    struct Gaussian {
        mean: [f64; 3],
        precision: [[f64; 3]; 3],
    }

    impl Gaussian {
        fn ln_density(&self, x: &[f64]) -> f64 {
            let mut sum = 0.0;
            for i in 0..3 {
                for j in 0..3 {
                    sum += self.precision[i][j] * (x[i] - self.mean[i]) * (x[j] - self.mean[j]);
                }
            }
            -0.5 * sum
        }
    }

    impl Target for Gaussian {
        type State = Vec<f64>;

        fn coordinates<'a>(&self, state: &'a Vec<f64>) -> &'a [f64] {
            state
        }

        fn gain(&mut self, state: &Vec<f64>, block: &Range<usize>, proposed: &[f64]) -> f64 {
            let mut moved = state.clone();
            moved[block.clone()].copy_from_slice(proposed);
            self.ln_density(&moved) - self.ln_density(state)
        }

        fn accept_proposal(
            &mut self,
            state: &mut Vec<f64>,
            block: &Range<usize>,
            proposed: &[f64],
        ) {
            state[block.clone()].copy_from_slice(proposed);
        }
    }

    /// Samples, moved as a whole or in blocks, have the moments of a correlated Gaussian. They are
    /// thinned to every 25th sweep, which leaves a correlation below one per cent. The tolerance of
    /// 5 standard errors is doubled to allow for this correlation.
    #[test]
    fn moments_of_a_gaussian_are_those_of_its_samples() {
        let covariance = [[1.0, 0.6, 0.0], [0.6, 2.0, -0.3], [0.0, -0.3, 0.25]];
        let rows: Vec<Vec<f64>> = covariance.iter().map(|row| row.to_vec()).collect();
        let covariance = Matrix::from_rows(&rows);
        let inverse = covariance.inverse();
        let mut precision = [[0.0; 3]; 3];
        for (i, row) in precision.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry = inverse.at(i, j);
            }
        }
        let mean = [1.0, -2.0, 0.5];
        let whole = Range { start: 0, end: 3 };
        for (index, blocks) in [vec![whole], vec![0..2, 1..3]].into_iter().enumerate() {
            let mut target = Gaussian { mean, precision };
            let mut stream = test_stream(90 + index as u64);
            let mut walkers: Vec<Vec<f64>> = (0..20).map(|_| stream.normals(3)).collect();
            let (mut samples, mut n_accepted) = (Vec::new(), 0);
            for sweep in 0..12_000 {
                for block in &blocks {
                    n_accepted += stretch(&mut target, &mut walkers, block, &mut stream);
                }
                if sweep >= 500 && sweep % 25 == 0 {
                    samples.extend(walkers.iter().cloned());
                }
            }
            assert!(n_accepted > 12_000 * 20 * blocks.len() / 3, "{n_accepted}");
            check_mean_and_covariance(&samples, &mean, &covariance, 10.0).unwrap();
            let moved = [1.15, -2.0, 0.5];
            assert!(check_mean_and_covariance(&samples, &moved, &covariance, 10.0).is_err());
        }
    }
}
