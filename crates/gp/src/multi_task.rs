//! A Gaussian process over several functions, called tasks, that are correlated.

use fedbo_optim::{LbfgsbOptions, Points, maximize_in_box};

use crate::kernel::profile;
use crate::linalg::{PackedLower, SpdFactor};
use crate::{Family, GpError, Kernel};

/// Observations of several tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObservations {
    /// Inputs of all observations, n×d.
    pub inputs: Points,
    /// Index of each observation's task, counted from 0.
    pub tasks: Vec<usize>,
    /// Outputs (n).
    pub y: Vec<f64>,
}

/// Hyperparameters of a [`MultiTaskPosterior`].
#[derive(Clone, Debug, PartialEq)]
pub struct MultiTaskHyperparameters {
    /// Covariance over the inputs, with signal variance 1.
    pub kernel: Kernel,
    /// Lower triangle of L_B, by rows. The covariance of T tasks is B = L_B L_Bᵀ.
    pub task_factor: PackedLower,
    /// σ², the same for all tasks.
    pub noise_variance: f64,
}

/// An exact Gaussian process over T tasks: the intrinsic model of coregionalization (Bonilla et al.
/// 2007; Swersky et al. 2013).
///
/// cov(f_s(x), f_t(x')) = B_st k(x, x'),   B = L_B L_Bᵀ
#[derive(Clone, Debug)]
pub struct MultiTaskPosterior {
    hyperparameters: MultiTaskHyperparameters,
    observations: TaskObservations,
    /// K⁻¹.
    inverse: PackedLower,
    alpha: Vec<f64>,
}

/// Bounds of ℓ, off-diagonal entries of L_B, diagonal entries of L_B, and σ².
const LENGTHSCALES: (f64, f64) = (1e-2, 1e2);
const ENTRIES: (f64, f64) = (-5.0, 5.0);
const DIAGONAL: (f64, f64) = (1e-2, 5.0);
const NOISE: (f64, f64) = (1e-6, 10.0);

impl MultiTaskHyperparameters {
    /// Returns the start of a fit: tasks with variance 1 and correlations of 1/2, ℓ_j = 0.3 √d,
    /// σ² = 0.01.
    ///
    /// # Panics
    /// If `dim` or `n_tasks` is 0.
    pub fn initial(family: Family, dim: usize, n_tasks: usize) -> Self {
        assert!(n_tasks > 0, "no task");
        #[expect(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
        let lengthscale = 0.3 * (dim as f64).sqrt();
        let kernel = Kernel::isotropic(family, dim, lengthscale, 1.0)
            .unwrap_or_else(|error| unreachable!("a positive length scale: {error}"));
        let mut correlation = PackedLower::zeros(n_tasks);
        for i in 0..n_tasks {
            correlation.row_mut(i).fill(0.5);
            correlation.row_mut(i)[i] = 1.0;
        }
        let factor = SpdFactor::new(&correlation)
            .unwrap_or_else(|error| unreachable!("ones above halves: {error}"));
        Self { kernel, task_factor: factor.lower().clone(), noise_variance: 0.01 }
    }

