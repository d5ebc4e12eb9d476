//! Federated rounds as state machines for coordinators and agents.
//!
//! The machines perform no I/O, read no clock and own no random generator. Events come in and
//! effects go out. Time is a [`Tick`], and randomness is a seed or a source that the driver
//! provides. The same machines run in one process and behind sockets. How an agent uses a handout
//! or a neighbour's report is up to its algorithm: [`UsesHandouts`] and [`Neighbour`].
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
