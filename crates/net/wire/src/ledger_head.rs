//! The coordinator's ledger as an agent follows it: each head covers all entries up to it.

use std::fmt;

use data_encoding::HEXLOWER;

use crate::{LedgerEntry, digest};

/// The end of a ledger: number and hash of its last entry. Before the first, 0 and the hash of the study's charter.
///
/// Its text is `SEQ:HASH`, as in the ledger's own statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LedgerHead {
    /// Number of entries up to it.
    pub seq: u64,
    /// Hash over all of them and over the charter.
    pub hash: [u8; 32],
}

/// The parts of a charter: what a ledger fixes before its first entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CharterParts<'a> {
    /// The study's name.
    pub name: &'a str,
    /// The public configuration in the form that the ledger keeps.
    pub config: &'a [u8],
    /// ε that may be spent.
    pub epsilon: f64,
    /// δ beside it.
    pub delta: f64,
    /// The mode whose guarantee ε states: `default` or `paper`.
    pub mode: &'a str,
    /// Name of the accountant.
    pub accountant: &'a str,
}

/// An entry that does not follow a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "entry {found} of the ledger came where {expected} was due: entries are missing, or the ledger went back"
)]
pub struct ChainBroken {
    /// Number of the entry that follows.
    pub expected: u64,
    /// Number of the entry that came.
    pub found: u64,
}

impl LedgerHead {
    /// The head of a handout that has no ledger.
    pub const NONE: Self = Self { seq: 0, hash: [0; 32] };

    /// The head of a ledger without entries.
    pub fn of_charter(charter: &CharterParts<'_>) -> Self {
        let hash = digest(
            "fedbo ledger charter, version 1",
            &[
                charter.name.as_bytes(),
                charter.config,
                &charter.epsilon.to_le_bytes(),
                &charter.delta.to_le_bytes(),
                charter.mode.as_bytes(),
                charter.accountant.as_bytes(),
            ],
        );
        Self { seq: 0, hash: hash.0 }
    }

    /// The head after more entries. An agent that starts from a head it has kept believes a handout only if this is the
    /// handout's head (INV-13).
    ///
    /// # Errors
    /// If the entries are not those that follow, by number.
    pub fn after(&self, entries: &[LedgerEntry]) -> Result<Self, ChainBroken> {
        let mut head = *self;
        for entry in entries {
            let expected = head.seq.saturating_add(1);
            if entry.seq != expected || head.seq == u64::MAX {
                return Err(ChainBroken { expected, found: entry.seq });
            }
            head = Self {
                seq: entry.seq,
                hash: digest(
                    "fedbo ledger entry, version 1",
                    &[
                        &entry.seq.to_le_bytes(),
                        &head.hash,
                        &entry.round.to_le_bytes(),
                        &entry.event,
                        &entry.release,
                    ],
                )
                .0,
            };
        }
        Ok(head)
    }
}

impl fmt::Display for LedgerHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, HEXLOWER.encode_display(&self.hash))
    }
}
