//! Shards: replicas that keep the vectors they took in memory, and leave one sum each for the one that plays the round.

use super::StudyKey;

/// The opening of a round: one that begins anew, as another replica leads, has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The round.
    pub round: u64,
    /// The time at which it began, by the store's clock, in milliseconds since 1970.
    pub began_ms: u64,
}

/// One of the replicas that take vectors of a study: a number that a process draws for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub i64);

/// The round as a shard finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// The round that is played; none before the first.
    pub opening: Option<Opening>,
    /// True while vectors of it are taken.
    pub is_open: bool,
    /// The slots whose vectors at this shard count, once whoever leads has said so.
    pub counts: Option<Vec<u8>>,
    /// The slots of which others have a vector that may count.
    pub others: Vec<Vec<u8>>,
}

/// The part of a round that a shard has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPart {
    /// The shard.
    pub shard: ShardId,
    /// False if it has not reported for so long that it is taken to be gone.
    pub is_live: bool,
    /// True if it takes no more vectors.
    pub is_final: bool,
    /// The slots of which it has a vector.
    pub slots: Vec<u8>,
    /// Its sum, sealed.
    pub sealed: Option<Vec<u8>>,
}

/// The state of a shard that it reports.
#[derive(Clone, Copy, Debug)]
pub struct ShardReport<'a> {
    /// The study.
    pub study: StudyKey,
    /// The shard.
    pub shard: ShardId,
    /// The round.
    pub opening: Opening,
    /// The slots of which it has a vector.
    pub slots: &'a [u8],
    /// True if it takes no more vectors.
    pub is_final: bool,
}
