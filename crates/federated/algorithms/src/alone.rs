//! An agent that works alone: a control beside algorithms whose own agents would use another strategy alone.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_protocol::{Handout, UpdateRejected, UsesHandouts};
use fedbo_strategies::{
    Collaborator, Domain, LogEi, LogEiSettings, Observation, Points, Proposal, Strategy,
    StrategyError, Surrogate, ThompsonSampling, ThompsonSettings,
};
use fedbo_streams::Stream;

use crate::AgentSetup;

/// A strategy of one party in a federation: it uses no handout, and what it sends is zero.
pub struct Alone<S, H> {
    strategy: S,
    domain: Domain,
    map: Arc<FeatureMap>,
    message_len: usize,
    handouts: PhantomData<fn(H)>,
}

impl<S, H> Alone<S, H> {
    /// An agent whose messages have `message_len` numbers.
    pub fn new(strategy: S, domain: Domain, map: Arc<FeatureMap>, message_len: usize) -> Self {
        Self { strategy, domain, map, message_len, handouts: PhantomData }
    }
}

impl<H> Alone<ThompsonSampling, H> {
    /// An agent by Thompson sampling alone, beside an algorithm whose own agents are none.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
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
    /// An agent by log expected improvement alone: what a party would use without the federation.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    pub fn log_ei(
        setup: &AgentSetup<'_>,
        settings: &LogEiSettings,
        message_len: usize,
    ) -> Result<Self, StrategyError> {
        let domain = Domain::Space(setup.space.clone());
        let strategy = LogEi::new(domain.clone(), settings.clone(), setup.seed)?;
        Ok(Self::new(strategy, domain, Arc::clone(setup.map), message_len))
    }
}

impl<S: fmt::Debug, H> fmt::Debug for Alone<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alone").field(&self.strategy).finish()
    }
}

impl<S: Strategy, H> Strategy for Alone<S, H> {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        self.strategy.ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.strategy.tell(observed)
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
