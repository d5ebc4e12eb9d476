//! RGPE, the ranking-weighted Gaussian process ensemble (Feurer, Letham & Bakshy 2018).

use std::sync::{Arc, OnceLock};

use fedbo_optim::{Direct, Points};
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use super::ensemble::{Acquisition, Ensemble, EnsembleSettings, Moments};
use super::ranking::ModelWeights;
use super::{MetaTask, ModelEnsemble, TaskModel, TaskTrust, Transfer};
use crate::{
    Domain, Earlier, Maximizer, MetaOptions, Observation, Proposal, Setup, Strategy, StrategyError,
    Surrogate, log_expected_improvement,
};

/// Options of `rgpe`, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RgpeOptions {}

impl MetaOptions for RgpeOptions {
    /// The study's own model allows for noise if the old studies' models do, because rankings
    /// compare these models.
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError> {
        let mut settings = RgpeSettings::for_study(setup.dim(), setup.noisy);
        settings.ensemble.surrogate = earlier.surrogate(setup);
        let strategy = Rgpe::new(setup.domain(), earlier.tasks, settings, setup.seed)?;
        Ok(Box::new(strategy))
    }
}

/// The method for sampling a task's posterior to compute a ranking loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingDraws {
    /// Jointly: each sample is a single function (the paper).
    Joint,
    /// Separately: both values of each pair are fresh, independent draws (the authors' code for FTS
    /// and RM-GP-UCB).
    IndependentPairs,
}

/// The variance of the target in the expected improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetVariance {
    /// The variance of the latent function.
    Latent,
    /// The variance of an observation, including noise (the authors' code for FTS and RM-GP-UCB).
    WithNoise,
}

/// The scale on which the expected improvement is maximized. Both scales have the same maximizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImprovementScale {
    /// The logarithm, which neither underflows nor becomes flat far from the incumbent.
    Log,
    /// The improvement itself.
    Plain,
}

/// The query to make if the target's outputs are all equal, so that nothing can be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unranked {
    /// The query of an ensemble in which all models have equal weights. Equal outputs are
    /// standardized to 0, and the tasks still promise an improvement over 0 at the target's latest
    /// point. Use this only for a target with initial points.
    Ensemble,
    /// A uniformly random point, as in an initial design.
    Random,
}

/// Settings of an [`Rgpe`] strategy.
#[derive(Clone, Debug)]
pub struct RgpeSettings {
    /// Models and search.
    pub ensemble: EnsembleSettings,
    /// S: number of samples from each model for the ranking losses. 500 in the thesis, 100 in the
    /// FTS authors' code.
    pub n_samples: usize,
    /// Method for drawing these samples.
    pub draws: RankingDraws,
    /// True to ignore a task if its median loss is above the 95 % quantile of the target's losses,
    /// as in the paper.
    pub dilution_guard: bool,
    /// The query to make if nothing can be ranked.
    pub unranked: Unranked,
    /// The variance of the target in the ensemble.
    pub target_variance: TargetVariance,
    /// The scale on which the improvement is maximized.
    pub improvement: ImprovementScale,
}

impl RgpeSettings {
    /// Returns the defaults for a single-party study, with 500 samples.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            ensemble: EnsembleSettings::for_study(dim, noisy),
            n_samples: 500,
            draws: RankingDraws::Joint,
            dilution_guard: true,
            unranked: Unranked::Ensemble,
            target_variance: TargetVariance::Latent,
            improvement: ImprovementScale::Log,
        }
    }

    /// Returns the settings of the FTS authors' code: 100 samples drawn independently for each
    /// pair, noise in the target's variance, and the improvement itself, maximized by DIRECT with
    /// 20,000 evaluations. The settings of the surrogate and the rule for proposing points again
    /// are unchanged.
    ///
    /// Two differences remain: ties between tasks are split (in the authors' code, the first task
    /// wins), and pairs of equal outputs are excluded.
    #[must_use]
    pub fn as_in_authors_code(self) -> Self {
        Self {
            ensemble: EnsembleSettings { maximizer: authors_search(), ..self.ensemble },
            n_samples: 100,
            draws: RankingDraws::IndependentPairs,
            target_variance: TargetVariance::WithNoise,
            improvement: ImprovementScale::Plain,
            ..self
        }
    }
}

/// Returns DIRECT with the settings that the FTS authors use for RGPE and TAF.
pub(super) fn authors_search() -> Maximizer {
    Maximizer::Direct(Direct {
        max_evaluations: 20_000,
        max_iterations: 6_000,
        ..Direct::default()
    })
}

