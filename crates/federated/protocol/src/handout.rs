//! The handouts of a coordinator when rounds begin, and the strategies that can use them.

use std::fmt;
use std::sync::Arc;

use fedbo_strategies::Collaborator;

use crate::{Aggregate, UpdateRejected};

/// A handout that every agent gets when a round begins.
pub trait Handout: Clone {
    /// The round that this starts: 1 is the first with a query by the algorithm, 0 the exchange before it.
    fn round(&self) -> u64;

    /// Returns true if the coordinator collects vectors in the round that this starts. If not, an agent draws none: its
    /// trial done, it waits for the next handout.
    fn wants_upload(&self) -> bool;

    /// Joins another handout to this one, for an agent that acts on both at once; in whatever order they came, and
    /// without effect if it is known already.
    fn join(&mut self, other: Self);
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
