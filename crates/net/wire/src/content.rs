//! The content of a handout: messages of a relayed federation, or releases of a private one.

use std::fmt;

use crate::fields::Fields;
use crate::handout::{HandoutUnreadable, Limits, cut_off};
use crate::{HelperEntry, RoundKey, Signature};

/// Maximum size of an encoded privacy event in bytes. Events of version 1 have at most 60 bytes.
pub const EVENT_BYTES_MAX: u64 = 1024;

/// The part of a handout that agents use.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Messages of a relayed federation, which is not private.
    Messages {
        /// The newest message of each sender, in ascending order of slots.
        messages: Vec<RelayedMessage>,
        /// Slots without a message by the deadline, in ascending order.
        stragglers: Vec<u32>,
    },
    /// Releases of a private federation: consecutive entries of its ledger, with ascending rounds.
    Releases(Vec<LedgerEntry>),
    /// Entries of both servers' ledgers in a secure sum, each without gaps. A round that is in both
    /// lists has a release.
    Shares {
        /// Entries of the leader's ledger, up to the handout's head.
        leader: Vec<LedgerEntry>,
        /// Entries of the helper's ledger, signed by the helper.
        helper: Vec<HelperEntry>,
        /// The helper's key for the round that begins, or `None` if the round collects nothing or
        /// the helper has closed it.
        key: Option<RoundKey>,
    },
}

/// An agent's weight sample, as relayed by the coordinator.
#[derive(Clone, PartialEq)]
pub struct RelayedMessage {
    /// Slot of the sender.
    pub sender: u32,
    /// Round of the message.
    pub round: u64,
    /// The M weights. Not checked to be finite here.
    pub weights: Vec<f64>,
}

/// A release and its charge, as stored in the ledger.
#[derive(Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Number of the entry, counted from 1.
    pub seq: u64,
    /// Round of the release.
    pub round: u64,
    /// The encoded privacy event.
    pub event: Vec<u8>,
    /// The release, byte for byte (INV-2).
    pub release: Vec<u8>,
}

/// Size of a message before its weights, in bytes.
pub(crate) const MESSAGE_HEADER_SIZE: u64 = 4 + 8 + 8;

/// Size of an entry without its event and release, in bytes.
pub(crate) const ENTRY_HEADER_SIZE: u64 = 8 + 8 + 8 + 8;

impl Content {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Messages { messages, stragglers } => {
                bytes.extend(length(messages));
                for message in messages {
                    bytes.extend(message.sender.to_le_bytes());
                    bytes.extend(message.round.to_le_bytes());
                    bytes.extend(length(&message.weights));
                    for weight in &message.weights {
                        bytes.extend(weight.to_le_bytes());
                    }
                }
                bytes.extend(length(stragglers));
                for slot in stragglers {
                    bytes.extend(slot.to_le_bytes());
                }
            }
            Self::Releases(entries) => write_entries(entries, bytes),
            Self::Shares { leader, helper, key } => {
                write_entries(leader, bytes);
                bytes.extend(length(helper));
                helper.iter().for_each(|entry| entry.write(bytes));
                if let Some(key) = key {
                    bytes.extend(key.key);
                    bytes.extend(key.signature.0);
                }
            }
        }
    }

    pub(crate) fn read_messages(
        fields: &mut Fields<'_>,
        limits: Limits,
    ) -> Result<Self, HandoutUnreadable> {
        Ok(Self::Messages {
            messages: read_messages(fields, limits)?,
            stragglers: read_stragglers(fields, limits)?,
        })
    }

    pub(crate) fn read_releases(
        fields: &mut Fields<'_>,
        limits: Limits,
    ) -> Result<Self, HandoutUnreadable> {
        read_entries(fields, limits).map(Self::Releases)
    }

    /// Reads shares. If `keyed` is a round, the helper's key for that round follows the shares.
    pub(crate) fn read_shares(
        fields: &mut Fields<'_>,
        limits: Limits,
        keyed: Option<u64>,
    ) -> Result<Self, HandoutUnreadable> {
        let leader = read_entries(fields, limits)?;
        const FIELD: &str = "shares of the helper";
        let n = fields.u64().ok_or_else(cut_off(FIELD))?;
        if n > fields.n_left() / ENTRY_HEADER_SIZE {
            return Err(cut_off(FIELD)());
        }
        let mut helper: Vec<HelperEntry> = Vec::new();
        for _ in 0..n {
            let read = HelperEntry::read(fields, limits.release_bytes_max);
            let read = read.ok_or_else(cut_off(FIELD))?;
            if let Some(last) = helper.last() {
                check_order(&last.entry, &read.entry)?;
            }
            helper.push(read);
        }
        let mut key = |round| {
            let (key, signature) = (fields.take()?, Signature(fields.take()?));
            Some(RoundKey { round, key, signature })
        };
        let key = keyed.map(|round| key(round).ok_or_else(cut_off("key of the round")));
        Ok(Self::Shares { leader, helper, key: key.transpose()? })
    }
}

fn write_entries(entries: &[LedgerEntry], bytes: &mut Vec<u8>) {
    bytes.extend(length(entries));
    for entry in entries {
        bytes.extend(entry.seq.to_le_bytes());
        bytes.extend(entry.round.to_le_bytes());
        bytes.extend(length(&entry.event));
        bytes.extend(&entry.event);
        bytes.extend(length(&entry.release));
        bytes.extend(&entry.release);
    }
}

