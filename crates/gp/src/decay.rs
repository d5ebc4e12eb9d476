//! A Gaussian process of decaying functions over training epochs, which predicts a learning curve
//! from its first epochs.

mod average;
mod continuation;
mod search;

pub use average::DecayAverage;
pub use continuation::Continuation;

use self::continuation::low_rank;
use self::search::most_evident;
use crate::linalg::{PackedLower, SpdFactor};
use crate::{GpError, positive};

/// A process for validation errors e(n) over epochs n ≥ 1 (Swersky et al. 2014; thesis Eq. (A.1)):
///
/// k(n, n') = a² + ∫ exp(−λ n) exp(−λ n') φ(λ) dλ = a² + (β/(n + n' + β))^α,   φ = Gamma(α, β)
///
/// A curve is therefore a mixture of exponential decays to 0 or, with a² > 0, to a level of its
/// own. Observed errors have noise of variance σ². The prior mean is 0. α (`shape`), β (`rate`) and
/// σ² are above 0, and a² (`level_variance`) is at least 0; [`DecayProcess::new`] checks this. The
/// thesis uses a² = 0. The authors' code allows α and β to become negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecayProcess {
    shape: f64,
    rate: f64,
    level_variance: f64,
    noise_variance: f64,
}

/// The source of σ².
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecayNoise {
    /// Fixed to the given value.
    Fixed(f64),
    /// Fitted together with the other parameters, with the prior σ ~ LogNormal(ln 0.005, 1)
    /// restricted to 1e-4 to 0.1.
    Fitted,
}

/// The method for determining α and β from the first errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecayFit {
    /// By evidence: the largest log marginal likelihood for α in `[0.05, 20]` and β in
    /// `[0.05, 500]`. Searches a logarithmic grid, then runs pattern searches from the best grid
    /// points.
    Evidence {
        /// σ².
        noise: DecayNoise,
    },
    /// As in the thesis (A.2): α = α₀ + N₀, β = β₀ + Σ e_n. This would be the posterior of a rate λ
    /// ~ Gamma(α₀, β₀) if the errors were draws from an exponential distribution with rate λ. The
    /// authors' code computes this update with α₀ = β₀ = 0, but does not use the result.
    BayesianUpdate {
        /// α₀ ≥ 0.
        shape: f64,
        /// β₀ ≥ 0.
        rate: f64,
        /// σ² > 0.
        noise_variance: f64,
    },
}

impl DecayProcess {
    /// Creates a process from α, β, a² and σ².
    ///
    /// # Errors
    /// If a parameter is not finite or out of range.
    pub fn new(
        shape: f64,
        rate: f64,
        level_variance: f64,
        noise_variance: f64,
    ) -> Result<Self, GpError> {
        positive("shape of the decay rates", shape)?;
        positive("rate of the decay rates", rate)?;
        positive("noise variance", noise_variance)?;
        if !(level_variance.is_finite() && level_variance >= 0.0) {
            return Err(GpError::Hyperparameter {
                name: "level variance",
                value: level_variance,
                expected: "of at least 0",
            });
        }
        Ok(Self { shape, rate, level_variance, noise_variance })
    }

