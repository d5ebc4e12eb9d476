//! Handouts that a coordinator sends when a round begins, and the strategies that use them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fedbo_strategies::Collaborator;

use crate::{Aggregate, UpdateRejected};

/// A handout that every agent receives when a round begins.
pub trait Handout: Clone + Send + Sync {
    /// Returns the round that this handout starts. Round 1 is the first with a query by the
    /// algorithm, and round 0 is the exchange before it.
    fn round(&self) -> u64;

    /// Returns true if the coordinator collects vectors in the round that this handout starts.
    /// Otherwise, agents draw no vectors and wait for the next handout after their trials.
    fn wants_upload(&self) -> bool;

    /// Merges another handout into this one, for an agent that acts on both at once. Handouts can
    /// arrive in any order, and merging the same handout again has no effect.
    fn join(&mut self, other: Self);

    /// Removes messages that the agent already has, and marks the senders of expired messages as
    /// stragglers. Handouts at a free pace need this, because they repeat earlier messages.
    fn settle(&mut self, known: &mut KnownMessages) {
        let _ = known;
    }
}

/// The newest messages that an agent has received, by sender.
#[derive(Clone, Debug, Default)]
pub struct KnownMessages {
    /// Number of windows for which a message remains usable after its own window.
    max_age: u64,
    /// For each sender, the window of the newest message, and whether the agent might still hold
    /// that message.
    newest: BTreeMap<u32, (u64, bool)>,
}

impl KnownMessages {
    /// Creates an empty record. A message remains usable for `max_age` windows after its own
    /// window.
    pub fn new(max_age: u64) -> Self {
        Self { max_age, newest: BTreeMap::new() }
    }

    /// Records a message from window `of`. Returns true if the message is newer than the sender's
    /// last one and has not expired in window `now`.
    pub(crate) fn takes(&mut self, sender: u32, of: u64, now: u64) -> bool {
        let is_old = is_old(of, self.max_age, now);
        let is_new = self.newest.get(&sender).is_none_or(|(known, _)| *known < of);
        if is_new {
            self.newest.insert(sender, (of, !is_old));
        }
        is_new && !is_old
    }

    /// Returns the senders of messages that have expired by window `now`. Each expiry is returned
    /// once.
    pub(crate) fn expired(&mut self, now: u64) -> Vec<u32> {
        let max_age = self.max_age;
        let held = self.newest.iter_mut().filter(|(_, (_, held))| *held);
        let old = held.filter(|(_, (of, _))| is_old(*of, max_age, now));
        let expired = old.map(|(sender, (_, held))| {
            *held = false;
            *sender
        });
        expired.collect()
    }
}

/// Returns true if a message from window `of` has expired in window `now`.
pub(crate) fn is_old(of: u64, max_age: u64, now: u64) -> bool {
    of.saturating_add(max_age) < now
}

/// A strategy that uses a coordinator's handouts.
pub trait UsesHandouts: Collaborator {
    /// The handouts that the strategy uses.
    type Handout: Handout;

    /// Uses a handout on behalf of the agent with index `own_id`. Skips invalid parts and returns
    /// the reasons.
    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected>;
}

impl<S: UsesHandouts + ?Sized> UsesHandouts for Box<S> {
    type Handout = S::Handout;

    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected> {
        (**self).take(handout, own_id)
    }
}

/// The release of a round. This value exists only once the release is durable, and the bytes never
/// change (INV-1, INV-2).
#[derive(Clone, PartialEq)]
pub struct Release {
    /// The content, parsed from the bytes.
    pub aggregate: Aggregate,
    /// The durable bytes. Exactly these bytes are sent to every agent.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Release {{ {:?}, {} bytes }}", self.aggregate, self.bytes.len())
    }
}

/// A handout from an [`crate::Aggregator`]. Clones share the releases.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateHandout {
    /// The round that this handout starts.
    pub round: u64,
    /// Releases since the previous handout, ordered by round. Empty after a round without a
    /// release; several if handouts were joined.
    ///
    /// An agent's belief depends on every release. If a handout was lost, the driver can join a
    /// copy of it to the next handout.
    pub releases: Vec<Arc<Release>>,
    /// True if the round that this handout starts collects vectors.
    pub collects: bool,
}

impl Handout for AggregateHandout {
    fn round(&self) -> u64 {
        self.round
    }

    fn wants_upload(&self) -> bool {
        self.collects
    }

    fn join(&mut self, other: Self) {
        if other.round > self.round {
            self.round = other.round;
            self.collects = other.collects;
        }
        for release in other.releases {
            let place = self
                .releases
                .binary_search_by_key(&release.aggregate.round, |known| known.aggregate.round);
            if let Err(place) = place {
                self.releases.insert(place, release);
            }
        }
    }
}
