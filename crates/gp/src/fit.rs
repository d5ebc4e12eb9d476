//! Hyperparameter fits by maximum evidence, with or without priors.

use fedbo_optim::{Lbfgsb, LbfgsbOptions, LocalMaximum, Points};
use fedbo_streams::Stream;
use serde::{Deserialize, Serialize};

use crate::evidence::Workspace;
use crate::{Family, GpError, Kernel, parallel};

/// Kernel and noise variance: the parameters of a [`crate::Posterior`] other than the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameters {
    /// Length scales and signal variance.
    pub kernel: Kernel,
    /// σ².
    pub noise_variance: f64,
}

/// The criterion that a fit maximizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitCriterion {
    /// Only ln p(y | X).
    MaximumLikelihood,
    /// ln p(y | X) plus log priors, for standardized outputs on `[0,1]^d`: ℓ_j/√d from
    /// [`FitOptions::lengthscale_prior`], a² ~ LogNormal(0, 1) and σ² from
    /// [`FitOptions::noise_prior`]. The densities are those of the parameter, not of its logarithm.
    MaximumPosterior,
}

/// A log-normal distribution, given by the mean and the variance of the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Mean of the logarithm.
    pub location: f64,
    /// Variance of the logarithm.
    pub variance: f64,
}

impl LogNormal {
    /// Returns the logarithm of the density at e^t, without its constant, and its derivative in t.
    fn ln_density(self, t: f64) -> (f64, f64) {
        let off = t - self.location;
        (-t - off.powi(2) / (2.0 * self.variance), -1.0 - off / self.variance)
    }
}

/// Options of the search in a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitOptions {
    /// The criterion that is maximized.
    pub criterion: FitCriterion,
    /// True to use one length scale for all dimensions, false to use one per dimension.
    pub isotropic: bool,
    /// Number of random starts in addition to the given start.
    pub n_restarts: usize,
    /// Bounds of every ℓ.
    pub lengthscale_bounds: (f64, f64),
    /// Bounds of a².
    pub outputscale_bounds: (f64, f64),
    /// Bounds of σ².
    pub noise_bounds: (f64, f64),
    /// Prior of every ℓ/√d for [`FitCriterion::MaximumPosterior`].
    pub lengthscale_prior: LogNormal,
    /// Offsets to the location of the length-scale prior, one per coordinate, for length scales
    /// that are expected to be shorter. Empty for no offsets. Must be empty for an isotropic
    /// kernel.
    pub lengthscale_offsets: Vec<f64>,
    /// Prior of σ² for [`FitCriterion::MaximumPosterior`].
    pub noise_prior: LogNormal,
    /// Stopping criteria for the local searches.
    pub local: LbfgsbOptions,
}

impl Default for FitOptions {
    /// Priors are on: ℓ_j ~ LogNormal(√2 + ln(d)/2, √3) (after Hvarfner et al. 2024: length scales
    /// grow with √d) and σ² ~ LogNormal(−4, 1). There is one length scale per dimension, and there
    /// are two restarts.
    fn default() -> Self {
        Self {
            criterion: FitCriterion::MaximumPosterior,
            isotropic: false,
            n_restarts: 2,
            lengthscale_bounds: (1e-2, 1e2),
            outputscale_bounds: (1e-3, 1e3),
            noise_bounds: (1e-6, 10.0),
            lengthscale_prior: LogNormal { location: 2.0_f64.sqrt(), variance: 3.0 },
            lengthscale_offsets: Vec::new(),
            noise_prior: LogNormal { location: -4.0, variance: 1.0 },
            local: LbfgsbOptions {
                max_iterations: 200,
                gradient_tolerance: 1e-5,
                value_tolerance: 1e-9,
            },
        }
    }
}

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The best hyperparameters.
    pub hyperparameters: Hyperparameters,
    /// The value of the criterion.
    pub value: f64,
    /// Number of evaluations of the criterion and its gradient with all observations.
    pub n_evaluations: usize,
    /// Number of starts that were skipped because the covariance had no Cholesky factor there.
    pub n_failed_starts: usize,
}

/// Relative value tolerance of a search with a quarter of the observations.
const ROUGH: f64 = 1e-6;
/// Exponent with which the curvature of the evidence grows with n, in all parameters except ln σ²,
/// where it grows as n.
///
/// The exponent is below 1 because, in a box of constant size, further observations add less and
/// less information about a smooth function. The exponent and [`ROUGH`] were chosen together by
/// counting evaluations on samples from two kernels in three dimensions.
const SMOOTH_GROWTH: f64 = 0.25;

