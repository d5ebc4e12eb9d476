//! Robust meta-Gaussian-process-UCB (thesis Algorithm 7.1).

use std::sync::Arc;

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::{
    MetaBeliefSettings, MetaTask, OutputScale, TaskModel, TaskModels, Transfer, WeightedSum,
};
use crate::acquisition::upper_bound;
use crate::proposer::Proposer;
use crate::{
    Domain, Earlier, Maximizer, MetaOptions, Observation, Proposal, Repeats, Setup, Strategy,
    StrategyError, Surrogate, SurrogateSettings, UcbMultiplier,
};

/// Options of `rm-gp-ucb`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmGpUcbOptions {
    /// β_t for the study's own part of the acquisition function. The default is not stored.
    #[serde(default = "thesis", skip_serializing_if = "is_thesis_default")]
    pub ucb_multiplier: UcbMultiplier,
}

/// Returns the schedule of the thesis' experiments. In our measurements, wider bounds found worse
/// points (docs/old-studies.md).
fn thesis() -> UcbMultiplier {
    UcbMultiplier::Logarithmic
}

fn is_thesis_default(ucb_multiplier: &UcbMultiplier) -> bool {
    *ucb_multiplier == thesis()
}

impl Default for RmGpUcbOptions {
    fn default() -> Self {
        Self { ucb_multiplier: thesis() }
    }
}

impl MetaOptions for RmGpUcbOptions {
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError> {
        let settings = RmGpUcbSettings {
            surrogate: setup.surrogate(),
            scale: earlier.scale,
            belief: earlier.belief.clone(),
            ucb_multiplier: self.ucb_multiplier,
            ..RmGpUcbSettings::for_study(setup.dim(), setup.noisy)
        };
        let models = earlier.models(setup)?;
        let strategy = RmGpUcb::with_models(setup.domain(), models, settings, setup.seed)?;
        Ok(Box::new(strategy))
    }

    fn weighs_by_distance(&self) -> bool {
        true
    }
}

/// Settings of an [`RmGpUcb`] strategy.
#[derive(Clone, Debug)]
pub struct RmGpUcbSettings {
    /// Surrogates of the target and of every meta-task. The sampler and `standardize` are ignored.
    pub surrogate: SurrogateSettings,
    /// The units in which tasks are compared.
    pub scale: OutputScale,
    /// The search for the maximum of the acquisition function.
    pub maximizer: Maximizer,
    /// √β_t, the multiplier of the target's standard deviation.
    pub ucb_multiplier: UcbMultiplier,
    /// √τ, the multiplier of the meta-tasks' standard deviations.
    pub meta_ucb_multiplier: f64,
    /// Weights and share of the meta-tasks.
    pub belief: MetaBeliefSettings,
    /// Rule for proposing points again.
    pub repeats: Repeats,
}

impl RmGpUcbSettings {
    /// Returns the defaults for a single-party study: the practical form of the thesis' experiments
    /// (√β_t = √(0.2 d ln 2t), τ = 1, mean gaps, η N^{3/2} = 1, r = ε = 0.7) on the typical scale.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            surrogate: SurrogateSettings::for_study(dim, noisy),
            scale: OutputScale::Typical,
            maximizer: Maximizer::of_acquisition(dim),
            ucb_multiplier: UcbMultiplier::Logarithmic,
            meta_ucb_multiplier: 1.0,
            belief: MetaBeliefSettings::default(),
            repeats: Repeats::for_study(noisy),
        }
    }
}

/// GP-UCB with a mixture of the meta-tasks' and the target's upper bounds (thesis eq. (7.1)):
///
/// x_t = argmax ν_t Σ_i ω_i [μ̄_i(x) + √τ σ̄_i(x)] + (1 − ν_t) [μ_{t−1}(x) + √β_t σ_{t−1}(x)]
///
/// In β_t, t counts the target's observations, including those of an initial design. In ν_t, t
/// counts the queries after the initial design, so that ν_1 = 1 and the first query uses only the
/// meta-tasks. Standard deviations are those of the latent function; the authors' code adds the
/// noise. Meta-tasks with a weight ν_t ω_i below 1e-9 are omitted from the sum.
///
/// Both parts are summed in the units of comparison ([`OutputScale`]).
///
/// Running trials count as observations at their posterior means, as in [`crate::GpUcb`]. A query
/// costs O(n² + Σ N_i²) per point that the search evaluates. On a finite domain, the bounds of the
/// meta-tasks are computed only once.
#[derive(Clone, Debug)]
pub struct RmGpUcb {
    learner: Learner<Proposer>,
    meta_ucb_multiplier: f64,
    /// Upper bounds of every task at all points of a finite domain.
    bounds: Option<Arc<Vec<Vec<f64>>>>,
}

