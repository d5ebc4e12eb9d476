//! The `federation.toml` file: agents, exchange, algorithm and privacy budget.
//!
//! This crate parses and validates the file and builds mechanisms from it. Each algorithm parses
//! its own tables. The crate does not depend on results, sockets or the location of a ledger. Start
//! at [`Federation::load`].

mod archive;
mod check;
mod checked;
mod file;
mod neighbours;
mod network;
mod observations;
mod pace;
mod plain_words;
mod pricing;
mod privacy;
mod public_text;
mod release_mechanism;
mod release_scale;
mod releases;
mod rounds;
mod secure_sum;
mod topology;
mod topology_changes;

pub use archive::ArchiveFailed;
pub use check::N_FEATURES_MAX;
pub use checked::{
    AgentObjective, Collaboration, Federation, FederationAgent, Objectives, UnknownAgent,
};
pub use fedbo_federated::{ALGORITHMS, Algorithm, Alignment, Arm, Role, names};
pub use file::{AgentTable, FeaturesTable, FederationFile, FederationTable, PrivacyTable, TsTable};
pub use neighbours::NeighbourPlan;
pub use network::{Network, NetworkTable};
pub use observations::ObservationsRefused;
pub use pace::FreePlan;
pub use plain_words::ledger_in_plain_words;
pub use privacy::{PrivacyPlan, Protection, Releases};
pub use public_text::FrozenFor;
pub use release_mechanism::ReleaseMechanism;
pub use release_scale::ReleaseScale;
pub use releases::ReleasePlan;
pub use rounds::{OpenRound, Rounds};
pub use secure_sum::SecureSumTable;
pub use topology::{Topology, TopologyTable};
pub use topology_changes::{Change, ChangeTable};
