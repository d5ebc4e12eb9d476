//! A coordinator's store in a PostgreSQL database, which replicas on many machines share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fedbo_database::Mode;
use fedbo_ledger::Ledgers;
use fedbo_postgres::{Doing, Ended, Patience, Pool, PoolError, PostgresAddress, Problem};
use fedbo_wire::{Digest, PublicKey};
use postgres::types::{ToSql, Type};
use postgres::{Row, Transaction};

use super::postgres_layout::LAYOUT;
use super::{
    Arrived, Enrolment, FreeRelease, Inbox, Lead, NextRound, Posted, Posting, SlotRecord, Store,
    StoreError, StudyKey, StudyRecord, StudyState,
};

/// Connections of a process at most.
const CONNECTIONS: usize = 8;
/// How long a call waits for a server that is away: rounds try again, and agents are told to.
const PATIENCE: Duration = Duration::from_secs(2);

const STUDY: &str =
    "SELECT id, name, config, state, round, began_ms, head FROM fedbo_coordinator.studies";
const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// A store in a database, in a schema `fedbo_coordinator` of its own. Any number of processes may share it; one of them plays a
/// study's rounds. Calls block, and must not be made on a thread that drives asynchronous tasks.
pub struct PostgresStore {
    pool: Arc<Pool>,
    ledgers: Ledgers,
}

impl fmt::Debug for PostgresStore {
    /// The address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore")
            .field(&self.pool.place())
            .finish()
    }
}

