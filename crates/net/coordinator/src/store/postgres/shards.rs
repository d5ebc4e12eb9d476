//! Shards' parts of a round.

use fedbo_postgres::Operation;
use postgres::Row;

use super::PostgresStore;
use super::layout::SHARDS;
use super::rows::{Outcome, bytes, int, no_study, signed, unsigned};
use crate::store::{
    Lead, Opening, ShardId, ShardPart, ShardReport, ShardView, StoreError, StudyKey,
};

/// SQL expression for the time by the server's clock, in milliseconds since 1970.
const NOW_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Table through which shards and the leader communicate.
///
/// Sums are deleted once the round's release is durable. A crash of the database empties the table,
/// and live shards report again. Sets of slots are bitmaps, lowest bit first.
impl PostgresStore {
    /// Creates the table for shards, if it is missing.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn prepare_shards(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            // If several replicas start at once, one of them creates the table.
            tx.query_typed("SELECT FROM fedbo_coordinator.generation FOR UPDATE", &[])?;
            let is_there = "SELECT to_regclass('fedbo_coordinator.shards') IS NOT NULL";
            if !tx.query_typed_one(is_there, &[])?.try_get::<_, bool>(0)? {
                tx.batch_execute(SHARDS)?;
            }
            Ok(())
        })
    }

    /// Returns the current round, and the slots reported by other shards within the last
    /// `lease_ms`.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn view(
        &self,
        study: StudyKey,
        shard: ShardId,
        lease_ms: u64,
    ) -> Result<ShardView, StoreError> {
        let lease_ms = signed(lease_ms);
        self.read(|tx| {
            let row = tx.query_typed_opt(
                "SELECT round, began_ms, is_open FROM fedbo_coordinator.studies WHERE id = $1",
                &[int(&study.0)],
            )?;
            let row = row.ok_or_else(|| no_study(study))?;
            let (round, began_ms) = (row.try_get::<_, i64>(0)?, row.try_get::<_, Option<i64>>(1)?);
            let mut view = ShardView {
                opening: began_ms.map(|began_ms| Opening {
                    round: unsigned(round),
                    began_ms: unsigned(began_ms),
                }),
                is_open: row.try_get(2)?,
                counts: None,
                others: Vec::new(),
            };
            let Some(began_ms) = began_ms else {
                return Ok(view);
            };
            // A shard with chosen vectors may be gone by now, and a vector that was not chosen is
            // too late in any case.
            let sql = format!(
                "SELECT shard, slots, counts FROM fedbo_coordinator.shards
                 WHERE study = $1 AND round = $2 AND began_ms = $3 AND (shard = $4 OR seen_ms > {NOW_MS} - $5) ORDER BY shard"
            );
            let values = [int(&study.0), int(&round), int(&began_ms), int(&shard.0), int(&lease_ms)];
            for row in tx.query_typed(&sql, &values)? {
                match row.try_get::<_, i64>(0)? == shard.0 {
                    true => view.counts = row.try_get(2)?,
                    false => view.others.push(row.try_get(1)?),
                }
            }
            Ok(view)
        })
    }

    /// Records the slots for which a shard has vectors. A shard may accept vectors for a round only
    /// after this has returned true once for the round.
    ///
    /// Returns false if the round has a different opening, if it is shut and the report is not
    /// final, or if the report is final and the shard has not reported before.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn report(&self, report: &ShardReport<'_>) -> Result<bool, StoreError> {
        let (study, shard) = (report.study, report.shard);
        let (round, began_ms) = (signed(report.opening.round), signed(report.opening.began_ms));
        // Shutting the round waits for this lock, so it sees every shard that was allowed to accept
        // vectors.
        let open = format!(
            "INSERT INTO fedbo_coordinator.shards AS known (study, shard, round, began_ms, seen_ms, is_final, slots)
             SELECT $1, $2, $3, $4, {NOW_MS}, false, $5 FROM
                 (SELECT FROM fedbo_coordinator.studies WHERE id = $1 AND round = $3 AND began_ms = $4 AND is_open FOR SHARE) AS here
             ON CONFLICT (study, shard) DO UPDATE
             SET round = $3, began_ms = $4, seen_ms = excluded.seen_ms, is_final = false, slots = $5, counts = NULL, sealed = NULL
             RETURNING 1"
        );
        let end = format!(
            "UPDATE fedbo_coordinator.shards SET seen_ms = {NOW_MS}, is_final = true, slots = $5
             WHERE study = $1 AND shard = $2 AND round = $3 AND began_ms = $4 RETURNING 1"
        );
        self.write(|tx| {
            let sql = if report.is_final { &end } else { &open };
            let values =
                [int(&study.0), int(&shard.0), int(&round), int(&began_ms), bytes(&report.slots)];
            Ok(tx.query_typed_opt(sql, &values)?.is_some())
        })
    }

    /// Stores a shard's sealed sum of the vectors that count.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn hand_in(
        &self,
        study: StudyKey,
        shard: ShardId,
        opening: Opening,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        let (round, began_ms) = (signed(opening.round), signed(opening.began_ms));
        let sql = format!(
            "UPDATE fedbo_coordinator.shards SET sealed = $5, seen_ms = {NOW_MS}
             WHERE study = $1 AND shard = $2 AND round = $3 AND began_ms = $4 AND counts IS NOT NULL"
        );
        self.write(|tx| {
            let values =
                [int(&study.0), int(&shard.0), int(&round), int(&began_ms), bytes(&sealed)];
            tx.query_typed(&sql, &values)?;
            Ok(())
        })
    }

    /// Marks a shard as gone. The leader does not wait for it, and its agents are asked to resend.
    /// A sum that it has handed in still counts.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn leave(&self, study: StudyKey, shard: ShardId) -> Result<(), StoreError> {
        self.write(|tx| {
            // The row is kept: a sum that was handed in still counts.
            let sql =
                "UPDATE fedbo_coordinator.shards SET seen_ms = 0 WHERE study = $1 AND shard = $2";
            tx.query_typed(sql, &[int(&study.0), int(&shard.0)])?;
            Ok(())
        })
    }

    /// Returns the parts of a round, ordered by shard.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn parts(
        &self,
        study: StudyKey,
        opening: Opening,
        lease_ms: u64,
    ) -> Result<Vec<ShardPart>, StoreError> {
        let (round, began_ms) = (signed(opening.round), signed(opening.began_ms));
        let lease_ms = signed(lease_ms);
        let sql = format!(
            "SELECT shard, seen_ms > {NOW_MS} - $4, is_final, slots, sealed FROM fedbo_coordinator.shards
             WHERE study = $1 AND round = $2 AND began_ms = $3 ORDER BY shard"
        );
        let part = |row: &Row| {
            Ok(ShardPart {
                shard: ShardId(row.try_get(0)?),
                is_live: row.try_get(1)?,
                is_final: row.try_get(2)?,
                slots: row.try_get(3)?,
                sealed: row.try_get(4)?,
            })
        };
        let values = [int(&study.0), int(&round), int(&began_ms), int(&lease_ms)];
        let rows = self.read(|tx| Ok(tx.query_typed(&sql, &values)?))?;
        let parts: Outcome<_> = rows.iter().map(part).collect();
        parts.map_err(|ended| self.refusal(ended, Operation::Read))
    }

    /// Deletes the sums of all rounds up to `round`, and accepts no more for these rounds (INV-16).
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    pub fn forget_sums(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        let round = signed(round);
        self.lead_on(lead, |tx, _| {
            // A sum that is handed in later finds no `counts`, so it is not stored.
            tx.query_typed(
                "UPDATE fedbo_coordinator.shards SET sealed = NULL, counts = NULL
                 WHERE study = $1 AND round <= $2 AND (sealed IS NOT NULL OR counts IS NOT NULL)",
                &[int(&lead.study.0), int(&round)],
            )?;
            Ok(())
        })
    }

    /// Stores the slots that count at each shard, and deletes shards of earlier rounds that are
    /// gone.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    pub fn choose(
        &self,
        lead: &Lead,
        opening: Opening,
        counts: &[(ShardId, Vec<u8>)],
        lease_ms: u64,
    ) -> Result<(), StoreError> {
        let (round, began_ms) = (signed(opening.round), signed(opening.began_ms));
        let lease_ms = signed(lease_ms);
        let gone = format!(
            "DELETE FROM fedbo_coordinator.shards
             WHERE study = $1 AND NOT (round = $2 AND began_ms = $3) AND seen_ms <= {NOW_MS} - $4"
        );
        self.lead_on(lead, |tx, _| {
            for (shard, counts) in counts {
                tx.query_typed(
                    "UPDATE fedbo_coordinator.shards SET counts = $5
                     WHERE study = $1 AND shard = $2 AND round = $3 AND began_ms = $4 AND is_final",
                    &[
                        int(&lead.study.0),
                        int(&shard.0),
                        int(&round),
                        int(&began_ms),
                        bytes(counts),
                    ],
                )?;
            }
            let values = [int(&lead.study.0), int(&round), int(&began_ms), int(&lease_ms)];
            tx.query_typed(&gone, &values)?;
            Ok(())
        })
    }
}
