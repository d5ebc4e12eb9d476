//! The records of a helper: studies, and its shares of their rounds.

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
    /// The slots whose vectors are in it, ascending.
    pub(crate) slots: Vec<u32>,
    pub(crate) share: Vec<u8>,
    /// Its number in the chain, once it is charged.
    pub(crate) seq: Option<u64>,
    /// Digest of the leader's share, once that was shown.
    pub(crate) leader_share: Option<Digest>,
}

/// The shares of one study.
pub(crate) struct Records {
    pub(crate) database: Database,
    pub(crate) study: i64,
}

const COLUMNS: &str = "round, slots, share, seq, leader_share";

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
        })
    }

    /// The share of a round, charged or not.
    pub(crate) fn of_round(&self, round: u64) -> Result<Option<ShareRecord>, HomeError> {
        let sql = format!("SELECT {COLUMNS} FROM shares WHERE study = ? AND round = ?");
        self.database.read(|tx| {
            let read = |row: &Row<'_>| Ok(Self::read(row));
            tx.query_row(&sql, params![self.study, round], read).optional()?.transpose()
        })
    }

    /// The charged shares after number `after`, in order.
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

    /// Returns true if the leader has shown its share of a later round.
    pub(crate) fn is_shown_after(&self, round: u64) -> Result<bool, HomeError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM shares WHERE study = ? AND round > ? AND leader_share IS NOT NULL)";
        self.database
            .read(|tx| Ok(tx.query_row(sql, params![self.study, round], |row| row.get(0))?))
    }

    /// Keeps a share that is about to be charged, in the place of one that was not.
    pub(crate) fn prepare(&self, share: &ShareRecord) -> Result<(), HomeError> {
        let slots: Vec<u8> = share.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        self.database.write(|tx| {
            let sql =
                "INSERT OR REPLACE INTO shares (study, round, slots, share) VALUES (?, ?, ?, ?)";
            tx.execute(sql, params![self.study, share.round, slots, share.share])?;
            Ok(())
        })
    }

    /// Notes that a share is charged: from now on it may be given away.
    pub(crate) fn charge(&self, round: u64, seq: u64) -> Result<(), HomeError> {
        self.database.write(|tx| {
            let sql = "UPDATE shares SET seq = ? WHERE study = ? AND round = ?";
            tx.execute(sql, params![seq, self.study, round])?;
            Ok(())
        })
    }

    /// Notes the leader's share of a round, the first that it shows.
    pub(crate) fn reveal(&self, round: u64, leader_share: &Digest) -> Result<(), HomeError> {
        self.database.write(|tx| {
            let sql = "UPDATE shares SET leader_share = ? WHERE study = ? AND round = ? AND leader_share IS NULL";
            tx.execute(sql, params![leader_share.0, self.study, round])?;
            Ok(())
        })
    }
}
