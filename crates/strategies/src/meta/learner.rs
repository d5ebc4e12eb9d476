//! A target and the state of its meta-tasks, updated one observation at a time.

use std::sync::Arc;

use fedbo_optim::Points;
use fedbo_space::Space;

use super::belief::MetaBelief;
use super::{MetaBeliefSettings, TaskModels, Transfer};
use crate::proposer::Proposer;
use crate::{Observation, Strategy, StrategyError, Surrogate, ThompsonSampling, UcbMultiplier};

/// A target: a surrogate with its observations.
pub(super) trait Target: Clone {
    fn surrogate(&self) -> &Surrogate;

    /// # Errors
    /// If the surrogate cannot be conditioned; in that case nothing is added.
    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError>;

    /// # Errors
    /// If the queries cannot be restricted.
    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError>;
}

impl Target for Proposer {
    fn surrogate(&self) -> &Surrogate {
        Proposer::surrogate(self)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        Proposer::tell(self, observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        Proposer::restrict(self, part)
    }
}

impl Target for ThompsonSampling {
    fn surrogate(&self) -> &Surrogate {
        ThompsonSampling::surrogate(self)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        Strategy::tell(self, observed)
    }

    fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        Strategy::restrict(self, part)
    }
}

/// The shared part of RM-GP-UCB and RM-GP-TS.
#[derive(Clone, Debug)]
pub(super) struct Learner<T> {
    target: T,
    models: Arc<TaskModels>,
    belief: MetaBelief,
    /// √β_t for the confidence bounds of the gaps.
    ucb_multiplier: UcbMultiplier,
    /// Points that cover the domain, for γ_t.
    cover: Points,
}

impl<T: Target> Learner<T> {
    /// # Errors
    /// If a setting is out of range.
    pub(super) fn new(
        target: T,
        models: Arc<TaskModels>,
        belief: MetaBeliefSettings,
        ucb_multiplier: UcbMultiplier,
        cover: Points,
    ) -> Result<Self, StrategyError> {
        Ok(Self {
            belief: MetaBelief::new(belief, models.scale(), models.tasks().len())?,
            ucb_multiplier: ucb_multiplier.validate()?,
            target,
            models,
            cover,
        })
    }

    pub(super) fn target(&self) -> &T {
        &self.target
    }

    pub(super) fn models(&self) -> &TaskModels {
        &self.models
    }

    /// Returns √β for the query after `n` observations.
    pub(super) fn beta(&self, n: usize) -> f64 {
        let posterior = self.target.surrogate().posterior();
        self.ucb_multiplier.at(
            n as u64 + 1,
            posterior.kernel(),
            posterior.noise_variance(),
            &self.cover,
        )
    }

    /// Returns √β after all observations so far.
    fn beta_now(&self) -> f64 {
        self.beta(self.target.surrogate().len())
    }

    pub(super) fn belief_for_query(&self) -> MetaBelief {
        let target = self.target.surrogate();
        self.belief.for_query(target, self.beta_now(), &self.models)
    }

    pub(super) fn transfer(&self) -> Transfer {
        let target = self.target.surrogate();
        self.belief_for_query().transfer(target, &self.models)
    }

    /// # Errors
    /// If the target's surrogate cannot be conditioned; in that case nothing is added.
    pub(super) fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        let (target, belief) = (self.target.clone(), self.belief.clone());
        self.absorb(observed).inspect_err(|_| {
            self.target = target;
            self.belief = belief;
        })
    }

    /// # Errors
    /// If the target's queries cannot be restricted.
    pub(super) fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        self.target.restrict(part)
    }

    /// Adds observations one by one. The gaps are estimated after each observation, so the state
    /// does not depend on how observations are grouped into calls.
    fn absorb(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        for observation in observed {
            let is_value = observation.value.is_some_and(f64::is_finite);
            let source = &observation.source;
            if is_value {
                let (target, beta) = (self.target.surrogate(), self.beta_now());
                self.belief.before(source, target, beta, &self.models);
            }
            let told = self.models.target_observation(observation);
            self.target.tell(std::slice::from_ref(&told))?;
            if is_value {
                let (target, beta) = (self.target.surrogate(), self.beta_now());
                self.belief.after(source, target, beta, &self.models);
            }
        }
        Ok(())
    }
}
