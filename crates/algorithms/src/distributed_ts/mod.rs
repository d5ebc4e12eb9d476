//! Distributed Thompson sampling: agents on a graph share what they observe with their neighbours (Zerefa et al.).
//!
//! Raw observations are shared, so nothing here is private. How reports travel between agents is `protocol`'s concern; here is
//! what one agent does with what has arrived.

mod independent_draws;

pub use independent_draws::IndependentDraws;

use fedbo_optim::Points;
use fedbo_streams::{Seed, Stream};

use crate::{
    Domain, Observation, Proposal, Source, Strategy, StrategyError, Surrogate, ThompsonSampling,
    ThompsonSettings,
};

/// How an agent's query is found from its posterior.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Query {
    /// The maximizer of one function drawn from the posterior (Algorithm 1 lines 9 to 11), jointly over the domain.
    #[default]
    Sample,
    /// As in the authors' code: see [`IndependentDraws`].
    IndependentDraws(IndependentDraws),
}

/// How a [`DistributedTs`] agent works.
#[derive(Clone, Debug)]
pub struct DistributedTsSettings {
    /// Surrogate, search, β_t (1 in the paper) and repeats.
    pub own: ThompsonSettings,
    /// How queries are found.
    pub query: Query,
}

/// An agent of distributed Thompson sampling (Algorithm 1): a Gaussian process over its own observations and its neighbours'
/// D_{t,i}, and a query at the maximum of a function drawn from it.
///
/// Observations may come in batches and in any order; each must come once. Equal observations in equal order and equal
/// streams give equal queries, whoever made them: on a complete graph all agents hold the same posterior, which is batch
/// Thompson sampling.
#[derive(Clone, Debug)]
pub struct DistributedTs {
    own: ThompsonSampling,
    query: Query,
    /// The last point that the agent itself evaluated.
    place: Option<Vec<f64>>,
}

impl DistributedTs {
    /// An agent without observations. `seed` feeds hyperparameter fits: agents that share it fit equal data equally.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: DistributedTsSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        if let Query::IndependentDraws(draws) = &settings.query {
            draws.validate()?;
        }
        Ok(Self {
            own: ThompsonSampling::new(domain, settings.own, seed)?,
            query: settings.query,
            place: None,
        })
    }

    /// Its model.
    #[must_use]
    pub fn own(&self) -> &Surrogate {
        self.own.surrogate()
    }

    /// Where it may query.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        self.own.domain()
    }

    /// Adds what the agent itself observed and what its neighbours reported (Algorithm 1 line 15), each observation once. One
    /// posterior update is made for all: O(n² m) for m new ones among n, without a refit.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; nothing is added then.
    pub fn tell_all(
        &mut self,
        own: &[Observation],
        all: &[Observation],
    ) -> Result<(), StrategyError> {
        self.own.tell(all)?;
        if let Some(last) = own.last() {
            self.place = Some(last.unit.clone());
        }
        Ok(())
    }
}

impl Strategy for DistributedTs {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        match &self.query {
            Query::Sample => self.own.propose_own(pending, stream),
            Query::IndependentDraws(draws) => {
                let posterior = self.own.surrogate().posterior();
                let candidates =
                    draws.candidates(posterior, self.domain(), self.place.as_deref(), stream)?;
                self.own
                    .propose_among(candidates, Source::Own, pending, stream)
            }
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.tell_all(observed, observed)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.own())
    }
}
