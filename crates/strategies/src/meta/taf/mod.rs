//! TAF, the transfer acquisition function (Wistuba, Schilling & Schmidt-Thieme 2018).

use std::sync::{Arc, OnceLock};

use fedbo_optim::Points;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use super::ensemble::{Acquisition, Ensemble, EnsembleSettings, Moments};
use super::ranking::{ModelWeights, Ranked};
use super::rgpe::{LEAST_VARIANCE, TargetVariance, authors_search, transfer_of};
use super::{MetaTask, ModelEnsemble, TaskModel, Transfer};
use crate::{
    Domain, Earlier, MetaOptions, Observation, Proposal, Setup, Strategy, StrategyError, Surrogate,
    log_expected_improvement,
};

/// Options of `taf`, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TafOptions {}

impl MetaOptions for TafOptions {
    /// The study's own model allows for noise if the old studies' models do, because rankings
    /// compare these models.
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError> {
        let mut settings = TafSettings::for_study(setup.dim(), setup.noisy);
        settings.ensemble.surrogate = earlier.surrogate(setup);
        let strategy = Taf::new(setup.domain(), earlier.tasks, settings, setup.seed)?;
        Ok(Box::new(strategy))
    }
}

/// A measure of a meta-task's distance from the target, which is compared with the bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingDistance {
    /// The fraction, in `[0, 1]`, of pairs of the target's observations that the task's mean
    /// misranks. This is Kendall's distance, the ranking meta-feature of Wistuba et al. (2016,
    /// 2018). For an unrelated task the fraction is 1/2 on average, whatever the number of
    /// observations.
    Share,
    /// ‖χ − χ_i‖ over the n(n − 1) ordered pairs (j, k): the authors' code for FTS and RM-GP-UCB.
    /// An entry of χ is 1/(n(n − 1)) if y_j > y_k, and 0 otherwise. The distance is at most 1/√(n(n
    /// − 1)), so that all tasks eventually have equal weights.
    Vanishing,
}

/// A meta-task's contribution to the acquisition function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaImprovement {
    /// max(μ_i(x) − f*_i, 0): the predicted improvement, as in the paper, which accounts for
    /// uncertainty only in the target's term. Once the best point of a task has been tried, the
    /// task has no further effect.
    Predicted,
    /// EI_i(x) = E[max(f_i(x) − f*_i, 0)] under the task's posterior. Observations of the target do
    /// not reduce a task's variance, so the task recommends its best point repeatedly.
    Expected,
    /// max(g − f*_i, 0), where g is a separate draw from the posterior at every point x: the
    /// authors' code for FTS and RM-GP-UCB, where the acquisition function is noise. There is no
    /// gradient, so the search uses only values, by DIRECT or among candidates.
    RandomDraw,
}

/// f*_i, the reference value for the improvement of a meta-task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaIncumbent {
    /// The task's largest mean at the inputs that the target has already queried (the paper), or
    /// the prior mean 0 if there are no observations.
    BestPredicted,
    /// The best output that the task itself observed (FTS section 3.2, where messages contain this
    /// output).
    OwnBest,
}

impl MetaIncumbent {
    /// Returns a task without the required incumbent, if there is one.
    fn missing(self, tasks: &[Arc<dyn TaskModel>]) -> Option<&Arc<dyn TaskModel>> {
        let mut tasks = tasks.iter().filter(|_| self == Self::OwnBest);
        tasks.find(|task| !task.largest_output().is_finite())
    }
}

/// Settings of a [`Taf`] strategy.
#[derive(Clone, Debug)]
pub struct TafSettings {
    /// Models and search.
    pub ensemble: EnsembleSettings,
    /// ρ > 0: tasks at this distance or farther have weight 0. 0.5 in the papers.
    pub bandwidth: f64,
    /// The measure of distance.
    pub distance: RankingDistance,
    /// The terms of the meta-tasks.
    pub meta_improvement: MetaImprovement,
    /// The reference value of these terms.
    pub meta_incumbent: MetaIncumbent,
    /// The variance of the target in the target's term.
    pub target_variance: TargetVariance,
}

impl TafSettings {
    /// Returns the defaults for a single-party study: the paper's form with ρ = 0.5.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            ensemble: EnsembleSettings::for_study(dim, noisy),
            bandwidth: 0.5,
            distance: RankingDistance::Share,
            meta_improvement: MetaImprovement::Predicted,
            meta_incumbent: MetaIncumbent::BestPredicted,
            target_variance: TargetVariance::Latent,
        }
    }

    /// Returns the settings of the FTS authors' code: a vanishing distance, improvements by random
    /// draws over the received incumbents, noise in the target's variance, and DIRECT with 20,000
    /// evaluations. The settings of the surrogate and the rule for proposing points again are
    /// unchanged.
    ///
    /// A draw is a function of the query's stream and the point, so equal seeds give equal runs.
    /// Since DIRECT evaluates no point twice, this is equivalent to the fresh draws of the authors'
    /// code.
    #[must_use]
    pub fn as_in_authors_code(self) -> Self {
        Self {
            ensemble: EnsembleSettings { maximizer: authors_search(), ..self.ensemble },
            distance: RankingDistance::Vanishing,
            meta_improvement: MetaImprovement::RandomDraw,
            meta_incumbent: MetaIncumbent::OwnBest,
            target_variance: TargetVariance::WithNoise,
            ..self
        }
    }
}