    /// Returns B_st.
    fn task_covariance(&self, s: usize, t: usize) -> f64 {
        let (a, b) = (self.task_factor.row(s), self.task_factor.row(t));
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn n_tasks(&self) -> usize {
        self.task_factor.size()
    }

    /// Returns θ = (ln ℓ, entries of L_B by rows with ln on the diagonal, ln σ²).
    fn encode(&self) -> Vec<f64> {
        let mut theta: Vec<f64> = self.kernel.lengthscales().iter().map(|l| l.ln()).collect();
        for i in 0..self.n_tasks() {
            let row = self.task_factor.row(i);
            theta.extend_from_slice(&row[..i]);
            theta.push(row[i].ln());
        }
        theta.push(self.noise_variance.ln());
        theta
    }

    fn decode(&self, theta: &[f64]) -> Result<Self, GpError> {
        let dim = self.kernel.dim();
        let lengthscales = theta[..dim].iter().map(|t| t.exp()).collect();
        let mut task_factor = PackedLower::zeros(self.n_tasks());
        let mut entries = theta[dim..].iter();
        for i in 0..self.n_tasks() {
            for (j, entry) in task_factor.row_mut(i).iter_mut().enumerate() {
                let value = entries.next().copied().unwrap_or(f64::NAN);
                *entry = if i == j { value.exp() } else { value };
            }
        }
        Ok(Self {
            kernel: Kernel::new(self.kernel.family(), lengthscales, 1.0)?,
            task_factor,
            noise_variance: entries.next().map_or(f64::NAN, |t| t.exp()),
        })
    }

    fn bounds(&self) -> (Vec<f64>, Vec<f64>) {
        let logs = |(low, high): (f64, f64)| (low.ln(), high.ln());
        let mut pairs = vec![logs(LENGTHSCALES); self.kernel.dim()];
        for i in 0..self.n_tasks() {
            pairs.extend(std::iter::repeat_n(ENTRIES, i));
            pairs.push(logs(DIAGONAL));
        }
        pairs.push(logs(NOISE));
        pairs.into_iter().unzip()
    }

    /// Adds log priors and their gradient in θ: ln ℓ_j ~ N(½ ln d, 1), off-diagonal entries ~ N(0,
    /// 1), ln of diagonal entries ~ N(0, 1), ln σ² ~ N(−4, 1).
    fn add_priors(&self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
        let typical = 0.5 * (self.kernel.dim() as f64).ln();
        let last = theta.len() - 1;
        let mut value = 0.0;
        for (index, (t, g)) in theta.iter().zip(gradient).enumerate() {
            let mean = match index {
                index if index < self.kernel.dim() => typical,
                index if index == last => -4.0,
                _ => 0.0,
            };
            value -= 0.5 * (t - mean).powi(2);
            *g -= t - mean;
        }
        value
    }
}

impl MultiTaskPosterior {
    /// Conditions on the observations. Cost: O(n³).
    ///
    /// # Errors
    /// If an observation is not finite, or the covariance has no Cholesky factor.
    ///
    /// # Panics
    /// If shapes do not match, or a task does not exist.
    pub fn new(
        hyperparameters: MultiTaskHyperparameters,
        observations: TaskObservations,
    ) -> Result<Self, GpError> {
        check(&observations, &hyperparameters)?;
        let factor = SpdFactor::new(&covariance(&hyperparameters, &observations))?;
        let mut alpha = observations.y.clone();
        factor.solve(&mut alpha);
        Ok(Self { inverse: factor.inverse(), hyperparameters, observations, alpha })
    }

    /// Fits hyperparameters from one start by maximum posterior density with L-BFGS-B, and
    /// conditions on the observations. Cost: O(n³ + n² d) per evaluation.
    ///
    /// Swersky et al. (2013) average over samples of the hyperparameters. This fit uses the mode
    /// instead.
    ///
    /// # Errors
    /// If the start has no posterior.
    pub fn fit(
        start: &MultiTaskHyperparameters,
        observations: TaskObservations,
        options: &LbfgsbOptions,
    ) -> Result<Self, GpError> {
        check(&observations, start)?;
        let (lower, upper) = start.bounds();
        let theta: Vec<f64> = start
            .encode()
            .into_iter()
            .zip(lower.iter().zip(&upper))
            .map(|(t, (low, high))| t.clamp(*low, *high))
            .collect();
        let criterion = |theta: &[f64], gradient: &mut [f64]| {
            let Ok(hyperparameters) = start.decode(theta) else {
                return f64::NAN;
            };
            match evidence(&hyperparameters, &observations, gradient) {
                Ok(value) => value + start.add_priors(theta, gradient),
                Err(_) => f64::NAN,
            }
        };
        let found = match maximize_in_box(criterion, &lower, &upper, &theta, options) {
            Ok(maximum) => start.decode(&maximum.x)?,
            Err(_) => start.clone(),
        };
        Self::new(found, observations)
    }

    /// Returns the hyperparameters.
    pub fn hyperparameters(&self) -> &MultiTaskHyperparameters {
        &self.hyperparameters
    }

    /// Returns the observations on which the posterior is conditioned.
    pub fn observations(&self) -> &TaskObservations {
        &self.observations
    }

