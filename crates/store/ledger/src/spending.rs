//! The total cost of a ledger's releases.

use std::collections::HashMap;

use fedbo_privacy::accounting::{Claim, PrivacyEvent, Sampling, SamplingRate};

use crate::{Charter, LedgerError};

/// Releases with the same cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// The cost of each release.
    pub event: PrivacyEvent,
    /// Number of releases.
    pub count: u64,
}

/// Charges grouped by event, in the order of their first release.
#[derive(Clone, Debug, Default)]
pub(crate) struct Charges {
    list: Vec<Charge>,
    /// Index into `list` by the encoded event.
    places: HashMap<Vec<u8>, usize>,
}

impl Charges {
    pub(crate) fn add(&mut self, event: &PrivacyEvent, bytes: &[u8], count: u64) {
        if let Some(place) = self.places.get(bytes) {
            let charge = &mut self.list[*place];
            charge.count = charge.count.saturating_add(count);
        } else if count > 0 {
            self.places.insert(bytes.to_owned(), self.list.len());
            self.list.push(Charge { event: *event, count });
        }
    }

    pub(crate) fn list(&self) -> &[Charge] {
        &self.list
    }

    /// Returns true if no event has a larger count than in `others`.
    pub(crate) fn are_within(&self, others: &Self) -> bool {
        self.places.iter().all(|(bytes, place)| {
            let other = others.places.get(bytes).map(|place| others.list[*place]);
            other.is_some_and(|other| self.list[*place].count <= other.count)
        })
    }

    /// Returns an upper bound on the cost of all charges to one agent, computed by the charter's
    /// accountant at the charter's δ (INV-14). If an agent can be in at most k releases, the
    /// charges of one event cost it at most as much as k of these charges (`fedbo-privacy`,
    /// ACCOUNTING.md, "k of T").
    pub(crate) fn claim(&self, charter: &Charter) -> Result<Claim, LedgerError> {
        let kind = charter.accountant;
        let refused = |message: String| LedgerError::Accounting { accountant: kind, message };
        let mut accountant = kind.accountant();
        let most = charter.participations.unwrap_or(u64::MAX);
        for Charge { event, count } in &self.list {
            if charter.participations.is_some()
                && event.sampling != Sampling::Poisson(SamplingRate::ALL)
            {
                let message = "the accountant does not support sampled releases with a limit of releases per agent";
                return Err(refused(message.to_owned()));
            }
            accountant
                .compose(event, (*count).min(most))
                .map_err(|error| refused(error.to_string()))?;
        }
        let claim = Claim::of(accountant.as_ref(), charter.budget.delta(), charter.mode)
            .map_err(|error| refused(error.to_string()))?;
        // INV-14: neither NaN nor a negative number is a bound.
        if claim.epsilon.is_nan() || claim.epsilon < 0.0 {
            return Err(refused(format!("epsilon = {} is not a bound", claim.epsilon)));
        }
        Ok(claim)
    }
}