/// Fits hyperparameters by multi-start L-BFGS-B in their logarithms, from `start` and from random
/// points within the bounds.
///
/// With 512 observations or more, all searches first use only a quarter of the observations, which
/// makes an evaluation 64 times cheaper. The best of these searches then continues with all
/// observations and the curvature found so far. The quarter is spread evenly, but not periodically,
/// over the observations.
///
/// # Errors
/// If no start has a finite value.
pub fn fit(
    start: &Hyperparameters,
    inputs: &Points,
    y: &[f64],
    options: &FitOptions,
    stream: &mut Stream,
) -> Result<Fitted, GpError> {
    let family = start.kernel.family();
    let mut problem = Problem::new(family, inputs, y, options);
    let (lower, upper) = problem.bounds();
    let mut starts = vec![problem.encode(start)];
    for _ in 0..options.n_restarts {
        starts.push(problem.random_start(&lower, &upper, stream));
    }
    if y.len() < parallel::LARGE {
        return problem.search(&starts).map(|(fitted, _)| fitted);
    }
    let few: Vec<usize> = (0..y.len()).filter(|index| is_in_quarter(*index as u64)).collect();
    let few_y: Vec<f64> = few.iter().map(|index| y[*index]).collect();
    let few_inputs = Points::from_rows(inputs.dim(), few.iter().map(|index| inputs.row(*index)));
    let rough = FitOptions {
        local: LbfgsbOptions {
            value_tolerance: ROUGH.max(options.local.value_tolerance),
            ..options.local
        },
        ..options.clone()
    };
    let coarse = Problem::new(family, &few_inputs, &few_y, &rough).search(&starts);
    let mut n_failed_starts = 0;
    if let Ok((coarse, mut search)) = coarse {
        n_failed_starts = coarse.n_failed_starts;
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers of observations are far below 2^53"
        )]
        let more = y.len() as f64 / few.len() as f64;
        let theta = problem.encode(&coarse.hyperparameters);
        search.set_options(options.local);
        let found = problem
            .climb(&theta, &mut search, Some(more))
            .and_then(|maximum| problem.fitted(&maximum, maximum.n_evaluations, n_failed_starts));
        if found.is_ok() {
            return found;
        }
    }
    let (mut found, _) = problem.search(&starts)?;
    found.n_failed_starts += n_failed_starts;
    Ok(found)
}

/// Returns true for one in four numbers: those for which the product with the golden ratio has a
/// fractional part below 1/4.
fn is_in_quarter(index: u64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15; // the fraction times 2^64
    index.wrapping_mul(GOLDEN) >> 62 == 0
}

/// The criterion as a function of θ = (ln ℓ …, ln a², ln σ²).
struct Problem<'a> {
    family: Family,
    dim: usize,
    workspace: Workspace<'a>,
    options: &'a FitOptions,
}

impl<'a> Problem<'a> {
    fn new(family: Family, inputs: &'a Points, y: &'a [f64], options: &'a FitOptions) -> Self {
        Self { family, dim: inputs.dim(), workspace: Workspace::new(inputs, y), options }
    }