type Outcome<R> = Result<R, Ended<StoreError>>;
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl PostgresStore {
    /// Connects; with [`Mode::Create`] schemas that are missing are laid out, also that of the ledgers. The database itself must be
    /// there.
    ///
    /// # Errors
    /// If there is no store, it is none of ours, or the server cannot be used or may lose what it acknowledged.
    pub fn open(address: &PostgresAddress, mode: Mode) -> Result<Self, StoreError> {
        let path = PathBuf::from(address.to_string());
        let refused = |problem| in_words(problem, path.clone(), Doing::Connect);
        let pool = Arc::new(Pool::open(address, CONNECTIONS).map_err(refused)?);
        let creates = mode == Mode::Create;
        match pool.prepare(&LAYOUT, creates) {
            Ok(()) => {}
            Err(PoolError::Absent) => return Err(StoreError::Absent { path }),
            Err(PoolError::NotOurs(names)) => {
                let message = format!(
                    "its schema fedbo_coordinator is not one of ours: it holds {names}; name another database"
                );
                return Err(StoreError::NotAStore { path, message });
            }
            Err(PoolError::Version { found, expected }) => {
                return Err(StoreError::Version {
                    path,
                    found,
                    expected,
                });
            }
            Err(PoolError::Problem(problem)) => {
                return Err(in_words(problem, path, Doing::Connect));
            }
        }
        let ledgers =
            Ledgers::in_pool(Arc::clone(&pool), true).map_err(|error| StoreError::Refused {
                path: path.clone(),
                message: error.to_string(),
            })?;
        Ok(Self { pool, ledgers })
    }

    /// The address, without a password.
    #[must_use]
    pub fn place(&self) -> &str {
        self.pool.place()
    }

    /// The public key by which agents know this coordinator; none before the first replica has said so.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn identity(&self) -> Result<Option<PublicKey>, StoreError> {
        self.read(identity)
    }

    /// Says by which key agents know this coordinator, once and for ever. Returns the key that counts: another one, if somebody else
    /// was faster.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn identify(&self, key: &PublicKey) -> Result<PublicKey, StoreError> {
        self.write(|tx| {
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.identity (key) VALUES ($1) ON CONFLICT DO NOTHING",
                &[bytes(&&key.0[..])],
            )?;
            Ok(identity(tx)?.unwrap_or(*key))
        })
    }

    fn refusal(&self, ended: Ended<StoreError>, doing: Doing) -> StoreError {
        match ended {
            Ended::Caller(error) => error,
            Ended::Problem(problem) => in_words(problem, self.pool.place().into(), doing),
        }
    }

    fn read<R>(&self, act: impl Fn(&mut Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        let read = self.pool.read(Patience::of(PATIENCE), act);
        read.map_err(|ended| self.refusal(ended, Doing::Read))
    }

    /// Changes that lead to the same when they are made once more: who does not know whether one happened makes it again.
    fn write<R>(&self, act: impl Fn(&mut Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        self.write_once(|tx, _| act(tx))
    }

    /// The flag says whether the change may have happened already.
    fn write_once<R>(
        &self,
        act: impl Fn(&mut Transaction<'_>, bool) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        let written = self.pool.write(Patience::of(PATIENCE), act);
        written.map_err(|ended| self.refusal(ended, Doing::Write))
    }

    /// A transaction of whoever leads the study.
    fn lead_on<R>(
        &self,
        lead: &Lead,
        act: impl Fn(&mut Transaction<'_>, bool) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        self.write_once(|tx, is_again| {
            let sql = "SELECT token FROM fedbo_coordinator.studies WHERE id = $1 FOR NO KEY UPDATE";
            let row = tx.query_typed_opt(sql, &[int(&lead.study.0)])?;
            let token: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
            if token != Some(lead.token) {
                return Err(StoreError::Superseded.into_ended());
            }
            act(tx, is_again)
        })
    }
}

impl StoreError {
    fn into_ended(self) -> Ended<Self> {
        Ended::Caller(self)
    }
}

impl Store for PostgresStore {
    fn inbox(&self) -> Option<&dyn Inbox> {
        Some(self)
    }

    fn ledgers(&self) -> Option<&Ledgers> {
        Some(&self.ledgers)
    }

    fn now_ms(&self) -> Result<u64, StoreError> {
        self.read(now_ms)
    }

    fn generation(&self) -> Result<u64, StoreError> {
        self.read(|tx| {
            let sql = "SELECT number FROM fedbo_coordinator.generation";
            Ok(unsigned(tx.query_typed_one(sql, &[])?.try_get(0)?))
        })
    }

    fn create_study(
        &self,
        name: &str,
        config: &str,
        roster: &[String],
    ) -> Result<StudyRecord, StoreError> {
        self.write_once(|tx, is_again| {
            let added = tx.query_typed_opt(
                "INSERT INTO fedbo_coordinator.studies (name, config, state, round) VALUES ($1, $2, 'waiting', 0)
                 ON CONFLICT DO NOTHING RETURNING id, name, config, state, round, began_ms, head",
                &[text(&name), text(&config)],
            )?;
            let Some(added) = added else {
                // Where the answer was lost, it may be the one that this call created.
                return match study_named(tx, name)? {
                    known if is_again && known.config == config => Ok(known),
                    _ => Err(StoreError::Exists {
                        name: name.to_owned(),
                    }
                    .into_ended()),
                };
            };
            let record = study(&added)?;
            for (slot, agent) in (0_i64..).zip(roster) {
                tx.query_typed(
                    "INSERT INTO fedbo_coordinator.slots (study, slot, name) VALUES ($1, $2, $3)",
                    &[int(&record.key.0), int(&slot), text(agent)],
                )?;
            }
            changed(tx)?;
            Ok(record)
        })
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StoreError> {
        self.read(|tx| {
            let rows = tx.query_typed(&format!("{STUDY} ORDER BY id"), &[])?;
            rows.iter().map(study).collect()
        })
    }

    fn study(&self, name: &str) -> Result<StudyRecord, StoreError> {
        self.read(|tx| study_named(tx, name))
    }

    fn set_state(&self, study: StudyKey, to: StudyState) -> Result<(), StoreError> {
        self.write(|tx| {
            let from = locked(tx, study)?.state;
            if from == to {
                return Ok(());
            }
            if !super::may_become(from, to) {
                return Err(StoreError::State { from, to }.into_ended());
            }
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET state = $2 WHERE id = $1",
                &[int(&study.0), text(&to.name())],
            )?;
            changed(tx)
        })
    }

    fn slots(&self, study: StudyKey) -> Result<Vec<SlotRecord>, StoreError> {
        self.read(|tx| {
            let rows = tx.query_typed(
                "SELECT slot, name, key, revoked FROM fedbo_coordinator.slots WHERE study = $1 ORDER BY slot",
                &[int(&study.0)],
            )?;
            let slot = |row: &Row| {
                Ok(SlotRecord {
                    slot: slot_number(row.try_get(0)?)?,
                    name: row.try_get(1)?,
                    key: key(row, 2)?.map(PublicKey),
                    is_revoked: row.try_get(3)?,
                })
            };
            rows.iter().map(slot).collect()
        })
    }

    fn add_token(
        &self,
        study: StudyKey,
        slot: u32,
        secret: &Digest,
        expires_ms: u64,
    ) -> Result<(), StoreError> {
        let (number, expires_ms) = (i64::from(slot), signed(expires_ms));
        self.write(|tx| {
            locked(tx, study)?;
            check_slot(tx, study, slot)?;
            tx.query_typed(
                "DELETE FROM fedbo_coordinator.tokens WHERE study = $1 AND slot = $2 AND used_by IS NULL",
                &[int(&study.0), int(&number)],
            )?;
            // It is there already only if this call made it and its answer was lost.
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.tokens (secret, study, slot, expires_ms) VALUES ($1, $2, $3, $4)
                 ON CONFLICT DO NOTHING",
                &[
                    bytes(&&secret.0[..]),
                    int(&study.0),
                    int(&number),
                    int(&expires_ms),
                ],
            )?;
            Ok(())
        })
    }

    fn enrol(&self, secret: &Digest, key: &PublicKey) -> Result<Enrolment, StoreError> {
        self.write(|tx| {
            let read = "SELECT study, slot, expires_ms, used_by FROM fedbo_coordinator.tokens WHERE secret = $1";
            let Some(row) = tx.query_typed_opt(read, &[bytes(&&secret.0[..])])? else {
                return Err(StoreError::TokenUnknown.into_ended());
            };
            // What a token says may change until its study is locked.
            let study = StudyKey(row.try_get(0)?);
            locked(tx, study)?;
            let Some(row) = tx.query_typed_opt(read, &[bytes(&&secret.0[..])])? else {
                return Err(StoreError::TokenUnknown.into_ended());
            };
            let slot = slot_number(row.try_get(1)?)?;
            let number = i64::from(slot);
            let expires_ms = unsigned(row.try_get(2)?);
            let agent: String = tx
                .query_typed_one(
                    "SELECT name FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2",
                    &[int(&study.0), int(&number)],
                )?
                .try_get(0)?;
            match self::key(&row, 3)? {
                Some(used_by) if used_by == key.0 => {}
                Some(_) => return Err(StoreError::TokenUsed.into_ended()),
                None if now_ms(tx)? > expires_ms => {
                    return Err(StoreError::TokenExpired.into_ended());
                }
                None => {
                    check_free(tx, study, slot, key)?;
                    tx.query_typed(
                        "UPDATE fedbo_coordinator.tokens SET used_by = $2 WHERE secret = $1",
                        &[bytes(&&secret.0[..]), bytes(&&key.0[..])],
                    )?;
                    tx.query_typed(
                        "UPDATE fedbo_coordinator.slots SET key = $3, revoked = false WHERE study = $1 AND slot = $2",
                        &[int(&study.0), int(&number), bytes(&&key.0[..])],
                    )?;
                    // The last one: all are there.
                    tx.query_typed(
                        "UPDATE fedbo_coordinator.studies SET state = 'running' WHERE id = $1 AND state = 'waiting'
                         AND NOT EXISTS (SELECT FROM fedbo_coordinator.slots WHERE study = $1 AND key IS NULL)",
                        &[int(&study.0)],
                    )?;
                    changed(tx)?;
                }
            }
            Ok(Enrolment {
                study: locked(tx, study)?,
                slot,
                agent,
            })
        })
    }

    fn slot_of(&self, study: StudyKey, key: &PublicKey) -> Result<Option<u32>, StoreError> {
        self.read(|tx| {
            let row = tx.query_typed_opt(
                "SELECT slot FROM fedbo_coordinator.slots WHERE study = $1 AND $2 IN (key, previous) AND NOT revoked
                 ORDER BY (key = $2) DESC NULLS LAST LIMIT 1",
                &[int(&study.0), bytes(&&key.0[..])],
            )?;
            row.map(|row| slot_number(row.try_get(0)?)).transpose()
        })
    }

    fn rotate(
        &self,
        study: StudyKey,
        slot: u32,
        old: &PublicKey,
        new: &PublicKey,
    ) -> Result<(), StoreError> {
        let number = i64::from(slot);
        self.write(|tx| {
            locked(tx, study)?;
            let row = tx.query_typed_opt(
                "SELECT key, previous FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2 AND NOT revoked",
                &[int(&study.0), int(&number)],
            )?;
            let keys = match &row {
                Some(row) => (key(row, 0)?, key(row, 1)?),
                None => (None, None),
            };
            match keys {
                (Some(key), Some(previous)) if key == new.0 && previous == old.0 => return Ok(()),
                (Some(key), _) if key == old.0 => {}
                _ => return Err(StoreError::NoSlot { slot }.into_ended()),
            }
            check_free(tx, study, slot, new)?;
            tx.query_typed(
                "UPDATE fedbo_coordinator.slots SET key = $3, previous = $4 WHERE study = $1 AND slot = $2",
                &[
                    int(&study.0),
                    int(&number),
                    bytes(&&new.0[..]),
                    bytes(&&old.0[..]),
                ],
            )?;
            changed(tx)
        })
    }

    fn revoke(&self, study: StudyKey, slot: u32) -> Result<(), StoreError> {
        let number = i64::from(slot);
        self.write(|tx| {
            locked(tx, study)?;
            check_slot(tx, study, slot)?;
            tx.query_typed(
                "UPDATE fedbo_coordinator.slots SET revoked = true WHERE study = $1 AND slot = $2",
                &[int(&study.0), int(&number)],
            )?;
            changed(tx)
        })
    }

    fn lead(
        &self,
        study: StudyKey,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<Lead>, StoreError> {
        let lease_ms = signed(lease_ms);
        self.write(|tx| {
            locked(tx, study)?;
            // Under the lock, so by a clock that is read after it.
            let row = tx.query_typed_opt(
                "UPDATE fedbo_coordinator.studies SET token = token + 1, holder = $2,
                        until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
                 WHERE id = $1 AND (holder IS NULL OR holder = $2 OR until_ms IS NULL
                                    OR until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
                 RETURNING token",
                &[int(&study.0), text(&holder), int(&lease_ms)],
            )?;
            let token = row.map(|row| row.try_get(0)).transpose()?;
            Ok(token.map(|token| Lead { study, token }))
        })
    }

    fn renew(&self, lead: &Lead, lease_ms: u64) -> Result<bool, StoreError> {
        let lease_ms = signed(lease_ms);
        self.write(|tx| {
            let row = tx.query_typed_opt(
                "UPDATE fedbo_coordinator.studies
                 SET until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
                 WHERE id = $1 AND token = $2 RETURNING token",
                &[int(&lead.study.0), int(&lead.token), int(&lease_ms)],
            )?;
            Ok(row.is_some())
        })
    }

    fn resign(&self, lead: &Lead) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET holder = NULL, until_ms = NULL WHERE id = $1 AND token = $2",
                &[int(&lead.study.0), int(&lead.token)],
            )?;
            Ok(())
        })
    }

    fn begin_round(&self, lead: &Lead, next: NextRound<'_>) -> Result<(), StoreError> {
        let (round, began_ms) = (signed(next.round), signed(next.began_ms));
        self.lead_on(lead, |tx, is_again| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET round = $2, began_ms = $3, is_open = $4 WHERE id = $1",
                &[
                    int(&lead.study.0),
                    int(&round),
                    int(&began_ms),
                    (&next.collects, Type::BOOL),
                ],
            )?;
            forget_before(tx, lead.study, round)?;
            if let Some(broadcast) = next.broadcast {
                let sql = "INSERT INTO fedbo_coordinator.broadcasts (study, round, bytes) VALUES ($1, $2, $3)
                           ON CONFLICT DO NOTHING RETURNING round";
                let values = [int(&lead.study.0), int(&round), bytes(&broadcast)];
                let is_added = tx.query_typed_opt(sql, &values)?.is_some();
                let is_ours = is_added
                    || is_again && is_stored(tx, "broadcasts", lead.study, round, broadcast)?;
                if !is_ours {
                    return Err(StoreError::Released { round: next.round }.into_ended());
                }
            }
            if next.finishes {
                tx.query_typed(
                    "UPDATE fedbo_coordinator.studies SET state = 'finished' WHERE id = $1",
                    &[int(&lead.study.0)],
                )?;
                changed(tx)?;
            }
            Ok(())
        })
    }

    fn note_head(&self, lead: &Lead, head: &str) -> Result<(), StoreError> {
        self.lead_on(lead, |tx, _| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET head = $2 WHERE id = $1",
                &[int(&lead.study.0), text(&head)],
            )?;
            Ok(())
        })
    }

    fn broadcast(&self, study: StudyKey, round: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let round = signed(round);
        self.read(|tx| {
            let row = tx.query_typed_opt(
                "SELECT bytes FROM fedbo_coordinator.broadcasts WHERE study = $1 AND round = $2",
                &[int(&study.0), int(&round)],
            )?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn add_release(&self, lead: &Lead, release: &FreeRelease) -> Result<(), StoreError> {
        let round = signed(release.round);
        self.lead_on(lead, |tx, is_again| {
            let sql =
                "INSERT INTO fedbo_coordinator.releases (study, round, bytes) VALUES ($1, $2, $3)
                       ON CONFLICT DO NOTHING RETURNING round";
            let values = [int(&lead.study.0), int(&round), bytes(&release.bytes)];
            let is_added = tx.query_typed_opt(sql, &values)?.is_some();
            match is_added
                || is_again && is_stored(tx, "releases", lead.study, round, &release.bytes)?
            {
                true => Ok(()),
                false => Err(StoreError::Released {
                    round: release.round,
                }
                .into_ended()),
            }
        })
    }

    fn free_releases(&self, study: StudyKey) -> Result<Vec<FreeRelease>, StoreError> {
        self.read(|tx| {
            let rows = tx.query_typed(
                "SELECT round, bytes FROM fedbo_coordinator.releases WHERE study = $1 ORDER BY round",
                &[int(&study.0)],
            )?;
            let release = |row: &Row| {
                Ok(FreeRelease {
                    round: unsigned(row.try_get(0)?),
                    bytes: row.try_get(1)?,
                })
            };
            rows.iter().map(release).collect()
        })
    }
}

impl Inbox for PostgresStore {
    fn post(&self, posting: &Posting<'_>) -> Result<Posted, StoreError> {
        let (slot, round) = (i64::from(posting.slot), signed(posting.round));
        // One statement is one transaction. The lock is shared among vectors; whoever shuts the inbox waits for them.
        let sql = "
            WITH here AS MATERIALIZED (
                SELECT round, is_open FROM fedbo_coordinator.studies WHERE id = $1 FOR SHARE
            ), put AS (
                INSERT INTO fedbo_coordinator.inbox AS known (study, slot, round, mark, sealed)
                SELECT $1, $2, $3, $4, $5 FROM here WHERE here.round = $3 AND here.is_open
                ON CONFLICT (study, slot) DO UPDATE
                SET round = excluded.round, mark = excluded.mark, sealed = excluded.sealed
                WHERE known.round < excluded.round
                RETURNING 1
            )
            SELECT here.round, here.is_open, EXISTS (SELECT FROM put), known.round, known.mark
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
            let rows = rows.map_err(|problem| self.refusal(problem.into(), Doing::Write))?;
            let Some(row) = rows.first() else {
                return Err(self.refusal(no_study(posting.study), Doing::Write));
            };
            let read = || -> Outcome<_> {
                Ok((
                    row.try_get::<_, i64>(0)?,
                    row.try_get::<_, bool>(1)?,
                    row.try_get::<_, bool>(2)?,
                    row.try_get::<_, Option<i64>>(3)?,
                    row.try_get::<_, Option<&[u8]>>(4)?,
                ))
            };
            let (current, is_open, is_put, known, known_mark) =
                read().map_err(|ended| self.refusal(ended, Doing::Read))?;
            return Ok(match known {
                _ if is_put => Posted::Taken,
                Some(known) if known == round && known_mark != mark => Posted::Conflict,
                Some(known) if known >= round => Posted::Taken,
                _ if round > current => Posted::Early {
                    current: unsigned(current),
                },
                // Another one of this slot came while this statement ran: now it is seen.
                _ if round == current && is_open => continue,
                _ => Posted::Late,
            });
        }
        Err(StoreError::Refused {
            path: self.pool.place().into(),
            message: "many vectors of one agent came at once".to_owned(),
        })
    }

    fn awaits(&self, study: StudyKey, slot: u32, round: u64) -> Result<bool, StoreError> {
        let (slot, round) = (i64::from(slot), signed(round));
        let rows = self.pool.statement(
            Patience::of(PATIENCE),
            "SELECT FROM fedbo_coordinator.studies WHERE id = $1 AND round = $3 AND is_open AND NOT EXISTS
             (SELECT FROM fedbo_coordinator.inbox WHERE study = $1 AND slot = $2 AND round >= $3)",
            &[int(&study.0), int(&slot), int(&round)],
        );
        let rows = rows.map_err(|problem| self.refusal(problem.into(), Doing::Read))?;
        Ok(!rows.is_empty())
    }

    fn arrived(
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
            Ok(Arrived {
                slot: slot_number(row.try_get(0)?)?,
                sealed: row.try_get(1)?,
            })
        };
        let rows = rows.map_err(|problem| self.refusal(problem.into(), Doing::Read))?;
        let arrived: Outcome<_> = rows.iter().map(arrived).collect();
        arrived.map_err(|ended| self.refusal(ended, Doing::Read))
    }

    fn shut(&self, lead: &Lead) -> Result<(), StoreError> {
        self.lead_on(lead, |tx, _| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET is_open = false WHERE id = $1",
                &[int(&lead.study.0)],
            )?;
            Ok(())
        })
    }

    fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        let round = signed(round);
        self.lead_on(lead, |tx, _| {
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET is_open = false WHERE id = $1 AND round <= $2",
                &[int(&lead.study.0), int(&round)],
            )?;
            forget_before(tx, lead.study, round.saturating_add(1))
        })
    }

    fn epoch(&self) -> Result<i64, StoreError> {
        const LOOK: &str = "SELECT number FROM fedbo_coordinator.inbox_epoch";
        let ask = |sql: &str| {
            let rows = self.pool.statement(Patience::of(PATIENCE), sql, &[]);
            let number = |row: &Row| Ok(row.try_get(0)?);
            let read = |rows: Vec<Row>| rows.first().map(number).transpose();
            let read = rows.map_err(Ended::from).and_then(read);
            read.map_err(|ended| self.refusal(ended, Doing::Read))
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
            message: "its inbox was emptied just now".to_owned(),
        };
        ask(LOOK)?.ok_or_else(gone)
    }
}

