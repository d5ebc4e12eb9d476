//! Point-estimate meta-BO (Wang, Kim & Kaelbling 2018): the prior is estimated from earlier tasks.

use fedbo_gp::linalg::{PackedLower, SpdFactor};
use fedbo_optim::{Points, best};
use fedbo_streams::Stream;

use fedbo_strategies::{Observation, Proposal, Source, Strategy, StrategyError};

/// GP-UCB on a finite domain, under a prior that is estimated without a kernel. Every meta-task
/// must contain observations of every point of the domain.
///
/// μ̂ = mean of the N tasks' outputs,   K̂ = their sample covariance (divided by N − 1)
/// μ̂_t(x) = μ̂(x) + k̂(x)ᵀ K̂⁻¹ (y − μ̂),   k̂_t(x) = (N − 1)/(N − t − 1) (k̂(x, x) − k̂(x)ᵀ K̂⁻¹ k̂(x))
/// x_{t+1} = argmax μ̂_t(x) + ζ √k̂_t(x)
///
/// ζ is a constant here; the paper's theorem uses a factor from its bound. The noise is part of K̂,
/// as in the paper. The number t of observations must be below N − 1: otherwise the estimate is not
/// invertible, and no query is proposed.
#[derive(Clone, Debug)]
pub struct PemBo {
    domain: Points,
    n_tasks: usize,
    mean: Vec<f64>,
    /// K̂ in row-major order.
    covariance: Vec<f64>,
    ucb_multiplier: f64,
    /// Indices of observed points without duplicates, and their outputs.
    observed: Vec<(usize, f64)>,
    failed: Vec<usize>,
}

impl PemBo {
    /// Estimates the prior from `outputs`, with one row per meta-task and one number per point of
    /// the domain.
    ///
    /// # Errors
    /// If there are fewer than 3 tasks, an output is missing or not finite, or the multiplier is
    /// not a finite number of at least 0.
    pub fn new(
        domain: Points,
        outputs: &[Vec<f64>],
        ucb_multiplier: f64,
    ) -> Result<Self, StrategyError> {
        let fail =
            |name, value: String, expected| Err(StrategyError::setting(name, value, expected));
        if outputs.len() < 3 {
            return fail("meta-tasks", outputs.len().to_string(), "at least 3");
        }
        let is_whole =
            |row: &Vec<f64>| row.len() == domain.len() && row.iter().all(|y| y.is_finite());
        if let Some(index) = outputs.iter().position(|row| !is_whole(row)) {
            let expected = "a finite output at every point of the domain";
            return fail("meta-task", index.to_string(), expected);
        }
        if !(ucb_multiplier.is_finite() && ucb_multiplier >= 0.0) {
            let expected = "a finite number of at least 0";
            return fail("ucb_multiplier", ucb_multiplier.to_string(), expected);
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of tasks")]
        let n = outputs.len() as f64;
        let mean: Vec<f64> =
            (0..domain.len()).map(|x| outputs.iter().map(|row| row[x]).sum::<f64>() / n).collect();
        let mut covariance = Vec::with_capacity(mean.len() * mean.len());
        for (x, mean_x) in mean.iter().enumerate() {
            for (z, mean_z) in mean.iter().enumerate() {
                let products = outputs.iter().map(|row| (row[x] - mean_x) * (row[z] - mean_z));
                covariance.push(products.sum::<f64>() / (n - 1.0));
            }
        }
        Ok(Self {
            n_tasks: outputs.len(),
            domain,
            mean,
            covariance,
            ucb_multiplier,
            observed: Vec::new(),
            failed: Vec::new(),
        })
    }

    fn k(&self, x: usize, z: usize) -> f64 {
        self.covariance[x * self.mean.len() + z]
    }

    /// Computes μ̂_t and k̂_t at every point.
    ///
    /// # Errors
    /// If there are too many observations for the number of tasks, or K̂ cannot be factorized.
    pub fn posterior(&self) -> Result<(Vec<f64>, Vec<f64>), StrategyError> {
        let t = self.observed.len();
        StrategyError::ensure(
            t + 1 < self.n_tasks,
            "observations of the target",
            t,
            "fewer than the meta-tasks less one: the estimated prior has no inverse beyond",
        )?;
        let mut gram = PackedLower::zeros(t);
        for i in 0..t {
            for (j, entry) in gram.row_mut(i).iter_mut().enumerate() {
                *entry = self.k(self.observed[i].0, self.observed[j].0);
            }
        }
        let factor = SpdFactor::new(&gram).map_err(fedbo_gp::GpError::from)?;
        let mut alpha: Vec<f64> = self.observed.iter().map(|(x, y)| y - self.mean[*x]).collect();
        factor.solve(&mut alpha);
        #[expect(clippy::cast_precision_loss, reason = "numbers of tasks")]
        let inflation = (self.n_tasks - 1) as f64 / (self.n_tasks - t - 1) as f64;
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for x in 0..self.mean.len() {
            let mut cross: Vec<f64> = self.observed.iter().map(|(z, _)| self.k(x, *z)).collect();
            let shift: f64 = cross.iter().zip(&alpha).map(|(k, a)| k * a).sum();
            factor.solve_lower(&mut cross);
            let explained: f64 = cross.iter().map(|v| v * v).sum();
            means.push(self.mean[x] + shift);
            variances.push(inflation * (self.k(x, x) - explained).max(0.0));
        }
        Ok((means, variances))
    }
}

impl Strategy for PemBo {
    /// Never proposes a point twice, because K̂ would then be singular.
    fn ask(&self, pending: &Points, _: &mut Stream) -> Result<Proposal, StrategyError> {
        let (means, variances) = self.posterior()?;
        let mut values: Vec<f64> = means
            .iter()
            .zip(variances)
            .map(|(mean, variance)| mean + self.ucb_multiplier * variance.sqrt())
            .collect();
        let running = pending.rows().filter_map(|unit| self.index_of(unit));
        let tried = self.observed.iter().map(|(x, _)| *x).chain(running);
        for x in tried.chain(self.failed.iter().copied()) {
            values[x] = f64::NAN;
        }
        if values.iter().all(|v| v.is_nan()) {
            return Err(StrategyError::Exhausted { n_points: values.len() });
        }
        Ok(Proposal { unit: self.domain.row(best(&values)?).to_vec(), source: Source::Own })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        for observation in observed {
            let Some(index) = self.index_of(&observation.unit) else {
                return Err(StrategyError::setting(
                    "observation",
                    format!("{:?}", observation.unit),
                    "a point of the finite domain",
                ));
            };
            match observation.value {
                Some(value) if value.is_finite() => {
                    if self.observed.iter().all(|(x, _)| *x != index) {
                        self.observed.push((index, value));
                    }
                }
                _ => self.failed.push(index),
            }
        }
        Ok(())
    }
}

impl PemBo {
    fn index_of(&self, unit: &[f64]) -> Option<usize> {
        self.domain.rows().position(|x| x == unit)
    }
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{dense, test_stream, uniform_points};