/// Terms of the acquisition function with a weight up to this value are too small to move the
/// maximum.
const NEGLIGIBLE: f64 = 1e-9;

impl RmGpUcb {
    /// Fits the models of the meta-tasks. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range, or a meta-task cannot be modelled.
    pub fn new(
        domain: Domain,
        tasks: &[MetaTask],
        settings: RmGpUcbSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let models = TaskModels::fit(tasks, settings.scale, &settings.surrogate, seed)?;
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
        settings: RmGpUcbSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        assert_eq!(models.dim(), domain.dim(), "meta-tasks of another dimension");
        StrategyError::ensure(
            settings.meta_ucb_multiplier.is_finite() && settings.meta_ucb_multiplier >= 0.0,
            "meta_ucb_multiplier",
            settings.meta_ucb_multiplier,
            "a finite number of at least 0",
        )?;
        let proposer = Proposer::new(
            domain,
            models.target_settings(settings.surrogate),
            settings.maximizer,
            settings.repeats,
            false,
            seed,
        )?;
        let bounds = proposer.domain().points().map(|points| {
            let of_task = |task: &super::GpTask| {
                let (means, variances) = task.mean_variances(points);
                let bound = means.iter().zip(variances);
                bound
                    .map(|(mean, variance)| mean + settings.meta_ucb_multiplier * variance.sqrt())
                    .collect()
            };
            Arc::new(models.tasks().iter().map(of_task).collect())
        });
        let cover = proposer.domain().cover();
        let (belief, ucb_multiplier) = (settings.belief, settings.ucb_multiplier);
        Ok(Self {
            learner: Learner::new(proposer, models, belief, ucb_multiplier, cover)?,
            meta_ucb_multiplier: settings.meta_ucb_multiplier,
            bounds,
        })
    }
}

impl Strategy for RmGpUcb {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let (proposer, models) = (self.learner.target(), self.learner.models());
        proposer.open(pending)?;
        let posterior = proposer.surrogate().posterior();
        let beta = self.learner.beta(proposer.surrogate().len() + pending.len());
        let hallucinated;
        let posterior = if pending.is_empty() {
            posterior
        } else {
            let means = posterior.mean_variances(pending).0;
            hallucinated = posterior.clone().extended(pending, &means)?;
            &hallucinated
        };
        let belief = self.learner.belief_for_query();
        let share = belief.share();
        let parts: Vec<(usize, f64)> = belief
            .weights()
            .into_iter()
            .map(|weight| share * weight)
            .enumerate()
            .filter(|(_, part)| *part > NEGLIGIBLE)
            .collect();
        let predictor = posterior.predictor();
        // Shifts do not move the maximum, so the sum omits them.
        let exchange = models.exchange(proposer.surrogate());
        let own_beta = beta * exchange.target_std_factor / exchange.target_factor;
        let own = upper_bound(&predictor, own_beta);
        let mut mixture = WeightedSum::new(models.dim());
        if share < 1.0 {
            mixture.add((1.0 - share) * exchange.target_factor, own);
        }
        if let (Some(bounds), Some(points)) = (&self.bounds, proposer.domain().points()) {
            let mut values = fedbo_optim::Function::values(&mixture, points);
            for (task, part) in parts {
                for (value, bound) in values.iter_mut().zip(&bounds[task]) {
                    *value += part * exchange.task_factor * bound;
                }
            }
            return proposer.propose_ranked(&values, points, pending, stream);
        }
        for (task, part) in &parts {
            let bound = upper_bound(models.tasks()[*task].predictor(), self.meta_ucb_multiplier);
            mixture.add(*part * exchange.task_factor, bound);
        }
        let n = models.search_size(&parts, posterior.len());
        let starts = models.best_inputs(&parts);
        proposer.propose_acquisition_from(&mixture, n, &starts, pending, stream)
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
