//! The leader's tasks in rounds with shards: shutting the round, choosing the vectors that count,
//! and reading one sum per shard.

use std::time::{Duration, Instant};

use fedbo_failpoints::pass;
use fedbo_wire::StudyState;

use super::error::HostError;
use super::worker::Worker;
use crate::intake::Intake;
use crate::shards::{ShardIntake, SlotSet};
use crate::store::{Opening, ShardId, ShardPart};

/// Grace period after a round is shut. A shard that has not reported for the duration of a lease
/// may still be alive, for example if its host was suspended or the database's clock was changed.
const SURELY_GONE: Duration = Duration::from_secs(2);

/// Progress of a round after it was shut.
pub(super) enum Gathering {
    /// Shards have been reporting the slots of their vectors since this time.
    Listing(Instant),
    /// Shards are summing the chosen vectors.
    Adding(Vec<(ShardId, SlotSet)>),
}

impl Worker {
    /// Runs this shard's tasks that are due.
    pub(super) fn tend_shard(&mut self) {
        let Some(shards) = self.vectors.shards() else {
            return;
        };
        let is_idle = self.publisher.borrow().state != StudyState::Running && !shards.is_playing();
        if !is_idle
            && !self.is_away()
            && let Err(error) = shards.tend()
        {
            self.stop(&error.into());
        }
    }

    /// Shuts the round at its deadline and gathers the sums of its shards.
    ///
    /// A shard that has not reported for the duration of a lease is considered gone. Its vectors
    /// count as zero, like those of absent agents (INV-3).
    pub(super) fn collect_shards(
        &mut self,
        inbox: &Intake,
        shards: &ShardIntake,
        now_ms: u64,
    ) -> Result<(), HostError> {
        let Some(leader) = &mut self.leader else {
            return Ok(());
        };
        if !leader.is_open {
            return Ok(());
        }
        let opening = Opening { round: leader.round, began_ms: leader.began_ms };
        let deadline = leader.machine.deadline();
        if leader.gathering.is_none() {
            if deadline.is_none_or(|deadline| now_ms < deadline) {
                return Ok(());
            }
            inbox.shut(&leader.lead)?;
            pass("coordinator: the round is shut for shards");
            leader.gathering = Some(Gathering::Listing(Instant::now()));
        }
        let parts = shards.parts(opening)?;
        // The epoch is read after the parts, so lost reports are not mistaken for absent ones.
        if leader.epoch != Some(inbox.epoch()?) {
            return Err(HostError::ShardsLost { round: opening.round });
        }
        let chosen = match &leader.gathering {
            Some(Gathering::Adding(chosen)) => chosen,
            listing => {
                let is_early = match listing {
                    Some(Gathering::Listing(since)) => since.elapsed() < SURELY_GONE,
                    _ => false,
                };
                let is_due = |part: &ShardPart| !part.is_final && (part.is_live || is_early);
                if parts.iter().any(is_due) {
                    return Ok(());
                }
                for part in parts.iter().filter(|part| !(part.is_live && part.is_final)) {
                    let n = SlotSet::of(part.slots.clone(), self.study.n_slots).len();
                    tracing::warn!(study = %self.study.name, round = opening.round, n, "a replica is gone, and the vectors that it accepted are lost");
                }
                let chosen = chosen(&parts, &leader.machine.spent(), self.study.n_slots);
                shards.choose(&leader.lead, opening, &chosen)?;
                pass("coordinator: shards know which vectors count");
                leader.gathering = Some(Gathering::Adding(chosen));
                return Ok(());
            }
        };
        let part = |shard: ShardId| parts.iter().find(|part| part.shard == shard);
        let is_due = |shard| part(shard).is_some_and(|part| part.is_live && part.sealed.is_none());
        if chosen.iter().any(|(shard, _)| is_due(*shard)) {
            return Ok(());
        }
        shards.forget_sums();
        let mut slots = SlotSet::new(self.study.n_slots);
        for (shard, counts) in chosen {
            let sealed = part(*shard).and_then(|part| part.sealed.as_deref());
            let is_kept = |sealed| shards.keep_sum(opening, (*shard, sealed), counts);
            match sealed.is_some_and(is_kept) {
                true => slots.add(counts),
                false => {
                    let n = counts.len();
                    tracing::warn!(study = %self.study.name, round = opening.round, n, "a replica sent no sum in time; its vectors are not in the release");
                }
            }
        }
        leader.gathering = None;
        leader.is_open = false;
        self.close_over(opening.round, slots.iter(), now_ms)
    }
}

/// Chooses the vectors that count: for each slot, the vector at one live shard. Excludes slots that
/// have already been in the maximum number of releases.
fn chosen(parts: &[ShardPart], spent: &[u32], n_slots: u32) -> Vec<(ShardId, SlotSet)> {
    let mut taken = SlotSet::new(n_slots);
    spent.iter().for_each(|slot| taken.insert(*slot));
    let alive = parts.iter().filter(|part| part.is_live && part.is_final);
    let choose = |part: &ShardPart| {
        let mut slots = SlotSet::of(part.slots.clone(), n_slots);
        slots.remove_all(&taken);
        taken.add(&slots);
        (part.shard, slots)
    };
    alive.map(choose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_counts_at_one_shard_that_is_alive() {
        let part = |shard, slots: u8, is_live, is_final| ShardPart {
            shard: ShardId(shard),
            is_live,
            is_final,
            slots: vec![slots],
            sealed: None,
        };
        let parts = [
            part(1, 0b0_0111, true, true),
            part(2, 0b1_0000, false, true),
            part(3, 0b1_1110, true, true),
            part(4, 0b1_1111, true, false),
        ];
        let found = chosen(&parts, &[1], 5);
        let found: Vec<_> = found.iter().map(|(id, slots)| (id.0, slots.bytes()[0])).collect();
        assert_eq!(found, [(1, 0b0_0101), (3, 0b1_1000)]);
    }
}
