//! The shared part of RGPE and TAF: the models of a target and its meta-tasks, and a search for the
//! maximum of a function of their predictions.

use std::borrow::Cow;
use std::sync::Arc;

use fedbo_gp::{Posterior, Predictor};
use fedbo_optim::{Function, Points};
use fedbo_streams::{Seed, Stream};

use super::ranking::Ranked;
use super::{MetaTask, OutputScale, TaskModel, TaskModels};
use crate::proposer::Proposer;
use crate::{
    Domain, LogEiSettings, Maximizer, Observation, OutputOption, Proposal, Repeats, Source,
    StrategyError, Surrogate, SurrogateSettings,
};

/// A model's prediction at a point: the mean and the variance of its latent function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// An acquisition function of the models' predictions at a point. The target's moments come first,
/// followed by those of the tasks with nonzero weights.
pub(super) trait Acquisition: Sync {
    /// Returns the value at x.
    fn value(&self, x: &[f64], moments: &[Moments]) -> f64;

    /// Returns the value, and writes its derivatives with respect to every mean and variance into
    /// `slopes`.
    fn slopes(&self, x: &[f64], moments: &[Moments], slopes: &mut [Moments]) -> f64;
}

/// Settings common to RGPE and TAF: models and search.
#[derive(Clone, Debug)]
pub struct EnsembleSettings {
    /// Surrogates of the target and of every meta-task. The sampler and any power transform are
    /// ignored. `standardize` is used only with given models.
    pub surrogate: SurrogateSettings,
    /// The search for the maximum of the acquisition function.
    pub maximizer: Maximizer,
    /// Rule for proposing points again.
    pub repeats: Repeats,
}

impl EnsembleSettings {
    /// Returns the defaults for a single-party study.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        LogEiSettings::for_study(dim, noisy).into()
    }
}

impl From<LogEiSettings> for EnsembleSettings {
    /// Uses the model and the search of a strategy without meta-tasks.
    fn from(own: LogEiSettings) -> Self {
        let LogEiSettings { surrogate, maximizer, repeats, .. } = own;
        Self { surrogate, maximizer, repeats }
    }
}

/// A target and its meta-tasks.
#[derive(Clone, Debug)]
pub(super) struct Ensemble {
    proposer: Proposer,
    tasks: Vec<Arc<dyn TaskModel>>,
    /// Best input and number of observations of each task, if known.
    known: Vec<Known>,
    /// Predictions of every task at all points of a finite domain.
    table: Option<Arc<Vec<Vec<Moments>>>>,
    seed: Seed,
}

#[derive(Clone, Debug, Default)]
struct Known {
    best_input: Option<Vec<f64>>,
    n_observations: usize,
}

/// Maximum number of tasks with best inputs that the search starts from.
const N_STARTS_MAX: usize = 16;

impl Ensemble {
    /// Fits the models of the tasks. Each task and the target are scaled separately.
    pub(super) fn fit(
        domain: Domain,
        tasks: &[MetaTask],
        settings: EnsembleSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let dims = tasks.iter().map(|task| (task.inputs.dim(), &task.name[..]));
        check_dims(&domain, dims)?;
        let models = TaskModels::fit(tasks, OutputScale::Own, &settings.surrogate, seed)?;
        let shared = models.tasks().iter().cloned();
        let shared = shared.map(|task| Arc::new(task) as Arc<dyn TaskModel>);
        let surrogate = models.target_settings(settings.surrogate);
        let settings = EnsembleSettings { surrogate, ..settings };
        let mut ensemble = Self::new(domain, shared.collect(), settings, seed)?;
        for (known, task) in ensemble.known.iter_mut().zip(models.tasks()) {
            let outputs = task.outputs();
            let best = (0..outputs.len()).max_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
            known.best_input = best.map(|best| task.inputs().row(best).to_vec());
            known.n_observations = outputs.len();
        }
        Ok(ensemble)
    }

