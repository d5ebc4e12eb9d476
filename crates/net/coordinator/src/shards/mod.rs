//! Sharded sums: every replica keeps its vectors in memory, and passes one sum per round to the
//! leader.
//!
//! While a round is open, each shard reports the slots for which it has a vector. At the deadline,
//! the leader shuts the round, waits for the final reports of the live shards, and chooses the
//! vectors that count: for each slot, the vector at one shard. Each shard then reads and sums these
//! vectors, seals the sum and hands it in. Integer addition commutes, so the release has the same
//! bytes for any number of shards. An upload writes nothing to the database. If a shard dies, its
//! part of the round is lost, and its agents are asked to resend while the round is open.

mod intake;
mod rounds;
mod slot_set;

pub(crate) use intake::{KNOWN, ShardIntake};
pub(crate) use rounds::ShardRounds;
pub(crate) use slot_set::SlotSet;