    /// Returns the correlation of two tasks, B_st/√(B_ss B_tt).
    pub fn task_correlation(&self, s: usize, t: usize) -> f64 {
        let of = |s, t| self.hyperparameters.task_covariance(s, t);
        of(s, t) / (of(s, s) * of(t, t)).sqrt()
    }

    /// Returns the mean and the variance of task t's latent function at x, and writes their
    /// gradients. Cost: O(n²).
    ///
    /// # Panics
    /// If the length of `x` or a gradient is wrong, or the task does not exist.
    pub fn predict(
        &self,
        task: usize,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64) {
        let kernel = &self.hyperparameters.kernel;
        assert_eq!(x.len(), kernel.dim());
        let between: Vec<f64> = (0..self.hyperparameters.n_tasks())
            .map(|other| self.hyperparameters.task_covariance(task, other))
            .collect();
        let n = self.alpha.len();
        let (mut cross, mut slopes) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let observed = self.observations.inputs.rows().zip(&self.observations.tasks);
        for (z, other) in observed {
            let (rho, slope) = profile(kernel.family(), squared_distance(kernel, x, z));
            cross.push(between[*other] * rho);
            slopes.push(between[*other] * slope);
        }
        // w = K⁻¹ k(X, x) from the lower triangle of the symmetric inverse.
        let mut solved = vec![0.0; n];
        for i in 0..n {
            let row = self.inverse.row(i);
            let mut sum = row[i] * cross[i];
            for (j, entry) in row[..i].iter().enumerate() {
                sum += entry * cross[j];
                solved[j] += entry * cross[i];
            }
            solved[i] += sum;
        }
        let dot = |a: &[f64]| -> f64 { a.iter().zip(&cross).map(|(a, c)| a * c).sum() };
        for (j, (of_mean, of_variance)) in
            mean_gradient.iter_mut().zip(variance_gradient.iter_mut()).enumerate()
        {
            let scale = kernel.lengthscales()[j].powi(2);
            (*of_mean, *of_variance) = (0.0, 0.0);
            for (i, z) in self.observations.inputs.rows().enumerate() {
                let d_cross = -slopes[i] * (x[j] - z[j]) / scale;
                *of_mean += self.alpha[i] * d_cross;
                *of_variance -= 2.0 * solved[i] * d_cross;
            }
        }
        let variance = (between[task] - dot(&solved)).max(0.0);
        (dot(&self.alpha), variance)
    }
}

fn check(
    observations: &TaskObservations,
    hyperparameters: &MultiTaskHyperparameters,
) -> Result<(), GpError> {
    let TaskObservations { inputs, tasks, y } = observations;
    assert_eq!(inputs.len(), y.len(), "as many outputs as inputs");
    assert_eq!(tasks.len(), y.len(), "a task for each output");
    assert_eq!(inputs.dim(), hyperparameters.kernel.dim());
    assert!(tasks.iter().all(|task| *task < hyperparameters.n_tasks()));
    for (index, (x, y)) in inputs.rows().zip(y).enumerate() {
        if !(y.is_finite() && x.iter().all(|v| v.is_finite())) {
            return Err(GpError::NotFinite { index });
        }
    }
    Ok(())
}

fn squared_distance(kernel: &Kernel, x: &[f64], z: &[f64]) -> f64 {
    let scaled = x.iter().zip(z).zip(kernel.lengthscales());
    scaled.map(|((x, z), l)| ((x - z) / l).powi(2)).sum()
}

/// Returns the lower triangle of K + σ²I.
fn covariance(
    hyperparameters: &MultiTaskHyperparameters,
    observations: &TaskObservations,
) -> PackedLower {
    let (kernel, tasks) = (&hyperparameters.kernel, &observations.tasks);
    let mut covariance = PackedLower::zeros(tasks.len());
    for i in 0..tasks.len() {
        for (j, entry) in covariance.row_mut(i).iter_mut().enumerate() {
            let (x, z) = (observations.inputs.row(i), observations.inputs.row(j));
            *entry = hyperparameters.task_covariance(tasks[i], tasks[j])
                * profile(kernel.family(), squared_distance(kernel, x, z)).0;
        }
        covariance.row_mut(i)[i] += hyperparameters.noise_variance;
    }
    covariance
}

/// Computes ln p(y) and its gradient in θ, ½ tr((α αᵀ − K⁻¹) ∂K/∂θ).
///
/// Let S_st = Σ (α_i α_j − K⁻¹_ij) k_ij over the pairs of observations of tasks s and t. Then the
/// gradient in L_B is S L_B.
fn evidence(
    hyperparameters: &MultiTaskHyperparameters,
    observations: &TaskObservations,
    gradient: &mut [f64],
) -> Result<f64, GpError> {
    let (kernel, tasks) = (&hyperparameters.kernel, &observations.tasks);
    let (n, dim, n_tasks) = (tasks.len(), kernel.dim(), hyperparameters.n_tasks());
    let factor = SpdFactor::new(&covariance(hyperparameters, observations))?;
    let mut alpha = observations.y.clone();
    factor.solve(&mut alpha);
    let inverse = factor.inverse();
    gradient.fill(0.0);
    let mut sums = vec![0.0; n_tasks * n_tasks];
    let mut of_noise = 0.0;
    for i in 0..n {
        for (j, inverse) in inverse.row(i).iter().enumerate() {
            // Off the diagonal, each pair represents two entries.
            let pair = (alpha[i] * alpha[j] - inverse) * if i == j { 0.5 } else { 1.0 };
            let (x, z) = (observations.inputs.row(i), observations.inputs.row(j));
            let (rho, slope) = profile(kernel.family(), squared_distance(kernel, x, z));
            let between = hyperparameters.task_covariance(tasks[i], tasks[j]);
            for (k, length) in kernel.lengthscales().iter().enumerate() {
                gradient[k] += pair * between * slope * ((x[k] - z[k]) / length).powi(2);
            }
            sums[tasks[i] * n_tasks + tasks[j]] += pair * rho;
            sums[tasks[j] * n_tasks + tasks[i]] += pair * rho;
            if i == j {
                of_noise += pair;
            }
        }
    }
    let mut place = dim;
    for s in 0..n_tasks {
        for column in 0..=s {
            let below = (column..n_tasks)
                .map(|t| sums[s * n_tasks + t] * hyperparameters.task_factor.row(t)[column]);
            let slope: f64 = below.sum();
            let is_diagonal = column == s;
            let entry = hyperparameters.task_factor.row(s)[column];
            gradient[place] = if is_diagonal { slope * entry } else { slope };
            place += 1;
        }
    }
    gradient[place] = of_noise * hyperparameters.noise_variance;
    #[expect(clippy::cast_precision_loss, reason = "numbers of observations")]
    let constant = 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
    let fit: f64 = alpha.iter().zip(&observations.y).map(|(a, y)| a * y).sum();
    Ok(-0.5 * fit - 0.5 * factor.log_determinant() - constant)
}

#[cfg(test)]
mod tests {
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::Posterior;