    pub(super) fn new(
        domain: Domain,
        tasks: Vec<Arc<dyn TaskModel>>,
        settings: EnsembleSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        check_dims(&domain, tasks.iter().map(|task| (task.dim(), task.name())))?;
        let EnsembleSettings { surrogate, maximizer, repeats } = settings;
        let surrogate = surrogate.with_outputs(OutputOption::None); // the models' means are added
        let proposer = Proposer::new(domain, surrogate, maximizer, repeats, false, seed)?;
        let mut ensemble =
            Self { proposer, known: Vec::new(), tasks: Vec::new(), table: None, seed };
        ensemble.set_tasks(tasks);
        Ok(ensemble)
    }

    /// Replaces the tasks.
    ///
    /// # Panics
    /// If the dimension of a task differs from the dimension of the domain.
    pub(super) fn set_tasks(&mut self, tasks: Vec<Arc<dyn TaskModel>>) {
        let domain = self.proposer.domain();
        for task in &tasks {
            assert_eq!(task.dim(), domain.dim(), "coordinates of {} and the domain", task.name());
        }
        self.table = domain.points().map(|points| {
            let of_task = |task: &Arc<dyn TaskModel>| moments(task.mean_variances(points));
            Arc::new(tasks.iter().map(of_task).collect())
        });
        self.known = vec![Known::default(); tasks.len()];
        self.tasks = tasks;
    }

    pub(super) fn domain(&self) -> &Domain {
        self.proposer.domain()
    }

    pub(super) fn tasks(&self) -> &[Arc<dyn TaskModel>] {
        &self.tasks
    }

    pub(super) fn seed(&self) -> &Seed {
        &self.seed
    }

    pub(super) fn surrogate(&self) -> &Surrogate {
        self.proposer.surrogate()
    }

    pub(super) fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    /// Returns the target's observations, ranked by output.
    pub(super) fn ranked(&self) -> Ranked {
        let posterior = self.surrogate().posterior();
        Ranked::new(posterior.inputs(), posterior.outputs())
    }

    /// Returns the best observed output of the target in the units of its model, or the prior mean
    /// 0 if there are no observations.
    pub(super) fn incumbent(&self) -> f64 {
        let outputs = self.surrogate().posterior().outputs();
        outputs.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }

    /// Proposes a uniformly random query.
    pub(super) fn random(
        &self,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let unit = self.proposer.open(pending)?.random(stream)?;
        Ok(Proposal { unit, source: Source::Random })
    }

    /// Returns the target's posterior, in which running trials count as observations at their
    /// posterior means.
    pub(super) fn target(&self, pending: &Points) -> Result<Cow<'_, Posterior>, StrategyError> {
        self.proposer.open(pending)?;
        let posterior = self.surrogate().posterior();
        if pending.is_empty() {
            return Ok(Cow::Borrowed(posterior));
        }
        let means = posterior.mean_variances(pending).0;
        Ok(Cow::Owned(posterior.clone().extended(pending, &means)?))
    }

    /// Proposes the maximum of an acquisition function of the target's posterior and the tasks with
    /// these weights. Tasks with weight 0 are ignored.
    pub(super) fn propose(
        &self,
        target: &Posterior,
        weights: &[f64],
        acquisition: &dyn Acquisition,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let mut parts: Vec<usize> = (0..weights.len()).filter(|i| weights[*i] > 0.0).collect();
        if let (Some(table), Some(points)) = (&self.table, self.proposer.domain().points()) {
            let mut columns = vec![Cow::Owned(moments(target.mean_variances(points)))];
            columns.extend(parts.iter().map(|task| Cow::Borrowed(&table[*task][..])));
            let values = values(points, &columns, acquisition);
            return self.proposer.propose_ranked(&values, points, pending, stream);
        }
        let objective = Objective {
            target: target.predictor(),
            tasks: parts.iter().map(|i| self.tasks[*i].as_ref()).collect(),
            acquisition,
        };
        let n = self.search_size(&parts, target.len());
        parts.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
        let mut starts = Points::new(self.proposer.domain().dim());
        let best = parts.iter().filter_map(|i| self.known[*i].best_input.as_ref());
        for input in best.take(N_STARTS_MAX) {
            starts.push(input);
        }
        self.proposer.propose_acquisition_from(&objective, n, &starts, pending, stream)
    }

    /// Returns the size n of a single GP that would cost as much to evaluate, O(n²), as these tasks
    /// and the target together.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of observations are far below 2^53"
    )]
    fn search_size(&self, parts: &[usize], n_own: usize) -> usize {
        let counts = parts.iter().map(|i| self.known[*i].n_observations);
        let squares: f64 = counts.chain([n_own]).map(|n| (n as f64).powi(2)).sum();
        squares.sqrt() as usize
    }
}

