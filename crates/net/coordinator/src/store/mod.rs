//! The store of a coordinator: studies, their agents, and which round is being played.
//!
//! A store decides what is durable and in which order changes happen. Vectors do not outlive their round (INV-16): a
//! store that one process uses does not hold them, and the inbox of a store that replicas share holds them sealed.

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

pub use error::StoreError;
pub use fedbo_wire::StudyState;
pub use inbox::{Arrived, Posted, Posting};
pub use postgres::PostgresStore;
pub use seal::{Owner, Place, Seal, SealError};
pub use shards::{Opening, ShardId, ShardPart, ShardReport, ShardView};
pub use sqlite::SqliteStore;

/// The key of a study in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StudyKey(pub i64);

/// A study as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyRecord {
    /// Its key.
    pub key: StudyKey,
    /// Its name, unlike all others'.
    pub name: String,
    /// Its frozen public configuration (INV-11).
    pub config: String,
    /// Its state.
    pub state: StudyState,
    /// The round that is being played, or is played next.
    pub round: u64,
    /// The time at which that round began, by the store's clock, in milliseconds since 1970; none if it has not.
    pub began_ms: Option<u64>,
    /// The head of the ledger of its releases when the last of them left, as `SEQ:HASH`.
    pub head: Option<String>,
}

/// A slot of a study's roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// Its number.
    pub slot: u32,
    /// The agent's name.
    pub name: String,
    /// The key of the agent that enrolled for it.
    pub key: Option<PublicKey>,
    /// True if it may take part no more.
    pub is_revoked: bool,
}

/// The right to play a study's rounds, until the lease ends or somebody else takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The study.
    pub study: StudyKey,
    /// Larger than that of everybody who led before: checked inside every transaction that moves the study on (INV-15).
    pub token: i64,
}

/// The result of an enrolment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The study.
    pub study: StudyRecord,
    /// The slot.
    pub slot: u32,
    /// Its name.
    pub agent: String,
}

/// The transition from a round to the next.
#[derive(Clone, Copy, Debug)]
pub struct NextRound<'a> {
    /// The round that begins.
    pub round: u64,
    /// The time at which it begins, by the store's clock, in milliseconds since 1970.
    pub began_ms: u64,
    /// True if vectors are taken in it.
    pub collects: bool,
    /// The broadcast, in a relayed study.
    pub broadcast: Option<&'a [u8]>,
    /// True if the study ends with it.
    pub finishes: bool,
}

/// A release that nothing is charged for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeRelease {
    /// Its round.
    pub round: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The slots whose vectors are in a release, where a slot may be in so many only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants {
    /// The round of the release.
    pub round: u64,
    /// Ascending.
    pub slots: Vec<u32>,
    /// The digest of the release.
    pub release: Digest,
}

impl Participants {
    /// The slots as they are stored: four bytes each, the lowest first.
    fn to_bytes(&self) -> Vec<u8> {
        self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect()
    }

    /// As it was stored; `None` where the digest has another length.
    fn of(round: u64, slots: &[u8], release: &[u8]) -> Option<Self> {
        let (slots, _) = slots.as_chunks();
        let slots = slots.iter().map(|slot| u32::from_le_bytes(*slot)).collect();
        Some(Self { round, slots, release: Digest(release.try_into().ok()?) })
    }
}

/// The store of a coordinator's studies. Every call is one transaction, durable when it returns.
pub trait Store: Send + Sync + fmt::Debug {
    /// This store where replicas share it: it has an inbox in which they leave vectors for each other, and a place where shards meet.
    /// None where one process takes all vectors.
    fn shared(&self) -> Option<&PostgresStore> {
        None
    }

    /// The ledgers that are kept with the store; none where they are files of their own.
    fn ledgers(&self) -> Option<&Ledgers> {
        None
    }

    /// The store's clock, in milliseconds since 1970.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn now_ms(&self) -> Result<u64, StoreError>;

    /// Grows with every change of studies and slots that somebody else may have made: what was cached under another number is
    /// read again.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn generation(&self) -> Result<u64, StoreError>;

    /// Stores a new study with its roster, waiting for its agents.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; or if the store cannot be written.
    fn create_study(
        &self,
        name: &str,
        config: &str,
        roster: &[String],
    ) -> Result<StudyRecord, StoreError>;

    /// All studies, in the order of their creation.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn studies(&self) -> Result<Vec<StudyRecord>, StoreError>;

    /// One study.
    ///
    /// # Errors
    /// [`StoreError::NoStudy`]; or if the store cannot be read.
    fn study(&self, name: &str) -> Result<StudyRecord, StoreError>;

