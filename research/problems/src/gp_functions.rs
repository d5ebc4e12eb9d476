//! Functions drawn from a Gaussian process on a grid, and families of such functions at a known
//! distance (FTS, D.1).

use fedbo_streams::{Purpose, Seed, Stream};

/// Number of grid points in the paper.
pub const N_GRID: usize = 1000;
/// Length scale in the paper.
pub const LENGTHSCALE: f64 = 0.03;
/// Variance of the observation noise in the paper.
pub const NOISE_VARIANCE: f64 = 0.01;

/// Maximum prior variance, out of 1, that the factor can omit at a grid point.
const VARIANCE_TOLERANCE: f64 = 1e-12;

/// A zero-mean GP with the squared exponential kernel on a uniform grid of `[0,1]`, prepared for
/// draws.
///
/// k(x, x') = exp(−(x − x')²/(2ℓ²)) ≈ L Lᵀ. L (n×r) is a Cholesky factor that pivots on the largest
/// remaining variance, and is truncated once that variance is at most 1e-12. The remainder is
/// positive semidefinite, so each entry of L Lᵀ is within 1e-12 of the kernel's value. r is about
/// 75 for ℓ = 0.03. Cost: O(n r²) once, O(n r) per draw.
#[derive(Clone, Debug)]
pub struct GridPrior {
    grid: Vec<f64>,
    /// Columns of L.
    columns: Vec<Vec<f64>>,
}

impl GridPrior {
    /// Creates the prior on the points i/(n−1), i = 0, …, n−1.
    ///
    /// # Panics
    /// If `n_grid` is below 2 or `lengthscale` is not a finite number above 0.
    pub fn new(n_grid: usize, lengthscale: f64) -> Self {
        assert!(n_grid >= 2, "a grid of {n_grid} points");
        assert!(lengthscale.is_finite() && lengthscale > 0.0, "length scale {lengthscale}");
        let grid: Vec<f64> = (0..n_grid).map(|i| i as f64 / (n_grid - 1) as f64).collect();
        let kernel = |a: f64, b: f64| (-0.5 * ((a - b) / lengthscale).powi(2)).exp();
        let mut variance_left = vec![1.0; n_grid];
        let mut columns: Vec<Vec<f64>> = Vec::new();
        loop {
            let mut pivot = 0;
            for (row, variance) in variance_left.iter().enumerate() {
                if *variance > variance_left[pivot] {
                    pivot = row;
                }
            }
            if variance_left[pivot] <= VARIANCE_TOLERANCE || columns.len() == n_grid {
                return Self { grid, columns };
            }
            let mut column: Vec<f64> = grid.iter().map(|&x| kernel(x, grid[pivot])).collect();
            for earlier in &columns {
                let at_pivot = earlier[pivot];
                for (entry, other) in column.iter_mut().zip(earlier) {
                    *entry -= at_pivot * other;
                }
            }
            let root = variance_left[pivot].sqrt();
            for (entry, variance) in column.iter_mut().zip(&mut variance_left) {
                *entry /= root;
                *variance = (*variance - *entry * *entry).max(0.0);
            }
            variance_left[pivot] = 0.0;
            columns.push(column);
        }
    }

    /// Creates the paper's prior: 1000 points, length scale 0.03.
    pub fn paper() -> Self {
        Self::new(N_GRID, LENGTHSCALE)
    }

    /// Returns the grid in ascending order.
    pub fn grid(&self) -> &[f64] {
        &self.grid
    }

    /// Returns the rank r of the factor.
    pub fn rank(&self) -> usize {
        self.columns.len()
    }

    /// Draws f = L z, z ~ N(0, I_r): one value per grid point.
    pub fn draw(&self, stream: &mut Stream) -> Vec<f64> {
        let mut values = vec![0.0; self.grid.len()];
        for column in &self.columns {
            let z = stream.normal();
            for (value, entry) in values.iter_mut().zip(column) {
                *value += z * entry;
            }
        }
        values
    }

    /// Draws a function and scales it to `[0,1]`.
    fn draw_normalized(&self, stream: &mut Stream) -> Vec<f64> {
        let drawn = self.draw(stream);
        let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
        let high = drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        drawn.iter().map(|f| (f - low) / (high - low)).collect()
    }
}

