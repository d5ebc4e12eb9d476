//! Rivals of the shared prior: other ways for a party to use the others' knowledge.
//!
//! All of them have the search, the log expected improvement and the output units of the arm
//! `log-ei`. Only the model differs. They are built from the others' own models, which contain
//! their observations. Each method documents the data that it would send.

mod consensus;
mod pooled;

use fedbo_gp::{GpError, Kernel, Posterior, Predictor};
use fedbo_optim::{Function, Points};
use fedbo_strategies::{
    Acquisition, Domain, LogEiSettings, Observation, Proposal, Proposer, Score, Source, Strategy,
    StrategyError, Surrogate, log_expected_improvement,
};
use fedbo_streams::{Seed, Stream};

pub(super) use self::consensus::Consensus;
use self::pooled::{Pooled, PooledImprovement};

/// The model that a party builds from the others' knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// All observations of all parties under one Gaussian process ([`Pooled`]), regardless of the
    /// amount of data sent, which is every observation. This method bounds what the others' data
    /// can contribute, to the extent that its model is right.
    Pooled,
    /// The others' hyperparameters instead of a fit: the geometric means of their length scales,
    /// signal variances and noise variances (Yue & Al Kontar 2021, arXiv 2111.14008). Each party
    /// would send these d + 2 numbers once.
    ///
    /// In FGPR a server averages iterates of stochastic gradients. Here, in contrast, each party's
    /// fit has converged before the average is taken. The prior mean is 0, so the first three
    /// queries are random, as for `log-ei`.
    AverageHyperparameters,
    /// The Wasserstein barycentre of all posteriors, point by point (Mallasto & Feragen 2017). Its
    /// mean is the average of the means, and its standard deviation is the average of the standard
    /// deviations. Each party would send both on a fine grid, or equivalent data.
    ///
    /// The party's own posterior has half of the weight, and the others share the other half
    /// equally. The incumbent is the largest mean at one of the party's own inputs, because its
    /// outputs have their own units.
    Barycentre,
}

/// Number of random queries before a model without any observations is used, as for `log-ei`.
const N_RANDOM_FIRST: usize = 3;
/// Weight of the party's own posterior in a barycentre.
const OWN_WEIGHT: f64 = 0.5;
/// Standard deviations below this value are rounding errors.
const LEAST_STD: f64 = 1e-7;

/// A party with one of the methods.
pub(super) struct Rival {
    proposer: Proposer,
    model: Model,
}

/// The others' knowledge in the form that the method needs.
enum Model {
    Pooled(Box<Pooled>),
    Hyperparameters { kernel: Kernel, noise_variance: f64 },
    Barycentre(Vec<Predictor<'static>>),
}

impl Rival {
    /// Creates a party without observations. `others` are the other parties' models, conditioned on
    /// their observations. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a covariance has no Cholesky factor.
    ///
    /// # Panics
    /// If `others` is empty.
    pub(super) fn new(
        method: Method,
        domain: Domain,
        settings: LogEiSettings,
        others: &[&Posterior],
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let model = match method {
            Method::Pooled => {
                let (kernel, _) = average_hyperparameters(others)?;
                Model::Pooled(Box::new(Pooled::new(&kernel, others)?))
            }
            Method::AverageHyperparameters => {
                let (kernel, noise_variance) = average_hyperparameters(others)?;
                Model::Hyperparameters { kernel, noise_variance }
            }
            Method::Barycentre => {
                let predictors = others.iter().copied().cloned();
                Model::Barycentre(predictors.map(Posterior::into_predictor).collect())
            }
        };
        let LogEiSettings { surrogate, maximizer, repeats, .. } = settings;
        let proposer = Proposer::new(domain, surrogate, maximizer, repeats, false, seed)?;
        Ok(Self { proposer, model })
    }
}

impl Strategy for Rival {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let mut own = self.proposer.surrogate().posterior().clone();
        if !pending.is_empty() {
            let means = own.mean_variances(pending).0;
            own = own.extended(pending, &means)?; // running trials count as observations of the party's own mean
        }
        let best = own.outputs().iter().copied().reduce(f64::max);
        let propose = |function: &dyn Function, stream: &mut Stream| {
            self.proposer.propose_acquisition(function, pending, stream)
        };
        match &self.model {
            Model::Pooled(pooled) => {
                propose(&PooledImprovement::new(pooled, own.inputs(), own.outputs())?, stream)
            }
            Model::Hyperparameters { kernel, noise_variance } => {
                let Some(best) = best.filter(|_| own.len() >= N_RANDOM_FIRST) else {
                    let unit = self.proposer.domain().random(stream);
                    return Ok(Proposal { unit, source: Source::Random });
                };
                let (inputs, outputs) = (own.inputs().clone(), own.outputs().to_vec());
                let posterior = Posterior::new(kernel.clone(), *noise_variance, inputs, outputs)?;
                let predictor = posterior.predictor();
                let improvement = Acquisition::new(&predictor, |mean, std| {
                    log_expected_improvement(mean, std.max(LEAST_STD), best)
                });
                propose(&improvement, stream)
            }
            Model::Barycentre(others) => propose(&Barycentre::new(&own, others), stream),
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }
}

/// Returns the kernel and the noise variance with geometric means of hyperparameters.
fn average_hyperparameters(others: &[&Posterior]) -> Result<(Kernel, f64), GpError> {
    #[expect(clippy::cast_precision_loss, reason = "numbers of parties")]
    let mean = |of: &dyn Fn(&Posterior) -> f64| {
        (others.iter().map(|other| of(other).ln()).sum::<f64>() / others.len() as f64).exp()
    };
    let first = others[0].kernel();
    let lengthscales = (0..first.dim()).map(|j| mean(&|other| other.kernel().lengthscales()[j]));
    let outputscale = mean(&|other| other.kernel().outputscale());
    let kernel = Kernel::new(first.family(), lengthscales.collect(), outputscale)?;
    Ok((kernel, mean(&|other| other.noise_variance())))
}

/// ln EI of the barycentre, with mean(x) = Σ_k w_k mean_k(x) and std(x) = Σ_k w_k std_k(x). Before
/// the party's first output, the value is mean(x).
struct Barycentre<'a> {
    own: Predictor<'a>,
    others: &'a [Predictor<'static>],
    /// The largest mean at one of the party's own inputs.
    best: Option<f64>,
}