/// Expected improvement of an ensemble with weights from rankings:
///
/// mean(x) = Σ_i w_i μ_i(x),   var(x) = Σ_i w_i² σ_i²(x),   x_t = argmax ln E[max(f(x) − y*, 0)]
///
/// The sums run over the target and its meta-tasks, each on the scale of its own outputs. y* is the
/// target's best observed output.
///
/// The weight of a model is the fraction of S samples in which it misranks the fewest pairs of the
/// target's observations. The target's own samples hold out one observation at a time. A task that
/// is clearly worse than the target is dropped, and the target wins ties. Nothing can be ranked
/// before two different outputs have been observed. Until then, all models have equal weights, and
/// [`Unranked`] selects the queries.
///
/// Each combination of observation count and model has its own random stream, so the weights are a
/// function of the observations. Running trials count as observations at their posterior means.
///
/// The weights after t observations cost O(Σ_i S t²), once per `tell`. A query then costs one
/// prediction per evaluated point and model with nonzero weight. On a finite domain, the tasks'
/// predictions are computed only once.
#[derive(Clone, Debug)]
pub struct Rgpe {
    ensemble: Ensemble,
    settings: RgpeSettings,
    /// Weights for the observations so far, computed on first use.
    weights: OnceLock<ModelWeights>,
}

impl Rgpe {
    /// Fits a model of every meta-task. `seed` is used for hyperparameter fits and samples.
    ///
    /// # Errors
    /// If a setting is out of range, or a meta-task cannot be modelled.
    pub fn new(
        domain: Domain,
        tasks: &[MetaTask],
        settings: RgpeSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let ensemble = Ensemble::fit(domain, tasks, settings.ensemble.clone(), seed)?;
        Self::of(ensemble, settings)
    }

    /// Creates the strategy with given models, such as [`super::FeatureTask`]s from other agents
    /// (FTS section 3.2). The outputs of these models should be on a scale comparable with the
    /// target's. The surrogate settings apply only to the target.
    ///
    /// # Errors
    /// If a setting is out of range, or the dimension of a task differs from the dimension of the
    /// domain.
    pub fn with_models(
        domain: Domain,
        tasks: Vec<Arc<dyn TaskModel>>,
        settings: RgpeSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let ensemble = Ensemble::new(domain, tasks, settings.ensemble.clone(), seed)?;
        Self::of(ensemble, settings)
    }

    fn of(ensemble: Ensemble, settings: RgpeSettings) -> Result<Self, StrategyError> {
        StrategyError::ensure(settings.n_samples > 0, "n_samples", "0", "at least 1")?;
        Ok(Self { ensemble, settings, weights: OnceLock::new() })
    }

    fn weights(&self) -> Result<&ModelWeights, StrategyError> {
        if let Some(weights) = self.weights.get() {
            return Ok(weights);
        }
        let weights = self.weigh()?;
        Ok(self.weights.get_or_init(|| weights))
    }

    fn weigh(&self) -> Result<ModelWeights, StrategyError> {
        let (ranked, tasks) = (self.ensemble.ranked(), self.ensemble.tasks());
        if ranked.n_pairs() == 0 {
            #[expect(clippy::cast_precision_loss, reason = "numbers of tasks are far below 2^53")]
            let share = 1.0 / (tasks.len() + 1) as f64;
            return Ok(ModelWeights { target: share, tasks: vec![share; tasks.len()] });
        }
        let surrogate = self.ensemble.surrogate();
        let posterior = surrogate.posterior();
        let step = surrogate.len() as u64;
        let stream = |model: usize| {
            let seed = self.ensemble.seed();
            seed.stream(crate::META_TASK, step, model as u64)
        };
        let own =
            ranked.own_losses(posterior, self.settings.n_samples, &mut stream(tasks.len()))?;
        let of_tasks = tasks.iter().enumerate().map(|(index, task)| {
            let (task, stream) = (task.as_ref(), &mut stream(index));
            match self.settings.draws {
                RankingDraws::Joint => ranked.joint_losses(task, self.settings.n_samples, stream),
                RankingDraws::IndependentPairs => {
                    Ok(ranked.independent_losses(task, self.settings.n_samples, stream))
                }
            }
        });
        let of_tasks = of_tasks.collect::<Result<Vec<_>, _>>()?;
        Ok(ModelWeights::by_vote(&own, &of_tasks, self.settings.dilution_guard))
    }
}

impl ModelEnsemble for Rgpe {
    fn domain(&self) -> &Domain {
        self.ensemble.domain()
    }

