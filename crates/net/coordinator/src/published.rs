//! Snapshot of a study's public state, the only state visible to polls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use fedbo_ledger::Head;
use fedbo_protocol::Broadcast;
use fedbo_wire::{
    Content, Handout, HelperEntry, LedgerEntry, LedgerHead, RelayedMessage, RoundKey, SigningKey,
    StudyState,
};

use crate::store::StudyRecord;
use crate::study::Study;

/// Maximum number of entries in a cached handout. Larger handouts are signed for each request,
/// since few agents are more than this many rounds behind.
const CACHED_MAX: usize = 4;

/// Start of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// Start time by the store's clock.
    began_ms: u64,
    /// Elapsed time of the round at `noted_at`.
    elapsed_ms: u64,
    noted_at: Instant,
}

type Encoded = HashMap<(usize, usize), Arc<[u8]>>;

/// Snapshot of a study's public state. All of it is public, or durable and released (INV-1, INV-4).
pub(crate) struct Published {
    pub(crate) state: StudyState,
    /// True once earlier releases are loaded. No handout is sent before that.
    pub(crate) is_ready: bool,
    /// Current round.
    pub(crate) round: u64,
    /// Start of the round. `None` before the first round and while a round is about to restart.
    pub(crate) began: Option<Began>,
    pub(crate) collects: bool,
    /// True while the round of a secure sum waits for the helper. No handout for it is sent, so no
    /// agent charges for it (INV-30).
    pub(crate) is_held: bool,
    /// The helper's key for the round. `None` if the helper has closed the round, or the round does
    /// not collect.
    pub(crate) round_key: Option<RoundKey>,
    /// Head of the release chain.
    pub(crate) head: Head,
    /// All releases, in order.
    pub(crate) entries: Vec<Arc<LedgerEntry>>,
    /// The helper's ledger entries for past rounds, in a secure sum.
    pub(crate) helper: Vec<Arc<HelperEntry>>,
    /// Newest broadcast of a relayed study.
    pub(crate) broadcast: Option<Arc<Broadcast>>,
    /// Reason for a stall, as a message for the operator.
    pub(crate) error: Option<String>,
    /// True if the service is shutting down.
    pub(crate) closes: bool,
    /// Signed handouts, by the number of releases and helper entries in them.
    encoded: Mutex<Encoded>,
    /// Signed handout of the newest broadcast.
    newest: OnceLock<Arc<[u8]>>,
}

impl Published {
    /// Returns the initial state.
    pub(crate) fn new(study: &Study, state: StudyState, round: u64) -> Self {
        Self {
            state,
            is_ready: false,
            round,
            began: None,
            collects: false,
            is_held: false,
            round_key: None,
            head: study.genesis(),
            entries: Vec::new(),
            helper: Vec::new(),
            broadcast: None,
            error: None,
            closes: false,
            encoded: Mutex::default(),
            newest: OnceLock::new(),
        }
    }

    /// Returns a copy to modify, with empty caches.
    pub(crate) fn next(&self) -> Self {
        Self {
            state: self.state,
            is_ready: self.is_ready,
            round: self.round,
            began: self.began,
            collects: self.collects,
            is_held: self.is_held,
            round_key: self.round_key,
            head: self.head,
            entries: self.entries.clone(),
            helper: self.helper.clone(),
            broadcast: self.broadcast.clone(),
            error: self.error.clone(),
            closes: self.closes,
            encoded: Mutex::default(),
            newest: OnceLock::new(),
        }
    }

    /// Records the start of the round and the current time, both by the store's clock.
    pub(crate) fn begun(&mut self, began_ms: u64, now_ms: u64) {
        self.began = Some(Began {
            began_ms,
            elapsed_ms: now_ms.saturating_sub(began_ms),
            noted_at: Instant::now(),
        });
    }

    /// Returns the elapsed time of the round in milliseconds.
    pub(crate) fn elapsed_ms(&self) -> Option<u64> {
        let began = self.began?;
        let since = u64::try_from(began.noted_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(began.elapsed_ms.saturating_add(since))
    }

    /// Returns true if this state matches the store's record of the round.
    pub(crate) fn shows(&self, record: &StudyRecord) -> bool {
        let began_ms = self.began.map(|began| began.began_ms);
        self.is_ready && self.round == record.round && began_ms == record.began_ms
    }

    /// Returns the handout for an agent that has `known` releases and `known_helper` helper
    /// entries.
    ///
    /// The handout is identical for all agents with these counts, so it is signed once. If an agent
    /// has more releases than the ledger, the agent detects from the head that the ledger was
    /// rolled back.
    pub(crate) fn releases_after(
        &self,
        (known, known_helper): (u64, u64),
        study: &Study,
        key: &SigningKey,
    ) -> Arc<[u8]> {
        let after = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let new = self.entries.get(after(known)..).unwrap_or_default();
        let helper = self.helper.get(after(known_helper)..).unwrap_or_default();
        let encode = || -> Arc<[u8]> {
            let entries = new.iter().map(|entry| LedgerEntry::clone(entry)).collect();
            let content = match &study.sum {
                None => Content::Releases(entries),
                Some(_) => Content::Shares {
                    leader: entries,
                    helper: helper.iter().map(|entry| HelperEntry::clone(entry)).collect(),
                    key: self.round_key,
                },
            };
            self.handout(study, content).to_bytes(key).into()
        };
        if new.len().max(helper.len()) > CACHED_MAX {
            return encode();
        }
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(encoded.entry((new.len(), helper.len())).or_insert_with(encode))
    }

    /// Returns the handout of the newest broadcast.
    ///
    /// The handout is identical for all agents that have begun the previous round, so it is signed
    /// once.
    pub(crate) fn newest_messages(
        &self,
        last: &Broadcast,
        study: &Study,
        key: &SigningKey,
    ) -> Arc<[u8]> {
        Arc::clone(self.newest.get_or_init(|| self.messages(last.clone(), study, key).into()))
    }

    /// Returns a handout with these messages.
    pub(crate) fn messages(
        &self,
        broadcast: Broadcast,
        study: &Study,
        key: &SigningKey,
    ) -> Vec<u8> {
        self.handout(study, content(broadcast)).to_bytes(key)
    }

    fn handout(&self, study: &Study, content: Content) -> Handout {
        let head = match content {
            Content::Messages { .. } => LedgerHead::NONE,
            Content::Releases(_) | Content::Shares { .. } => {
                LedgerHead { seq: self.head.seq, hash: self.head.hash }
            }
        };
        Handout { config: study.digest, round: self.round, collects: self.collects, head, content }
    }
}

/// Converts messages to the wire format, ordered by sender.
pub(crate) fn content(broadcast: Broadcast) -> Content {
    let mut messages: Vec<RelayedMessage> = broadcast
        .messages
        .into_iter()
        .map(|message| RelayedMessage {
            sender: message.sender,
            round: message.round,
            weights: message.weights.into_vec(),
        })
        .collect();
    messages.sort_by_key(|message| message.sender);
    Content::Messages { messages, stragglers: broadcast.stragglers }
}
