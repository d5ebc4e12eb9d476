//! Shards: replicas that keep the vectors they took in memory, and leave one sum each for the one that plays the round.

use super::{Lead, StoreError, StudyKey};

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

/// The place where shards and the replica that leads meet. Sums are removed when the round's release is durable; all of it goes with a crash of
/// the database, and live shards report again. Sets of slots are bits, the lowest first.
pub trait Shards: Send + Sync {
    /// Makes the place ready, once.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn prepare(&self) -> Result<(), StoreError>;

    /// The round, and what is known of other shards that have reported within `lease_ms`.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn view(&self, study: StudyKey, shard: ShardId, lease_ms: u64)
    -> Result<ShardView, StoreError>;

    /// Notes what a shard has. False if the round is not that, or takes no vectors any more and the shard was not there while it did: a shard
    /// may take vectors of a round only after it was true once.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn report(&self, report: &ShardReport<'_>) -> Result<bool, StoreError>;

    /// Leaves the sum of a shard's vectors that count.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn hand_in(
        &self,
        study: StudyKey,
        shard: ShardId,
        opening: Opening,
        sealed: &[u8],
    ) -> Result<(), StoreError>;

    /// Notes that a shard ends: nobody waits for it, and its agents are asked again. A sum that it has left still counts.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn leave(&self, study: StudyKey, shard: ShardId) -> Result<(), StoreError>;

    /// The parts of a round, by shard.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn parts(
        &self,
        study: StudyKey,
        opening: Opening,
        lease_ms: u64,
    ) -> Result<Vec<ShardPart>, StoreError>;

    /// Removes the sums of all rounds up to this one, and takes no more of them (INV-16).
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError>;

    /// Says which vectors count at each shard, and forgets shards of earlier rounds that are gone.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn choose(
        &self,
        lead: &Lead,
        opening: Opening,
        counts: &[(ShardId, Vec<u8>)],
        lease_ms: u64,
    ) -> Result<(), StoreError>;
}
