//! Federated rounds as state machines: what a coordinator and an agent do next.
//!
//! Performs no I/O, reads no clock, owns no generator: events come in, effects go out, time is a [`Tick`] and randomness
//! a seed or a source that the driver gives. The same machines run in process and behind sockets. What agents do with what
//! they are handed is their algorithm's: [`UsesHandouts`] and [`Neighbour`]. Start at [`Coordinator`], then [`Relay`] (messages passed
//! on) and [`Aggregator`] (releases of sums), then [`Agent`]; where there is no coordinator, at [`Peer`].

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

/// An instant, in milliseconds since an origin that the driver chooses.
pub type Tick = u64;
