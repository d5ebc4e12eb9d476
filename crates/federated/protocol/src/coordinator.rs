//! The interface between a coordinator and its driver, whatever it collects and hands out.

use std::fmt;
use std::sync::Arc;

use fedbo_privacy::accounting::PrivacyEvent;

use crate::{AgentUpdate, Handout, MechanismFailed, MessageRejected, Tick};

/// Collects updates and hands out what agents need, round by round: a state machine that a driver feeds.
///
/// The driver carries out effects in the order in which they come. It calls [`Coordinator::tick`] at the latest at
/// [`Coordinator::deadline`], and [`Coordinator::idle`] when it knows that nobody is at work.
pub trait Coordinator {
    /// The handout that every agent gets when a round begins.
    type Handout: Handout;

    /// The round that is being played.
    fn round(&self) -> u64;

    /// Returns true if a message of this sender for this round would still count, and has not come. A driver that lost
    /// what had arrived asks for it again.
    fn awaits(&self, sender: u32, round: u64) -> bool;

    /// The next instant at which [`Coordinator::tick`] has something to do.
    fn deadline(&self) -> Option<Tick>;

    /// The instant at which the round ends; none of rounds without set instants.
    fn ends_at(&self) -> Option<Tick> {
        None
    }

    /// The slots that have been in as many releases as they may be, and are refused in this round.
    fn spent(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Gives up the round that collects, of which there can be no release: it ends at its instant without one. Only where a release needs
    /// another party's part.
    fn abandon(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Begins, once.
    fn start(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Takes one update.
    fn receive(&mut self, update: AgentUpdate, now: Tick) -> Vec<Effect<Self::Handout>>;

    /// Lets time pass.
    fn tick(&mut self, now: Tick) -> Vec<Effect<Self::Handout>>;

    /// Nobody is at work and nothing is on its way: a round without set instants is over, if the coordinator does not wait
    /// for all (as a relay does). Only a driver of all agents can know this.
    fn idle(&mut self, now: Tick) -> Vec<Effect<Self::Handout>> {
        let _ = now;
        Vec::new()
    }

    /// Answers [`Effect::Recall`]: the stored release of the round, if there is one.
    ///
    /// # Errors
    /// If this was not asked, the stored bytes are no release of this round, or the round cannot be played. The session cannot go
    /// on then.
    fn recalled(
        &mut self,
        round: u64,
        stored: Option<&[u8]>,
        now: Tick,
    ) -> Result<Vec<Effect<Self::Handout>>, RoundError> {
        let (_, _) = (stored, now);
        Err(RoundError::Unasked { round, answer: "what is stored" })
    }

    /// Answers [`Effect::Commit`]: charge and bytes are durable.
    ///
    /// # Errors
    /// If this was not asked. The session cannot go on then.
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
    /// Tell the sender that its update was refused; the round goes on.
    Refuse(UpdateRejected),
    /// Look whether a release of this round is stored, and answer with [`Coordinator::recalled`] before anything else.
    Recall {
        /// The round that begins.
        round: u64,
    },
    /// Make charge and bytes durable in one transaction, then answer with [`Coordinator::committed`]. Nothing of the release
    /// may leave before (INV-1).
    Commit {
        /// The round that was closed.
        round: u64,
        /// The release, in the bytes that are kept for ever.
        bytes: Arc<[u8]>,
        /// The cost of the release; `None` where nothing is promised.
        event: Option<PrivacyEvent>,
        /// The slots whose vectors are in it, where a slot may be in so many only ([`crate::Participations`]): to be durable before the release
        /// is.
        participants: Option<Vec<u32>>,
    },
    /// The session cannot go on, and nothing may leave: a round was to be closed, and there was no randomness for its noise. What was
    /// collected has been cleared unread.
    Fail(RoundError),
}

impl<H: fmt::Debug> fmt::Debug for Effect<H> {
    /// Prints lengths only: what is not durable yet stays out of logs.
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

/// The reason why an update or a release is not used. An aggregator refuses an update for reasons that say nothing of
/// its values; a relay, whose messages everybody sees, also names a number that is not finite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UpdateRejected {
    /// The message itself is defective.
    #[error(transparent)]
    Message(#[from] MessageRejected),
    /// The sender is not on the roster.
    #[error("agent {sender} is not on the roster")]
    UnknownSender {
        /// The agent that the sender claims to be.
        sender: u32,
    },
    /// The sender has already delivered another message for this round.
    #[error("agent {sender}: a different message for round {round} has already arrived")]
    Conflict {
        /// The sender.
        sender: u32,
        /// The round.
        round: u64,
    },
    /// The round has not begun, so the message cannot belong to it.
    #[error("agent {sender}: the message is for round {round}, the session is in round {current}")]
    Early {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
        /// The current round.
        current: u64,
    },
    /// The round was closed without the message, which is used in no other.
    #[error("agent {sender}: round {round} was closed before its message came")]
    Late {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
    },
    /// A release does not fit the settings of an agent, which goes on without it.
    #[error(
        "agent {agent}: the release of round {round} does not fit its numbers of regions and features, and is not used"
    )]
    Unfit {
        /// The agent whose settings the release does not fit.
        agent: u32,
        /// Round of the release.
        round: u64,
    },
    /// The sender has been in as many releases as each agent may be in.
    #[error(
        "agent {sender}: it is in {most} releases already, as many as privacy.participations allows"
    )]
    Spent {
        /// The sender.
        sender: u32,
        /// The releases that each agent may be in.
        most: u64,
    },
    /// Nothing is collected in the round.
    #[error("agent {sender}: round {round} collects no messages")]
    NotCollected {
        /// The sender.
        sender: u32,
        /// The message's round.
        round: u64,
    },
}

/// The reason why a coordinator cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RoundError {
    /// The driver answered what was not asked.
    #[error("round {round}: the coordinator was told {answer}, which it did not ask")]
    Unasked {
        /// The round of the answer.
        round: u64,
        /// The driver's answer.
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
