//! The history of a ledger, entry by entry, for pages and programs: what was charged when, without the bytes of any release.

use fedbo_privacy::accounting::{Claim, PrivacyEvent};

use crate::spending::Charges;
use crate::{Charter, Head, LedgerError, Statement, event_to_bytes};

/// An entry of a ledger without the bytes of its release.
#[derive(Clone, Debug, PartialEq)]
pub struct Charged {
    /// Its number, from 1.
    pub seq: u64,
    /// The round that it released.
    pub round: u64,
    /// The event that it costs.
    pub event: PrivacyEvent,
    /// Bytes of the release.
    pub n_bytes: u64,
    /// Its hash, over it and all before it.
    pub hash: [u8; 32],
}

/// A ledger that is sound: its charter, its entries in order, and what they cost together.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The charter with which it began.
    pub charter: Charter,
    /// The cost of all entries together.
    pub statement: Statement,
    /// The entries.
    pub entries: Vec<Charged>,
}

impl History {
    /// Returns the cost of the first `n` releases, by the charter's accountant and at its δ: an upper bound.
    ///
    /// # Errors
    /// [`LedgerError::Accounting`] if ε is not known; [`LedgerError::Event`].
    pub fn cost_of_first(&self, n: usize) -> Result<Claim, LedgerError> {
        charges(&self.entries[..n.min(self.entries.len())])?.claim(&self.charter)
    }

    /// The history as it was when the releases of the rounds before `round` had left. A release is durable before it leaves, at its set
    /// instant (INV-9): whoever shows a ledger of a running study shows this.
    ///
    /// # Errors
    /// As for [`History::cost_of_first`].
    pub fn before(mut self, round: u64) -> Result<Self, LedgerError> {
        let n_left = self.entries.partition_point(|entry| entry.round < round);
        if n_left == self.entries.len() {
            return Ok(self);
        }
        self.entries.truncate(n_left);
        let charges = charges(&self.entries)?;
        self.statement.claim = charges.claim(&self.charter)?;
        self.statement.charges = charges.list().to_vec();
        let last = self.entries.last();
        self.statement.head = match last {
            Some(last) => Head { seq: last.seq, hash: last.hash },
            None => self.charter.genesis(),
        };
        Ok(self)
    }
}

/// The charges of entries.
fn charges(entries: &[Charged]) -> Result<Charges, LedgerError> {
    let mut charges = Charges::default();
    for entry in entries {
        charges.add(&entry.event, &event_to_bytes(&entry.event)?, 1);
    }
    Ok(charges)
}
