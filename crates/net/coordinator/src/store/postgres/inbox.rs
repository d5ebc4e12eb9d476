//! Vectors received by any replica, waiting for the leader.

use fedbo_postgres::{Ended, Operation, Patience};
use postgres::Row;
use postgres::types::Type;

use super::rows::{Outcome, bytes, forget_before, int, no_study, signed, slot_number, unsigned};
use super::{PATIENCE, PostgresStore};
use crate::store::{Arrived, Lead, Posted, Posting, StoreError, StudyKey};

/// Inbox for vectors in transit from replicas to the leader.
///
/// The contents are deleted when the round ends. They are also lost if the database crashes; agents
/// are then asked to resend their vectors.
impl PostgresStore {
    /// Stores a vector if its round is open, in one transaction.
    ///
    /// The first vector from a slot for a round counts (INV-6). A repeat returns the same result as
    /// the first, even after the round.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn post(&self, posting: &Posting<'_>) -> Result<Posted, StoreError> {
        let (slot, round) = (i64::from(posting.slot), signed(posting.round));
        // A single statement is a transaction. Concurrent posts share the lock, and shutting the
        // inbox waits for them.
        let sql = "
            WITH here AS MATERIALIZED (
                SELECT round, is_open, began_ms FROM fedbo_coordinator.studies WHERE id = $1 FOR SHARE
            ), put AS (
                INSERT INTO fedbo_coordinator.inbox AS known (study, slot, round, mark, sealed)
                SELECT $1, $2, $3, $4, $5 FROM here WHERE here.round = $3 AND here.is_open
                ON CONFLICT (study, slot) DO UPDATE
                SET round = excluded.round, mark = excluded.mark, sealed = excluded.sealed
                WHERE known.round < excluded.round
                RETURNING 1
            )
            SELECT here.round, here.is_open, EXISTS (SELECT FROM put), known.round, known.mark, here.began_ms IS NOT NULL
            FROM here LEFT JOIN fedbo_coordinator.inbox AS known ON known.study = $1 AND known.slot = $2";
        let mark = posting.mark;
        for _ in 0..3 {
            let rows = self.pool.statement(
                Patience::of(PATIENCE),
                sql,
                &[
                    int(&posting.study.0),
                    int(&slot),
                    int(&round),
                    (&mark, Type::BYTEA),
                    bytes(&posting.sealed),
                ],
            );
            let rows = rows.map_err(|problem| self.refusal(problem.into(), Operation::Write))?;
            let Some(row) = rows.first() else {
                return Err(self.refusal(no_study(posting.study), Operation::Write));
            };
            let read = || -> Outcome<_> {
                Ok((
                    row.try_get::<_, i64>(0)?,
                    row.try_get::<_, bool>(1)?,
                    row.try_get::<_, bool>(2)?,
                    row.try_get::<_, Option<i64>>(3)?,
                    row.try_get::<_, Option<&[u8]>>(4)?,
                    row.try_get::<_, bool>(5)?,
                ))
            };
            let (current, is_open, is_put, known, known_mark, has_begun) =
                read().map_err(|ended| self.refusal(ended, Operation::Read))?;
            return Ok(match known {
                _ if is_put => Posted::Taken,
                Some(known) if known == round && known_mark != mark => Posted::Conflict,
                Some(known) if known >= round => Posted::Taken,
                // All agents are enrolled, but no leader has begun the first round.
                _ if !has_begun => Posted::BeforeTheFirst,
                _ if round > current => Posted::Early { current: unsigned(current) },
                // A concurrent statement stored another vector from this slot, which the next
                // attempt sees.
                _ if round == current && is_open => continue,
                _ => Posted::Late,
            });
        }
        Err(StoreError::Refused {
            path: self.pool.place().into(),
            message: "many vectors of one agent arrived at once".to_owned(),
        })
    }

    /// Returns true if a vector from this slot for this round would be accepted and is missing.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn awaits(&self, study: StudyKey, slot: u32, round: u64) -> Result<bool, StoreError> {
        let (slot, round) = (i64::from(slot), signed(round));
        let rows = self.pool.statement(
            Patience::of(PATIENCE),
            "SELECT FROM fedbo_coordinator.studies WHERE id = $1 AND round = $3 AND is_open AND NOT EXISTS
             (SELECT FROM fedbo_coordinator.inbox WHERE study = $1 AND slot = $2 AND round >= $3)",
            &[int(&study.0), int(&slot), int(&round)],
        );
        let rows = rows.map_err(|problem| self.refusal(problem.into(), Operation::Read))?;
        Ok(!rows.is_empty())
    }

    /// Returns the vectors of a round, except those of `known` slots.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn arrived(
        &self,
        study: StudyKey,
        round: u64,
        known: &[u32],
    ) -> Result<Vec<Arrived>, StoreError> {
        let known: Vec<i64> = known.iter().copied().map(i64::from).collect();
        let round = signed(round);
        let rows = self.pool.statement(
            Patience::of(PATIENCE),
            "SELECT slot, sealed FROM fedbo_coordinator.inbox WHERE study = $1 AND round = $2 AND sealed IS NOT NULL
             AND NOT EXISTS (SELECT FROM unnest($3::bigint[]) AS known (slot) WHERE known.slot = inbox.slot)
             ORDER BY slot",
            &[int(&study.0), int(&round), (&known, Type::INT8_ARRAY)],
        );
        let arrived = |row: &Row| {
            Ok(Arrived { slot: slot_number(row.try_get(0)?)?, sealed: row.try_get(1)? })
        };
        let rows = rows.map_err(|problem| self.refusal(problem.into(), Operation::Read))?;
        let arrived: Outcome<_> = rows.iter().map(arrived).collect();
        arrived.map_err(|ended| self.refusal(ended, Operation::Read))
    }

    /// Shuts the inbox for the current round. All vectors that were accepted before can be read
    /// when this returns.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    pub fn shut_inbox(&self, lead: &Lead) -> Result<(), StoreError> {
        self.lead_on(lead, |tx, _| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET is_open = false WHERE id = $1",
                &[int(&lead.study.0)],
            )?;
            Ok(())
        })
    }

    /// Deletes the vectors of all rounds up to `round`, and accepts no more for these rounds
    /// (INV-16).
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    pub fn forget_vectors(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        let round = signed(round);
        self.lead_on(lead, |tx, _| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET is_open = false WHERE id = $1 AND round <= $2",
                &[int(&lead.study.0), int(&round)],
            )?;
            forget_before(tx, lead.study, round.saturating_add(1))
        })
    }

    /// Returns a number that changes when a crash of the database has emptied the inbox.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn inbox_epoch(&self) -> Result<i64, StoreError> {
        const LOOK: &str = "SELECT number FROM fedbo_coordinator.inbox_epoch";
        let ask = |sql: &str| {
            let rows = self.pool.statement(Patience::of(PATIENCE), sql, &[]);
            let number = |row: &Row| Ok(row.try_get(0)?);
            let read = |rows: Vec<Row>| rows.first().map(number).transpose();
            let read = rows.map_err(Ended::from).and_then(read);
            read.map_err(|ended| self.refusal(ended, Operation::Read))
        };
        if let Some(number) = ask(LOOK)? {
            return Ok(number);
        }
        ask(
            "INSERT INTO fedbo_coordinator.inbox_epoch (number) VALUES ((random() * 9e15)::bigint) ON CONFLICT DO NOTHING
             RETURNING number",
        )?;
        let gone = || StoreError::Refused {
            path: self.pool.place().into(),
            message: "its inbox has just been emptied".to_owned(),
        };
        ask(LOOK)?.ok_or_else(gone)
    }
}
