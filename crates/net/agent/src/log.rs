//! The log of an agent's handouts and uploads in a study, by round. It is sufficient for a full
//! replay.

use fedbo_database::Failure;
use fedbo_ledger::Head;
use fedbo_party::{Database, HomeError, fixed};
use fedbo_wire::{Digest, digest};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::Membership;

/// A logged handout.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TakenHandout {
    /// Number of finished trials after which the machine acts on the handout.
    pub(crate) n_told: u64,
    /// The signed bytes.
    pub(crate) bytes: Vec<u8>,
}

/// A logged upload.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MadeUpload {
    /// The encoded upload. Erased once it is no longer needed, because a vector must not outlive
    /// its use (INV-26).
    pub(crate) bytes: Vec<u8>,
    /// Digest of the erased bytes.
    hash: Option<Digest>,
    pub(crate) state: UploadState,
}

impl MadeUpload {
    /// Returns true if the upload has, or had before the erasure, these bytes.
    pub(crate) fn is_of(&self, bytes: &[u8]) -> bool {
        match self.hash {
            Some(hash) => hash == hash_of(bytes),
            None => self.bytes == bytes,
        }
    }
}

/// Returns the digest that replaces the bytes of an upload after they are erased.
fn hash_of(bytes: &[u8]) -> Digest {
    digest("fedbo kept upload, version 1", &[bytes])
}

/// The state of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadState {
    /// Not sent yet, or sent without a response so far.
    Pending,
    /// The coordinator has the upload.
    Acknowledged,
    /// The upload arrived too late, or was not collected.
    Missed,
    /// The agent's budget did not allow the upload, so it was never sent.
    Withheld,
}

impl UploadState {
    const ALL: [Self; 4] = [Self::Pending, Self::Acknowledged, Self::Missed, Self::Withheld];

    /// The name in the database; must never change.
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Acknowledged => "acknowledged",
            Self::Missed => "missed",
            Self::Withheld => "withheld",
        }
    }

    fn by_name(name: &str) -> Result<Self, Failure> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| state.name() == name).ok_or_else(|| {
            Failure::Contradiction(format!("an upload has the unknown state {name:?}"))
        })
    }
}

/// Counts of a membership's uploads, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadCounts {
    /// Uploads that the coordinator has.
    pub acknowledged: u64,
    /// Uploads that arrived too late or were not collected.
    pub missed: u64,
    /// Uploads that the agent's budget did not allow.
    pub withheld: u64,
}

/// The log of one membership.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) database: &'a Database,
    pub(crate) membership: &'a Membership,
}

impl Log<'_> {
    /// Returns the first handout after this round, or the very first if `round` is `None`.
    pub(crate) fn handout_after(
        &self,
        round: Option<u64>,
    ) -> Result<Option<TakenHandout>, HomeError> {
        let after = round.map_or(-1, |round| i64::try_from(round).unwrap_or(i64::MAX));
        let sql = "SELECT n_told, bytes FROM handouts WHERE membership = ? AND round > ? ORDER BY round LIMIT 1";
        self.database.read(|tx| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok(TakenHandout { n_told: row.get(0)?, bytes: row.get(1)? })
            };
            let found = tx.query_row(sql, params![self.membership.id, after], read);
            Ok(found.optional()?)
        })
    }

    /// Stores a handout, and erases vectors that are no longer needed.
    pub(crate) fn take(
        &self,
        round: u64,
        taken: &TakenHandout,
        head: &Head,
        now_ms: u64,
    ) -> Result<(), HomeError> {
        let sql = "INSERT INTO handouts (membership, round, n_told, bytes, head, taken_at_ms) VALUES (?, ?, ?, ?, ?, ?)";
        self.database.write(|tx| {
            let id = self.membership.id;
            let head = head.to_string();
            tx.execute(sql, params![id, round, taken.n_told, taken.bytes, head, now_ms])?;
            forget(tx, USED)?;
            self.membership.touch(tx, now_ms)
        })?;
        self.database.shrink_log();
        Ok(())
    }

    /// Erases all vectors of the study, including the current round's, because nothing more is
    /// sent.
    pub(crate) fn forget_all(&self) -> Result<(), HomeError> {
        let all = format!("membership = {}", self.membership.id);
        forgotten(self.database, &all)
    }

    /// Returns the upload that was made for a round, if there is one.
    pub(crate) fn upload(&self, round: u64) -> Result<Option<MadeUpload>, HomeError> {
        self.database.read(|tx| upload(tx, self.membership.id, round))
    }

    /// Stores the upload that was made for a round.
    pub(crate) fn make(&self, made: &NewUpload<'_>, state: UploadState) -> Result<(), HomeError> {
        self.database.write(|tx| insert_upload(tx, self.membership.id, made, state))
    }

    /// Returns the number of uploads that were made, and the largest number of finished trials at
    /// any of them.
    pub(crate) fn n_made(&self) -> Result<(u64, Option<u64>), HomeError> {
        let sql = "SELECT count(*), max(n_told) FROM uploads WHERE membership = ?";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.database.read(|tx| Ok(tx.query_row(sql, [self.membership.id], read)?))
    }

    /// Returns the last round with an upload, and the last round with a pending upload.
    pub(crate) fn last_made(&self) -> Result<(Option<u64>, Option<u64>), HomeError> {
        let sql = "SELECT max(round), max(round) FILTER (WHERE state = 'pending') FROM uploads WHERE membership = ?";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        self.database.read(|tx| Ok(tx.query_row(sql, [self.membership.id], read)?))
    }

    /// Stores the outcome of an upload.
    pub(crate) fn end(&self, round: u64, state: UploadState, now_ms: u64) -> Result<(), HomeError> {
        let sql = "UPDATE uploads SET state = ? WHERE membership = ? AND round = ?";
        self.database.write(|tx| {
            tx.execute(sql, params![state.name(), self.membership.id, round])?;
            self.membership.touch(tx, now_ms)
        })
    }

    /// Returns the last round with an acknowledged upload.
    pub(crate) fn last_delivered(&self) -> Result<Option<u64>, HomeError> {
        let sql = "SELECT max(round) FROM uploads WHERE membership = ? AND state = 'acknowledged'";
        self.database.read(|tx| Ok(tx.query_row(sql, [self.membership.id], |row| row.get(0))?))
    }

    /// Returns the ledger's head after the newest handout.
    pub(crate) fn head(&self) -> Result<Option<Head>, HomeError> {
        let sql = "SELECT head FROM handouts WHERE membership = ? ORDER BY round DESC LIMIT 1";
        self.database.read(|tx| {
            let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            let found = tx.query_row(sql, [self.membership.id], read).optional()?;
            let parse = |text: String| {
                text.parse().map_err(|error| {
                    Failure::Contradiction(format!(
                        "the ledger of a handout ends at {text:?}: {error}"
                    ))
                })
            };
            found.map(parse).transpose()
        })
    }

    /// Returns the newest round that has begun, and the counts of uploads by outcome.
    pub(crate) fn progress(&self) -> Result<(Option<u64>, UploadCounts), HomeError> {
        let id = self.membership.id;
        self.database.read(|tx| {
            let sql = "SELECT max(round) FROM handouts WHERE membership = ?";
            let round = tx.query_row(sql, [id], |row| row.get(0))?;
            let count = |state: UploadState| -> Result<u64, Failure> {
                let sql = "SELECT count(*) FROM uploads WHERE membership = ? AND state = ?";
                Ok(tx.query_row(sql, params![id, state.name()], |row| row.get(0))?)
            };
            let counts = UploadCounts {
                acknowledged: count(UploadState::Acknowledged)?,
                missed: count(UploadState::Missed)?,
                withheld: count(UploadState::Withheld)?,
            };
            Ok((round, counts))
        })
    }
}

