//! Robust meta-learning by Thompson sampling: RM-GP-TS.

use std::sync::Arc;

use fedbo_gp::{PathwiseSample, Prior};
use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::{MetaBeliefSettings, MetaTask, OutputScale, TaskModels, Transfer, WeightedSum};
use crate::{
    Domain, Earlier, MetaOptions, Observation, OwnSampler, Proposal, Setup, Source, Strategy,
    StrategyError, Surrogate, ThompsonSampling, ThompsonSettings, UcbMultiplier,
};

/// Options of `rm-gp-ts`, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmGpTsOptions {}

impl MetaOptions for RmGpTsOptions {
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError> {
        let (dim, noisy) = (setup.dim(), setup.noisy);
        let settings = RmGpTsSettings {
            thompson: ThompsonSettings {
                surrogate: setup.surrogate(),
                ..ThompsonSettings::for_study(dim, noisy)
            },
            scale: earlier.scale,
            belief: earlier.belief.clone(),
            ..RmGpTsSettings::for_study(dim, noisy)
        };
        let models = earlier.models(setup)?;
        let strategy = RmGpTs::with_models(setup.domain(), models, settings, setup.seed)?;
        Ok(Box::new(strategy))
    }

    fn weighs_by_distance(&self) -> bool {
        true
    }
}

/// The function that a query to the meta-tasks maximizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaSample {
    /// A draw f_i from the posterior of one task, where task i is chosen with probability ω_i. This
    /// is a sample from the mixture of posteriors.
    OneTask,
    /// Σ_i ω_i f_i with a draw from every task's posterior, as in the authors' code.
    WeightedSum,
}

/// Settings of an [`RmGpTs`] strategy.
#[derive(Clone, Debug)]
pub struct RmGpTsSettings {
    /// Thompson sampling of the target. The surrogate settings also apply to the meta-tasks;
    /// `standardize` is ignored.
    pub thompson: ThompsonSettings,
    /// The units in which tasks are compared.
    pub scale: OutputScale,
    /// Weights and share of the meta-tasks.
    pub belief: MetaBeliefSettings,
    /// √β_t for the confidence bounds of the gaps. The multiplier in `thompson`, in contrast,
    /// widens samples.
    pub gap_ucb_multiplier: UcbMultiplier,
    /// The function that a query to the meta-tasks maximizes.
    pub meta_sample: MetaSample,
}

impl RmGpTsSettings {
    /// Returns the defaults for a single-party study, as in [`super::RmGpUcbSettings::for_study`].
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            thompson: ThompsonSettings::for_study(dim, noisy),
            scale: OutputScale::Typical,
            belief: MetaBeliefSettings::default(),
            gap_ucb_multiplier: UcbMultiplier::Logarithmic,
            meta_sample: MetaSample::OneTask,
        }
    }
}

/// Thompson sampling from the mixture of [`super::RmGpUcb`]. A query maximizes a posterior sample
/// of the meta-tasks with probability ν_t, and a posterior sample of the target otherwise.
#[derive(Clone, Debug)]
pub struct RmGpTs {
    learner: Learner<ThompsonSampling>,
    meta_sample: MetaSample,
}

impl RmGpTs {
    /// Fits the models of the meta-tasks. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range, or a meta-task cannot be modelled.
    pub fn new(
        domain: Domain,
        tasks: &[MetaTask],
        settings: RmGpTsSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let models = TaskModels::fit(tasks, settings.scale, &settings.thompson.surrogate, seed)?;
        Self::with_models(domain, Arc::new(models), settings, seed)
    }

    /// Creates the strategy with models that have already been fitted on the same scale.
    ///
    /// # Errors
    /// If a setting is out of range.
    ///
    /// # Panics
    /// If the dimension of the tasks differs from the dimension of the domain.
    pub fn with_models(
        domain: Domain,
        models: Arc<TaskModels>,
        settings: RmGpTsSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        assert_eq!(models.dim(), domain.dim(), "meta-tasks of another dimension");
        let thompson = ThompsonSettings {
            surrogate: models.target_settings(settings.thompson.surrogate),
            ..settings.thompson
        };
        let cover = domain.cover();
        let target = ThompsonSampling::new(domain, thompson, seed)?;
        let (belief, ucb_multiplier) = (settings.belief, settings.gap_ucb_multiplier);
        Ok(Self {
            learner: Learner::new(target, models, belief, ucb_multiplier, cover)?,
            meta_sample: settings.meta_sample,
        })
    }

    /// Proposes the maximum of a function of the meta-tasks.
    fn propose_meta(
        &self,
        weights: &[f64],
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let (thompson, models) = (self.learner.target(), self.learner.models());
        let prior = match thompson.surrogate().sampler() {
            OwnSampler::Exact(prior) => prior,
            OwnSampler::Features(n_features) => Prior { n_features },
        };
        let chosen: Vec<(usize, f64)> = match self.meta_sample {
            MetaSample::OneTask => vec![(draw(weights, stream), 1.0)],
            MetaSample::WeightedSum => weights.iter().copied().enumerate().collect(),
        };
        let mut sample = WeightedSum::new(models.dim());
        for (task, weight) in chosen {
            let posterior = models.tasks()[task].predictor().posterior();
            let of_task = PathwiseSample::draw(posterior, prior, 1.0, stream)?;
            sample.add(weight, of_task);
        }
        thompson.propose_maximum(&sample, Source::MetaTasks, pending, stream)
    }
}

/// Draws an index, where index i has probability `weights[i]`.
fn draw(weights: &[f64], stream: &mut Stream) -> usize {
    let mut left = stream.uniform();
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return index;
        }
    }
    weights.len() - 1 // reached only by rounding
}

impl Strategy for RmGpTs {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let belief = self.learner.belief_for_query();
        if stream.uniform() < belief.share() {
            self.propose_meta(&belief.weights(), pending, stream)
        } else {
            self.learner.target().propose_own(pending, stream)
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.learner.tell(observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.learner.restrict(part)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.learner.target().surrogate())
    }

    fn transfer(&self) -> Option<Transfer> {
        Some(self.learner.transfer())
    }
}
