//! State machines of coordinators and agents for federated rounds.
//!
//! The machines perform no I/O, read no clock and own no random number generator. They take events
//! and return effects. Time is a [`Tick`], and randomness comes from a seed or a source that the
//! driver provides. The same machines run in a single process and over a network. An agent's
//! algorithm determines how it uses handouts ([`UsesHandouts`]) and neighbours' reports
//! ([`Neighbour`]).
//!
//! Start at [`Coordinator`], then read [`Relay`] (passes messages on), [`Aggregator`] (releases
//! sums) and [`Agent`]. For federations without a coordinator, start at [`Peer`].

mod agent;
mod aggregate;
mod aggregator;
mod coordinator;
mod handout;
mod inbox;
mod mechanism;
mod message;
mod participations;
mod peer;
mod relay;
mod schedule;
mod weights;

use fedbo_streams::Purpose;

pub use agent::{Agent, AgentEffect, AgentError, AgentEvent, AgentPlan, FreePace, Trial};
pub use aggregate::{Aggregate, AggregateContent};
pub use aggregator::Aggregator;
pub use coordinator::{Coordinator, Effect, RoundError, UpdateRejected};
pub use handout::{AggregateHandout, Handout, KnownMessages, Release, UsesHandouts};
pub use inbox::{Inbox, MessageRejected};
pub use mechanism::{LatticeRounds, MechanismFailed, PaperRounds, PendingRelease, RoundMechanism};
pub use message::{AgentUpdate, Broadcast};
pub use participations::Participations;
pub use peer::{
    InitialSharing, Neighbour, Neighbourhood, Pace, Peer, PeerEffect, PeerEvent, PeerPlan, Report,
    ReportContent, ReportRejected, Shared,
};
pub use relay::{Mailbox, Relay};
pub use schedule::{Instants, ReleaseSchedule};
pub use weights::Weights;

/// Streams of the weight samples that agents send.
pub const WEIGHT_SAMPLE: Purpose = Purpose::new("weight-sample");
/// Streams of the messages that replace real ones in a placebo arm.
pub const PLACEBO: Purpose = Purpose::new("placebo");
/// Streams of a mechanism's coin flips and noise in a simulation. These protect no data.
pub const SIMULATED_NOISE: Purpose = Purpose::new("simulated-noise");
/// Streams of the order of messages at a free pace, and of durations and losses in a simulated
/// network.
pub const NETWORK: Purpose = Purpose::new("network");

/// A point in time, in milliseconds since an origin that the driver chooses.
pub type Tick = u64;
