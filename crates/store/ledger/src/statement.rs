//! The statement of what a ledger has spent, for people and programs.

use fedbo_privacy::accounting::{Budget, Claim, largest_rounds};

use crate::record::Record;
use crate::{Charge, Head, LedgerError};

/// The releases and the spending of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The study's name.
    pub name: String,
    /// SHA-256 of its public configuration.
    pub config_hash: [u8; 32],
    /// The ε and the δ that may be spent.
    pub budget: Budget,
    /// The head of the ledger. Compare it with one that was kept elsewhere: the ledger cannot notice that all of it was
    /// rolled back.
    pub head: Head,
    /// The charges of the releases, by event.
    pub charges: Vec<Charge>,
    /// ε of all releases at the budget's δ, an upper bound, with all that the figure depends on.
    pub claim: Claim,
    /// The releases that each agent may be in, where they are fewer than all: what the claim counts at most.
    pub participations: Option<u64>,
}

impl Statement {
    pub(crate) fn of(record: &Record) -> Result<Self, LedgerError> {
        Ok(Self {
            name: record.charter.name.clone(),
            config_hash: record.charter.config_hash(),
            budget: record.charter.budget,
            head: record.head,
            charges: record.charges.list().to_vec(),
            claim: record.charges.claim(&record.charter)?,
            participations: record.charter.participations,
        })
    }

    /// Releases so far.
    #[must_use]
    pub fn n_releases(&self) -> u64 {
        self.head.seq
    }

    /// Returns what remains of the budget's ε; 0 if it is overdrawn. ε does not add up over releases, so this is no
    /// price of further ones: see [`Statement::further`] and [`crate::Ledger::admits`].
    #[must_use]
    pub fn remaining(&self) -> f64 {
        (self.budget.epsilon() - self.claim.epsilon).max(0.0)
    }

    /// Returns the number of further releases like those so far that the budget allows, to 1e−4 of all; `None` if there
    /// are none yet, they were not all alike, or what they cost an agent does not grow with their number.
    #[must_use]
    pub fn further(&self) -> Option<u64> {
        let [Charge { event, count }] = self.charges[..] else {
            return None;
        };
        if self.participations.is_some() {
            return None;
        }
        let all = largest_rounds(self.claim.accountant, &event, self.budget).ok()?;
        Some(all.value.saturating_sub(count))
    }

    /// Returns true if more was spent than the budget has. No ledger comes to that by its own commits.
    #[must_use]
    pub fn is_overdrawn(&self) -> bool {
        self.claim.epsilon > self.budget.epsilon()
    }
}
