//! Studies, their slots and rounds, and their leadership.

use std::collections::BTreeMap;

use fedbo_ledger::Ledgers;
use fedbo_wire::{Digest, PublicKey};
use postgres::types::Type;
use postgres::{Row, Transaction};

use super::PostgresStore;
use super::layout::{COMMITMENTS, COUNTERS, PARTICIPANTS};
use super::rows::{
    Outcome, Parameter, STUDY, bytes, changed, check_free, check_slot, forget_before, int,
    is_stored, key, locked, now_ms, signed, slot_number, study, study_named, text, unsigned,
    void_tokens,
};
use crate::store::counters::Recent;
use crate::store::{
    Counted, CountedRequest, Enrolment, FreeRelease, Lead, NextRound, Participants, SlotCounter,
    SlotRecord, Store, StoreError, StudyKey, StudyRecord, StudyState, agreed, may_become,
};

impl Store for PostgresStore {
    fn shared(&self) -> Option<&Self> {
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
                // If the response to an earlier commit was lost, this call may itself have created
                // the study.
                return match study_named(tx, name)? {
                    known if is_again && known.config == config => Ok(known),
                    _ => Err(StoreError::Exists {
                        name: name.to_owned(),
                    }
                    .into_ended()),
                };
            };
            let record = study(&added)?;
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.slots (study, slot, name)
                 SELECT $1, place - 1, name FROM unnest($2) WITH ORDINALITY AS roster (name, place)",
                &[int(&record.key.0), (&roster, Type::TEXT_ARRAY)],
            )?;
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
            if !may_become(from, to) {
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
        token: &PublicKey,
        expires_ms: u64,
    ) -> Result<(), StoreError> {
        let (number, expires_ms) = (i64::from(slot), signed(expires_ms));
        self.write(|tx| {
            locked(tx, study)?;
            check_slot(tx, study, slot)?;
            void_tokens(tx, study, number)?;
            // The token can exist already only if an earlier attempt of this call inserted it and
            // the response to the commit was lost.
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.tokens (secret, study, slot, expires_ms) VALUES ($1, $2, $3, $4)
                 ON CONFLICT DO NOTHING",
                &[
                    bytes(&&token.0[..]),
                    int(&study.0),
                    int(&number),
                    int(&expires_ms),
                ],
            )?;
            Ok(())
        })
    }

    fn offer(
        &self,
        token: &PublicKey,
        config: &Digest,
        key: &PublicKey,
    ) -> Result<Enrolment, StoreError> {
        self.write(|tx| Ok(offered(tx, token, config, key)?.0))
    }

    fn enrol(
        &self,
        token: &PublicKey,
        config: &Digest,
        key: &PublicKey,
    ) -> Result<Enrolment, StoreError> {
        self.write(|tx| {
            let (offered, is_taken) = offered(tx, token, config, key)?;
            if is_taken {
                return Ok(offered);
            }
            let (study, number) = (offered.study.key, i64::from(offered.slot));
            tx.query_typed(
                "UPDATE fedbo_coordinator.tokens SET used_by = $2 WHERE secret = $1",
                &[bytes(&&token.0[..]), bytes(&&key.0[..])],
            )?;
            let sql = "SELECT key FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2";
            let before = tx.query_typed_one(sql, &[int(&study.0), int(&number)])?;
            if self::key(&before, 0)?.is_some_and(|before| before != key.0) {
                // The slot gets a new agent: earlier deliveries belong to the previous agent, and
                // the counter restarts.
                add_table(tx, "counters", COUNTERS)?;
                tx.query_typed(
                    "INSERT INTO fedbo_coordinator.counters (study, slot, recent, since) VALUES ($1, $2, '', $3)
                     ON CONFLICT (study, slot) DO UPDATE SET recent = '', since = $3",
                    &[int(&study.0), int(&number), int(&signed(offered.study.round))],
                )?;
            }
            tx.query_typed(
                "UPDATE fedbo_coordinator.slots SET key = $3, revoked = false WHERE study = $1 AND slot = $2",
                &[int(&study.0), int(&number), bytes(&&key.0[..])],
            )?;
            // The study starts when the last slot is filled.
            tx.query_typed(
                "UPDATE fedbo_coordinator.studies SET state = 'running' WHERE id = $1 AND state = 'waiting'
                 AND NOT EXISTS (SELECT FROM fedbo_coordinator.slots WHERE study = $1 AND key IS NULL)",
                &[int(&study.0)],
            )?;
            changed(tx)?;
            Ok(Enrolment { study: locked(tx, study)?, ..offered })
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
            void_tokens(tx, study, number)?;
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
            // The statement runs under the lock, so it reads the clock after the lock was taken.
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

    fn note_participants(&self, lead: &Lead, found: &Participants) -> Result<(), StoreError> {
        let (round, slots) = (signed(found.round), found.to_bytes());
        self.lead_on(lead, |tx, _| {
            add_table(tx, "participants", PARTICIPANTS)?;
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.participants (study, round, slots, release) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (study, round) DO UPDATE SET slots = $3, release = $4",
                &[
                    int(&lead.study.0),
                    int(&round),
                    bytes(&slots),
                    bytes(&&found.release.0[..]),
                ],
            )?;
            Ok(())
        })
    }

    fn participants(&self, study: StudyKey, from: u64) -> Result<Vec<Participants>, StoreError> {
        let from = signed(from);
        self.read(|tx| {
            if !is_there(tx, "participants")? {
                return Ok(Vec::new());
            }
            let rows = tx.query_typed(
                "SELECT round, slots, release FROM fedbo_coordinator.participants WHERE study = $1 AND round >= $2
                 ORDER BY round",
                &[int(&study.0), int(&from)],
            )?;
            let found = |row: &Row| {
                let (slots, release): (Vec<u8>, Vec<u8>) = (row.try_get(1)?, row.try_get(2)?);
                Ok(Participants::of(unsigned(row.try_get(0)?), &slots, &release))
            };
            let found: Vec<Option<Participants>> = rows.iter().map(found).collect::<Outcome<_>>()?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    /// Locks rows in key order, so that replicas do not deadlock.
    fn count(&self, requests: &[CountedRequest]) -> Result<Vec<Counted>, StoreError> {
        let mut places: Vec<(i64, i64)> =
            requests.iter().map(|request| (request.study.0, i64::from(request.slot))).collect();
        places.sort_unstable();
        places.dedup();
        let (studies, slots): (Vec<i64>, Vec<i64>) = places.into_iter().unzip();
        self.write(|tx| {
            add_table(tx, "counters", COUNTERS)?;
            let of_slots: [Parameter<'_>; 2] =
                [(&studies, Type::INT8_ARRAY), (&slots, Type::INT8_ARRAY)];
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.counters (study, slot, recent, since)
                 SELECT study, slot, '', 0 FROM unnest($1, $2) AS asked (study, slot) ORDER BY study, slot
                 ON CONFLICT DO NOTHING",
                &of_slots,
            )?;
            let rows = tx.query_typed(
                "SELECT study, slot, recent FROM fedbo_coordinator.counters
                 WHERE (study, slot) IN (SELECT study, slot FROM unnest($1, $2) AS asked (study, slot))
                 ORDER BY study, slot FOR NO KEY UPDATE",
                &of_slots,
            )?;
            let mut known: BTreeMap<(i64, i64), Recent> = BTreeMap::new();
            for row in &rows {
                let recent: Vec<u8> = row.try_get(2)?;
                known.insert((row.try_get(0)?, row.try_get(1)?), Recent::of(&recent));
            }
            let mut newer: BTreeMap<(i64, i64), Vec<u8>> = BTreeMap::new();
            let mut verdicts = Vec::with_capacity(requests.len());
            for request in requests {
                let place = (request.study.0, i64::from(request.slot));
                let recent = known.entry(place).or_default();
                let (verdict, is_new) = recent.take(request);
                if is_new {
                    newer.insert(place, recent.to_bytes());
                }
                verdicts.push(verdict);
            }
            let (places, bytes): (Vec<(i64, i64)>, Vec<Vec<u8>>) = newer.into_iter().unzip();
            let (studies, slots): (Vec<i64>, Vec<i64>) = places.into_iter().unzip();
            tx.query_typed(
                "UPDATE fedbo_coordinator.counters SET recent = taken.recent
                 FROM unnest($1, $2, $3) AS taken (study, slot, recent)
                 WHERE counters.study = taken.study AND counters.slot = taken.slot",
                &[
                    (&studies, Type::INT8_ARRAY),
                    (&slots, Type::INT8_ARRAY),
                    (&bytes, Type::BYTEA_ARRAY),
                ],
            )?;
            Ok(verdicts)
        })
    }

    fn counter(&self, study: StudyKey, slot: u32) -> Result<SlotCounter, StoreError> {
        self.read(|tx| {
            if !is_there(tx, "counters")? {
                return Ok(SlotCounter::default());
            }
            let sql = "SELECT recent, since FROM fedbo_coordinator.counters WHERE study = $1 AND slot = $2";
            let row = tx.query_typed_opt(sql, &[int(&study.0), int(&i64::from(slot))])?;
            let Some(row) = row else {
                return Ok(SlotCounter::default());
            };
            let recent: Vec<u8> = row.try_get(0)?;
            let since = unsigned(row.try_get(1)?);
            Ok(SlotCounter { counter: Recent::of(&recent).counter(), since })
        })
    }

    fn note_commitment(
        &self,
        lead: &Lead,
        round: u64,
        commitment: &Digest,
    ) -> Result<(), StoreError> {
        let round = signed(round);
        self.lead_on(lead, |tx, _| {
            add_table(tx, "commitments", COMMITMENTS)?;
            tx.query_typed(
                "INSERT INTO fedbo_coordinator.commitments (study, round, hash) VALUES ($1, $2, $3)
                 ON CONFLICT (study, round) DO UPDATE SET hash = $3",
                &[int(&lead.study.0), int(&round), bytes(&&commitment.0[..])],
            )?;
            Ok(())
        })
    }

    fn commitments(&self, study: StudyKey) -> Result<Vec<(u64, Digest)>, StoreError> {
        self.read(|tx| {
            if !is_there(tx, "commitments")? {
                return Ok(Vec::new());
            }
            let rows = tx.query_typed(
                "SELECT round, hash FROM fedbo_coordinator.commitments WHERE study = $1 ORDER BY round",
                &[int(&study.0)],
            )?;
            let found = |row: &Row| {
                let hash: Vec<u8> = row.try_get(1)?;
                let hash = <[u8; 32]>::try_from(hash.as_slice()).unwrap_or_default(); // the table checks it
                Ok((unsigned(row.try_get(0)?), Digest(hash)))
            };
            rows.iter().map(found).collect::<Outcome<_>>()
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
                false => Err(StoreError::Released { round: release.round }.into_ended()),
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

/// Returns true if the schema has this table, which is created on first use.
fn is_there(tx: &mut Transaction<'_>, table: &str) -> Outcome<bool> {
    let name = format!("fedbo_coordinator.{table}");
    let sql = "SELECT to_regclass($1) IS NOT NULL";
    Ok(tx.query_typed_one(sql, &[text(&name)])?.try_get(0)?)
}

/// Key of the advisory lock that is held while a table is added, since two replicas may try to add
/// it at the same time. In ASCII, the number is "coun".
const ADDING: i64 = 0x636f_756e;

/// Creates a table on first use.
fn add_table(tx: &mut Transaction<'_>, table: &str, layout: &str) -> Outcome<()> {
    if !is_there(tx, table)? {
        tx.batch_execute(&format!("SELECT pg_advisory_xact_lock({ADDING})"))?;
        tx.batch_execute(layout)?;
    }
    Ok(())
}

/// Returns the slot that a token offers to an agent, and whether the agent has already claimed it
/// with this token. Locks the study.
fn offered(
    tx: &mut Transaction<'_>,
    token: &PublicKey,
    config: &Digest,
    key: &PublicKey,
) -> Outcome<(Enrolment, bool)> {
    let read =
        "SELECT study, slot, expires_ms, used_by FROM fedbo_coordinator.tokens WHERE secret = $1";
    let Some(row) = tx.query_typed_opt(read, &[bytes(&&token.0[..])])? else {
        return Err(StoreError::TokenUnknown.into_ended());
    };
    // The token may change until its study is locked, so it is read again after that.
    let study = locked(tx, StudyKey(row.try_get(0)?))?;
    agreed(&study, config).map_err(StoreError::into_ended)?;
    let Some(row) = tx.query_typed_opt(read, &[bytes(&&token.0[..])])? else {
        return Err(StoreError::TokenUnknown.into_ended());
    };
    let slot = slot_number(row.try_get(1)?)?;
    let expires_ms = unsigned(row.try_get(2)?);
    let agent: String = tx
        .query_typed_one(
            "SELECT name FROM fedbo_coordinator.slots WHERE study = $1 AND slot = $2",
            &[int(&study.key.0), int(&i64::from(slot))],
        )?
        .try_get(0)?;
    let is_taken = match self::key(&row, 3)? {
        Some(used_by) if used_by == key.0 => true,
        Some(_) => return Err(StoreError::TokenUsed.into_ended()),
        None if now_ms(tx)? > expires_ms => return Err(StoreError::TokenExpired.into_ended()),
        None => {
            check_free(tx, study.key, slot, key)?;
            false
        }
    };
    Ok((Enrolment { study, slot, agent }, is_taken))
}