    /// Fits the process to a curve with the given errors at epochs 1 to N₀. Cost: O(N₀³) for each
    /// of about a thousand evidence evaluations.
    ///
    /// # Errors
    /// If an error is not finite, a setting is out of range, or the evidence cannot be computed at
    /// any point.
    pub fn fit(errors: &[f64], level_variance: f64, fit: DecayFit) -> Result<Self, GpError> {
        if let Some(index) = errors.iter().position(|error| !error.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        match fit {
            DecayFit::BayesianUpdate { shape, rate, noise_variance } => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "numbers of epochs are far below 2^53"
                )]
                let n = errors.len() as f64;
                let sum: f64 = errors.iter().sum();
                Self::new(shape + n, rate + sum, level_variance, noise_variance)
            }
            DecayFit::Evidence { noise } => most_evident(errors, level_variance, noise),
        }
    }

    /// Returns α.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// Returns β.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns σ².
    pub fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Returns k(n, n').
    pub fn covariance(&self, n: usize, m: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
        let sum = (n + m) as f64;
        self.level_variance + (self.rate / (sum + self.rate)).powf(self.shape)
    }

    /// Returns ln N(e; 0, K + σ² I) for the errors e at epochs 1, 2, …, n. Cost: O(n³).
    ///
    /// # Errors
    /// If the covariance has no Cholesky factor.
    pub fn log_evidence(&self, errors: &[f64]) -> Result<f64, GpError> {
        let factor = self.factor(errors.len())?;
        let mut whitened = errors.to_vec();
        factor.solve_lower(&mut whitened);
        let square: f64 = whitened.iter().map(|v| v * v).sum();
        #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
        let n = errors.len() as f64;
        Ok(-0.5 * (square + factor.log_determinant() + n * std::f64::consts::TAU.ln()))
    }

    /// Returns L with L Lᵀ = K + σ² I at epochs 1 to n.
    fn factor(&self, n: usize) -> Result<SpdFactor, GpError> {
        let mut gram = PackedLower::zeros(n);
        // k depends only on the sum of the two epochs.
        let by_sum: Vec<f64> = (2..=2 * n).map(|sum| self.covariance(1, sum - 1)).collect();
        for i in 0..n {
            let row = gram.row_mut(i);
            row.copy_from_slice(&by_sum[i..=2 * i]);
            row[i] += self.noise_variance;
        }
        Ok(SpdFactor::new(&gram)?)
    }

    /// Returns the distribution of the noise-free errors at epochs N₀ + 1 to N, given the observed
    /// errors at epochs 1 to N₀. Cost: O(N₀² N + N² r) for a covariance of rank r.
    ///
    /// # Errors
    /// If an error is not finite, or the covariance has no Cholesky factor.
    ///
    /// # Panics
    /// If N is not above N₀.
    pub fn continuation(&self, errors: &[f64], n_epochs: usize) -> Result<Continuation, GpError> {
        let n_first = errors.len();
        assert!(n_epochs > n_first, "a curve that is already at its end");
        if let Some(index) = errors.iter().position(|error| !error.is_finite()) {
            return Err(GpError::NotFinite { index });
        }
        let factor = self.factor(n_first)?;
        let mut alpha = errors.to_vec();
        factor.solve(&mut alpha);
        let mut mean = Vec::with_capacity(n_epochs - n_first);
        let mut whitened = Vec::with_capacity(n_epochs - n_first);
        for n in n_first + 1..=n_epochs {
            let mut cross: Vec<f64> = (1..=n_first).map(|m| self.covariance(n, m)).collect();
            mean.push(cross.iter().zip(&alpha).map(|(k, a)| k * a).sum());
            factor.solve_lower(&mut cross);
            whitened.push(cross);
        }
        let covariance = |i: usize, j: usize| {
            let explained: f64 = whitened[i].iter().zip(&whitened[j]).map(|(a, b)| a * b).sum();
            self.covariance(n_first + 1 + i, n_first + 1 + j) - explained
        };
        let factor = low_rank(mean.len(), covariance);
        Ok(Continuation::new(mean, factor))
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::search::{RATE, SHAPE};
    use super::*;

    fn process() -> DecayProcess {
        DecayProcess::new(1.3, 4.0, 0.0, 1e-5).unwrap()
    }

    /// Computes the integral in (A.1) by the midpoint rule in λ. The error comes from the first
    /// cells, because λ^0.3 has no derivative at 0.
    #[test]
    fn the_kernel_is_the_integral_over_decay_rates() {
        let (shape, rate) = (1.3_f64, 4.0_f64);
        let gamma: f64 = 0.897_470_696_306_277; // Γ(1.3)
        for (n, m) in [(1, 1), (1, 9), (8, 50)] {
            let width = 1e-4;
            let sum: f64 = (0..200_000_u32)
                .map(|i| {
                    let lambda = width * (f64::from(i) + 0.5);
                    let density =
                        rate.powf(shape) * lambda.powf(shape - 1.0) * (-rate * lambda).exp()
                            / gamma;
                    let decay = -lambda * f64::from(n + m);
                    density * decay.exp() * width
                })
                .sum();
            let exact = process().covariance(n as usize, m as usize);
            assert!((sum - exact).abs() < 2e-4 * exact, "{n} {m}: {sum} {exact}");
        }
    }

    /// Compares with the textbook formula and an explicit inverse by Gauss-Jordan elimination.
    #[test]
    fn the_continuation_is_the_conditional_law() {
        let process = DecayProcess::new(0.8, 6.0, 0.01, 1e-4).unwrap();
        let errors = [0.5, 0.41, 0.36, 0.33];
        let found = process.continuation(&errors, 7).unwrap();
        let n = errors.len();
        let mut system: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let mut row: Vec<f64> = (0..n).map(|j| process.covariance(i + 1, j + 1)).collect();
                row[i] += 1e-4;
                row.extend((0..n).map(|j| f64::from(u8::from(i == j))));
                row
            })
            .collect();
        for i in 0..n {
            let pivot = system[i][i];
            system[i].iter_mut().for_each(|v| *v /= pivot);
            for other in 0..n {
                if other != i {
                    let factor = system[other][i];
                    let row = system[i].clone();
                    for (v, p) in system[other].iter_mut().zip(&row) {
                        *v -= factor * p;
                    }
                }
            }
        }
        let inverse = |i: usize, j: usize| system[i][n + j];
        let cross = |epoch: usize, i: usize| process.covariance(epoch, i + 1);
        for (a, epoch) in (5..=7).enumerate() {
            let mean: f64 = (0..n)
                .flat_map(|i| (0..n).map(move |j| (i, j)))
                .map(|(i, j)| cross(epoch, i) * inverse(i, j) * errors[j])
                .sum();
            assert!((found.mean()[a] - mean).abs() < 1e-9);
            let explained: f64 = (0..n)
                .flat_map(|i| (0..n).map(move |j| (i, j)))
                .map(|(i, j)| cross(epoch, i) * inverse(i, j) * cross(epoch, j))
                .sum();
            let variance = process.covariance(epoch, epoch) - explained;
            assert!((found.std()[a].powi(2) - variance).abs() < 1e-9);
        }
        let (average, _) = found.averages()[2];
        let expected = found.mean().iter().sum::<f64>() / 3.0;
        assert!((average - expected).abs() < 1e-12);
    }

    /// With 40 000 draws, means agree within 5 standard errors, and the standard deviations of
    /// errors and of averages agree within 3 %.
    #[test]
    fn draws_have_the_law_of_the_continuation() {
        let errors = [0.5, 0.41, 0.36, 0.33, 0.31, 0.3, 0.29, 0.28];
        let found = process().continuation(&errors, 20).unwrap();
        let n_paths = 40_000;
        let mut stream = Seed::new(3).stream(Purpose::TEST, 0, 0);
        let paths = found.draw(n_paths, &mut stream);
        let mut sums = vec![0.0; n_paths];
        for (i, epoch) in paths.chunks_exact(n_paths).enumerate() {
            for (sum, value) in sums.iter_mut().zip(epoch) {
                *sum += value;
            }
            let averages: Vec<f64> = sums.iter().map(|sum| sum / (i + 1) as f64).collect();
            for (values, (mean, std)) in
                [(epoch, (found.mean()[i], found.std()[i])), (&averages[..], found.averages()[i])]
            {
                let n = n_paths as f64;
                let sampled = values.iter().sum::<f64>() / n;
                let square = values.iter().map(|v| (v - sampled).powi(2)).sum::<f64>() / n;
                assert!((sampled - mean).abs() < 5.0 * std / n.sqrt());
                assert!((square.sqrt() / std - 1.0).abs() < 0.03);
            }
        }
        assert!(paths.len() == 12 * n_paths && found.rank() < 8);
    }

    /// A dense search of 120 by 120 points finds no process with more evidence than the fit, up to
    /// the step size of the search.
    #[test]
    fn a_fit_is_not_caught_in_a_lesser_top() {
        let mut stream = Seed::new(6).stream(Purpose::TEST, 0, 0);
        for index in 0..12 {
            let (end, start) = (0.05 + 0.2 * stream.uniform(), 0.2 + 0.5 * stream.uniform());
            let rate = 0.05 + 0.5 * stream.uniform();
            let errors: Vec<f64> = (1..=8)
                .map(|n| end + start * (-rate * f64::from(n)).exp() + 0.004 * stream.normal())
                .collect();
            let fit = DecayFit::Evidence { noise: DecayNoise::Fixed(1.6e-5) };
            let found = DecayProcess::fit(&errors, 0.0, fit).unwrap();
            let ours = found.log_evidence(&errors).unwrap();
            let on = |(low, high): (f64, f64), step: u32| {
                (low.ln() + (high / low).ln() * f64::from(step) / 119.0).exp()
            };
            let mut best = f64::NEG_INFINITY;
            for i in 0..120 {
                for j in 0..120 {
                    let other = DecayProcess::new(on(SHAPE, i), on(RATE, j), 0.0, 1.6e-5).unwrap();
                    best = best.max(other.log_evidence(&errors).unwrap());
                }
            }
            assert!(ours > best - 1e-3, "{index}: {ours} {best}");
        }
    }

    /// For curves drawn from a process, the evidence of the fit is at least the evidence of the
    /// true process. The fitted parameters stay positive, even for rising curves.
    #[test]
    fn a_fit_finds_at_least_the_evidence_of_the_truth() {
        let truth = DecayProcess::new(0.6, 10.0, 0.0, 1e-5).unwrap();
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let root = truth.factor(8).unwrap();
        for _ in 0..5 {
            let errors = root.multiply_lower(&stream.normals(8));
            let fit = DecayFit::Evidence { noise: DecayNoise::Fixed(1e-5) };
            let found = DecayProcess::fit(&errors, 0.0, fit).unwrap();
            let (ours, theirs) =
                (found.log_evidence(&errors).unwrap(), truth.log_evidence(&errors).unwrap());
            assert!(ours >= theirs, "{ours} {theirs}");
        }
        let rising = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
        let fit = DecayFit::Evidence { noise: DecayNoise::Fitted };
        let found = DecayProcess::fit(&rising, 0.0, fit).unwrap();
        assert!(found.shape() > 0.0 && found.rate() > 0.0 && found.noise_variance() > 0.0);
    }

    #[test]
    fn the_bayesian_update_counts_epochs_and_adds_errors() {
        let fit = DecayFit::BayesianUpdate { shape: 1.0, rate: 0.5, noise_variance: 1e-3 };
        let found = DecayProcess::fit(&[0.5, 0.25, 0.25], 0.0, fit).unwrap();
        assert!((found.shape() - 4.0).abs() < 1e-12 && (found.rate() - 1.5).abs() < 1e-12);
        assert!(DecayProcess::fit(&[f64::NAN], 0.0, fit).is_err());
        assert!(DecayProcess::new(0.0, 1.0, 0.0, 1e-3).is_err());
        assert!(DecayProcess::new(1.0, 1.0, -1.0, 1e-3).is_err());
    }
}
