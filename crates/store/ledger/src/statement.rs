//! The statement of a ledger's spending.

use fedbo_privacy::accounting::{Budget, Claim, largest_rounds};

use crate::record::Record;
use crate::{Charge, Head, LedgerError};

/// The releases and the spending of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The study's name.
    pub name: String,
    /// SHA-256 of the public configuration.
    pub config_hash: [u8; 32],
    /// The budget, ε and δ.
    pub budget: Budget,
    /// The head of the ledger. Compare it with a head saved elsewhere, because the ledger itself
    /// cannot detect a complete rollback.
    pub head: Head,
    /// The charges of the releases, grouped by event.
    pub charges: Vec<Charge>,
    /// An upper bound on ε of all releases at the budget's δ, with everything on which it depends.
    pub claim: Claim,
    /// Maximum number of releases that can include the same agent, as assumed by the claim. `None`
    /// if every agent can be in every release.
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

    /// Returns the number of releases so far.
    #[must_use]
    pub fn n_releases(&self) -> u64 {
        self.head.seq
    }

    /// Returns the unspent part of the budget's ε, or 0 if the budget is overdrawn. ε is not
    /// additive over releases, so this does not determine how many more releases are possible. For
    /// that, see [`Statement::further`] and [`crate::Ledger::admits`].
    #[must_use]
    pub fn remaining(&self) -> f64 {
        (self.budget.epsilon() - self.claim.epsilon).max(0.0)
    }

    /// Returns how many more releases like the previous ones the budget allows, to within 1e−4 of
    /// the total. Returns `None` if there are no releases yet, their costs differ, or an agent's
    /// cost does not grow with their number.
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

    /// Returns true if the spending exceeds the budget, which commits never cause.
    #[must_use]
    pub fn is_overdrawn(&self) -> bool {
        self.claim.epsilon > self.budget.epsilon()
    }
}
