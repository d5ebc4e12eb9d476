//! Thompson sampling: queries the maximum of a posterior sample.

use fedbo_gp::{FeatureMap, PathwiseSample, WeightPosterior, WeightSpaceSample};
use fedbo_optim::{Function, MultiStart, Points};
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::domain::Candidates;
use crate::proposer::Proposer;
use crate::{
    Domain, LogEiQuery, LogEiSettings, Maximizer, Observation, OutputOption, OwnSampler, Proposal,
    Repeats, Setup, Source, Strategy, StrategyError, StrategyOptions, Surrogate, SurrogateSettings,
    UcbMultiplier,
};

/// Options of `ts`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsOptions {
    /// β_t, the multiplier of a sample's deviation from the mean.
    pub ucb_multiplier: UcbMultiplier,
    /// Transform applied to outputs before they are modelled.
    #[serde(default = "OutputOption::of_stored_without")]
    pub output_transform: OutputOption,
    /// The search for the maximum of a sample.
    #[serde(default = "SampleSearch::of_stored_without")]
    pub search: SampleSearch,
}

/// The search for the maximum of a posterior sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleSearch {
    /// Ascents from the best trials and from points near the best one.
    ///
    /// A coin flip decides for each sample whether it keeps only 0.3 of its deviation from the
    /// mean. In many dimensions, most of the space is far from all trials. There a sample follows
    /// the prior, so its global maximum would explore forever. On the suite of functions, this
    /// search achieves the same results as log expected improvement (research/RESULTS.md).
    #[default]
    Local,
    /// Ascents from points throughout the space, as in published Thompson sampling.
    Global,
}

impl SampleSearch {
    /// Returns the value for definitions that were stored before this option existed.
    fn of_stored_without() -> Self {
        Self::Global
    }
}

/// The fraction of the deviation from the mean that a narrow sample of [`SampleSearch::Local`]
/// keeps.
const NARROW: f64 = 0.3;
/// The fraction of samples that are narrow.
const NARROW_SHARE: f64 = 0.5;

impl Default for TsOptions {
    /// β_t = 1: unscaled posterior samples.
    fn default() -> Self {
        Self {
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            output_transform: OutputOption::default(),
            search: SampleSearch::default(),
        }
    }
}

impl StrategyOptions for TsOptions {
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
        let settings = ThompsonSettings {
            surrogate: setup.surrogate().with_outputs(self.output_transform),
            ucb_multiplier: self.ucb_multiplier,
            search: self.search,
            ..ThompsonSettings::for_study(setup.dim(), setup.noisy)
        };
        let strategy = ThompsonSampling::new(setup.domain(), settings, setup.seed)?;
        Ok(Box::new(strategy))
    }
}

/// The rule for an agent's queries to its own model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnQuery {
    /// The maximizer of a posterior sample.
    #[default]
    Sample,
    /// The maximizer of the log expected improvement.
    LogEi(LogEiQuery),
}

/// Settings of a [`ThompsonSampling`] strategy.
#[derive(Clone, Debug)]
pub struct ThompsonSettings {
    /// The surrogate.
    pub surrogate: SurrogateSettings,
    /// The search for the maximum of a function.
    pub maximizer: Maximizer,
    /// Starting points of the search for the maximum of a sample from the agent's own model. On a
    /// finite domain, all points are compared instead.
    pub search: SampleSearch,
    /// β_t.
    pub ucb_multiplier: UcbMultiplier,
    /// Rule for proposing points again.
    pub repeats: Repeats,
    /// Rule for queries to the agent's own model: Thompson sampling, unless a strategy that
    /// contains this one selects a different rule.
    pub own_query: OwnQuery,
}

impl ThompsonSettings {
    /// Returns the defaults for a deterministic objective on a `dim`-dimensional box, in a
    /// federation.
    pub fn default_for(dim: usize) -> Self {
        Self {
            surrogate: SurrogateSettings::default_for(dim),
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(dim)),
            search: SampleSearch::Global,
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Avoid,
            own_query: OwnQuery::Sample,
        }
    }

    /// Returns the defaults for a single-party study: see [`SurrogateSettings::for_study`].
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn for_study(dim: usize, noisy: bool) -> Self {
        Self {
            surrogate: SurrogateSettings::for_study(dim, noisy),
            maximizer: Maximizer::Snapped(MultiStart::for_dim(dim)),
            search: SampleSearch::Global,
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::for_study(noisy),
            own_query: OwnQuery::Sample,
        }
    }

    /// Returns settings with the model, search and queries of [`crate::LogEi`] instead of Thompson
    /// sampling. β_t then has no effect.
    pub fn of_log_ei(settings: &LogEiSettings) -> Self {
        Self {
            surrogate: settings.surrogate.clone(),
            maximizer: settings.maximizer.clone(),
            search: SampleSearch::Global,
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: settings.repeats,
            own_query: OwnQuery::LogEi(settings.query()),
        }
    }
}