fn int(value: &i64) -> Parameter<'_> {
    (value, Type::INT8)
}

fn text<'a, T: ToSql + Sync>(value: &'a T) -> Parameter<'a> {
    (value, Type::TEXT)
}

fn bytes<'a, T: ToSql + Sync>(value: &'a T) -> Parameter<'a> {
    (value, Type::BYTEA)
}

/// A number as the database has it; rounds and times are far below its end.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The layout takes no rounds and times below 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn slot_number(number: i64) -> Outcome<u32> {
    u32::try_from(number).map_err(|_| contradiction(format!("a slot has number {number}")))
}

fn contradiction(message: String) -> Ended<StoreError> {
    StoreError::Corrupt {
        path: PathBuf::from("the coordinator's database"),
        message,
    }
    .into_ended()
}

fn no_study(key: StudyKey) -> Ended<StoreError> {
    let name = format!("with key {}", key.0);
    StoreError::NoStudy { name }.into_ended()
}

fn key(row: &Row, column: usize) -> Outcome<Option<[u8; 32]>> {
    let stored: Option<&[u8]> = row.try_get(column)?;
    let length = |stored: &[u8]| contradiction(format!("a key has {} bytes", stored.len()));
    stored
        .map(|stored| stored.try_into().map_err(|_| length(stored)))
        .transpose()
}

