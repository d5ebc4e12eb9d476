//! Handouts of a coordinator at the beginning of rounds, and the strategies that use them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fedbo_strategies::Collaborator;

use crate::{Aggregate, UpdateRejected};

/// A handout that every agent gets when a round begins.
pub trait Handout: Clone + Send + Sync {
    /// The round that this handout starts: 1 is the first with a query by the algorithm, 0 the
    /// exchange before it.
    fn round(&self) -> u64;

    /// Returns true if the coordinator collects vectors in the round that this handout starts.
    /// Otherwise an agent draws no vector; after its trial it waits for the next handout.
    fn wants_upload(&self) -> bool;

    /// Merges another handout into this one, for an agent that acts on both at once. Handouts may
    /// arrive in any order; merging one again has no effect.
    fn join(&mut self, other: Self);

    /// Removes messages that the agent already has, and names the senders of expired messages.
    /// Handouts at a free pace need this, because they repeat earlier messages.
    fn settle(&mut self, known: &mut KnownMessages) {
        let _ = known;
    }
}

/// The newest message of each sender that an agent has received.
#[derive(Clone, Debug, Default)]
pub struct KnownMessages {
    /// Number of windows after its own for which a message is used.
    max_age: u64,
    /// By sender, the window of its newest message, and whether the agent may still hold that
    /// message.
    newest: BTreeMap<u32, (u64, bool)>,
}

impl KnownMessages {
    /// An empty record; messages expire `max_age` windows after their own.
    pub fn new(max_age: u64) -> Self {
        Self { max_age, newest: BTreeMap::new() }
    }

    /// Records a message of window `of`. Returns true if it is newer than the last one of its
    /// sender and has not expired in window `now`.
    pub(crate) fn takes(&mut self, sender: u32, of: u64, now: u64) -> bool {
        let is_old = is_old(of, self.max_age, now);
        let is_new = self.newest.get(&sender).is_none_or(|(known, _)| *known < of);
        if is_new {
            self.newest.insert(sender, (of, !is_old));
        }
        is_new && !is_old
    }

    /// Returns the senders of messages that have expired by window `now`, each once.
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

/// Returns true if a message of window `of` has expired in window `now`.
pub(crate) fn is_old(of: u64, max_age: u64, now: u64) -> bool {
    of.saturating_add(max_age) < now
}

/// A strategy that uses the handouts of a coordinator.
pub trait UsesHandouts: Collaborator {
    /// The handouts that the strategy uses.
    type Handout: Handout;

    /// Takes a handout as the agent with index `own_id`. Skips defective parts and returns them.
    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected>;
}

impl<S: UsesHandouts + ?Sized> UsesHandouts for Box<S> {
    type Handout = S::Handout;

    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected> {
        (**self).take(handout, own_id)
    }
}

/// The release of one round. It exists only once it is durable, and its bytes never change (INV-1,
/// INV-2).
#[derive(Clone, PartialEq)]
pub struct Release {
    /// Its content, parsed from the bytes.
    pub aggregate: Aggregate,
    /// The durable bytes. Exactly these are sent, the same in every copy.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Release {{ {:?}, {} bytes }}", self.aggregate, self.bytes.len())
    }
}

/// A handout of an [`crate::Aggregator`]. Copies share the releases.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateHandout {
    /// The round that this handout starts.
    pub round: u64,
    /// Releases made since the previous handout, in the order of rounds. Empty after a round
    /// without a release; several if handouts were joined.
    ///
    /// An agent's belief depends on every release. A driver that lost a handout can join a copy of
    /// it to the next one.
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
