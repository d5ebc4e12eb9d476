//! Random search.

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::Stream;
use serde::{Deserialize, Serialize};

use crate::trials::Trials;
use crate::{
    Domain, Observation, Proposal, Repeats, Setup, Source, Strategy, StrategyError, StrategyOptions,
};

/// Options of `random`, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomOptions {}

impl StrategyOptions for RandomOptions {
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
        let strategy = RandomSearch::new(setup.domain(), setup.repeats())?;
        Ok(Box::new(strategy))
    }

    fn has_surrogate(&self) -> bool {
        false
    }

    fn takes_outcomes(&self) -> bool {
        true
    }
}

/// Queries uniformly random points of the domain, the baseline for every other strategy (Bergstra &
/// Bengio 2012).
#[derive(Clone, Debug)]
pub struct RandomSearch {
    trials: Trials,
}

impl RandomSearch {
    /// Creates a strategy without observations.
    ///
    /// # Errors
    /// If a finite domain is empty or has a coordinate that is not finite.
    pub fn new(domain: Domain, repeats: Repeats) -> Result<Self, StrategyError> {
        Ok(Self { trials: Trials::new(domain, repeats)? })
    }
}

impl Strategy for RandomSearch {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let open = self.trials.with_pending(pending);
        open.check_exhausted()?;
        Ok(Proposal { unit: open.random(stream)?, source: Source::Random })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.trials.tell(observed);
        Ok(())
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.trials.restrict(part)
    }
}