fn upload(tx: &Transaction<'_>, id: i64, round: u64) -> Result<Option<MadeUpload>, Failure> {
    let sql = "SELECT bytes, hash, state FROM uploads WHERE membership = ? AND round = ?";
    let read = |row: &rusqlite::Row<'_>| {
        let hash: Option<Vec<u8>> = row.get(1)?;
        Ok((row.get(0)?, hash, row.get::<_, String>(2)?))
    };
    let found = tx.query_row(sql, params![id, round], read).optional()?;
    found
        .map(|(bytes, hash, state)| {
            let hash = hash.map(|hash| fixed(&hash, "an upload's hash")).transpose()?;
            Ok(MadeUpload { bytes, hash: hash.map(Digest), state: UploadState::by_name(&state)? })
        })
        .transpose()
}

/// SQL condition for uploads that are no longer needed, because they will not be sent, a later
/// round has begun, or their study is over.
const USED: &str = "state IN ('missed', 'withheld')
     OR round < (SELECT max(round) FROM handouts WHERE handouts.membership = uploads.membership)
     OR (SELECT finished FROM memberships WHERE id = uploads.membership)";

/// Erases the vectors that are no longer needed, in all studies of the home.
pub(crate) fn forget_used(database: &Database) -> Result<(), HomeError> {
    forgotten(database, USED)
}

fn forgotten(database: &Database, which: &str) -> Result<(), HomeError> {
    database.write(|tx| forget(tx, which))?;
    database.shrink_log();
    Ok(())
}

/// Replaces each vector of these uploads by its hash.
fn forget(tx: &Transaction<'_>, which: &str) -> Result<(), Failure> {
    let sql =
        format!("SELECT membership, round, bytes FROM uploads WHERE hash IS NULL AND ({which})");
    let mut statement = tx.prepare(&sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let bytes: Vec<u8> = row.get(2)?;
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, hash_of(&bytes)))
    };
    let found: Vec<_> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    let sql = "UPDATE uploads SET hash = ?, bytes = x'' WHERE membership = ? AND round = ?";
    for (id, round, hash) in found {
        tx.execute(sql, params![hash.0, id, round])?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
pub(crate) struct NewUpload<'a> {
    pub(crate) round: u64,
    pub(crate) bytes: &'a [u8],
    /// Number of finished trials when the upload was made.
    pub(crate) n_told: u64,
    pub(crate) now_ms: u64,
}

pub(crate) fn insert_upload(
    tx: &Transaction<'_>,
    id: i64,
    made: &NewUpload<'_>,
    state: UploadState,
) -> Result<(), Failure> {
    let NewUpload { round, bytes, n_told, now_ms } = *made;
    // The bytes of an upload that is never sent are not stored.
    let (bytes, hash) = match state {
        UploadState::Missed | UploadState::Withheld => (&[][..], Some(hash_of(bytes).0)),
        UploadState::Pending | UploadState::Acknowledged => (bytes, None),
    };
    let sql = "INSERT INTO uploads (membership, round, bytes, hash, state, made_at_ms, n_told) VALUES (?, ?, ?, ?, ?, ?, ?)";
    tx.execute(sql, params![id, round, bytes, hash, state.name(), now_ms, n_told])?;
    Ok(())
}
