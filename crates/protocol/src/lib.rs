//! Federated rounds as state machines: what a relay and an agent do next.
//!
//! Performs no I/O, reads no clock, owns no generator: events come in, effects go out, time is a [`Tick`] and randomness
//! a seed. The same machines run in process and behind sockets. Start at [`Relay`], then [`Agent`].

mod agent;
mod message;
mod relay;

pub use agent::{Agent, AgentEffect, AgentError, AgentEvent, AgentPlan, Trial};
pub use message::{AgentUpdate, Broadcast};
pub use relay::{Relay, RelayEffect, UpdateRejected};

/// An instant, in milliseconds since an origin that the driver chooses.
pub type Tick = u64;