/// A weighted mean of the target's expected improvement and the meta-tasks' improvements:
///
/// x_t = argmax [w EI(x) + Σ_i w_i I_i(x)] / (w + Σ_i w_i),   w_i = ¾ (1 − (d_i/ρ)²) for d_i < ρ,
/// else 0,   w = ¾
///
/// where d_i is the distance between the rankings of the target's observations by the target and by
/// task i. The term I_i = max(μ_i(x) − f*_i, 0) is the predicted improvement of task i over its
/// prediction at the target's inputs. The logarithm of the mean is maximized, unless improvements
/// are random draws.
///
/// Running trials count as observations at their posterior means. The weights cost O(t² M), once
/// per `tell`. A query then costs one prediction per evaluated point and model with nonzero weight.
#[derive(Clone, Debug)]
pub struct Taf {
    ensemble: Ensemble,
    settings: TafSettings,
    /// State for the observations so far, computed on first use.
    belief: OnceLock<Belief>,
}

#[derive(Clone, Debug)]
struct Belief {
    weights: ModelWeights,
    /// f*_i of every task.
    incumbents: Vec<f64>,
}

/// Largest value of the Epanechnikov kernel.
const KERNEL_PEAK: f64 = 0.75;

impl Taf {
    /// Fits a model of every meta-task. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range, or a meta-task cannot be modelled.
    pub fn new(
        domain: Domain,
        tasks: &[MetaTask],
        settings: TafSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let ensemble = Ensemble::fit(domain, tasks, settings.ensemble.clone(), seed)?;
        Self::of(ensemble, settings)
    }

    /// Creates the strategy with given models: see [`super::Rgpe::with_models`].
    ///
    /// # Errors
    /// If a setting is out of range, the dimension of a task differs from the dimension of the
    /// domain, or a task lacks the required incumbent.
    pub fn with_models(
        domain: Domain,
        tasks: Vec<Arc<dyn TaskModel>>,
        settings: TafSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let ensemble = Ensemble::new(domain, tasks, settings.ensemble.clone(), seed)?;
        Self::of(ensemble, settings)
    }

    fn of(ensemble: Ensemble, settings: TafSettings) -> Result<Self, StrategyError> {
        StrategyError::ensure(
            settings.bandwidth.is_finite() && settings.bandwidth > 0.0,
            "bandwidth",
            settings.bandwidth,
            "a finite number above 0",
        )?;
        if let Some(task) = settings.meta_incumbent.missing(ensemble.tasks()) {
            return Err(StrategyError::setting(
                "incumbent of a meta-task",
                format!("{} ({})", task.largest_output(), task.name()),
                "a finite number, or meta_incumbent = best predicted",
            ));
        }
        Ok(Self { ensemble, settings, belief: OnceLock::new() })
    }

    fn belief(&self) -> &Belief {
        self.belief.get_or_init(|| {
            let ranked = self.ensemble.ranked();
            let mut belief = Belief {
                weights: ModelWeights { target: KERNEL_PEAK, tasks: Vec::new() },
                incumbents: Vec::new(),
            };
            for task in self.ensemble.tasks() {
                let means = task.mean_variances(ranked.inputs()).0;
                let ratio = self.settings.distance.of(&ranked, &means) / self.settings.bandwidth;
                let weight = KERNEL_PEAK * (1.0 - ratio * ratio).max(0.0);
                belief.weights.tasks.push(weight);
                belief.incumbents.push(match self.settings.meta_incumbent {
                    MetaIncumbent::BestPredicted => {
                        means.into_iter().reduce(f64::max).unwrap_or(0.0)
                    }
                    MetaIncumbent::OwnBest => task.largest_output(),
                });
            }
            belief
        })
    }
}

impl ModelEnsemble for Taf {
    fn domain(&self) -> &Domain {
        self.ensemble.domain()
    }

    fn own(&self) -> &Surrogate {
        self.ensemble.surrogate()
    }

    fn set_models(&mut self, tasks: Vec<Arc<dyn TaskModel>>) {
        let missing = self.settings.meta_incumbent.missing(&tasks);
        assert!(missing.is_none(), "{missing:?} was sent without the requested incumbent");
        self.ensemble.set_tasks(tasks);
        self.belief = OnceLock::new();
    }
}

impl RankingDistance {
    fn of(self, ranked: &Ranked, means: &[f64]) -> f64 {
        match self {
            Self::Share => ranked.misranked_share(means),
            Self::Vanishing => ranked.vanishing_distance(means),
        }
    }
}

