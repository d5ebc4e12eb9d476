//! Federations in which neighbours on a graph exchange observations.

use std::sync::Arc;

use fedbo_federated::{NeighbourSettings, Neighbours, Role};
use fedbo_protocol::{Neighbourhood, PeerPlan, ReportContent};

use crate::topology::Topology;

/// The graph of neighbours and the algorithm's settings.
#[derive(Clone)]
pub struct NeighbourPlan {
    /// The graph of neighbours.
    pub topology: Topology,
    /// The algorithm's settings.
    pub algorithm: Arc<dyn Neighbours>,
}

impl NeighbourPlan {
    /// Returns the rules for exchanging observations.
    #[must_use]
    pub fn exchange(&self) -> NeighbourSettings {
        self.algorithm.exchange()
    }

    /// Returns the plan of an agent. A standalone agent has no neighbours.
    pub(crate) fn plan(
        &self,
        role: Role,
        id: u32,
        initial: Vec<Vec<f64>>,
        n_rounds: u64,
    ) -> PeerPlan {
        let NeighbourSettings { pace, initial_sharing, .. } = self.exchange();
        PeerPlan {
            id,
            initial,
            n_rounds,
            neighbourhood: match role {
                Role::Alone | Role::LogEi => Neighbourhood::fixed([]),
                Role::Own | Role::WarmStart | Role::Placebo => self.topology.neighbourhood(id),
            },
            pace,
            initial_sharing,
            content: match role {
                Role::Placebo => ReportContent::Placebo,
                Role::Own | Role::Alone | Role::LogEi | Role::WarmStart => ReportContent::Observed,
            },
        }
    }
}
