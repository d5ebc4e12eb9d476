//! Shards: replicas that keep their vectors in memory, and pass one sum each to the leader.

use super::StudyKey;

/// The opening of a round. A round that restarts under another leader has a new opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The round.
    pub round: u64,
    /// Start of the round by the store's clock, in milliseconds since 1970.
    pub began_ms: u64,
}

/// Identifies a replica that receives a study's vectors. Each process draws a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub i64);

/// State of the round as read by a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// Opening of the current round. `None` before the first.
    pub opening: Option<Opening>,
    /// True while the round accepts vectors.
    pub is_open: bool,
    /// Slots that count at this shard, once the leader has chosen them.
    pub counts: Option<Vec<u8>>,
    /// Slots for which other shards have a vector that may count, one set per shard.
    pub others: Vec<Vec<u8>>,
}

/// A shard's part of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPart {
    /// The shard.
    pub shard: ShardId,
    /// False if the shard has not reported for so long that it is considered gone.
    pub is_live: bool,
    /// True if the shard accepts no more vectors.
    pub is_final: bool,
    /// Slots for which the shard has a vector.
    pub slots: Vec<u8>,
    /// Sealed sum of the shard.
    pub sealed: Option<Vec<u8>>,
}

/// A shard's report.
#[derive(Clone, Copy, Debug)]
pub struct ShardReport<'a> {
    /// The study.
    pub study: StudyKey,
    /// The shard.
    pub shard: ShardId,
    /// The round.
    pub opening: Opening,
    /// Slots for which the shard has a vector.
    pub slots: &'a [u8],
    /// True if the shard accepts no more vectors.
    pub is_final: bool,
}
