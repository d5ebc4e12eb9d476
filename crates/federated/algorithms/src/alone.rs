//! Standalone agents, as a control for federated algorithms.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Handout, Neighbour, ReportRejected, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, LogEi, LogEiSettings, Observation, Points, Proposal, Source, Strategy,
    StrategyError, Surrogate, ThompsonSampling, ThompsonSettings,
};
use fedbo_streams::Stream;

use crate::AgentSetup;

/// A single-party strategy in a federation. The agent ignores handouts and neighbours'
/// observations, and sends zeros as messages.
pub struct Alone<S, H> {
    strategy: S,
    domain: Domain,
    map: Arc<FeatureMap>,
    message_len: usize,
    /// Queries are random until there are this many trials.
    n_random_first: usize,
    /// The points of the first trials, at most `n_random_first`.
    first: Vec<Vec<f64>>,
    handouts: PhantomData<fn(H)>,
}

/// A standalone agent with log expected improvement makes random queries until it has this many
/// trials.
///
/// An agent with a shared prior and no messages does the same. With only a few points of a flat
/// function, the acquisition function gives little guidance for the next query.
const N_RANDOM_FIRST: usize = 3;
/// Maximum number of draws when looking for an untried point.
const N_TRIES: usize = 100;

impl<S, H> Alone<S, H> {
    /// Creates an agent that sends messages of `message_len` numbers.
    pub fn new(strategy: S, domain: Domain, map: Arc<FeatureMap>, message_len: usize) -> Self {
        Self {
            strategy,
            domain,
            map,
            message_len,
            n_random_first: 0,
            first: Vec::new(),
            handouts: PhantomData,
        }
    }

    fn keep_first(&mut self, observed: &[Observation]) {
        let n_missing = self.n_random_first.saturating_sub(self.first.len());
        self.first.extend(observed.iter().take(n_missing).map(|each| each.unit.clone()));
    }
}

impl<H> Alone<ThompsonSampling, H> {
    /// Creates an agent that uses standalone Thompson sampling, for algorithms with a different
    /// strategy.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    pub fn thompson_sampling(
        setup: &AgentSetup<'_>,
        settings: &ThompsonSettings,
        message_len: usize,
    ) -> Result<Self, StrategyError> {
        let mut settings = settings.clone();
        settings.ucb_multiplier = setup.alone_ucb_multiplier;
        let domain = Domain::Space(setup.space.clone());
        let strategy = ThompsonSampling::new(domain.clone(), settings, setup.seed)?;
        Ok(Self::new(strategy, domain, Arc::clone(setup.map), message_len))
    }
}

impl<H> Alone<LogEi, H> {
    /// Creates an agent that uses standalone log expected improvement, as a party would without the
    /// federation.
    ///
    /// The agent makes random queries until it has three trials, so that it is not weaker than a
    /// study if the file sets fewer initial points.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    pub fn log_ei(
        setup: &AgentSetup<'_>,
        settings: &LogEiSettings,
        message_len: usize,
    ) -> Result<Self, StrategyError> {
        let domain = Domain::Space(setup.space.clone());
        let strategy = LogEi::new(domain.clone(), settings.clone(), setup.seed)?;
        let agent = Self::new(strategy, domain, Arc::clone(setup.map), message_len);
        Ok(Self { n_random_first: N_RANDOM_FIRST, ..agent })
    }
}

impl<S: fmt::Debug, H> fmt::Debug for Alone<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alone").field(&self.strategy).finish()
    }
}

impl<S: Strategy, H> Strategy for Alone<S, H> {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        if self.first.len() + pending.len() >= self.n_random_first {
            return self.strategy.ask(pending, stream);
        }
        let mut unit = self.domain.random(stream);
        for _ in 0..N_TRIES {
            if !self.first.contains(&unit) && pending.rows().all(|running| running != unit) {
                break;
            }
            unit = self.domain.random(stream);
        }
        Ok(Proposal { unit, source: Source::Random })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.strategy.tell(observed)?;
        self.keep_first(observed);
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.strategy.surrogate()
    }
}

impl<S: Strategy, H> Collaborator for Alone<S, H> {
    fn domain(&self) -> &Domain {
        &self.domain
    }

    fn own(&self) -> &Surrogate {
        self.strategy.surrogate().unwrap_or_else(|| unreachable!("made of strategies with a model"))
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    fn weight_sample(&self, _: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        Ok(vec![0.0; self.message_len])
    }
}

impl<S: Strategy, H: Handout> UsesHandouts for Alone<S, H> {
    type Handout = H;

    fn take(&mut self, _: H, _: u32) -> Vec<UpdateRejected> {
        Vec::new()
    }
}

impl<S: Strategy, H> Neighbour for Alone<S, H> {
    fn domain(&self) -> &Domain {
        &self.domain
    }

    fn own(&self) -> &Surrogate {
        Collaborator::own(self)
    }

    fn tell_all(
        &mut self,
        own: &[Observation],
        _: &[Observation],
    ) -> Result<Vec<ReportRejected>, StrategyError> {
        self.tell(own)?;
        Ok(Vec::new())
    }
}
