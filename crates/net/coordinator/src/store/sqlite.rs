//! A coordinator's store in a SQLite file.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fedbo_database::{Failure, File, Mode, integrity_problems};
use fedbo_wire::{Digest, PublicKey};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::counters::Recent;
use super::schema::{COMMITMENTS, COUNTERS, FORMAT, PARTICIPANTS};
use super::{
    Counted, CountedRequest, Enrolment, FreeRelease, Lead, NextRound, Participants, SlotCounter,
    SlotRecord, Store, StoreError, StudyKey, StudyRecord, StudyState, agreed,
};

/// Size of the write-ahead log in pages that triggers a checkpoint.
///
/// Requests write their counters continually. With SQLite's default of 1,000 pages, the log would
/// need 4 MB, even on a full disk.
const LOG_PAGES: i64 = 32;

const STUDY: &str = "SELECT id, name, config, state, round, began_ms, head FROM studies";

/// Store in a file on a local disk. Several processes can open the file; one of them leads each
/// study.
pub struct SqliteStore {
    file: File,
    connection: Mutex<Connection>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.file.path()).finish()
    }
}

/// An error that ends a transaction early: a file failure or a store error.
enum Ended {
    Failure(Failure),
    Store(StoreError),
}

impl From<rusqlite::Error> for Ended {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failure(error.into())
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

type Outcome<R> = Result<R, Ended>;

impl SqliteStore {
    /// Opens the file. With [`Mode::Create`], creates it if it is missing.
    ///
    /// # Errors
    /// If the file is missing, is not a store, or cannot be accessed.
    pub fn open(path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let (file, _) =
            File::locate(path, mode, &FORMAT).map_err(|fault| StoreError::of(fault, path))?;
        let connection = file
            .open_for_writing(mode)
            .and_then(|connection| {
                connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
                Ok(connection)
            })
            .map_err(|failure| StoreError::of(failure.into_fault(&FORMAT), path))?;
        Ok(Self { file, connection: Mutex::new(connection) })
    }

    /// Opens an existing file read-only, which also works on a read-only disk. Writes are refused.
    ///
    /// # Errors
    /// If the file is missing, is not a store, or cannot be accessed.
    pub fn open_for_reading(path: &Path) -> Result<Self, StoreError> {
        let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
            .map_err(|fault| StoreError::of(fault, path))?;
        let connection = file
            .open_for_verification()
            .map_err(|failure| StoreError::of(failure.into_fault(&FORMAT), path))?;
        Ok(Self { file, connection: Mutex::new(connection) })
    }

    /// Copies a snapshot of the file to a new file.
    ///
    /// # Errors
    /// If `to` exists, or cannot be written.
    pub fn backup(path: &Path, to: &Path) -> Result<(), StoreError> {
        let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
            .map_err(|fault| StoreError::of(fault, path))?;
        file.copy_to(to).map_err(|failure| StoreError::of(failure.into_fault(&FORMAT), to))
    }

    /// Checks a file, and returns the problems found. Read-only.
    ///
    /// # Errors
    /// If the file is not a store of this version, or cannot be accessed.
    pub fn verify(path: &Path) -> Result<Vec<String>, StoreError> {
        let refused = |failure: Failure| StoreError::of(failure.into_fault(&FORMAT), path);
        let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
            .map_err(|fault| StoreError::of(fault, path))?;
        let found = file.open_for_verification().and_then(|connection| {
            let mut problems = integrity_problems(&connection)?;
            let beside = [PARTICIPANTS, COMMITMENTS, COUNTERS];
            problems.extend(FORMAT.layout_problems_beside(&connection, &beside)?);
            Ok(problems)
        });
        match found {
            Err(failure) if failure.is_damage() => {
                Ok(vec![format!("it cannot be read completely: {failure}")])
            }
            found => found.map_err(refused),
        }
    }