    fn own(&self) -> &Surrogate {
        self.ensemble.surrogate()
    }

    fn set_models(&mut self, tasks: Vec<Arc<dyn TaskModel>>) {
        self.ensemble.set_tasks(tasks);
        self.weights = OnceLock::new();
    }
}

impl Strategy for Rgpe {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let target = self.ensemble.target(pending)?;
        let is_unranked = !target.is_empty() && self.ensemble.ranked().n_pairs() == 0;
        if is_unranked && self.settings.unranked == Unranked::Random {
            return self.ensemble.random(pending, stream);
        }
        let weights = self.weights()?;
        let taking_part = weights.tasks.iter().copied().filter(|weight| *weight > 0.0);
        let acquisition = EnsembleImprovement {
            weights: std::iter::once(weights.target).chain(taking_part).collect(),
            noise_variance: match self.settings.target_variance {
                TargetVariance::Latent => 0.0,
                TargetVariance::WithNoise => target.noise_variance(),
            },
            incumbent: self.ensemble.incumbent(),
            least_variance: LEAST_VARIANCE * target.kernel().outputscale(),
            scale: self.settings.improvement,
        };
        self.ensemble.propose(&target, &weights.tasks, &acquisition, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.ensemble.tell(observed)?;
        self.weights = OnceLock::new();
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.ensemble.surrogate())
    }

    fn transfer(&self) -> Option<Transfer> {
        let weights = self.weights().ok()?;
        Some(transfer_of(weights, self.ensemble.tasks()))
    }
}

/// Converts weights to the total share of the meta-tasks and the part that each task has in it.
pub(super) fn transfer_of(weights: &ModelWeights, tasks: &[Arc<dyn TaskModel>]) -> Transfer {
    let of_tasks: f64 = weights.tasks.iter().sum();
    let all = of_tasks + weights.target;
    let part = |weight: f64, whole: f64| if whole > 0.0 { weight / whole } else { 0.0 };
    Transfer {
        gap_unit: 1.0,
        meta_share: part(of_tasks, all),
        tasks: tasks
            .iter()
            .zip(&weights.tasks)
            .map(|(task, weight)| TaskTrust {
                name: task.name().to_owned(),
                weight: part(*weight, of_tasks),
                gap_bound: None,
            })
            .collect(),
    }
}

/// Fraction of the signal variance below which the variance of a latent function is rounding error.
pub(super) const LEAST_VARIANCE: f64 = 1e-14;

/// Expected improvement of a weighted sum of independent models, or its logarithm.
struct EnsembleImprovement {
    /// The weights w, with the target's weight first.
    weights: Vec<f64>,
    /// Noise variance, which is added to the target's variance.
    noise_variance: f64,
    incumbent: f64,
    least_variance: f64,
    scale: ImprovementScale,
}

impl EnsembleImprovement {
    fn moments(&self, of_models: &[Moments]) -> Moments {
        let mut sum = Moments {
            mean: 0.0,
            variance: self.weights[0] * self.weights[0] * self.noise_variance,
        };
        for (weight, found) in self.weights.iter().zip(of_models) {
            sum.mean += weight * found.mean;
            sum.variance += weight * weight * found.variance;
        }
        sum
    }
}

impl Acquisition for EnsembleImprovement {
    fn value(&self, _: &[f64], moments: &[Moments]) -> f64 {
        let Moments { mean, variance } = self.moments(moments);
        let std = variance.max(self.least_variance).sqrt();
        let improvement = log_expected_improvement(mean, std, self.incumbent).value;
        match self.scale {
            ImprovementScale::Log => improvement,
            ImprovementScale::Plain => improvement.exp(),
        }
    }

    fn slopes(&self, _: &[f64], moments: &[Moments], slopes: &mut [Moments]) -> f64 {
        let Moments { mean, variance } = self.moments(moments);
        let std = variance.max(self.least_variance).sqrt();
        let improvement = log_expected_improvement(mean, std, self.incumbent);
        let (value, factor) = match self.scale {
            ImprovementScale::Log => (improvement.value, 1.0),
            ImprovementScale::Plain => (improvement.value.exp(), improvement.value.exp()),
        };
        let d_variance =
            if variance > self.least_variance { 0.5 * improvement.d_std / std } else { 0.0 };
        for (weight, slope) in self.weights.iter().zip(slopes) {
            slope.mean = factor * weight * improvement.d_mean;
            slope.variance = factor * weight * weight * d_variance;
        }
        value
    }
}

#[cfg(test)]
pub(super) mod tests;