    /// Lets a study go on or stop: from `waiting` or `paused` to `running`, from `waiting` or `running` to `paused`. Asking for what
    /// is the case already is no mistake.
    ///
    /// # Errors
    /// [`StoreError::State`] for any other change; or if the store cannot be written.
    fn set_state(&self, study: StudyKey, to: StudyState) -> Result<(), StoreError>;

    /// A study's roster, by slot.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn slots(&self, study: StudyKey) -> Result<Vec<SlotRecord>, StoreError>;

    /// Keeps the public key of a token with which an agent may enrol for a slot until `expires_ms`; earlier tokens of the slot that
    /// were not used are void.
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

    /// Enrols the agent with this key by a token, once; the same key again gets the same answer. The agent says to which
    /// configuration it agrees. When the last slot of a waiting study is filled, the study begins to run.
    ///
    /// # Errors
    /// [`StoreError::TokenUnknown`], [`StoreError::OtherConfig`], [`StoreError::TokenExpired`], [`StoreError::TokenUsed`], [`StoreError::KeyTaken`]; or if the
    /// store cannot be written.
    fn enrol(
        &self,
        token: &PublicKey,
        config: &Digest,
        key: &PublicKey,
    ) -> Result<Enrolment, StoreError>;

    /// The slot that a key has, or had until it was replaced by another.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn slot_of(&self, study: StudyKey, key: &PublicKey) -> Result<Option<u32>, StoreError>;

    /// Replaces the key of a slot. Doing the same again is no mistake.
    ///
    /// # Errors
    /// [`StoreError::NoSlot`] if the slot is another key's, [`StoreError::KeyTaken`]; or if the store cannot be written.
    fn rotate(
        &self,
        study: StudyKey,
        slot: u32,
        old: &PublicKey,
        new: &PublicKey,
    ) -> Result<(), StoreError>;

    /// Lets a slot take part no more, and voids its tokens that were not used. It stays on the roster (INV-11): from now on it counts as
    /// zero.
    ///
    /// # Errors
    /// [`StoreError::NoSlot`]; or if the store cannot be written.
    fn revoke(&self, study: StudyKey, slot: u32) -> Result<(), StoreError>;

    /// Takes the lead of a study for `lease_ms`, unless another holds it.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn lead(
        &self,
        study: StudyKey,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<Lead>, StoreError>;

    /// Lengthens the lease; false if somebody else leads.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn renew(&self, lead: &Lead, lease_ms: u64) -> Result<bool, StoreError>;

    /// Lets go of the lead, if it is still held.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn resign(&self, lead: &Lead) -> Result<(), StoreError>;

    /// Moves a study on to its next round.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn begin_round(&self, lead: &Lead, next: NextRound<'_>) -> Result<(), StoreError>;

    /// Keeps where the ledger of a study ends, before a release leaves.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn note_head(&self, lead: &Lead, head: &str) -> Result<(), StoreError>;

    /// Keeps who is in the release of a round, before the release is made: in the place of what was kept of that round before.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn note_participants(&self, lead: &Lead, found: &Participants) -> Result<(), StoreError>;

    /// The participants of each release, by round.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn participants(&self, study: StudyKey) -> Result<Vec<Participants>, StoreError>;

    /// Keeps the hash to which the helper of a secure sum is bound in a round, before it is shown the coordinator's share.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; or if the store cannot be written.
    fn note_commitment(
        &self,
        lead: &Lead,
        round: u64,
        commitment: &Digest,
    ) -> Result<(), StoreError>;

    /// The hashes to which the helper is bound, by round.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn commitments(&self, study: StudyKey) -> Result<Vec<(u64, Digest)>, StoreError>;

    /// Returns the broadcast with which a round of a relayed study began, if there was one.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn broadcast(&self, study: StudyKey, round: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps a release that nothing is charged for.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if somebody else leads; [`StoreError::Released`] if the round has one; or if the store cannot be
    /// written.
    fn add_release(&self, lead: &Lead, release: &FreeRelease) -> Result<(), StoreError>;

    /// All releases that nothing is charged for, in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn free_releases(&self, study: StudyKey) -> Result<Vec<FreeRelease>, StoreError>;
}

/// Checks that the agent that takes a slot agrees to the configuration that the study has (INV-11).
fn agreed(study: &StudyRecord, config: &Digest) -> Result<(), StoreError> {
    match fedbo_wire::config_digest(study.config.as_bytes()) == *config {
        true => Ok(()),
        false => Err(StoreError::OtherConfig),
    }
}

/// Returns true if an operator may change a study's state like this.
fn may_become(from: StudyState, to: StudyState) -> bool {
    use StudyState::{Paused, Running, Waiting};
    matches!((from, to), (Waiting | Paused, Running) | (Waiting | Running, Paused))
}