    /// Runs a local search from each start. Returns the best result, and the state of its search
    /// with the curvature found.
    fn search(&mut self, starts: &[Vec<f64>]) -> Result<(Fitted, Lbfgsb), GpError> {
        let mut best: Option<(LocalMaximum, Lbfgsb)> = None;
        let (mut n_evaluations, mut n_failed_starts, mut last_error) = (0, 0, None);
        for theta in starts {
            let mut search = Lbfgsb::new(theta.len(), self.options.local);
            match self.climb(theta, &mut search, None) {
                Ok(maximum) => {
                    n_evaluations += maximum.n_evaluations;
                    if best.as_ref().is_none_or(|(best, _)| maximum.value > best.value) {
                        best = Some((maximum, search));
                    }
                }
                Err(error) => {
                    n_evaluations += 1;
                    n_failed_starts += 1;
                    last_error = Some(error);
                }
            }
        }
        match (best, last_error) {
            (Some((maximum, search)), _) => {
                Ok((self.fitted(&maximum, n_evaluations, n_failed_starts)?, search))
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(no_finite_start()),
        }
    }

    /// Returns the maximum that a local search finds from `theta`. With `more`, continues a search
    /// that used fewer observations, by the factor `more`.
    fn climb(
        &mut self,
        theta: &[f64],
        search: &mut Lbfgsb,
        more: Option<f64>,
    ) -> Result<LocalMaximum, GpError> {
        let (lower, upper) = self.bounds();
        let mut last_error = None;
        let criterion = |theta: &[f64], gradient: &mut [f64]| match self.criterion(theta, gradient)
        {
            Ok(value) => value,
            Err(error) => {
                last_error = Some(error);
                gradient.fill(f64::NAN);
                f64::NAN
            }
        };
        let found = match more {
            Some(more) => {
                let mut factors = vec![more.powf(SMOOTH_GROWTH); theta.len()];
                factors[theta.len() - 1] = more;
                search.maximize_similar(criterion, &lower, &upper, theta, &factors)
            }
            None => search.maximize(criterion, &lower, &upper, theta),
        };
        found.map_err(|_| last_error.unwrap_or_else(no_finite_start))
    }

    fn fitted(
        &self,
        maximum: &LocalMaximum,
        n_evaluations: usize,
        n_failed_starts: usize,
    ) -> Result<Fitted, GpError> {
        let hyperparameters = self.decode(&maximum.x)?;
        Ok(Fitted { hyperparameters, value: maximum.value, n_evaluations, n_failed_starts })
    }

    fn n_lengthscales(&self) -> usize {
        if self.options.isotropic { 1 } else { self.dim }
    }

    fn bounds(&self) -> (Vec<f64>, Vec<f64>) {
        let o = self.options;
        let end = |pick: fn((f64, f64)) -> f64| {
            let mut bounds = vec![pick(o.lengthscale_bounds).ln(); self.n_lengthscales()];
            bounds.extend([pick(o.outputscale_bounds).ln(), pick(o.noise_bounds).ln()]);
            bounds
        };
        (end(|b| b.0), end(|b| b.1))
    }

    fn encode(&self, h: &Hyperparameters) -> Vec<f64> {
        let lengthscales = &h.kernel.lengthscales()[..self.n_lengthscales()];
        let others = [h.kernel.outputscale(), h.noise_variance];
        lengthscales.iter().chain(&others).map(|v| v.max(f64::MIN_POSITIVE).ln()).collect()
    }

    fn decode(&self, theta: &[f64]) -> Result<Hyperparameters, GpError> {
        let n = self.n_lengthscales();
        let lengthscales = if self.options.isotropic {
            vec![theta[0].exp(); self.dim]
        } else {
            theta[..n].iter().map(|v| v.exp()).collect()
        };
        let kernel = Kernel::new(self.family, lengthscales, theta[n].exp())?;
        Ok(Hyperparameters { kernel, noise_variance: theta[n + 1].exp() })
    }

    /// Draws a start uniformly within the middle of the (logarithmic) bounds, because the ends lead
    /// to degenerate models.
    fn random_start(&self, lower: &[f64], upper: &[f64], stream: &mut Stream) -> Vec<f64> {
        lower
            .iter()
            .zip(upper)
            .map(|(l, u)| l + (u - l) * (0.25 + 0.5 * stream.uniform()))
            .collect()
    }

    fn criterion(&mut self, theta: &[f64], gradient: &mut [f64]) -> Result<f64, GpError> {
        let h = self.decode(theta)?;
        let found = self.workspace.evidence(&h.kernel, h.noise_variance)?;
        let n = self.n_lengthscales();
        if self.options.isotropic {
            gradient[0] = found.gradient[..self.dim].iter().sum();
        } else {
            gradient[..n].copy_from_slice(&found.gradient[..n]);
        }
        gradient[n..].copy_from_slice(&found.gradient[self.dim..]);
        let mut value = found.value;
        if self.options.criterion == FitCriterion::MaximumPosterior {
            #[expect(clippy::cast_precision_loss, reason = "input dimensions are far below 2^53")]
            let d = self.dim as f64;
            let lengthscale_prior = LogNormal {
                location: self.options.lengthscale_prior.location + 0.5 * d.ln(),
                ..self.options.lengthscale_prior
            };
            let outputscale_prior = LogNormal { location: 0.0, variance: 1.0 };
            for (i, t) in theta.iter().enumerate() {
                let prior = match i.checked_sub(n) {
                    None => LogNormal {
                        location: lengthscale_prior.location
                            + self.options.lengthscale_offsets.get(i).unwrap_or(&0.0),
                        ..lengthscale_prior
                    },
                    Some(0) => outputscale_prior,
                    Some(_) => self.options.noise_prior,
                };
                let (density, slope) = prior.ln_density(*t);
                value += density;
                gradient[i] += slope;
            }
        }
        Ok(value)
    }
}

fn no_finite_start() -> GpError {
    GpError::Hyperparameter {
        name: "log marginal likelihood",
        value: f64::NAN,
        expected: "at the starting hyperparameters",
    }
}