impl<'a> Barycentre<'a> {
    fn new(own: &'a Posterior, others: &'a [Predictor<'static>]) -> Self {
        let mut barycentre = Self { own: own.predictor(), others, best: None };
        // Without an incumbent, values are means.
        barycentre.best = barycentre.values(own.inputs()).into_iter().reduce(f64::max);
        barycentre
    }

    /// Iterates over all posteriors and their weights.
    fn weighed(&self) -> impl Iterator<Item = (f64, &Posterior)> {
        self.predictors().map(|(weight, predictor)| (weight, predictor.posterior()))
    }

    fn predictors(&self) -> impl Iterator<Item = (f64, &Predictor<'_>)> {
        #[expect(clippy::cast_precision_loss, reason = "numbers of parties")]
        let weight = (1.0 - OWN_WEIGHT) / self.others.len() as f64;
        std::iter::once((OWN_WEIGHT, &self.own))
            .chain(self.others.iter().map(move |other| (weight, other)))
    }

    fn score(&self, mean: f64, std: f64) -> Score {
        match self.best {
            Some(best) => log_expected_improvement(mean, std.max(LEAST_STD), best),
            None => Score { value: mean, d_mean: 1.0, d_std: 0.0 },
        }
    }
}

impl Function for Barycentre<'_> {
    fn dim(&self) -> usize {
        self.own.posterior().kernel().dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); points.len()];
        for (weight, posterior) in self.weighed() {
            let (means, variances) = posterior.mean_variances(points);
            for ((sum, mean), variance) in sums.iter_mut().zip(means).zip(variances) {
                *sum = (sum.0 + weight * mean, sum.1 + weight * variance.sqrt());
            }
        }
        sums.into_iter().map(|(mean, std)| self.score(mean, std).value).collect()
    }

    /// Uses σ_k ∇σ_k = −v_k·∇v_k, as in [`Acquisition`].
    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let found: Vec<_> = self
            .predictors()
            .map(|(weight, predictor)| {
                let prediction = predictor.predict(point);
                (weight, prediction.variance().sqrt(), prediction)
            })
            .collect();
        let mean = found.iter().map(|(weight, _, found)| weight * found.mean()).sum();
        let std = found.iter().map(|(weight, std, _)| weight * std).sum();
        let score = self.score(mean, std);
        gradient.fill(0.0);
        let mut part = vec![0.0; gradient.len()];
        for (weight, std, found) in &found {
            let slope = if *std > 0.0 { -weight * score.d_std / std } else { 0.0 };
            let whitened = found.whitened().iter().map(|v| slope * v).collect();
            found.gradient(weight * score.d_mean, whitened, &mut part);
            gradient.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
        }
        score.value
    }
}

#[cfg(test)]
mod tests;
