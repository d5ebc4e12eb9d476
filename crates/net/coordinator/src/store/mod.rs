//! A coordinator's store: studies, their agents and their current rounds.
//!
//! A store defines which data is durable, and the order of changes. Vectors do not outlive their
//! round (INV-16): a store for a single process does not hold them, and the inbox of a store shared
//! by replicas holds them sealed.

mod counters;
mod error;
mod inbox;
mod postgres;
mod schema;
mod seal;
mod shards;
mod sqlite;

use std::fmt;

use fedbo_ledger::Ledgers;
use fedbo_wire::{Digest, PublicKey};

pub use counters::{Counted, CountedRequest, SlotCounter};
pub use error::StoreError;
pub use fedbo_wire::StudyState;
pub use inbox::{Arrived, Posted, Posting};
pub use postgres::PostgresStore;
pub use seal::{Owner, Place, Seal, SealError};
pub use shards::{Opening, ShardId, ShardPart, ShardReport, ShardView};
pub use sqlite::SqliteStore;

/// Key of a study in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StudyKey(pub i64);

/// A stored study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyRecord {
    /// Key of the study.
    pub key: StudyKey,
    /// Unique name of the study.
    pub name: String,
    /// Frozen public configuration (INV-11).
    pub config: String,
    /// State of the study.
    pub state: StudyState,
    /// Current round, or the next one to run.
    pub round: u64,
    /// Start of `round` by the store's clock, in milliseconds since 1970. `None` if the round has
    /// not begun.
    pub began_ms: Option<u64>,
    /// Last recorded head of the ledger, as `SEQ:HASH`.
    pub head: Option<String>,
}

/// A slot of a study's roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Number of the slot.
    pub slot: u32,
    /// Name of the agent.
    pub name: String,
    /// Key of the enrolled agent.
    pub key: Option<PublicKey>,
    /// True if the slot can no longer participate.
    pub is_revoked: bool,
}

/// The right to run a study's rounds, until the lease ends or another coordinator takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The study.
    pub study: StudyKey,
    /// Fencing token, larger than those of all earlier leaders. Every transaction that advances the
    /// study checks the token (INV-15).
    pub token: i64,
}

/// A slot that was or can be claimed with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The study.
    pub study: StudyRecord,
    /// The slot.
    pub slot: u32,
    /// Name of the agent.
    pub agent: String,
}

/// The transition to the next round.
#[derive(Clone, Copy, Debug)]
pub struct NextRound<'a> {
    /// The round that begins.
    pub round: u64,
    /// Start of the round by the store's clock, in milliseconds since 1970.
    pub began_ms: u64,
    /// True if the round collects vectors.
    pub collects: bool,
    /// Broadcast, in a relayed study.
    pub broadcast: Option<&'a [u8]>,
    /// True if the study ends with this transition.
    pub finishes: bool,
}

/// A release without a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRelease {
    /// Round of the release.
    pub round: u64,
    /// Bytes of the release.
    pub bytes: Vec<u8>,
}

/// Slots whose vectors are in a release. Stored if the release is charged or the study runs at a
/// free pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants {
    /// The round of the release.
    pub round: u64,
    /// Slots in ascending order.
    pub slots: Vec<u32>,
    /// Digest of the release.
    pub release: Digest,
}

impl Participants {
    /// Encodes the slots for the store: four bytes each, little-endian.
    fn to_bytes(&self) -> Vec<u8> {
        self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect()
    }

    /// Decodes a stored record. Returns `None` if the digest has the wrong length.
    fn of(round: u64, slots: &[u8], release: &[u8]) -> Option<Self> {
        let (slots, _) = slots.as_chunks();
        let slots = slots.iter().map(|slot| u32::from_le_bytes(*slot)).collect();
        Some(Self { round, slots, release: Digest(release.try_into().ok()?) })
    }
}