    fn observations(n: usize, n_tasks: usize) -> TaskObservations {
        let inputs = uniform_points(n, 2, &mut test_stream(3));
        let tasks: Vec<usize> = (0..n).map(|i| i % n_tasks).collect();
        let mut stream = test_stream(4);
        let y = inputs.rows().zip(&tasks).map(|(x, task)| {
            let sign = if *task == 2 { -1.0 } else { 1.0 };
            sign * ((5.0 * x[0]).sin() + x[1]) + 0.05 * stream.normal()
        });
        TaskObservations { y: y.collect(), tasks, inputs }
    }

    /// Central differences with a step of 1e-5, for every family and every entry of θ.
    #[test]
    fn the_gradient_of_the_evidence_agrees_with_differences() {
        let data = observations(17, 3);
        for family in [Family::SquaredExponential, Family::Matern32, Family::Matern52] {
            let start = MultiTaskHyperparameters::initial(family, 2, 3);
            let theta: Vec<f64> = start
                .encode()
                .iter()
                .zip(test_stream(5).normals(20))
                .map(|(t, z)| t + 0.3 * z)
                .collect();
            let at = |theta: &[f64], gradient: &mut [f64]| {
                evidence(&start.decode(theta).unwrap(), &data, gradient).unwrap()
            };
            let mut gradient = vec![0.0; theta.len()];
            at(&theta, &mut gradient);
            let mut unused = gradient.clone();
            for k in 0..theta.len() {
                let mut moved = |step: f64| {
                    let mut near = theta.clone();
                    near[k] += step;
                    at(&near, &mut unused)
                };
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let error = (gradient[k] - slope).abs();
                assert!(error < 1e-4 * slope.abs().max(1.0), "{k}: {gradient:?} {slope}");
            }
        }
    }

