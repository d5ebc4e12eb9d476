//! The content of a `federation.toml`: who takes part, what they share, how they work together, what may be spent.
//!
//! Decides what a file may say and what it means; builds strategies and mechanisms from it. Knows nothing of results, sockets
//! or where a ledger is kept. Start at [`Federation::load`].

mod archive;
mod check;
mod checked;
mod distributed_ts;
mod dp_fts_de;
mod exploration;
mod file;
mod network;
mod pricing;
mod privacy;
mod public_config;
mod public_text;
mod release_mechanism;
mod topology;
mod topology_changes;

pub use archive::ArchiveFailed;
pub use checked::{
    AgentObjective, Algorithm, Arm, Collaboration, Federation, FederationAgent, Objectives, names,
};
pub use distributed_ts::{DistributedTsTable, Neighbours, VirtualNetwork};
pub use dp_fts_de::Distributed;
pub use exploration::Exploration;
pub use file::{
    AgentTable, DpFtsDeTable, ExplorationTable, FeaturesTable, FederationFile, FederationTable,
    FtsTable, PrivacyTable, TsTable,
};
pub use network::{Network, NetworkTable};
pub use privacy::{PrivacyPlan, Protection, Releases};
pub use release_mechanism::ReleaseMechanism;
pub use topology::{Topology, TopologyTable};
pub use topology_changes::{Change, ChangeTable};
