//! The handouts of a coordinator when rounds begin, and the strategies that can use them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fedbo_strategies::Collaborator;

use crate::{Aggregate, UpdateRejected};

/// A handout that every agent gets when a round begins.
pub trait Handout: Clone + Send + Sync {
    /// The round that this starts: 1 is the first with a query by the algorithm, 0 the exchange before it.
    fn round(&self) -> u64;

    /// Returns true if the coordinator collects vectors in the round that this starts. If not, an agent draws none: its
    /// trial done, it waits for the next handout.
    fn wants_upload(&self) -> bool;

    /// Joins another handout to this one, for an agent that acts on both at once; in whatever order they came, and
    /// without effect if it is known already.
    fn join(&mut self, other: Self);

    /// Leaves out messages that an agent has had, and names the senders of those that have become too old. For handouts that repeat what
    /// was handed out before, as those of a free pace do.
    fn settle(&mut self, known: &mut KnownMessages) {
        let _ = known;
    }
}

/// The newest message of each sender that an agent was handed.
#[derive(Clone, Debug, Default)]
pub struct KnownMessages {
    /// Windows for which a message is of use.
    max_age: u64,
    /// By sender, the window of its newest message, and whether the agent may still hold it.
    newest: BTreeMap<u32, (u64, bool)>,
}

impl KnownMessages {
    /// None yet; a message is of use for `max_age` windows.
    pub fn new(max_age: u64) -> Self {
        Self { max_age, newest: BTreeMap::new() }
    }

    /// Returns true if a message of window `of` is newer than what is known of its sender, and of use in window `now`; and notes it.
    pub(crate) fn takes(&mut self, sender: u32, of: u64, now: u64) -> bool {
        let is_old = is_old(of, self.max_age, now);
        let is_new = self.newest.get(&sender).is_none_or(|(known, _)| *known < of);
        if is_new {
            self.newest.insert(sender, (of, !is_old));
        }
        is_new && !is_old
    }

    /// Returns the senders whose message has become too old by window `now`, each once.
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

/// Returns true if a message of window `of` is of no more use in window `now`.
pub(crate) fn is_old(of: u64, max_age: u64, now: u64) -> bool {
    of.saturating_add(max_age) < now
}

/// A strategy that can use what a coordinator hands out.
pub trait UsesHandouts: Collaborator {
    /// The handouts that it can use.
    type Handout: Handout;

    /// Takes a handout, as the agent of index `own_id`. What is defective is left out and returned.
    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected>;
}

impl<S: UsesHandouts + ?Sized> UsesHandouts for Box<S> {
    type Handout = S::Handout;

    fn take(&mut self, handout: Self::Handout, own_id: u32) -> Vec<UpdateRejected> {
        (**self).take(handout, own_id)
    }
}

/// The release of one round. It exists only once it is durable, and its bytes never change (INV-1, INV-2).
#[derive(Clone, PartialEq)]
pub struct Release {
    /// Its content, read from the bytes.
    pub aggregate: Aggregate,
    /// As it was made durable: what travels, the same in every copy.
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
    /// The round that this starts.
    pub round: u64,
    /// Releases made since the handout before, in the order of rounds: none after a round without a release, several where
    /// handouts were joined. An agent's belief rests on every release: a driver that lost a handout can make up for it by
    /// joining a copy to the next.
    pub releases: Vec<Arc<Release>>,
    /// True if vectors are collected in the round that this starts.
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