fn identity(tx: &mut Transaction<'_>) -> Outcome<Option<PublicKey>> {
    let sql = "SELECT key FROM fedbo_coordinator.identity";
    match tx.query_typed_opt(sql, &[])? {
        Some(row) => Ok(key(&row, 0)?.map(PublicKey)),
        None => Ok(None),
    }
}

fn study(row: &Row) -> Outcome<StudyRecord> {
    let state: &str = row.try_get(3)?;
    Ok(StudyRecord {
        key: StudyKey(row.try_get(0)?),
        name: row.try_get(1)?,
        config: row.try_get(2)?,
        state: state
            .parse()
            .map_err(|_| contradiction(format!("a study is {state:?}")))?,
        round: unsigned(row.try_get(4)?),
        began_ms: row.try_get::<_, Option<i64>>(5)?.map(unsigned),
        head: row.try_get(6)?,
    })
}

fn study_named(tx: &mut Transaction<'_>, name: &str) -> Outcome<StudyRecord> {
    match tx.query_typed_opt(&format!("{STUDY} WHERE name = $1"), &[text(&name)])? {
        Some(row) => study(&row),
        None => {
            let name = name.to_owned();
            Err(StoreError::NoStudy { name }.into_ended())
        }
    }
}

/// Locks a study, as the first act of whoever changes anything of it.
fn locked(tx: &mut Transaction<'_>, key: StudyKey) -> Outcome<StudyRecord> {
    let sql = format!("{STUDY} WHERE id = $1 FOR NO KEY UPDATE");
    match tx.query_typed_opt(&sql, &[int(&key.0)])? {
        Some(row) => study(&row),
        None => Err(no_study(key)),
    }
}