/// Checks that `next` has the next entry number and a later round than `last`.
fn check_order(last: &LedgerEntry, next: &LedgerEntry) -> Result<(), HandoutUnreadable> {
    if Some(next.seq) != last.seq.checked_add(1) {
        return Err(disorder("entry", last.seq, next.seq, " by one"));
    }
    if next.round <= last.round {
        return Err(disorder("round", last.round, next.round, ""));
    }
    Ok(())
}

fn read_messages(
    fields: &mut Fields<'_>,
    limits: Limits,
) -> Result<Vec<RelayedMessage>, HandoutUnreadable> {
    const FIELD: &str = "messages";
    let n = fields.u64().ok_or_else(cut_off(FIELD))?;
    at_most("number of messages", n, limits.n_slots.into())?;
    let mut messages: Vec<RelayedMessage> = Vec::new(); // grows with the bytes present (INV-19)
    for _ in 0..n {
        let sender = fields.u32().ok_or_else(cut_off(FIELD))?;
        check_slot("sender", sender, messages.last().map(|m| m.sender), limits)?;
        let round = fields.u64().ok_or_else(cut_off(FIELD))?;
        let n_weights = fields.u64().ok_or_else(cut_off(FIELD))?;
        if n_weights != u64::from(limits.n_features) {
            return Err(HandoutUnreadable::Features {
                sender,
                found: n_weights,
                expected: limits.n_features,
            });
        }
        messages.push(RelayedMessage {
            sender,
            round,
            weights: fields.weights(n_weights).ok_or_else(cut_off(FIELD))?,
        });
    }
    Ok(messages)
}

fn read_stragglers(fields: &mut Fields<'_>, limits: Limits) -> Result<Vec<u32>, HandoutUnreadable> {
    const FIELD: &str = "stragglers";
    let n = fields.u64().ok_or_else(cut_off(FIELD))?;
    at_most("number of stragglers", n, limits.n_slots.into())?;
    let mut stragglers = Vec::new();
    for _ in 0..n {
        let slot = fields.u32().ok_or_else(cut_off(FIELD))?;
        check_slot("straggler", slot, stragglers.last().copied(), limits)?;
        stragglers.push(slot);
    }
    Ok(stragglers)
}

fn read_entries(
    fields: &mut Fields<'_>,
    limits: Limits,
) -> Result<Vec<LedgerEntry>, HandoutUnreadable> {
    const FIELD: &str = "releases";
    let n = fields.u64().ok_or_else(cut_off(FIELD))?;
    if n > fields.n_left() / ENTRY_HEADER_SIZE {
        return Err(cut_off(FIELD)());
    }
    let mut entries: Vec<LedgerEntry> = Vec::new();
    for _ in 0..n {
        let seq = fields.u64().ok_or_else(cut_off(FIELD))?;
        let round = fields.u64().ok_or_else(cut_off(FIELD))?;
        let n_event = fields.u64().ok_or_else(cut_off(FIELD))?;
        at_most("number of bytes of an event", n_event, EVENT_BYTES_MAX)?;
        let event = fields.bytes(n_event).ok_or_else(cut_off(FIELD))?;
        let n_release = fields.u64().ok_or_else(cut_off(FIELD))?;
        let max = limits.release_bytes_max;
        at_most("number of bytes of a release", n_release, max)?;
        let release = fields.bytes(n_release).ok_or_else(cut_off(FIELD))?;
        let entry = LedgerEntry { seq, round, event: event.to_vec(), release: release.to_vec() };
        if let Some(last) = entries.last() {
            check_order(last, &entry)?;
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn check_slot(
    field: &'static str,
    slot: u32,
    previous: Option<u32>,
    limits: Limits,
) -> Result<(), HandoutUnreadable> {
    match previous {
        Some(previous) if slot <= previous => {
            Err(disorder(field, previous.into(), slot.into(), ""))
        }
        _ => at_most(field, slot.into(), u64::from(limits.n_slots).saturating_sub(1)),
    }
}

fn at_most(field: &'static str, found: u64, max: u64) -> Result<(), HandoutUnreadable> {
    if found > max {
        return Err(HandoutUnreadable::TooLarge { field, found, max });
    }
    Ok(())
}

fn disorder(
    field: &'static str,
    previous: u64,
    found: u64,
    gaps: &'static str,
) -> HandoutUnreadable {
    HandoutUnreadable::Order { field, previous, found, gaps }
}

/// Encodes the number of items as eight bytes.
fn length<T>(items: &[T]) -> [u8; 8] {
    (items.len() as u64).to_le_bytes()
}

impl fmt::Debug for RelayedMessage {
    /// Prints lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, round, weights } = self;
        write!(
            f,
            "RelayedMessage {{ sender: {sender}, round: {round}, {} weights }}",
            weights.len()
        )
    }
}

impl fmt::Debug for LedgerEntry {
    /// Prints lengths only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, round, .. } = self;
        write!(
            f,
            "LedgerEntry {{ seq: {seq}, round: {round}, event of {} bytes, release of {} bytes }}",
            self.event.len(),
            self.release.len()
        )
    }
}
