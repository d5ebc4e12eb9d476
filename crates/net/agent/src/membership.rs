//! Memberships: the studies of an agent, with their coordinators and frozen configurations.

use std::path::PathBuf;

use fedbo_config::FileError;
use fedbo_database::Failure;
use fedbo_federation::Federation;
use fedbo_party::fixed;
use fedbo_wire::{Digest, PublicKey, Signature};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

/// A study that an agent takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub(crate) id: i64,
    /// Name of the study.
    pub study: String,
    /// The coordinator's address.
    pub url: String,
    /// PEM file with certificates of an additional certificate authority.
    pub authority: Option<PathBuf>,
    /// The coordinator's key, from the enrolment token.
    pub coordinator: PublicKey,
    /// The agent's slot.
    pub slot: u32,
    /// The agent's name on the roster.
    pub agent: String,
    /// The text of the frozen configuration.
    pub config: String,
    /// The digest of the configuration.
    pub digest: Digest,
    /// The coordinator's signature of the configuration.
    pub signature: Signature,
    /// The key by which the coordinator knows the agent, as far as the agent can tell.
    pub key: PublicKey,
    /// Root seed of the agent's random draws, once it is drawn or given.
    pub(crate) seed: Option<u64>,
    /// The time of the coordinator's last response, in milliseconds since 1970.
    pub contact_at_ms: u64,
    /// True if the agent's plan is done or the study is over.
    pub finished: bool,
}

const COLUMNS: &str = "id, study, url, authority, coordinator, slot, agent, config, digest, signature, key, seed, \
                       contact_at_ms, finished";

impl Membership {
    /// Parses the frozen configuration.
    ///
    /// # Errors
    /// If this program cannot use the configuration, or the configuration contains more than data
    /// (INV-24).
    pub fn federation(&self) -> Result<Federation, FileError> {
        Federation::received(&self.config)
    }

