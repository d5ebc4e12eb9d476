//! Multi-task Bayesian optimization (Swersky et al. 2013): a single Gaussian process over all
//! tasks.

use fedbo_gp::{Family, MultiTaskHyperparameters, MultiTaskPosterior, TaskObservations};
use fedbo_optim::{Function, LbfgsbOptions, Points};
use fedbo_streams::{Seed, Stream};

use fedbo_strategies::meta::{MetaTask, TaskTrust, Transfer};
use fedbo_strategies::{
    Domain, HyperparameterPolicy, Maximizer, Observation, Proposal, Proposer, Refit, Repeats,
    Strategy, StrategyError, Surrogate, SurrogateSettings, log_expected_improvement,
};

/// Settings of an [`Mtbo`] strategy.
#[derive(Clone, Debug)]
pub struct MtboSettings {
    /// Kernel family over inputs.
    pub family: Family,
    /// Schedule of hyperparameter fits, by the target's observation count.
    pub refit: Refit,
    /// Maximizer of the acquisition function.
    pub maximizer: Maximizer,
    /// Handling of repeated points.
    pub repeats: Repeats,
}

impl MtboSettings {
    /// Returns the default settings: a Matérn-5/2 kernel, fitted before every query at first, and
    /// then whenever the number of observations has grown by a tenth.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            family: Family::Matern52,
            refit: Refit::Geometric,
            maximizer: Maximizer::of_acquisition(dim),
            repeats: Repeats::for_study(noisy),
        }
    }
}

/// Expected improvement of the target under a Gaussian process over all tasks.
///
/// The cost of this baseline is cubic in the total number of observations: O((n + Σ N_i)³) per fit
/// and O((n + Σ N_i)²) per evaluation.
///
/// Outputs are standardized together. Running trials count as observations of their posterior mean.
/// In contrast to the paper, which averages the acquisition over slice samples of the
/// hyperparameters, this implementation uses the mode of their posterior.
#[derive(Clone, Debug)]
pub struct Mtbo {
    /// Keeps track of trials and supplies start points for the search. The proposer's own surrogate
    /// is not used for proposals.
    proposer: Proposer,
    settings: MtboSettings,
    names: Vec<String>,
    /// Shift and scale of the outputs.
    scale: fedbo_gp::Standardizer,
    posterior: MultiTaskPosterior,
    /// Number of target observations at the last fit.
    last_fit: usize,
}

impl Mtbo {
    /// Conditions on the meta-tasks, with fitted hyperparameters.
    ///
    /// # Errors
    /// If there is no meta-task, or the posterior cannot be computed.
    pub fn new(
        domain: Domain,
        tasks: &[MetaTask],
        settings: MtboSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        StrategyError::ensure(!tasks.is_empty(), "meta-tasks", "none", "at least one")?;
        let dim = domain.dim();
        let surrogate = SurrogateSettings {
            hyperparameters: HyperparameterPolicy::Fixed(
                SurrogateSettings::default_for(dim).initial().clone(),
            ),
            standardize: false,
            ..SurrogateSettings::default_for(dim)
        };
        let (maximizer, repeats) = (settings.maximizer.clone(), settings.repeats);
        let proposer = Proposer::new(domain, surrogate, maximizer, repeats, false, seed)?;
        let finite = |task: &MetaTask| -> Vec<f64> {
            let outputs = task.outputs.iter().copied();
            outputs.filter(|y| y.is_finite()).collect()
        };
        let all: Vec<f64> = tasks.iter().flat_map(finite).collect();
        let scale = fedbo_gp::Standardizer::new(&all);
        let mut observations =
            TaskObservations { inputs: Points::new(dim), tasks: Vec::new(), y: Vec::new() };
        for (number, task) in (1..).zip(tasks) {
            for (x, y) in task.inputs.rows().zip(&task.outputs) {
                if y.is_finite() {
                    observations.inputs.push(x);
                    observations.tasks.push(number);
                    observations.y.push(scale.standardize(*y));
                }
            }
        }
        let start = MultiTaskHyperparameters::initial(settings.family, dim, tasks.len() + 1);
        Ok(Self {
            posterior: MultiTaskPosterior::fit(&start, observations, &fit_options())?,
            names: tasks.iter().map(|task| task.name.clone()).collect(),
            last_fit: 0,
            proposer,
            settings,
            scale,
        })
    }