/// A target agent's function on a grid, and other agents' functions at distance exactly d_n = max
/// |f − g_n|.
#[derive(Clone, Debug, PartialEq)]
pub struct GridFamily {
    /// The inputs, in ascending order.
    pub grid: Vec<f64>,
    /// f: drawn from the prior, then scaled to `[0,1]`.
    pub target: Vec<f64>,
    /// g_n, one row per agent: f + d_n or f − d_n at each grid point, each with probability 1/2.
    pub agents: Vec<Vec<f64>>,
}

/// One agent's observations of its function.
#[derive(Clone, Debug, PartialEq)]
pub struct GridObservations {
    /// Indices into the grid, possibly repeated.
    pub indices: Vec<usize>,
    /// The inputs at those indices.
    pub inputs: Vec<f64>,
    /// Function values with noise added.
    pub y: Vec<f64>,
}

impl GridFamily {
    /// Draws a family. Agent n's function does not depend on the number of agents.
    ///
    /// # Panics
    /// If `function_gap` d_n is negative or not finite.
    pub fn draw(prior: &GridPrior, seed: &Seed, n_agents: usize, function_gap: f64) -> Self {
        assert!(
            function_gap.is_finite() && function_gap >= 0.0,
            "gap {function_gap} between functions"
        );
        let target = prior.draw_normalized(&mut seed.stream(Purpose::PROBLEM, 0, 0));
        let agents = (1..)
            .take(n_agents)
            .map(|agent| {
                let mut stream = seed.stream(Purpose::PROBLEM, agent, 0);
                let mut shifted = |f: &f64| {
                    if stream.bernoulli(0.5) { f + function_gap } else { f - function_gap }
                };
                target.iter().map(&mut shifted).collect()
            })
            .collect();
        Self { grid: prior.grid.clone(), target, agents }
    }

    /// Draws heterogeneous agents: α f^n + (1 − α) f, all drawn independently and each scaled to
    /// `[0,1]` before mixing (DP-FTS-DE appendix B.1.2, which does not state whether scaling comes
    /// before or after). With α = 1, agents cannot help each other.
    ///
    /// # Panics
    /// If `difference` α is not in `[0,1]`.
    pub fn mixed(prior: &GridPrior, seed: &Seed, n_agents: usize, difference: f64) -> Self {
        assert!((0.0..=1.0).contains(&difference), "a share of {difference}");
        let target = prior.draw_normalized(&mut seed.stream(Purpose::PROBLEM, 0, 0));
        let agents = (1..).take(n_agents).map(|agent| {
            let own = prior.draw_normalized(&mut seed.stream(Purpose::PROBLEM, agent, 0));
            let pairs = own.iter().zip(&target);
            pairs.map(|(own, base)| difference * own + (1.0 - difference) * base).collect()
        });
        Self { agents: agents.collect(), grid: prior.grid.clone(), target }
    }

