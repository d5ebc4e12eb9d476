//! Federations in which agents learn from released sums.

use std::sync::Arc;

use fedbo_federated::{AgentSetup, Arm, Released, Role};
use fedbo_privacy::mechanism::PaperMechanism;
use fedbo_protocol::{AggregateHandout, ReleaseSchedule, UsesHandouts};
use fedbo_strategies::{MessageContent, StrategyError};

use crate::privacy::{PrivacyPlan, Protection, Releases};
use crate::release_mechanism::ReleaseMechanism;

/// The algorithm's settings, and the releases of sums.
#[derive(Clone)]
pub struct ReleasePlan {
    /// The algorithm's settings.
    pub algorithm: Arc<dyn Released>,
    /// The mechanism, schedule and protection of releases.
    pub releases: Releases,
    /// Exact averages over all agents' vectors, for arms without noise.
    pub(crate) exact: PaperMechanism,
}

impl ReleasePlan {
    /// Returns the privacy guarantee and budget of the algorithm's own arm; `None` without a
    /// guarantee.
    pub(crate) fn privacy(&self) -> Option<&PrivacyPlan> {
        match &self.releases.protection {
            Protection::Charged(plan) => Some(plan),
            Protection::Off | Protection::Simulated => None,
        }
    }

    /// Returns true if the noise comes from the seed.
    pub(crate) fn is_simulation(&self) -> bool {
        matches!(self.releases.protection, Protection::Simulated)
    }

    pub(crate) fn has_noise(&self) -> bool {
        !matches!(self.releases.protection, Protection::Off)
    }

    /// Returns the mechanism for an arm's releases. If agents work alone, nothing is collected.
    #[must_use]
    pub fn mechanism(&self, arm: Arm) -> ReleaseMechanism {
        match arm.role {
            Role::Alone | Role::LogEi => ReleaseMechanism::Paper(self.exact.clone()),
            Role::Own | Role::WarmStart | Role::Placebo => self.releases.mechanism.clone(),
        }
    }

    /// Returns S and P if vectors are posterior draws; `None` if nothing is clipped, or if vectors
    /// are not draws, because their norm is then known.
    #[must_use]
    pub fn norm_of_draws(&self) -> Option<(f64, u32)> {
        let shape = self.algorithm.shape();
        let (max_norm, _) = self.releases.mechanism.norm_and_noise();
        let is_draw = shape.content == MessageContent::Posterior;
        (is_draw && max_norm.is_finite()).then_some((max_norm, shape.n_regions))
    }

    /// Returns the schedule of releases.
    #[must_use]
    pub fn schedule(&self) -> ReleaseSchedule {
        self.releases.schedule
    }

    /// Returns the agents' weights in each round, for the paper's mechanism.
    pub(crate) fn agent_weights(&self) -> Box<dyn Fn(u64) -> Vec<Vec<f64>> + Send + Sync> {
        let algorithm = Arc::clone(&self.algorithm);
        Box::new(move |round| algorithm.agent_weights(round))
    }

    /// Returns the expected fraction of agents in a release, which determines the divisor of sums.
    /// The actual fraction is never used.
    pub(crate) fn expected_rate(&self, arm: Arm) -> f64 {
        self.mechanism(arm).sampling_rate() * self.releases.expected_share()
    }

    pub(crate) fn agent(
        &self,
        setup: &AgentSetup<'_>,
        arm: Arm,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError> {
        self.algorithm.agent(setup, self.expected_rate(arm), self.has_noise())
    }
}
