//! Random search.

use fedbo_optim::Points;
use fedbo_streams::Stream;

use crate::trials::Trials;
use crate::{Domain, Observation, Proposal, Repeats, Source, Strategy, StrategyError};

/// Queries uniformly random points of the domain: the yardstick of every other strategy (Bergstra & Bengio 2012).
#[derive(Clone, Debug)]
pub struct RandomSearch {
    trials: Trials,
}

impl RandomSearch {
    /// A strategy without observations.
    ///
    /// # Errors
    /// If a finite domain is empty or has a coordinate that is not finite.
    pub fn new(domain: Domain, repeats: Repeats) -> Result<Self, StrategyError> {
        Ok(Self {
            trials: Trials::new(domain, repeats)?,
        })
    }
}

impl Strategy for RandomSearch {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let open = self.trials.with_pending(pending);
        open.check_exhausted()?;
        Ok(Proposal {
            unit: open.random(stream)?,
            source: Source::Random,
        })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.trials.tell(observed);
        Ok(())
    }
}