    /// Returns the observations of the meta-tasks and of the target, including additional target
    /// observations.
    fn observations(&self, more: &Points, outputs: &[f64]) -> TaskObservations {
        let mut observations = self.posterior.observations().clone();
        for (x, y) in more.rows().zip(outputs) {
            observations.inputs.push(x);
            observations.tasks.push(0);
            observations.y.push(*y);
        }
        observations
    }
}

/// Returns options with few steps, because a fit starts at the hyperparameters of the previous one.
fn fit_options() -> LbfgsbOptions {
    LbfgsbOptions { max_iterations: 50, gradient_tolerance: 1e-3, value_tolerance: 1e-6 }
}

impl Strategy for Mtbo {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let hallucinated;
        let posterior = if pending.is_empty() {
            &self.posterior
        } else {
            let dim = pending.dim();
            let mean = |x: &[f64]| {
                let mut unused = (vec![0.0; dim], vec![0.0; dim]);
                self.posterior.predict(0, x, &mut unused.0, &mut unused.1).0
            };
            let means: Vec<f64> = pending.rows().map(mean).collect();
            let all = self.observations(pending, &means);
            hallucinated = MultiTaskPosterior::new(self.posterior.hyperparameters().clone(), all)?;
            &hallucinated
        };
        let outputs = self.proposer.surrogate().outputs().iter().copied();
        let incumbent = outputs.fold(f64::NEG_INFINITY, f64::max);
        let improvement = Improvement {
            posterior,
            // Before any observation of the target, the improvement is over the prior mean.
            incumbent: if incumbent.is_finite() { incumbent } else { 0.0 },
        };
        let n = posterior.observations().y.len();
        let no_more = Points::new(pending.dim());
        self.proposer.propose_acquisition_from(&improvement, n, &no_more, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        let before = self.clone();
        self.absorb(observed).inspect_err(|_| *self = before)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        None
    }

    /// Weights are the absolute correlations with the target, divided by their sum. The share is 1,
    /// because the acquisition function here has no separate parts.
    fn transfer(&self) -> Option<Transfer> {
        let correlations = 1..=self.names.len();
        let correlations: Vec<f64> =
            correlations.map(|task| self.posterior.task_correlation(0, task).abs()).collect();
        let total: f64 = correlations.iter().sum();
        let tasks = self.names.iter().zip(correlations);
        Some(Transfer {
            gap_unit: 1.0,
            meta_share: 1.0,
            tasks: tasks
                .map(|(name, correlation)| TaskTrust {
                    name: name.clone(),
                    weight: if total > 0.0 { correlation / total } else { 0.0 },
                    gap_bound: None,
                })
                .collect(),
        })
    }
}

impl Mtbo {
    fn absorb(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        for observation in observed {
            let value = observation.value.map(|value| self.scale.standardize(value));
            let told = Observation { value, ..observation.clone() };
            let before = self.proposer.surrogate().len();
            self.proposer.tell(std::slice::from_ref(&told))?;
            let n = self.proposer.surrogate().len();
            let Some(value) = value.filter(|_| n > before) else {
                continue;
            };
            let x = Points::from_rows(told.unit.len(), [told.unit.as_slice()]);
            let all = self.observations(&x, &[value]);
            let start = self.posterior.hyperparameters();
            self.posterior = if self.settings.refit.is_due(self.last_fit, n) {
                self.last_fit = n;
                MultiTaskPosterior::fit(start, all, &fit_options())?
            } else {
                MultiTaskPosterior::new(start.clone(), all)?
            };
        }
        Ok(())
    }
}

/// ln EI of the target.
struct Improvement<'a> {
    posterior: &'a MultiTaskPosterior,
    incumbent: f64,
}

/// Variances below this value are rounding errors.
const LEAST_VARIANCE: f64 = 1e-14;

impl Function for Improvement<'_> {
    fn dim(&self) -> usize {
        self.posterior.observations().inputs.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut gradient = vec![0.0; self.dim()];
        let at = |x: &[f64]| self.value_gradient(x, &mut gradient);
        points.rows().map(at).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let mut of_variance = vec![0.0; gradient.len()];
        let (mean, variance) = self.posterior.predict(0, point, gradient, &mut of_variance);
        let std = variance.max(LEAST_VARIANCE).sqrt();
        let term = log_expected_improvement(mean, std, self.incumbent);
        let of_std = if variance > LEAST_VARIANCE { 0.5 * term.d_std / std } else { 0.0 };
        for (g, v) in gradient.iter_mut().zip(of_variance) {
            *g = term.d_mean * *g + of_std * v;
        }
        term.value
    }
}
