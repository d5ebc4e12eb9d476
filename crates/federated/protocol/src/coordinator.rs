//! The interface between a coordinator and its driver, independent of messages and handouts.

use std::fmt;
use std::sync::Arc;

use fedbo_privacy::accounting::PrivacyEvent;

use crate::{AgentUpdate, Handout, MechanismFailed, MessageRejected, Tick};

/// A state machine that collects updates and sends handouts, round by round.
///
/// The driver carries out effects in order. It calls [`Coordinator::tick`] no later than
/// [`Coordinator::deadline`], and [`Coordinator::idle`] when it has determined that no agent is
/// working.
pub trait Coordinator {
    /// The handout that every agent receives when a round begins.
    type Handout: Handout;

    /// Returns the current round.
    fn round(&self) -> u64;

    /// Returns true if the sender's message for this round has not arrived and would still count. A
    /// driver that has lost messages uses this to request them again.
    fn awaits(&self, sender: u32, round: u64) -> bool;

    /// Returns the next time at which [`Coordinator::tick`] has something to do.
    fn deadline(&self) -> Option<Tick>;

    /// Returns the time at which the round ends; `None` for rounds without scheduled times.
    fn ends_at(&self) -> Option<Tick> {
        None
    }

    /// Returns the slots that have reached their limit of releases and are refused in this round.
    fn spent(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Abandons the current collecting round, which then ends at its scheduled time without a
    /// release. Only needed if a release depends on a second party.
    fn abandon(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Restarts the round's clock, for rounds that a second party must confirm first. Only valid
    /// before any vector of the round has arrived.
    fn postpone(&mut self, now: Tick) {
        let _ = now;
    }

    /// Starts the session. Later calls have no effect.
    fn start(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Handles an update.
    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Effect<Self::Handout>>;

    /// Advances the time to `now`.
    fn tick(&mut self, now: Tick) -> Vec<Effect<Self::Handout>>;

    /// Informs the coordinator that no agent is working and no message is in transit.
    ///
    /// This ends a round without scheduled times, unless the coordinator waits for all agents, as a
    /// relay does. Only a driver that runs all agents can determine this.
    fn idle(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Responds to [`Effect::Recall`] with the round's stored release, if there is one.
    ///
    /// # Errors
    /// If there was no such request, the stored bytes are not a release of this round, or the round
    /// cannot be opened. The session cannot continue after an error.
    fn recalled(
        &mut self,
        round: u64,
        stored: Option<&[u8]>,
        now: Tick,
    ) -> Result<Vec<Effect<Self::Handout>>, RoundError> {
        let (_, _) = (stored, now);
        Err(RoundError::Unasked { round, answer: "the stored release" })
    }

    /// Responds to [`Effect::Commit`]: the charge and the bytes are durable.
    ///
    /// # Errors
    /// If there was no such request. The session cannot continue after an error.
    fn committed(
        &mut self,
        round: u64,
        now: Tick,
    ) -> Result<Vec<Effect<Self::Handout>>, RoundError> {
        let _ = now;
        Err(RoundError::Unasked { round, answer: "that a release is durable" })
    }
}

/// An instruction to the driver.
#[derive(Clone, PartialEq)]
pub enum Effect<H> {
    /// Send this to every agent.
    Broadcast(H),
    /// Notify the sender that its update was refused. The round continues.
    Refuse(UpdateRejected),
    /// Look up whether a release of this round is stored, and call [`Coordinator::recalled`] before
    /// anything else.
    Recall {
        /// The round that begins.
        round: u64,
    },
    /// Make the charge and the bytes durable in one transaction, then call
    /// [`Coordinator::committed`]. No part of the release is allowed to leave before that (INV-1).
    Commit {
        /// The round that was closed.
        round: u64,
        /// The bytes of the release, which are stored permanently.
        bytes: Arc<[u8]>,
        /// The cost of the release; `None` if it carries no privacy guarantee.
        event: Option<PrivacyEvent>,
        /// The slots with a vector in the release, in ascending order. If these slots pay for the
        /// release, or if releases per slot are limited ([`crate::Participations`]), this list must
        /// become durable before the release does.
        participants: Vec<u32>,
    },
    /// The session cannot continue, and nothing is allowed to leave. The round could not be closed,
    /// for example because there was no randomness for its noise. The collected vectors have been
    /// cleared unread.
    Fail(RoundError),
}

impl<H: fmt::Debug> fmt::Debug for Effect<H> {
    /// Prints only lengths, so that data that is not durable yet stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broadcast(handout) => f.debug_tuple("Broadcast").field(handout).finish(),
            Self::Refuse(rejected) => f.debug_tuple("Refuse").field(rejected).finish(),
            Self::Recall { round } => write!(f, "Recall {{ round: {round} }}"),
            Self::Commit { round, bytes, event, participants: _ } => {
                write!(f, "Commit {{ round: {round}, {} bytes, event: {event:?} }}", bytes.len())
            }
            Self::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
        }
    }
}

/// The reason that an update or a release is not used.
///
/// An aggregator refuses updates only for reasons that do not depend on their values. A relay's
/// messages are visible to everyone, so a relay also refuses numbers that are not finite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpdateRejected {
    /// The message itself is invalid.
    #[error(transparent)]
    Message(#[from] MessageRejected),
    /// The sender is not on the roster.
    #[error("agent {sender} is not on the roster")]
    UnknownSender {
        /// The index that the sender claims.
        sender: u32,
    },
    /// The sender has already delivered a different message for this round.
    #[error("agent {sender}: a different message for round {round} has already arrived")]
    Conflict {
        /// The sender.
        sender: u32,
        /// The round.
        round: u64,
    },
    /// The round has not begun yet.
    #[error("agent {sender}: the message is for round {round}, the session is in round {current}")]
    Early {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
        /// The current round.
        current: u64,
    },
    /// The round closed before the message arrived. The message does not count in any other round.
    #[error("agent {sender}: round {round} was closed before its message arrived")]
    Late {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
    },
    /// A release does not match an agent's settings. The agent continues without it.
    #[error(
        "agent {agent}: the release of round {round} does not fit its numbers of regions and features, and is not used"
    )]
    Unfit {
        /// The agent.
        agent: u32,
        /// Round of the release.
        round: u64,
    },
    /// The sender has reached its limit of releases.
    #[error(
        "agent {sender}: it is already in {most} releases, as many as privacy.participations allows"
    )]
    Spent {
        /// The sender.
        sender: u32,
        /// The maximum number of releases per agent.
        most: u64,
    },
    /// The round collects no messages.
    #[error("agent {sender}: round {round} collects no messages")]
    NotCollected {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
    },
}

/// The reason that a coordinator cannot continue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RoundError {
    /// The driver responded to a request that was not made.
    #[error("round {round}: the coordinator was told {answer} without having asked")]
    Unasked {
        /// The round of the response.
        round: u64,
        /// The driver's response.
        answer: &'static str,
    },
    /// The mechanism failed.
    #[error("round {round}: {source}")]
    Mechanism {
        /// The round.
        round: u64,
        /// The reason.
        source: MechanismFailed,
    },
}
