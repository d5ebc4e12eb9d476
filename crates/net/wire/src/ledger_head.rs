//! The head of the coordinator's ledger. It covers all entries, and agents follow it.

use std::fmt;

use data_encoding::HEXLOWER;

use crate::{LedgerEntry, digest};

/// Number and hash of a ledger's last entry. For an empty ledger, 0 and the hash of the study's
/// charter.
///
/// The string form is `SEQ:HASH`, as in the ledger's statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LedgerHead {
    /// Number of entries covered.
    pub seq: u64,
    /// Hash of these entries and the charter.
    pub hash: [u8; 32],
}

/// The parts of a charter, which is fixed before a ledger's first entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CharterParts<'a> {
    /// The study's name.
    pub name: &'a str,
    /// The public configuration, as stored in the ledger.
    pub config: &'a [u8],
    /// ε of the budget.
    pub epsilon: f64,
    /// δ of the budget.
    pub delta: f64,
    /// The privacy mode to which ε refers: `default` or `paper`.
    pub mode: &'a str,
    /// Name of the accountant.
    pub accountant: &'a str,
}

/// Error for an entry that does not follow a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the ledger has entry {found}, expected entry {expected}: entries are missing, or the ledger was rolled back"
)]
pub struct ChainBroken {
    /// Number of the entry that should follow.
    pub expected: u64,
    /// Number of the entry found.
    pub found: u64,
}

impl LedgerHead {
    /// The head in handouts of a study without a ledger.
    pub const NONE: Self = Self { seq: 0, hash: [0; 32] };

    /// Returns the head of a ledger without entries.
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

    /// Returns the head after these entries.
    ///
    /// An agent applies the entries of a handout to the head that it has stored, and trusts the
    /// handout only if the result is the handout's head (INV-13).
    ///
    /// # Errors
    /// If the entry numbers do not continue from this head without a gap.
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