    /// A single task is a plain Gaussian process. Tasks without covariance are independent.
    /// Gradients of predictions match central differences.
    #[test]
    fn without_covariance_each_task_is_on_its_own() {
        let data = observations(18, 3);
        let mut given = MultiTaskHyperparameters::initial(Family::Matern52, 2, 3);
        for i in 0..3 {
            given.task_factor.row_mut(i).fill(0.0);
            given.task_factor.row_mut(i)[i] = 1.3;
        }
        let joint = MultiTaskPosterior::new(given.clone(), data.clone()).unwrap();
        let lengthscales = given.kernel.lengthscales().to_vec();
        let kernel = Kernel::new(Family::Matern52, lengthscales, 1.69).unwrap();
        let own = (0..18).filter(|i| data.tasks[*i] == 1);
        let (rows, y): (Vec<_>, Vec<_>) = own.map(|i| (data.inputs.row(i), data.y[i])).unzip();
        let alone = Posterior::new(kernel, 0.01, Points::from_rows(2, rows), y).unwrap();
        for x in uniform_points(5, 2, &mut test_stream(6)).rows() {
            let (mut of_mean, mut of_variance) = ([0.0; 2], [0.0; 2]);
            let (mean, variance) = joint.predict(1, x, &mut of_mean, &mut of_variance);
            let (expected, expected_variance) = alone.mean_variance(x);
            assert!((mean - expected).abs() < 1e-9 && (variance - expected_variance).abs() < 1e-9);
            for j in 0..2 {
                let moved = |step: f64| {
                    let mut near = x.to_vec();
                    near[j] += step;
                    joint.predict(1, &near, &mut [0.0; 2], &mut [0.0; 2])
                };
                let (up, down) = (moved(1e-5), moved(-1e-5));
                assert!((of_mean[j] - (up.0 - down.0) / 2e-5).abs() < 1e-6);
                assert!((of_variance[j] - (up.1 - down.1) / 2e-5).abs() < 1e-6);
            }
        }
    }

    /// Task 1 is task 0 observed elsewhere, and task 2 is its negative. The fit detects both
    /// relations and predicts task 0 far better than a fit to only the observations of task 0 does.
    #[test]
    fn a_fit_finds_which_tasks_are_alike() {
        let mut data = observations(60, 3);
        let few: Vec<usize> = (0..60).filter(|i| data.tasks[*i] != 0 || *i < 9).collect();
        data = TaskObservations {
            inputs: Points::from_rows(2, few.iter().map(|i| data.inputs.row(*i))),
            tasks: few.iter().map(|i| data.tasks[*i]).collect(),
            y: few.iter().map(|i| data.y[*i]).collect(),
        };
        let start = MultiTaskHyperparameters::initial(Family::Matern52, 2, 3);
        let fitted = MultiTaskPosterior::fit(&start, data, &LbfgsbOptions::default()).unwrap();
        assert!(fitted.task_correlation(0, 1) > 0.8, "{:?}", fitted.hyperparameters());
        assert!(fitted.task_correlation(0, 2) < -0.8);
        let error = uniform_points(50, 2, &mut test_stream(7));
        let error = error.rows().map(|x| {
            let truth = (5.0 * x[0]).sin() + x[1];
            (fitted.predict(0, x, &mut [0.0; 2], &mut [0.0; 2]).0 - truth).powi(2) / 50.0
        });
        assert!(error.sum::<f64>().sqrt() < 0.15);
    }
}
