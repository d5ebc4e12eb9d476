//! Search along a scrambled Sobol sequence.

use fedbo_optim::{Points, sobol_point};
use fedbo_space::Space;
use fedbo_streams::{Purpose, Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::trials::Trials;
use crate::{
    Domain, Observation, Proposal, Repeats, Setup, Source, Strategy, StrategyError, StrategyOptions,
};

/// Options of `sobol`, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SobolOptions {}

impl StrategyOptions for SobolOptions {
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
        let strategy = SobolSearch::new(setup.space.clone(), setup.repeats(), setup.seed)?;
        Ok(Box::new(strategy))
    }

    fn has_surrogate(&self) -> bool {
        false
    }

    fn takes_outcomes(&self) -> bool {
        true
    }
}

/// Maximum number of points that a step skips before it falls back to a random point.
const N_SKIPPED: usize = 1000;

/// In a space with rules, a step draws this many random points and takes the one farthest from all
/// trials.
const N_APART: usize = 16;

/// Queries the points of an Owen-scrambled Sobol sequence in order, snapped to the space. Compared
/// with random search, the points cover the space more evenly (Burley 2020).
///
/// The index of a query is the number of finished and running trials. Points that were already
/// evaluated, are running or are near a failure are skipped. In a space with rules, each query
/// is the random point that is farthest from all trials.
#[derive(Clone, Debug)]
pub struct SobolSearch {
    trials: Trials,
    space: Space,
    scramble: u32,
}

impl SobolSearch {
    /// Creates a strategy without observations. `seed` scrambles the sequence.
    ///
    /// # Errors
    /// None for a valid space.
    pub fn new(space: Space, repeats: Repeats, seed: Seed) -> Result<Self, StrategyError> {
        Ok(Self {
            trials: Trials::new(Domain::Space(space.clone()), repeats)?,
            space,
            scramble: seed.stream(Purpose::INITIAL_DESIGN, 0, 0).bits(),
        })
    }
}

impl Strategy for SobolSearch {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let open = self.trials.with_pending(pending);
        open.check_exhausted()?;
        if self.space.has_rules() {
            let unit = open.random_away(&open.known(), N_APART, stream)?;
            return Ok(Proposal { unit, source: Source::Random });
        }
        let space = self.trials.restriction().unwrap_or(&self.space);
        let first = self.trials.n_told() + pending.len();
        let unit = (first..first + N_SKIPPED)
            .map(|index| space.draw(&sobol_point(space.dim(), index, self.scramble)))
            .find(|unit| open.accepts(unit));
        let (unit, source) = match unit {
            Some(unit) => (unit, Source::Sobol),
            None => (open.random(stream)?, Source::Random),
        };
        Ok(Proposal { unit, source })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.trials.tell(observed);
        Ok(())
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.trials.restrict(part)
    }
}
