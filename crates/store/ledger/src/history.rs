//! The history of a ledger, entry by entry, without the bytes of the releases.

use fedbo_privacy::accounting::{Claim, PrivacyEvent};

use crate::spending::Charges;
use crate::{Charter, Head, LedgerError, Statement, event_to_bytes};

/// An entry of a ledger without the bytes of its release.
#[derive(Clone, Debug, PartialEq)]
pub struct Charged {
    /// The entry's number, counted from 1.
    pub seq: u64,
    /// The released round.
    pub round: u64,
    /// The cost of the release.
    pub event: PrivacyEvent,
    /// Size of the release in bytes.
    pub n_bytes: u64,
    /// The hash of this entry and all earlier ones.
    pub hash: [u8; 32],
}

/// The charter, the entries and the total cost of a ledger without problems.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The charter of the ledger.
    pub charter: Charter,
    /// The total cost of all entries.
    pub statement: Statement,
    /// The entries, in order.
    pub entries: Vec<Charged>,
}

impl History {
    /// Returns an upper bound on the cost of the first `n` releases, computed by the charter's
    /// accountant at the charter's δ.
    ///
    /// # Errors
    /// [`LedgerError::Accounting`] if ε cannot be computed; [`LedgerError::Event`].
    pub fn cost_of_first(&self, n: usize) -> Result<Claim, LedgerError> {
        charges(&self.entries[..n.min(self.entries.len())])?.claim(&self.charter)
    }

    /// Returns the history without the releases of round `round` and later. A release is durable
    /// before it is sent at its scheduled instant (INV-9), so programs that display the ledger of a
    /// running study must use this view.
    ///
    /// # Errors
    /// Same as for [`History::cost_of_first`].
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

/// Returns the charges of the given entries.
fn charges(entries: &[Charged]) -> Result<Charges, LedgerError> {
    let mut charges = Charges::default();
    for entry in entries {
        charges.add(&entry.event, &event_to_bytes(&entry.event)?, 1);
    }
    Ok(charges)
}