/// Thompson sampling with a Gaussian process: f_t ~ GP(μ_{t−1}, β_t² σ²_{t−1}), x_t = argmax f_t
/// (FTS Algorithm 1 line 4).
///
/// The queries of a batch are independent samples (Kandasamy et al. 2018); running trials only
/// exclude their points. A study searches for the maximum by [`SampleSearch::Local`] unless the
/// study file selects the other search. With [`OwnQuery::LogEi`], queries to the agent's own model
/// are made as in [`crate::LogEi`] instead.
#[derive(Clone, Debug)]
pub struct ThompsonSampling {
    proposer: Proposer,
    ucb_multiplier: UcbMultiplier,
    search: SampleSearch,
    own_query: OwnQuery,
    /// Points that cover the domain, for γ_t.
    cover: Points,
}

impl ThompsonSampling {
    /// Creates a strategy without observations. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: ThompsonSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        if let OwnQuery::LogEi(query) = settings.own_query {
            query.validate()?;
        }
        let proposer = Proposer::new(
            domain,
            settings.surrogate,
            settings.maximizer,
            settings.repeats,
            settings.own_query == OwnQuery::Sample,
            seed,
        )?;
        Ok(Self {
            own_query: settings.own_query,
            search: settings.search,
            ucb_multiplier: settings.ucb_multiplier.validate()?,
            cover: proposer.domain().cover(),
            proposer,
        })
    }

    /// Returns the model of the objective.
    pub fn surrogate(&self) -> &Surrogate {
        self.proposer.surrogate()
    }

    /// Returns the domain of the queries.
    pub fn domain(&self) -> &Domain {
        self.proposer.domain()
    }

    /// Proposes a query from the agent's own model: the maximum of a posterior sample or of the log
    /// expected improvement.
    ///
    /// # Errors
    /// If no finite query exists.
    pub fn propose_own(
        &self,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        if let OwnQuery::LogEi(query) = self.own_query {
            return query.propose(&self.proposer, pending, stream);
        }
        self.proposer.open(pending)?;
        let surrogate = self.surrogate();
        let posterior = surrogate.posterior();
        let step = surrogate.len() as u64 + 1;
        let beta = self.ucb_multiplier.at(
            step,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        );
        match (surrogate.sampler(), self.domain(), surrogate.joint()) {
            (OwnSampler::Exact(_), domain, Some(joint)) if domain.points().is_some() => {
                let points = joint.domain();
                let values = joint.sample(posterior, beta, stream)?;
                self.proposer.propose_ranked(&values, points, pending, stream)
            }
            (OwnSampler::Exact(prior), ..) if self.search == SampleSearch::Local => {
                let beta = if stream.uniform() < NARROW_SHARE { NARROW * beta } else { beta };
                let sample = PathwiseSample::draw(posterior, prior, beta, stream)?;
                self.proposer.propose_local_maximum(&sample, pending, stream)
            }
            (OwnSampler::Exact(prior), ..) => {
                let sample = PathwiseSample::draw(posterior, prior, beta, stream)?;
                self.propose_maximum(&sample, Source::Own, pending, stream)
            }
            (OwnSampler::Features(n_features), ..) => {
                let map = FeatureMap::for_kernel(posterior.kernel(), n_features, stream)?;
                let weights = WeightPosterior::new(
                    &map,
                    posterior.noise_variance(),
                    posterior.inputs(),
                    posterior.outputs(),
                )?;
                let sample = WeightSpaceSample::new(&map, &weights.sample(beta, stream))?;
                self.propose_maximum(&sample, Source::Own, pending, stream)
            }
        }
    }

    /// Proposes the maximum of a function on the domain.
    ///
    /// # Errors
    /// If no finite query exists.
    pub fn propose_maximum(
        &self,
        function: &dyn Function,
        source: Source,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        self.proposer.propose_maximum(function, source, pending, stream)
    }

    /// Proposes one of the candidates, which are ordered from best to worst.
    ///
    /// # Errors
    /// If neither a candidate nor a random point can be queried.
    pub fn propose_among(
        &self,
        candidates: Candidates,
        source: Source,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let open = self.proposer.open(pending)?;
        open.pick(candidates, source, stream)
    }
}

impl Strategy for ThompsonSampling {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.propose_own(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.proposer.restrict(part)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }
}