    /// Draws `n_obs` (t_n) observations y = g_n(x) + N(0, σ²) of agent number `agent`.
    ///
    /// Inputs are uniform on the grid with replacement; the paper states only "randomly sample".
    ///
    /// # Panics
    /// If there is no agent with this number, or `noise_variance` σ² is negative or not finite.
    pub fn observations(
        &self,
        agent: usize,
        n_obs: usize,
        noise_variance: f64,
        stream: &mut Stream,
    ) -> GridObservations {
        assert!(
            noise_variance.is_finite() && noise_variance >= 0.0,
            "noise variance {noise_variance}"
        );
        let function = &self.agents[agent];
        let indices: Vec<usize> = (0..n_obs).map(|_| stream.below(self.grid.len())).collect();
        let noise_std = noise_variance.sqrt();
        GridObservations {
            inputs: indices.iter().map(|&i| self.grid[i]).collect(),
            y: indices.iter().map(|&i| function[i] + noise_std * stream.normal()).collect(),
            indices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(a: f64, b: f64) -> f64 {
        (-0.5 * ((a - b) / LENGTHSCALE).powi(2)).exp()
    }

    /// Every entry of L Lᵀ equals the kernel's, up to the stated tolerance and rounding.
    #[test]
    fn the_factor_reproduces_the_kernel_on_the_whole_grid() {
        let prior = GridPrior::paper();
        assert!((60..100).contains(&prior.rank()), "{}", prior.rank());
        let rows: Vec<Vec<f64>> =
            (0..N_GRID).map(|i| prior.columns.iter().map(|column| column[i]).collect()).collect();
        let mut largest: f64 = 0.0;
        for i in 0..N_GRID {
            for j in 0..=i {
                let product: f64 = rows[i].iter().zip(&rows[j]).map(|(a, b)| a * b).sum();
                largest = largest.max((product - kernel(prior.grid[i], prior.grid[j])).abs());
            }
        }
        assert!(largest < 2e-12, "{largest:e}");
    }

    /// Second moments over 4000 draws are within five standard errors of the kernel, and differ
    /// from those of a kernel with a shorter scale.
    #[test]
    fn draws_have_the_covariance_of_the_kernel() {
        let prior = GridPrior::paper();
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let draws: Vec<Vec<f64>> = (0..4000).map(|_| prior.draw(&mut stream)).collect();
        let moment = |i: usize, j: usize| draws.iter().map(|f| f[i] * f[j]).sum::<f64>() / 4000.0;
        for (i, j) in [(0, 0), (0, 30), (500, 530), (999, 960), (200, 800), (333, 333)] {
            let expected = kernel(prior.grid[i], prior.grid[j]);
            let tolerance = 5.0 * ((1.0 + expected * expected) / 4000.0).sqrt();
            assert!((moment(i, j) - expected).abs() < tolerance, "{i} {j}");
        }
        assert!(moment(500, 530) - kernel(0.0, 0.06) > 0.2); // the test would detect a wrong kernel
    }

    #[test]
    fn a_short_length_scale_needs_the_full_rank() {
        assert_eq!(GridPrior::new(20, 1e-3).rank(), 20);
    }

    #[test]
    fn a_family_is_normalised_and_its_members_are_exactly_the_gap_apart() {
        let prior = GridPrior::paper();
        let family = GridFamily::draw(&prior, &Seed::new(9), 6, 0.02);
        let low = family.target.iter().copied().fold(f64::INFINITY, f64::min);
        let high = family.target.iter().copied().fold(0.0, f64::max);
        assert_eq!((low, high), (0.0, 1.0));
        for agent in &family.agents {
            let shifts: Vec<f64> = agent.iter().zip(&family.target).map(|(g, f)| g - f).collect();
            assert!(shifts.iter().all(|shift| (shift.abs() - 0.02).abs() < 1e-15));
            let n_up = shifts.iter().filter(|shift| **shift > 0.0).count();
            assert!(n_up.abs_diff(500) < 80, "{n_up}"); // five standard errors of 1000 fair coins
        }
        let smaller = GridFamily::draw(&prior, &Seed::new(9), 2, 0.02);
        assert_eq!(smaller.agents[..], family.agents[..2]);
        assert_ne!(family.agents[0], family.agents[1]);
    }

    #[test]
    fn observations_are_the_agents_values_with_noise() {
        let family = GridFamily::draw(&GridPrior::paper(), &Seed::new(9), 2, 0.05);
        let mut stream = Seed::new(9).stream(Purpose::HISTORY, 1, 0);
        let seen = family.observations(1, 5000, NOISE_VARIANCE, &mut stream);
        assert_eq!((seen.indices.len(), seen.inputs.len(), seen.y.len()), (5000, 5000, 5000));
        let mut sum_of_squares = 0.0;
        for ((&index, x), y) in seen.indices.iter().zip(&seen.inputs).zip(&seen.y) {
            assert_eq!(x.to_bits(), family.grid[index].to_bits());
            sum_of_squares += (y - family.agents[1][index]).powi(2);
        }
        let error = sum_of_squares / 5000.0 - NOISE_VARIANCE;
        assert!(error.abs() < 5.0 * NOISE_VARIANCE * (2.0_f64 / 5000.0).sqrt(), "{error}");
        assert!(family.observations(0, 0, 0.0, &mut stream).y.is_empty());
    }
}
