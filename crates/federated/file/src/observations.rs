//! Agents with earlier trials, which send one message before the first round and make no queries
//! (FTS, Algorithm 1).

use fedbo_federated::{Exchange, Role};
use fedbo_space::Point;
use fedbo_strategies::{Observation, Source};

use crate::checked::{AgentObjective, Federation, FederationAgent, UnknownAgent};

/// The reason that an agent cannot have earlier observations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObservationsRefused {
    /// No agent has this name.
    #[error(transparent)]
    UnknownAgent(#[from] UnknownAgent),
    /// No agent would receive the message.
    #[error("agent {agent:?} cannot have earlier observations: {message}")]
    NoEffect {
        /// The agent's name.
        agent: String,
        /// The reason, with a remedy.
        message: &'static str,
    },
    /// A trial cannot be used.
    #[error("agent {agent:?}, observation {index}: {message}")]
    Trial {
        /// The agent's name.
        agent: String,
        /// Index of the trial, from 0.
        index: usize,
        /// The problem.
        message: String,
    },
}

impl Federation {
    /// Gives an agent earlier trials, as points with their values. The agent sends one message
    /// based on them before the first round, and makes no queries. This corresponds to an agent's
    /// `observations` key in a file.
    ///
    /// # Errors
    /// If no agent has this name, a trial is not valid in the space, there are no trials, or no
    /// agent would receive the message.
    pub fn with_observations(
        mut self,
        agent: &str,
        observations: impl IntoIterator<Item = (Point, f64)>,
    ) -> Result<Self, ObservationsRefused> {
        let Some(place) = self.agents.iter().position(|each| each.name == agent) else {
            let known = self.agents.iter().map(|each| each.name.clone()).collect();
            return Err(UnknownAgent { name: agent.to_owned(), known }.into());
        };
        let mut trials: Vec<(Point, f64)> = Vec::new();
        for (index, (point, value)) in observations.into_iter().enumerate() {
            let refused = |message| {
                Err(ObservationsRefused::Trial { agent: agent.to_owned(), index, message })
            };
            match self.space.normalize(&point) {
                Err(error) => return refused(error.to_string()),
                Ok(_) if !value.is_finite() => {
                    return refused(format!("its value is {value}, expected a finite number"));
                }
                Ok(point) => trials.push((point, value)),
            }
        }
        let is_last = self.tuning().all(|(id, _)| id as usize == place);
        let message = if trials.is_empty() {
            "there is none; give at least one, or leave it out"
        } else if self.algorithm.exchange != Exchange::Relayed || self.algorithm.role == Role::Alone
        {
            "its algorithm does not send messages to all agents; choose fts, shared-prior, rgpe or taf"
        } else if self.free.is_some() {
            "at a free pace its message soon becomes too old; use pace = \"rounds\""
        } else if is_last {
            "no agent is left that makes queries"
        } else {
            self.agents[place].objective = AgentObjective::Earlier(trials.into());
            return Ok(self);
        };
        Err(ObservationsRefused::NoEffect { agent: agent.to_owned(), message })
    }

    /// Returns the agents that make queries, with their indices.
    pub fn tuning(&self) -> impl Iterator<Item = (u32, &FederationAgent)> {
        let agents = (0_u32..).zip(&self.agents);
        agents.filter(|(_, agent)| !matches!(agent.objective, AgentObjective::Earlier(_)))
    }

    /// Returns an agent's earlier observations, in unit-cube coordinates and with values to be
    /// maximized; `None` for agents that make queries.
    #[must_use]
    pub fn history(&self, id: u32) -> Option<Vec<Observation>> {
        let AgentObjective::Earlier(trials) = &self.agents.get(id as usize)?.objective else {
            return None;
        };
        let observation = |(point, value): &(Point, f64)| {
            let unit = self.space.encode(point).ok()?; // all points were checked to be in the space
            let value = Some(self.direction.to_maximize(*value));
            Some(Observation::new(unit, value, Source::Initial))
        };
        Some(trials.iter().filter_map(observation).collect())
    }
}
