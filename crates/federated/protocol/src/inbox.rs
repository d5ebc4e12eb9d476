//! An agent's inbox, with the latest unused message of every other agent.

use std::collections::BTreeMap;
use std::fmt;

use fedbo_gp::MapHash;

use crate::Weights;

/// The reason that a message was refused. `sender` is the index that the caller passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRejected {
    /// The message has the wrong length.
    #[error(
        "agent {sender}: the message has {found} numbers, those of the session have {expected}"
    )]
    WrongLength {
        /// Index of the sender.
        sender: u32,
        /// Length of the message.
        found: usize,
        /// Length of the session's messages.
        expected: usize,
    },
    /// The message was computed with a different feature map.
    #[error(
        "agent {sender}: the message was made with feature map {found}, the session uses {expected}"
    )]
    WrongMap {
        /// Index of the sender.
        sender: u32,
        /// Hash of the message's feature map.
        found: MapHash,
        /// Hash of the session's feature map.
        expected: MapHash,
    },
    /// The numbers cannot result from any observations.
    #[error("agent {sender}: the message is not used: {reason}")]
    Implausible {
        /// Index of the sender.
        sender: u32,
        /// The reason.
        reason: String,
    },
    /// A weight is NaN or infinite.
    #[error("agent {sender}: number {index} of the message is not finite")]
    NotFinite {
        /// Index of the sender.
        sender: u32,
        /// Index of the first weight that is not finite.
        index: usize,
    },
}

/// The latest unused messages, ordered by sender.
#[derive(Clone)]
pub struct Inbox {
    message_len: usize,
    map: MapHash,
    messages: BTreeMap<u32, Weights>,
}

impl fmt::Debug for Inbox {
    /// Prints only senders and lengths, so that weights stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let senders: Vec<u32> = self.messages.keys().copied().collect();
        write!(f, "Inbox {{ senders: {senders:?}, {} numbers each }}", self.message_len)
    }
}

impl Inbox {
    /// Creates an empty inbox for messages of `message_len` numbers, computed with the feature map
    /// `map`.
    pub fn new(message_len: usize, map: MapHash) -> Self {
        Self { message_len, map, messages: BTreeMap::new() }
    }

    /// Checks a message without storing it.
    ///
    /// # Errors
    /// Returns the first problem found.
    pub fn check(&self, sender: u32, map: MapHash, weights: &[f64]) -> Result<(), MessageRejected> {
        if weights.len() != self.message_len {
            return Err(MessageRejected::WrongLength {
                sender,
                found: weights.len(),
                expected: self.message_len,
            });
        }
        if map != self.map {
            return Err(MessageRejected::WrongMap { sender, found: map, expected: self.map });
        }
        match weights.iter().position(|w| !w.is_finite()) {
            Some(index) => Err(MessageRejected::NotFinite { sender, index }),
            None => Ok(()),
        }
    }

    /// Stores a message, replacing the sender's older one.
    ///
    /// # Errors
    /// Same as [`Inbox::check`]. On an error, the inbox is unchanged.
    pub fn receive(
        &mut self,
        sender: u32,
        map: MapHash,
        weights: impl Into<Weights>,
    ) -> Result<(), MessageRejected> {
        let weights = weights.into();
        self.check(sender, map, &weights)?;
        self.messages.insert(sender, weights);
        Ok(())
    }

    /// Drops a sender's message.
    pub fn remove(&mut self, sender: u32) {
        self.messages.remove(&sender);
    }

    /// Returns a sender's message.
    pub fn get(&self, sender: u32) -> Option<&[f64]> {
        self.messages.get(&sender).map(|weights| weights.as_slice())
    }

    /// Iterates over senders and messages, ordered by sender.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[f64])> {
        self.messages.iter().map(|(sender, weights)| (*sender, weights.as_slice()))
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns true if there is no message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
