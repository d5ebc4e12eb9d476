//! Sharded sums: every replica keeps the vectors that it takes in memory, and leaves one sum a round for the one that leads.
//!
//! While a round is open, each shard reports of which slots it has a vector. When the time has come, the leader shuts the round, waits until
//! the shards that are alive have said what they have, and says which vectors count: each slot's at one shard. Then each shard reads those,
//! adds them up, seals the sum and hands it in. Whole numbers commute, so the release is the same bytes however many shards there are. Nothing
//! is written to the database for an upload. A shard that dies loses its part of the round: its agents are asked again while the round is
//! open.

mod intake;
mod rounds;
mod slot_set;

pub(crate) use intake::{KNOWN, ShardIntake};
pub(crate) use rounds::ShardRounds;
pub(crate) use slot_set::SlotSet;
