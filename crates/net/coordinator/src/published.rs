//! The public state of a study at a moment: all that polls see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use fedbo_ledger::Head;
use fedbo_protocol::Broadcast;
use fedbo_wire::{
    Content, Handout, HelperEntry, LedgerEntry, LedgerHead, RelayedMessage, SigningKey, StudyState,
};

use crate::store::StudyRecord;
use crate::study::Study;

/// Handouts with more releases than these are signed anew each time: agents that were away are few.
const CACHED_MAX: usize = 4;

/// The beginning of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// By the store's clock.
    began_ms: u64,
    /// The time for which it had been played when that was noted.
    elapsed_ms: u64,
    noted_at: Instant,
}

type Encoded = HashMap<(usize, usize), Arc<[u8]>>;

/// The state of a study at a moment that everybody may know. All of it is public, or durable and released (INV-1,
/// INV-4).
pub(crate) struct Published {
    pub(crate) state: StudyState,
    /// True once what was released before is here: until then nothing is handed out.
    pub(crate) is_ready: bool,
    /// The round that is being played.
    pub(crate) round: u64,
    /// The beginning of the round; none before the first, and while it is about to begin anew.
    pub(crate) began: Option<Began>,
    pub(crate) collects: bool,
    /// The head of the chain of releases.
    pub(crate) head: Head,
    /// All releases, in order.
    pub(crate) entries: Vec<Arc<LedgerEntry>>,
    /// The helper's entries of rounds that are over, where two servers sum.
    pub(crate) helper: Vec<Arc<HelperEntry>>,
    /// The newest broadcast of a relayed study.
    pub(crate) broadcast: Option<Arc<Broadcast>>,
    /// The reason why the study stands still, in words for its operator.
    pub(crate) error: Option<String>,
    /// True if the service is about to end.
    pub(crate) closes: bool,
    /// Signed handouts by the number of releases and of the helper's entries in them.
    encoded: Mutex<Encoded>,
    /// The signed handout of the newest broadcast.
    newest: OnceLock<Arc<[u8]>>,
}

impl Published {
    /// Before anything happened.
    pub(crate) fn new(study: &Study, state: StudyState, round: u64) -> Self {
        Self {
            state,
            is_ready: false,
            round,
            began: None,
            collects: false,
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

    /// The same, to be changed.
    pub(crate) fn next(&self) -> Self {
        Self {
            state: self.state,
            is_ready: self.is_ready,
            round: self.round,
            began: self.began,
            collects: self.collects,
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

    /// Notes when the round began, and that it is now this time, by the store's clock.
    pub(crate) fn begun(&mut self, began_ms: u64, now_ms: u64) {
        self.began = Some(Began {
            began_ms,
            elapsed_ms: now_ms.saturating_sub(began_ms),
            noted_at: Instant::now(),
        });
    }

    /// Milliseconds for which the round has been played.
    pub(crate) fn elapsed_ms(&self) -> Option<u64> {
        let began = self.began?;
        let since = u64::try_from(began.noted_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(began.elapsed_ms.saturating_add(since))
    }

    /// Returns true if it says of the round what the store does.
    pub(crate) fn shows(&self, record: &StudyRecord) -> bool {
        let began_ms = self.began.map(|began| began.began_ms);
        self.is_ready && self.round == record.round && began_ms == record.began_ms
    }

    /// The handout for an agent that has `known` releases, and so many entries of the helper: equal for all such agents, so it is signed once. Who says to have more
    /// than there are sees by the head that the ledger was set back.
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

    /// The handout of the newest broadcast: equal for all agents that have begun the round before, so it is signed once.
    pub(crate) fn newest_messages(
        &self,
        last: &Broadcast,
        study: &Study,
        key: &SigningKey,
    ) -> Arc<[u8]> {
        Arc::clone(self.newest.get_or_init(|| self.messages(last.clone(), study, key).into()))
    }

    /// The handout of these messages.
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

/// Messages as they travel, in the order of their senders.
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