/// An acquisition function over the cube.
struct Objective<'a> {
    target: Predictor<'a>,
    tasks: Vec<&'a dyn TaskModel>,
    acquisition: &'a dyn Acquisition,
}

impl Function for Objective<'_> {
    fn dim(&self) -> usize {
        self.target.posterior().kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let target = self.target.posterior().mean_variances(points);
        let mut columns = vec![Cow::Owned(moments(target))];
        let of_tasks = self.tasks.iter().map(|task| task.mean_variances(points));
        columns.extend(of_tasks.map(|found| Cow::Owned(moments(found))));
        values(points, &columns, self.acquisition)
    }

    /// The gradient is Σ ∂a/∂μ_i ∇μ_i + ∂a/∂σ_i² ∇σ_i².
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let (dim, n) = (point.len(), self.tasks.len() + 1);
        let own = self.target.predict(point);
        let mut found = vec![Moments::default(); n];
        found[0] = Moments { mean: own.mean(), variance: own.variance() };
        let mut gradients = vec![0.0; 2 * dim * self.tasks.len()];
        for ((task, pair), found) in
            self.tasks.iter().zip(gradients.chunks_exact_mut(2 * dim)).zip(&mut found[1..])
        {
            let (of_mean, of_variance) = pair.split_at_mut(dim);
            let (mean, variance) = task.predict(point, of_mean, of_variance);
            *found = Moments { mean, variance };
        }
        let mut slopes = vec![Moments::default(); n];
        let value = self.acquisition.slopes(point, &found, &mut slopes);
        let weights = own.whitened().iter();
        let weights = weights.map(|v| -2.0 * slopes[0].variance * v).collect();
        own.gradient(slopes[0].mean, weights, gradient);
        for (pair, slope) in gradients.chunks_exact(2 * dim).zip(&slopes[1..]) {
            let (of_mean, of_variance) = pair.split_at(dim);
            for ((total, m), v) in gradient.iter_mut().zip(of_mean).zip(of_variance) {
                *total += slope.mean * m + slope.variance * v;
            }
        }
        value
    }
}

/// Checks that the tasks have the dimension of the domain.
pub(crate) fn check_dims<'a>(
    domain: &Domain,
    mut tasks: impl Iterator<Item = (usize, &'a str)>,
) -> Result<(), StrategyError> {
    match tasks.find(|(dim, _)| *dim != domain.dim()) {
        None => Ok(()),
        Some((dim, name)) => Err(StrategyError::setting(
            "dimension of a meta-task",
            format!("{dim} ({name})"),
            "the dimension of the domain",
        )),
    }
}

/// Computes the values at all points from one column of moments per model.
fn values(
    points: &Points,
    columns: &[Cow<'_, [Moments]>],
    acquisition: &dyn Acquisition,
) -> Vec<f64> {
    let mut row = vec![Moments::default(); columns.len()];
    let value = |(index, x): (usize, &[f64])| {
        for (entry, column) in row.iter_mut().zip(columns) {
            *entry = column[index];
        }
        acquisition.value(x, &row)
    };
    points.rows().enumerate().map(value).collect()
}

fn moments((means, variances): (Vec<f64>, Vec<f64>)) -> Vec<Moments> {
    let pairs = means.into_iter().zip(variances);
    pairs.map(|(mean, variance)| Moments { mean, variance }).collect()
}

#[cfg(test)]
mod tests;
