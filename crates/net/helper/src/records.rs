//! Database records of a helper: joined studies, and the helper's shares of their rounds.

use fedbo_database::Failure;
use fedbo_party::{Database, HomeError, fixed};
use fedbo_wire::{Digest, PublicKey};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

/// A study that the helper has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StudyRecord {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) coordinator: PublicKey,
    pub(crate) config: String,
}

impl StudyRecord {
    pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Self>, Failure> {
        let sql = "SELECT id, name, url, coordinator, config FROM studies ORDER BY name";
        let mut statement = tx.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let coordinator: Vec<u8> = row.get(3)?;
            all.push(Self {
                id: row.get(0)?,
                name: row.get(1)?,
                url: row.get(2)?,
                coordinator: PublicKey(fixed(&coordinator, "a coordinator's key")?),
                config: row.get(4)?,
            });
        }
        Ok(all)
    }

    pub(crate) fn insert(&self, tx: &Transaction<'_>, now_ms: u64) -> Result<(), Failure> {
        let sql = "INSERT INTO studies (name, url, coordinator, config, joined_at_ms) VALUES (?, ?, ?, ?, ?)";
        tx.execute(sql, params![self.name, self.url, self.coordinator.0, self.config, now_ms])?;
        Ok(())
    }
}

/// The helper's share of a round.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ShareRecord {
    pub(crate) round: u64,
    /// Slots of the vectors in the share, ascending.
    pub(crate) slots: Vec<u32>,
    pub(crate) share: Vec<u8>,
    /// Number of the share's entry in the chain, once the share is charged.
    pub(crate) seq: Option<u64>,
    /// Digest of the leader's share, once the leader has revealed it.
    pub(crate) leader_share: Option<Digest>,
    /// Verdicts on the reports from these slots, kept until the leader reveals its share. Each
    /// verdict consists of the report's digest and the verifier message.
    pub(crate) verdicts: Vec<u8>,
}

impl ShareRecord {
    /// Returns the verifier message for the report with this digest, if its vector is in the share.
    pub(crate) fn verdict(&self, slot: u32, report: &Digest) -> Option<Vec<u8>> {
        let at = self.slots.binary_search(&slot).ok()?;
        let size = self.verdicts.len() / self.slots.len();
        let (named, message) = self.verdicts.chunks(size.max(1)).nth(at)?.split_first_chunk()?;
        (*named == report.0).then(|| message.to_vec())
    }
}

/// Access to the stored shares of one study.
pub(crate) struct Records {
    pub(crate) database: Database,
    pub(crate) study: i64,
}

const COLUMNS: &str = "round, slots, share, seq, leader_share, verdicts";

impl Records {
    fn read(row: &Row<'_>) -> Result<ShareRecord, Failure> {
        let slots: Vec<u8> = row.get(1)?;
        let leader_share: Option<Vec<u8>> = row.get(4)?;
        let digest = |bytes: Vec<u8>| fixed(&bytes, "a digest").map(Digest);
        Ok(ShareRecord {
            round: row.get(0)?,
            slots: slots.as_chunks().0.iter().map(|slot| u32::from_le_bytes(*slot)).collect(),
            share: row.get(2)?,
            seq: row.get(3)?,
            leader_share: leader_share.map(digest).transpose()?,
            verdicts: row.get::<_, Option<Vec<u8>>>(5)?.unwrap_or_default(),
        })
    }

    /// Returns the share of a round, whether charged or not.
    pub(crate) fn of_round(&self, round: u64) -> Result<Option<ShareRecord>, HomeError> {
        let sql = format!("SELECT {COLUMNS} FROM shares WHERE study = ? AND round = ?");
        self.database.read(|tx| {
            let read = |row: &Row<'_>| Ok(Self::read(row));
            tx.query_row(&sql, params![self.study, round], read).optional()?.transpose()
        })
    }

    /// Returns the charged shares with entry numbers above `after`, in order.
    pub(crate) fn charged(&self, after: u64) -> Result<Vec<ShareRecord>, HomeError> {
        let sql = format!("SELECT {COLUMNS} FROM shares WHERE study = ? AND seq > ? ORDER BY seq");
        self.database.read(|tx| {
            let mut statement = tx.prepare(&sql)?;
            let mut rows = statement.query(params![self.study, after])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(Self::read(row)?);
            }
            Ok(all)
        })
    }

    /// Returns true if the leader has revealed its share of a later round.
    pub(crate) fn is_shown_after(&self, round: u64) -> Result<bool, HomeError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM shares WHERE study = ? AND round > ? AND leader_share IS NOT NULL)";
        self.database
            .read(|tx| Ok(tx.query_row(sql, params![self.study, round], |row| row.get(0))?))
    }

    /// Stores a share before it is charged, replacing any uncharged share of the round.
    pub(crate) fn prepare(&self, share: &ShareRecord) -> Result<(), HomeError> {
        let slots: Vec<u8> = share.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        self.database.write(|tx| {
            let sql =
                "INSERT OR REPLACE INTO shares (study, round, slots, share, verdicts) VALUES (?, ?, ?, ?, ?)";
            tx.execute(sql, params![self.study, share.round, slots, share.share, share.verdicts])?;
            Ok(())
        })
    }

    /// Marks a share as charged, which allows its release.
    pub(crate) fn charge(&self, round: u64, seq: u64) -> Result<(), HomeError> {
        self.database.write(|tx| {
            let sql = "UPDATE shares SET seq = ? WHERE study = ? AND round = ?";
            tx.execute(sql, params![seq, self.study, round])?;
            Ok(())
        })
    }

    /// Stores the digest of the first share of a round that the leader reveals. Erases the
    /// verdicts, since the leader no longer needs them.
    pub(crate) fn reveal(&self, round: u64, leader_share: &Digest) -> Result<(), HomeError> {
        self.database.write(|tx| {
            let sql = "UPDATE shares SET leader_share = ?, verdicts = NULL WHERE study = ? AND round = ? AND leader_share IS NULL";
            tx.execute(sql, params![leader_share.0, self.study, round])?;
            Ok(())
        })
    }
}