    use super::*;

    /// Returns 40 draws of f(x) = a + b x at 7 points, where a, b ~ N(0, 1), with noise so that K̂
    /// has full rank.
    fn tasks() -> (Points, Vec<Vec<f64>>) {
        let domain = uniform_points(7, 1, &mut test_stream(1));
        let mut stream = test_stream(2);
        let rows = (0..40).map(|_| {
            let (a, b) = (stream.normal(), stream.normal());
            domain.rows().map(|x| a + b * x[0] + 0.1 * stream.normal()).collect()
        });
        let rows = rows.collect();
        (domain, rows)
    }

    /// Computes the formulas with explicit sums over tasks and Gaussian elimination.
    #[test]
    fn the_posterior_is_that_of_the_estimated_prior() {
        let (domain, rows) = tasks();
        let mut strategy = PemBo::new(domain.clone(), &rows, 2.0).unwrap();
        let seen = [(2, 0.3), (5, -0.4), (0, 1.1)];
        let told =
            seen.map(|(x, y)| Observation::new(domain.row(x).to_vec(), Some(y), Source::Own));
        strategy.tell(&told).unwrap();
        let mean = |x: usize| rows.iter().map(|row| row[x]).sum::<f64>() / 40.0;
        let k = |x: usize, z: usize| {
            let products = rows.iter().map(|row| (row[x] - mean(x)) * (row[z] - mean(z)));
            products.sum::<f64>() / 39.0
        };
        let gram = dense::Matrix::from_fn(3, 3, |i, j| k(seen[i].0, seen[j].0));
        let residual: Vec<f64> = seen.iter().map(|(x, y)| y - mean(*x)).collect();
        let alpha = gram.solve_vector(&residual);
        let (means, variances) = strategy.posterior().unwrap();
        for x in 0..7 {
            let cross: Vec<f64> = seen.iter().map(|(z, _)| k(x, *z)).collect();
            let solved = gram.solve_vector(&cross);
            let dot = |a: &[f64]| -> f64 { a.iter().zip(&cross).map(|(a, b)| a * b).sum() };
            assert!((means[x] - mean(x) - dot(&alpha)).abs() < 1e-9);
            let expected = 39.0 / 36.0 * (k(x, x) - dot(&solved));
            assert!((variances[x] - expected.max(0.0)).abs() < 1e-9);
        }
        let next = strategy.ask(&Points::new(1), &mut test_stream(3)).unwrap();
        assert!(seen.iter().all(|(x, _)| next.unit != domain.row(*x)));
    }

    #[test]
    fn too_few_tasks_and_foreign_points_are_refused() {
        let (domain, rows) = tasks();
        assert!(PemBo::new(domain.clone(), &rows[..2], 1.0).is_err());
        assert!(PemBo::new(domain.clone(), &rows, f64::NAN).is_err());
        let mut strategy = PemBo::new(domain.clone(), &rows[..4], 1.0).unwrap();
        let at = |unit: &[f64]| [Observation::new(unit.to_vec(), Some(0.5), Source::Own)];
        assert!(strategy.tell(&at(&[2.0])).is_err());
        for x in 0..3 {
            strategy.ask(&Points::new(1), &mut test_stream(3)).unwrap();
            strategy.tell(&at(domain.row(x))).unwrap();
        }
        let error = strategy.ask(&Points::new(1), &mut test_stream(3)).unwrap_err();
        assert!(error.to_string().contains("meta-tasks"), "{error}");
    }
}