    /// Returns the head recorded in a file for a study's ledger, or `None` if the study is unknown
    /// or has no recorded head. Read-only; works on a read-only disk, too.
    ///
    /// # Errors
    /// If the file is not a store of this version, or cannot be accessed.
    pub fn head_of(path: &Path, study: &str) -> Result<Option<String>, StoreError> {
        let refused = |failure: Failure| StoreError::of(failure.into_fault(&FORMAT), path);
        let (file, _) = File::locate(path, Mode::Existing, &FORMAT)
            .map_err(|fault| StoreError::of(fault, path))?;
        let look = || {
            let connection = file.open_for_reading()?;
            let sql = "SELECT head FROM studies WHERE name = ?";
            let found = connection.query_row(sql, [study], |row| row.get(0));
            Ok(found.optional()?.flatten())
        };
        look().map_err(refused)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic interrupted is rolled back before the next one begins.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transaction<R>(
        &self,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        let connection = self.connection();
        let act = || {
            let tx = self.file.begin(&connection, behavior)?;
            let result = act(&tx)?;
            tx.commit()?;
            Ok(result)
        };
        act().map_err(|ended| match ended {
            Ended::Store(error) => error,
            Ended::Failure(failure) => {
                StoreError::of(failure.into_fault(&FORMAT), self.file.path())
            }
        })
    }

    fn read<R>(&self, act: impl FnOnce(&Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        self.transaction(TransactionBehavior::Deferred, act)
    }

    fn write<R>(&self, act: impl FnOnce(&Transaction<'_>) -> Outcome<R>) -> Result<R, StoreError> {
        self.transaction(TransactionBehavior::Immediate, act)
    }

    /// Runs a transaction if `lead` is still current.
    fn lead_on<R>(
        &self,
        lead: &Lead,
        act: impl FnOnce(&Transaction<'_>) -> Outcome<R>,
    ) -> Result<R, StoreError> {
        self.write(|tx| {
            let token: Option<i64> = tx
                .prepare_cached("SELECT token FROM studies WHERE id = ?")?
                .query_row([lead.study.0], |row| row.get(0))
                .optional()?;
            if token != Some(lead.token) {
                return Err(StoreError::Superseded.into());
            }
            act(tx)
        })
    }
}

impl Store for SqliteStore {
    fn now_ms(&self) -> Result<u64, StoreError> {
        self.read(now_ms)
    }

    fn generation(&self) -> Result<u64, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached("SELECT number FROM generation")?;
            Ok(statement.query_row([], |row| row.get(0))?)
        })
    }

    fn create_study(
        &self,
        name: &str,
        config: &str,
        roster: &[String],
    ) -> Result<StudyRecord, StoreError> {
        self.write(|tx| {
            let n_added = tx.execute(
                "INSERT INTO studies (name, config, state, round) VALUES (?, ?, 'waiting', 0) ON CONFLICT DO NOTHING",
                [name, config],
            )?;
            if n_added == 0 {
                let name = name.to_owned();
                return Err(StoreError::Exists { name }.into());
            }
            let record = study_named(tx, name)?;
            let mut statement =
                tx.prepare_cached("INSERT INTO slots (study, slot, name) VALUES (?, ?, ?)")?;
            for (slot, agent) in (0_u32..).zip(roster) {
                statement.execute(params![record.key.0, slot, agent])?;
            }
            changed(tx)?;
            Ok(record)
        })
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(&format!("{STUDY} ORDER BY id"))?;
            let mut rows = statement.query([])?;
            let mut studies = Vec::new();
            while let Some(row) = rows.next()? {
                studies.push(study(row)?);
            }
            Ok(studies)
        })
    }

    fn study(&self, name: &str) -> Result<StudyRecord, StoreError> {
        self.read(|tx| study_named(tx, name))
    }

    fn set_state(&self, study: StudyKey, to: StudyState) -> Result<(), StoreError> {
        self.write(|tx| {
            let from = study_of(tx, study)?.state;
            if from == to {
                return Ok(());
            }
            if !super::may_become(from, to) {
                return Err(StoreError::State { from, to }.into());
            }
            tx.execute("UPDATE studies SET state = ? WHERE id = ?", params![to.name(), study.0])?;
            changed(tx)
        })
    }