impl Strategy for Taf {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let target = self.ensemble.target(pending)?;
        let belief = self.belief();
        let parts = belief.weights.tasks.iter().zip(&belief.incumbents);
        let parts = parts.filter(|(weight, _)| **weight > 0.0);
        let (weights, incumbents): (Vec<f64>, Vec<f64>) = parts.unzip();
        let acquisition = TransferImprovement {
            total: belief.weights.target + weights.iter().sum::<f64>(),
            target: Term { weight: belief.weights.target, incumbent: self.ensemble.incumbent() },
            tasks: weights
                .into_iter()
                .zip(incumbents)
                .map(|(weight, incumbent)| Term { weight, incumbent })
                .collect(),
            noise_variance: match self.settings.target_variance {
                TargetVariance::Latent => 0.0,
                TargetVariance::WithNoise => target.noise_variance(),
            },
            least_variance: LEAST_VARIANCE * target.kernel().outputscale(),
            form: self.settings.meta_improvement,
            draws: Seed::new(u64::from(stream.bits()) << 32 | u64::from(stream.bits())),
        };
        let weights = &belief.weights.tasks;
        self.ensemble.propose(&target, weights, &acquisition, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.ensemble.tell(observed)?;
        self.belief = OnceLock::new();
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.ensemble.surrogate())
    }

    fn transfer(&self) -> Option<Transfer> {
        Some(transfer_of(&self.belief().weights, self.ensemble.tasks()))
    }
}

/// A weighted mean of improvements, or its logarithm.
struct TransferImprovement {
    target: Term,
    tasks: Vec<Term>,
    /// Sum of all weights.
    total: f64,
    /// Noise variance, which is added to the target's variance.
    noise_variance: f64,
    least_variance: f64,
    form: MetaImprovement,
    /// Seed for random draws.
    draws: Seed,
}

#[derive(Clone, Copy)]
struct Term {
    weight: f64,
    incumbent: f64,
}

impl TransferImprovement {
    /// Returns the logarithm of a term's weight times its expected improvement, with the
    /// derivatives.
    fn expected(&self, term: Term, found: Moments) -> (f64, Moments) {
        let std = found.variance.max(self.least_variance).sqrt();
        let improvement = log_expected_improvement(found.mean, std, term.incumbent);
        let slopes = Moments {
            mean: improvement.d_mean,
            variance: if found.variance > self.least_variance {
                0.5 * improvement.d_std / std
            } else {
                0.0
            },
        };
        (term.weight.ln() + improvement.value, slopes)
    }

    fn of_target(&self, found: Moments) -> (f64, Moments) {
        let noisy = Moments { mean: found.mean, variance: found.variance + self.noise_variance };
        self.expected(self.target, noisy)
    }

    fn of_task(&self, term: Term, found: Moments) -> (f64, Moments) {
        if self.form == MetaImprovement::Expected {
            return self.expected(term, found);
        }
        let gain = found.mean - term.incumbent;
        if gain > 0.0 {
            let slopes = Moments { mean: 1.0 / gain, variance: 0.0 };
            (term.weight.ln() + gain.ln(), slopes)
        } else {
            (f64::NEG_INFINITY, Moments::default())
        }
    }

    /// Returns the mean itself, with one draw from each task at x.
    fn drawn(&self, x: &[f64], moments: &[Moments]) -> f64 {
        // An FNV-1a hash of the bits of x labels the draws at this point.
        let label = x.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, v| {
            (hash ^ v.to_bits()).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut stream = self.draws.stream(crate::META_TASK, label, 0);
        let mut sum = self.of_target(moments[0]).0.exp();
        for (term, found) in self.tasks.iter().zip(&moments[1..]) {
            let draw = found.mean + found.variance.sqrt() * stream.normal();
            sum += term.weight * (draw - term.incumbent).max(0.0);
        }
        sum / self.total
    }
}

impl Acquisition for TransferImprovement {
    fn value(&self, x: &[f64], moments: &[Moments]) -> f64 {
        if self.form == MetaImprovement::RandomDraw {
            return self.drawn(x, moments);
        }
        self.slopes(x, moments, &mut vec![Moments::default(); moments.len()])
    }

    /// Returns ln Σ_i e^{l_i} with l_i = ln(w_i I_i). The slopes are the derivatives of l_i,
    /// weighted by the shares of the terms in the sum.
    fn slopes(&self, x: &[f64], moments: &[Moments], slopes: &mut [Moments]) -> f64 {
        if self.form == MetaImprovement::RandomDraw {
            slopes.fill(Moments::default());
            return self.drawn(x, moments);
        }
        let mut terms = Vec::with_capacity(moments.len());
        terms.push(self.of_target(moments[0]));
        let of_tasks = self.tasks.iter().zip(&moments[1..]);
        terms.extend(of_tasks.map(|(term, found)| self.of_task(*term, *found)));
        let top = terms.iter().map(|(ln, _)| *ln).fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for (ln, _) in &mut terms {
            *ln = (*ln - top).exp();
            sum += *ln;
        }
        for (slope, (share, of_term)) in slopes.iter_mut().zip(&terms) {
            slope.mean = share / sum * of_term.mean;
            slope.variance = share / sum * of_term.variance;
        }
        top + (sum / self.total).ln()
    }
}

#[cfg(test)]
mod tests;