fn check_slot(tx: &mut Transaction<'_>, study: StudyKey, slot: u32) -> Outcome<()> {
    let sql = "SELECT FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2";
    match tx.query_typed_opt(sql, &[int(&study.0), int(&i64::from(slot))])? {
        Some(_) => Ok(()),
        None => Err(StoreError::NoSlot { slot }.into_ended()),
    }
}

/// One agent has one slot: or it would count twice.
fn check_free(
    tx: &mut Transaction<'_>,
    study: StudyKey,
    slot: u32,
    key: &PublicKey,
) -> Outcome<()> {
    let row = tx.query_typed_opt(
        "SELECT slot FROM fedbo_coordinator.slots WHERE study = $1 AND key = $2 AND slot <> $3",
        &[int(&study.0), bytes(&&key.0[..]), int(&i64::from(slot))],
    )?;
    match row {
        None => Ok(()),
        Some(row) => {
            let slot = slot_number(row.try_get(0)?)?;
            Err(StoreError::KeyTaken { slot }.into_ended())
        }
    }
}

fn is_stored(
    tx: &mut Transaction<'_>,
    table: &str,
    study: StudyKey,
    round: i64,
    expected: &[u8],
) -> Outcome<bool> {
    let sql =
        format!("SELECT bytes FROM fedbo_coordinator.{table} WHERE study = $1 AND round = $2");
    let row = tx.query_typed_opt(&sql, &[int(&study.0), int(&round)])?;
    Ok(match row {
        Some(row) => row.try_get::<_, &[u8]>(0)? == expected,
        None => false,
    })
}