    /// Returns all memberships, sorted by the name of the study.
    pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Self>, Failure> {
        let mut statement =
            tx.prepare(&format!("SELECT {COLUMNS} FROM memberships ORDER BY study"))?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(Self::read(row)?);
        }
        Ok(all)
    }

    pub(crate) fn named(tx: &Transaction<'_>, study: &str) -> Result<Option<Self>, Failure> {
        let sql = format!("SELECT {COLUMNS} FROM memberships WHERE study = ?");
        let mut statement = tx.prepare(&sql)?;
        let mut rows = statement.query([study])?;
        rows.next()?.map(Self::read).transpose()
    }

    fn read(row: &Row<'_>) -> Result<Self, Failure> {
        let bytes = |column: &str| row.get::<_, Vec<u8>>(column);
        let seed: Option<Vec<u8>> = row.get("seed")?;
        let seed = seed.map(|bytes| fixed(&bytes, "a seed")).transpose()?;
        let authority: Option<String> = row.get("authority")?;
        Ok(Self {
            id: row.get("id")?,
            study: row.get("study")?,
            url: row.get("url")?,
            authority: authority.map(PathBuf::from),
            coordinator: PublicKey(fixed(&bytes("coordinator")?, "a coordinator's key")?),
            slot: row.get("slot")?,
            agent: row.get("agent")?,
            config: row.get("config")?,
            digest: Digest(fixed(&bytes("digest")?, "a digest")?),
            signature: Signature(fixed(&bytes("signature")?, "a signature")?),
            key: PublicKey(fixed(&bytes("key")?, "a key")?),
            seed: seed.map(u64::from_le_bytes),
            contact_at_ms: row.get("contact_at_ms")?,
            finished: row.get("finished")?,
        })
    }

    /// Inserts the membership. Its `id` is ignored.
    pub(crate) fn insert(&self, tx: &Transaction<'_>) -> Result<(), Failure> {
        let authority = self.authority.as_ref().and_then(|path| path.to_str());
        tx.execute(
            "INSERT INTO memberships (study, url, authority, coordinator, slot, agent, config, digest, signature, key,
                 enrolled_at_ms, contact_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                self.study,
                self.url,
                authority,
                self.coordinator.0,
                self.slot,
                self.agent,
                self.config,
                self.digest.0,
                self.signature.0,
                self.key.0,
                self.contact_at_ms,
                self.contact_at_ms
            ],
        )?;
        Ok(())
    }

    /// Stores the coordinator's new address and its certificates.
    pub(crate) fn move_to(&self, tx: &Transaction<'_>, moved: &Self) -> Result<(), Failure> {
        let authority = moved.authority.as_ref().and_then(|path| path.to_str());
        tx.execute(
            "UPDATE memberships SET url = ?, authority = ? WHERE id = ?",
            params![moved.url, authority, self.id],
        )?;
        Ok(())
    }

    /// Records that the coordinator knows the agent by this key.
    pub(crate) fn known_by(
        &self,
        tx: &Transaction<'_>,
        key: PublicKey,
        now_ms: u64,
    ) -> Result<(), Failure> {
        tx.execute(
            "UPDATE memberships SET key = ?, contact_at_ms = ? WHERE id = ?",
            params![key.0, now_ms, self.id],
        )?;
        Ok(())
    }

    pub(crate) fn touch(&self, tx: &Transaction<'_>, now_ms: u64) -> Result<(), Failure> {
        let sql = "UPDATE memberships SET contact_at_ms = ? WHERE id = ?";
        tx.execute(sql, params![now_ms, self.id])?;
        Ok(())
    }

    /// Increments and returns the request counter, so that it is stored before the request is sent.
    /// Also stores the largest counter with a response.
    pub(crate) fn count(&self, tx: &Transaction<'_>, answered: u64) -> Result<u64, Failure> {
        let sql = "UPDATE memberships SET counter = counter + 1, answered = max(answered, ?) WHERE id = ? RETURNING counter";
        Ok(tx.query_row(sql, params![answered, self.id], |row| row.get(0))?)
    }

    /// Returns the counter of the last request, and the largest counter with a response.
    pub(crate) fn counters(&self, tx: &Transaction<'_>) -> Result<(u64, u64), Failure> {
        let sql = "SELECT counter, answered FROM memberships WHERE id = ?";
        Ok(tx.query_row(sql, [self.id], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// Records the counter of a request that the coordinator has seen.
    pub(crate) fn note_answered(&self, tx: &Transaction<'_>, known: u64) -> Result<(), Failure> {
        let sql = "UPDATE memberships SET answered = ?1 WHERE id = ?2 AND answered < ?1";
        tx.execute(sql, params![known, self.id])?;
        Ok(())
    }

    /// Advances the counters to a request that the coordinator has seen and that may be missing
    /// from this home.
    pub(crate) fn set_forward(&self, tx: &Transaction<'_>, known: u64) -> Result<(), Failure> {
        let sql = "UPDATE memberships SET counter = max(counter, ?1), answered = max(answered, ?1) WHERE id = ?2";
        tx.execute(sql, params![known, self.id])?;
        Ok(())
    }

    pub(crate) fn finish(&self, tx: &Transaction<'_>) -> Result<(), Failure> {
        let sql = "UPDATE memberships SET finished = 1 WHERE id = ?";
        tx.execute(sql, [self.id])?;
        Ok(())
    }

    /// Returns the stored root seed of the agent's random draws. If there is none, stores and
    /// returns `fresh`.
    pub(crate) fn settle_seed(&self, tx: &Transaction<'_>, fresh: u64) -> Result<u64, Failure> {
        let sql = "SELECT seed FROM memberships WHERE id = ? AND seed IS NOT NULL";
        let kept: Option<Vec<u8>> = tx.query_row(sql, [self.id], |row| row.get(0)).optional()?;
        if let Some(bytes) = kept {
            return Ok(u64::from_le_bytes(fixed(&bytes, "a seed")?));
        }
        let sql = "UPDATE memberships SET seed = ? WHERE id = ?";
        tx.execute(sql, params![fresh.to_le_bytes(), self.id])?;
        Ok(fresh)
    }
}