/// Store of a coordinator's studies. Each call is one transaction, which is durable when the call
/// returns.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns this store if replicas share it. A shared store has an inbox for vectors in transit
    /// between replicas, and a table for reports of shards.
    ///
    /// Returns `None` if a single process receives all vectors.
    fn shared(&self) -> Option<&PostgresStore> {
        None
    }

    /// Returns the ledgers in the store, or `None` if ledgers are separate files.
    fn ledgers(&self) -> Option<&Ledgers> {
        None
    }

    /// Returns the current time by the store's clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn now_ms(&self) -> Result<u64, StoreError>;

    /// Returns a number that increases with every change to studies or slots, including changes by
    /// other processes. Data that was cached under a different number is stale.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn generation(&self) -> Result<u64, StoreError>;

    /// Stores a new study with its roster, in state `waiting`.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; or if the store cannot be written.
    fn create_study(
        &self,
        name: &str,
        config: &str,
        roster: &[String],
    ) -> Result<StudyRecord, StoreError>;

    /// Returns all studies in creation order.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn studies(&self) -> Result<Vec<StudyRecord>, StoreError>;

    /// Returns the study with this name.
    ///
    /// # Errors
    /// [`StoreError::NoStudy`]; or if the store cannot be read.
    fn study(&self, name: &str) -> Result<StudyRecord, StoreError>;

    /// Starts, resumes or pauses a study: from `waiting` or `paused` to `running`, or from
    /// `waiting` or `running` to `paused`. Setting the current state again is not an error.
    ///
    /// # Errors
    /// [`StoreError::State`] for any other change; or if the store cannot be written.
    fn set_state(&self, study: StudyKey, to: StudyState) -> Result<(), StoreError>;

    /// Returns a study's roster, ordered by slot.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn slots(&self, study: StudyKey) -> Result<Vec<SlotRecord>, StoreError>;

    /// Stores the public key of an enrolment token for a slot, valid until `expires_ms`. Voids
    /// unused earlier tokens of the slot.
    ///
    /// # Errors
    /// [`StoreError::NoSlot`]; or if the store cannot be written.
    fn add_token(
        &self,
        study: StudyKey,
        slot: u32,
        token: &PublicKey,
        expires_ms: u64,
    ) -> Result<(), StoreError>;

    /// Returns the slot that the agent with this key can claim with a token, and the slot's study.
    /// Does not consume the token.
    ///
    /// # Errors
    /// As for [`Store::enrol`].
    fn offer(
        &self,
        token: &PublicKey,
        config: &Digest,
        key: &PublicKey,
    ) -> Result<Enrolment, StoreError>;

    /// Claims the token's slot for the agent with this key, using up the token. A repeated call
    /// with the same key returns the same result.
    ///
    /// `config` is the digest of the configuration that the agent accepts. When the last slot of a
    /// waiting study is filled, the study starts.
    ///
    /// # Errors
    /// [`StoreError::TokenUnknown`], [`StoreError::OtherConfig`], [`StoreError::TokenExpired`],
    /// [`StoreError::TokenUsed`], [`StoreError::KeyTaken`]; or if the store cannot be written.
    fn enrol(
        &self,
        token: &PublicKey,
        config: &Digest,
        key: &PublicKey,
    ) -> Result<Enrolment, StoreError>;

    /// Returns the slot whose current or previous key this is, unless the slot is revoked.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn slot_of(&self, study: StudyKey, key: &PublicKey) -> Result<Option<u32>, StoreError>;

    /// Replaces the key of a slot. Idempotent.
    ///
    /// # Errors
    /// [`StoreError::NoSlot`] if the slot has a different key or is revoked,
    /// [`StoreError::KeyTaken`]; or if the store cannot be written.
    fn rotate(
        &self,
        study: StudyKey,
        slot: u32,
        old: &PublicKey,
        new: &PublicKey,
    ) -> Result<(), StoreError>;

    /// Revokes a slot and voids its unused tokens. The slot stays on the roster (INV-11) and counts
    /// as zero from then on.
    ///
    /// # Errors
    /// [`StoreError::NoSlot`]; or if the store cannot be written.
    fn revoke(&self, study: StudyKey, slot: u32) -> Result<(), StoreError>;

    /// Acquires leadership of a study for `lease_ms`. Returns `None` if another coordinator leads.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn lead(
        &self,
        study: StudyKey,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<Lead>, StoreError>;

    /// Extends the lease. Returns false if another coordinator leads.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn renew(&self, lead: &Lead, lease_ms: u64) -> Result<bool, StoreError>;

    /// Resigns leadership, if it is still held.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn resign(&self, lead: &Lead) -> Result<(), StoreError>;

    /// Advances a study to its next round.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    fn begin_round(&self, lead: &Lead, next: NextRound<'_>) -> Result<(), StoreError>;

    /// Records the head of a study's ledger, before a release is published.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    fn note_head(&self, lead: &Lead, head: &str) -> Result<(), StoreError>;

    /// Records the participants of a round's release, before the release is committed. Replaces an
    /// earlier record of the round.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    fn note_participants(&self, lead: &Lead, found: &Participants) -> Result<(), StoreError>;

    /// Returns the participants of each release from round `from` on, ordered by round.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn participants(&self, study: StudyKey, from: u64) -> Result<Vec<Participants>, StoreError>;

    /// Checks and records the counters of requests, in order. Accepted counters are durable when
    /// this returns (INV-28).
    ///
    /// # Errors
    /// If the store cannot be written. No counter is recorded then.
    fn count(&self, requests: &[CountedRequest]) -> Result<Vec<Counted>, StoreError>;

    /// Returns the counter of a slot.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn counter(&self, study: StudyKey, slot: u32) -> Result<SlotCounter, StoreError>;

    /// Records the helper's commitment for a round of a secure sum, before the helper sees the
    /// coordinator's share.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; or if the store cannot be written.
    fn note_commitment(
        &self,
        lead: &Lead,
        round: u64,
        commitment: &Digest,
    ) -> Result<(), StoreError>;

    /// Returns the helper's commitments, ordered by round.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn commitments(&self, study: StudyKey) -> Result<Vec<(u64, Digest)>, StoreError>;

    /// Returns the broadcast at the start of a round of a relayed study, if there was one.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn broadcast(&self, study: StudyKey, round: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores a release without a charge.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another coordinator leads; [`StoreError::Released`] if the
    /// round has a release; or if the store cannot be written.
    fn add_release(&self, lead: &Lead, release: &FreeRelease) -> Result<(), StoreError>;

    /// Returns all releases without a charge, in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn free_releases(&self, study: StudyKey) -> Result<Vec<FreeRelease>, StoreError>;
}

/// Checks that an agent claiming a slot agrees to the study's configuration (INV-11).
fn agreed(study: &StudyRecord, config: &Digest) -> Result<(), StoreError> {
    match fedbo_wire::config_digest(study.config.as_bytes()) == *config {
        true => Ok(()),
        false => Err(StoreError::OtherConfig),
    }
}

/// Returns true if an operator may make this state transition.
fn may_become(from: StudyState, to: StudyState) -> bool {
    use StudyState::{Paused, Running, Waiting};
    matches!((from, to), (Waiting | Paused, Running) | (Waiting | Running, Paused))
}