/// INV-16. What stays of a vector is that it came.
fn forget_before(tx: &mut Transaction<'_>, study: StudyKey, round: i64) -> Outcome<()> {
    tx.query_typed(
        "UPDATE fedbo_coordinator.inbox SET sealed = NULL WHERE study = $1 AND round < $2 AND sealed IS NOT NULL",
        &[int(&study.0), int(&round)],
    )?;
    Ok(())
}

fn changed(tx: &mut Transaction<'_>) -> Outcome<()> {
    tx.query_typed(
        "UPDATE fedbo_coordinator.generation SET number = number + 1",
        &[],
    )?;
    Ok(())
}

fn now_ms(tx: &mut Transaction<'_>) -> Outcome<u64> {
    Ok(unsigned(tx.query_typed_one(NOW, &[])?.try_get(0)?))
}

fn in_words(problem: Problem, path: PathBuf, doing: Doing) -> StoreError {
    let message = match &problem {
        Problem::Unsafe(setting) => {
            fedbo_postgres::unsafe_setting(setting, "what was acknowledged to agents")
        }
        problem => problem.words(doing, LAYOUT.schema),
    };
    match problem.is_damage() {
        true => StoreError::Corrupt {
            path,
            message: format!("it is damaged: {message}; go on from a backup"),
        },
        false => StoreError::Refused { path, message },
    }
}