    fn slots(&self, study: StudyKey) -> Result<Vec<SlotRecord>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT slot, name, key, revoked FROM slots WHERE study = ? ORDER BY slot",
            )?;
            let mut rows = statement.query([study.0])?;
            let mut slots = Vec::new();
            while let Some(row) = rows.next()? {
                slots.push(SlotRecord {
                    slot: row.get(0)?,
                    name: row.get(1)?,
                    key: row.get::<_, Option<[u8; 32]>>(2)?.map(PublicKey),
                    is_revoked: row.get(3)?,
                });
            }
            Ok(slots)
        })
    }

    fn add_token(
        &self,
        study: StudyKey,
        slot: u32,
        token: &PublicKey,
        expires_ms: u64,
    ) -> Result<(), StoreError> {
        self.write(|tx| {
            check_slot(tx, study, slot)?;
            void_tokens(tx, study, slot)?;
            tx.execute(
                "INSERT INTO tokens (secret, study, slot, expires_ms) VALUES (?, ?, ?, ?)",
                params![token.0, study.0, slot, signed(expires_ms)],
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
        self.read(|tx| Ok(offered(tx, token, config, key)?.0))
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
            let (study, slot) = (offered.study.key, offered.slot);
            tx.execute("UPDATE tokens SET used_by = ? WHERE secret = ?", params![key.0, token.0])?;
            let sql = "SELECT key FROM slots WHERE study = ? AND slot = ?";
            let before: Option<[u8; 32]> =
                tx.query_row(sql, params![study.0, slot], |row| row.get(0))?;
            if before.is_some_and(|before| before != key.0) {
                // The slot gets a new agent: earlier deliveries belong to the previous agent, and
                // the counter restarts.
                tx.execute_batch(COUNTERS)?;
                tx.execute(
                    "INSERT OR REPLACE INTO counters (study, slot, recent, since) VALUES (?, ?, x'', ?)",
                    params![study.0, slot, signed(offered.study.round)],
                )?;
            }
            tx.execute(
                "UPDATE slots SET key = ?, revoked = 0 WHERE study = ? AND slot = ?",
                params![key.0, study.0, slot],
            )?;
            // The study starts when the last slot is filled.
            tx.execute(
                "UPDATE studies SET state = 'running' WHERE id = ?1 AND state = 'waiting' AND NOT EXISTS
                 (SELECT 1 FROM slots WHERE study = ?1 AND key IS NULL)",
                [study.0],
            )?;
            changed(tx)?;
            Ok(Enrolment { study: study_of(tx, study)?, ..offered })
        })
    }

    fn slot_of(&self, study: StudyKey, key: &PublicKey) -> Result<Option<u32>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT slot FROM slots WHERE study = ?1 AND ?2 IN (key, previous) AND revoked = 0 ORDER BY key = ?2 DESC LIMIT 1",
            )?;
            let found = statement.query_row(params![study.0, key.0], |row| row.get(0));
            Ok(found.optional()?)
        })
    }

    fn rotate(
        &self,
        study: StudyKey,
        slot: u32,
        old: &PublicKey,
        new: &PublicKey,
    ) -> Result<(), StoreError> {
        type Keys = (Option<[u8; 32]>, Option<[u8; 32]>);
        self.write(|tx| {
            let keys: Option<Keys> = tx
                .prepare_cached(
                    "SELECT key, previous FROM slots WHERE study = ? AND slot = ? AND revoked = 0",
                )?
                .query_row(params![study.0, slot], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match keys {
                Some((Some(key), Some(previous))) if key == new.0 && previous == old.0 => {
                    return Ok(());
                }
                Some((Some(key), _)) if key == old.0 => {}
                _ => return Err(StoreError::NoSlot { slot }.into()),
            }
            check_free(tx, study, slot, new)?;
            tx.execute(
                "UPDATE slots SET key = ?, previous = ? WHERE study = ? AND slot = ?",
                params![new.0, old.0, study.0, slot],
            )?;
            changed(tx)
        })
    }

    fn revoke(&self, study: StudyKey, slot: u32) -> Result<(), StoreError> {
        self.write(|tx| {
            check_slot(tx, study, slot)?;
            tx.execute(
                "UPDATE slots SET revoked = 1 WHERE study = ? AND slot = ?",
                params![study.0, slot],
            )?;
            void_tokens(tx, study, slot)?;
            changed(tx)
        })
    }

    fn lead(
        &self,
        study: StudyKey,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<Lead>, StoreError> {
        self.write(|tx| {
            let now_ms = now_ms(tx)?;
            let row = tx
                .prepare_cached("SELECT token, holder, until_ms FROM studies WHERE id = ?")?
                .query_row([study.0], |row| {
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, Option<String>>(1)?,
                        row.get::<_, Option<u64>>(2)?,
                    ))
                })
                .optional()?;
            let Some((token, held_by, until_ms)) = row else {
                return Err(no_study(study));
            };
            let is_held = held_by.is_some_and(|held_by| held_by != holder)
                && until_ms.is_some_and(|until_ms| now_ms < until_ms);
            let Some(token) = token.checked_add(1).filter(|_| !is_held) else {
                return Ok(None);
            };
            tx.execute(
                "UPDATE studies SET token = ?, holder = ?, until_ms = ? WHERE id = ?",
                params![token, holder, signed(now_ms.saturating_add(lease_ms)), study.0],
            )?;
            Ok(Some(Lead { study, token }))
        })
    }

    fn renew(&self, lead: &Lead, lease_ms: u64) -> Result<bool, StoreError> {
        self.write(|tx| {
            let until_ms = now_ms(tx)?.saturating_add(lease_ms);
            let n_changed = tx.execute(
                "UPDATE studies SET until_ms = ? WHERE id = ? AND token = ?",
                params![signed(until_ms), lead.study.0, lead.token],
            )?;
            Ok(n_changed == 1)
        })
    }

    fn resign(&self, lead: &Lead) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.execute(
                "UPDATE studies SET holder = NULL, until_ms = NULL WHERE id = ? AND token = ?",
                params![lead.study.0, lead.token],
            )?;
            Ok(())
        })
    }

    fn begin_round(&self, lead: &Lead, next: NextRound<'_>) -> Result<(), StoreError> {
        self.lead_on(lead, |tx| {
            tx.prepare_cached("UPDATE studies SET round = ?, began_ms = ? WHERE id = ?")?
                .execute(params![signed(next.round), signed(next.began_ms), lead.study.0])?;
            if let Some(bytes) = next.broadcast {
                tx.prepare_cached("INSERT INTO broadcasts (study, round, bytes) VALUES (?, ?, ?)")?
                    .execute(params![lead.study.0, signed(next.round), bytes])?;
            }
            if next.finishes {
                tx.execute("UPDATE studies SET state = 'finished' WHERE id = ?", [lead.study.0])?;
                changed(tx)?;
            }
            Ok(())
        })
    }

    fn note_head(&self, lead: &Lead, head: &str) -> Result<(), StoreError> {
        self.lead_on(lead, |tx| {
            tx.prepare_cached("UPDATE studies SET head = ? WHERE id = ?")?
                .execute(params![head, lead.study.0])?;
            Ok(())
        })
    }

    fn note_participants(&self, lead: &Lead, found: &Participants) -> Result<(), StoreError> {
        self.lead_on(lead, |tx| {
            tx.execute_batch(PARTICIPANTS)?;
            tx.prepare_cached(
                "INSERT OR REPLACE INTO participants (study, round, slots, release) VALUES (?, ?, ?, ?)",
            )?
            .execute(params![
                lead.study.0,
                signed(found.round),
                found.to_bytes(),
                found.release.0
            ])?;
            Ok(())
        })
    }

    fn participants(&self, study: StudyKey, from: u64) -> Result<Vec<Participants>, StoreError> {
        self.read(|tx| {
            if !is_there(tx, "participants")? {
                return Ok(Vec::new());
            }
            let sql = "SELECT round, slots, release FROM participants WHERE study = ? AND round >= ? ORDER BY round";
            let mut statement = tx.prepare_cached(sql)?;
            let rows = statement.query_map(params![study.0, signed(from)], |row| {
                let (slots, release): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
                Ok(Participants::of(row.get(0)?, &slots, &release))
            })?;
            let found: Vec<Option<Participants>> = rows.collect::<Result<_, _>>()?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    fn count(&self, requests: &[CountedRequest]) -> Result<Vec<Counted>, StoreError> {
        let act = |tx: &Transaction<'_>| {
            tx.execute_batch(COUNTERS)?;
            let mut read =
                tx.prepare_cached("SELECT recent FROM counters WHERE study = ? AND slot = ?")?;
            let mut write = tx.prepare_cached(
                "INSERT INTO counters (study, slot, recent, since) VALUES (?1, ?2, ?3, 0)
                 ON CONFLICT DO UPDATE SET recent = ?3",
            )?;
            let mut verdicts = Vec::with_capacity(requests.len());
            for request in requests {
                let stored: Option<Vec<u8>> = read
                    .query_row(params![request.study.0, request.slot], |row| row.get(0))
                    .optional()?;
                let mut recent = Recent::of(&stored.unwrap_or_default());
                let (verdict, is_new) = recent.take(request);
                if is_new {
                    write.execute(params![request.study.0, request.slot, recent.to_bytes()])?;
                }
                verdicts.push(verdict);
            }
            Ok(verdicts)
        };
        self.write(act).or_else(|_| {
            // On a full disk the log cannot grow. A checkpoint frees space in it.
            File::copy_log(&self.connection());
            self.write(act)
        })
    }

    fn counter(&self, study: StudyKey, slot: u32) -> Result<SlotCounter, StoreError> {
        self.read(|tx| {
            if !is_there(tx, "counters")? {
                return Ok(SlotCounter::default());
            }
            let sql = "SELECT recent, since FROM counters WHERE study = ? AND slot = ?";
            let found = tx.prepare_cached(sql)?.query_row(params![study.0, slot], |row| {
                let recent: Vec<u8> = row.get(0)?;
                Ok(SlotCounter { counter: Recent::of(&recent).counter(), since: row.get(1)? })
            });
            Ok(found.optional()?.unwrap_or_default())
        })
    }

    fn note_commitment(
        &self,
        lead: &Lead,
        round: u64,
        commitment: &Digest,
    ) -> Result<(), StoreError> {
        self.lead_on(lead, |tx| {
            tx.execute_batch(COMMITMENTS)?;
            tx.prepare_cached(
                "INSERT OR REPLACE INTO commitments (study, round, hash) VALUES (?, ?, ?)",
            )?
            .execute(params![lead.study.0, signed(round), commitment.0])?;
            Ok(())
        })
    }

    fn commitments(&self, study: StudyKey) -> Result<Vec<(u64, Digest)>, StoreError> {
        self.read(|tx| {
            if !is_there(tx, "commitments")? {
                return Ok(Vec::new());
            }
            let sql = "SELECT round, hash FROM commitments WHERE study = ? ORDER BY round";
            let mut statement = tx.prepare_cached(sql)?;
            let rows = statement.query_map([study.0], |row| {
                let (round, hash): (u64, [u8; 32]) = (row.get(0)?, row.get(1)?);
                Ok((round, Digest(hash)))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn broadcast(&self, study: StudyKey, round: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|tx| {
            let mut statement =
                tx.prepare_cached("SELECT bytes FROM broadcasts WHERE study = ? AND round = ?")?;
            let found = statement.query_row([study.0, signed(round)], |row| row.get(0));
            Ok(found.optional()?)
        })
    }

    fn add_release(&self, lead: &Lead, release: &FreeRelease) -> Result<(), StoreError> {
        self.lead_on(lead, |tx| {
            let n_added = tx
                .prepare_cached("INSERT INTO releases (study, round, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")?
                .execute(params![lead.study.0, signed(release.round), release.bytes])?;
            match n_added {
                0 => Err(StoreError::Released { round: release.round }.into()),
                _ => Ok(()),
            }
        })
    }

    fn free_releases(&self, study: StudyKey) -> Result<Vec<FreeRelease>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT round, bytes FROM releases WHERE study = ? ORDER BY round",
            )?;
            let rows = statement.query_map([study.0], |row| {
                Ok(FreeRelease { round: row.get(0)?, bytes: row.get(1)? })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

/// Converts a number for SQLite. Rounds and times are far below the maximum.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns true if the store has this table, which is created on first use.
fn is_there(tx: &Transaction<'_>, table: &str) -> Outcome<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?";
    Ok(tx.prepare_cached(sql)?.exists([table])?)
}

fn changed(tx: &Transaction<'_>) -> Outcome<()> {
    tx.execute("UPDATE generation SET number = number + 1", [])?;
    Ok(())
}

fn no_study(key: StudyKey) -> Ended {
    let name = format!("with key {}", key.0);
    StoreError::NoStudy { name }.into()
}

fn study(row: &Row<'_>) -> Outcome<StudyRecord> {
    let state: String = row.get(3)?;
    let state =
        state.parse().map_err(|_| Failure::Contradiction(format!("a study is {state:?}")))?;
    Ok(StudyRecord {
        key: StudyKey(row.get(0)?),
        name: row.get(1)?,
        config: row.get(2)?,
        state,
        round: row.get(4)?,
        began_ms: row.get(5)?,
        head: row.get(6)?,
    })
}

fn study_named(tx: &Transaction<'_>, name: &str) -> Outcome<StudyRecord> {
    let mut statement = tx.prepare_cached(&format!("{STUDY} WHERE name = ?"))?;
    let mut rows = statement.query([name])?;
    match rows.next()? {
        Some(row) => study(row),
        None => {
            let name = name.to_owned();
            Err(StoreError::NoStudy { name }.into())
        }
    }
}

fn study_of(tx: &Transaction<'_>, key: StudyKey) -> Outcome<StudyRecord> {
    let mut statement = tx.prepare_cached(&format!("{STUDY} WHERE id = ?"))?;
    let mut rows = statement.query([key.0])?;
    match rows.next()? {
        Some(row) => study(row),
        None => Err(no_study(key)),
    }
}

fn check_slot(tx: &Transaction<'_>, study: StudyKey, slot: u32) -> Outcome<()> {
    let mut statement = tx.prepare_cached("SELECT 1 FROM slots WHERE study = ? AND slot = ?")?;
    match statement.exists(params![study.0, slot])? {
        true => Ok(()),
        false => Err(StoreError::NoSlot { slot }.into()),
    }
}

/// Returns the slot that a token offers to an agent, and whether the agent has already claimed it
/// with this token.
fn offered(
    tx: &Transaction<'_>,
    token: &PublicKey,
    config: &Digest,
    key: &PublicKey,
) -> Outcome<(Enrolment, bool)> {
    let found = tx
        .prepare_cached("SELECT study, slot, expires_ms, used_by FROM tokens WHERE secret = ?")?
        .query_row([token.0], |row| {
            Ok((
                StudyKey(row.get(0)?),
                row.get::<_, u32>(1)?,
                row.get::<_, u64>(2)?,
                row.get::<_, Option<[u8; 32]>>(3)?,
            ))
        })
        .optional()?;
    let Some((study, slot, expires_ms, used_by)) = found else {
        return Err(StoreError::TokenUnknown.into());
    };
    let study = study_of(tx, study)?;
    agreed(&study, config)?;
    let agent: String = tx
        .prepare_cached("SELECT name FROM slots WHERE study = ? AND slot = ?")?
        .query_row(params![study.key.0, slot], |row| row.get(0))?;
    let is_taken = match used_by {
        Some(used_by) if used_by == key.0 => true,
        Some(_) => return Err(StoreError::TokenUsed.into()),
        None if now_ms(tx)? > expires_ms => return Err(StoreError::TokenExpired.into()),
        None => {
            check_free(tx, study.key, slot, key)?;
            false
        }
    };
    Ok((Enrolment { study, slot, agent }, is_taken))
}

/// Voids the unused tokens of a slot.
fn void_tokens(tx: &Transaction<'_>, study: StudyKey, slot: u32) -> Outcome<()> {
    let sql = "DELETE FROM tokens WHERE study = ? AND slot = ? AND used_by IS NULL";
    tx.execute(sql, params![study.0, slot])?;
    Ok(())
}

/// Checks that the key has no other slot in the study. An agent with two slots would count twice.
fn check_free(tx: &Transaction<'_>, study: StudyKey, slot: u32, key: &PublicKey) -> Outcome<()> {
    let taken: Option<u32> = tx
        .prepare_cached("SELECT slot FROM slots WHERE study = ? AND key = ? AND slot <> ?")?
        .query_row(params![study.0, key.0, slot], |row| row.get(0))
        .optional()?;
    match taken {
        None => Ok(()),
        Some(slot) => Err(StoreError::KeyTaken { slot }.into()),
    }
}

fn now_ms(tx: &Transaction<'_>) -> Outcome<u64> {
    let mut statement =
        tx.prepare_cached("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}
