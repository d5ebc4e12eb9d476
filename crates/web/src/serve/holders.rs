//! Thin workers as holders of trials, in the storage and in memory. A holder is identified by the
//! worker's name and the nonce of its request.

use std::collections::HashMap;

use fedbo_documents::trial_record::{HTTP_HOLDER_PREFIX, name_of};
use fedbo_storage::{Trial, TrialState, Worker};

/// Represents a thin worker as a holder in the storage.
///
/// The server cannot detect that the worker's process has exited. Only the lease shows whether the
/// worker is alive, even across restarts of this server.
pub(super) fn holder(name: &str, nonce: &str) -> Worker {
    Worker { id: format!("{HTTP_HOLDER_PREFIX}{name}:{nonce}"), process: None }
}

/// Trials leased to requests, by the requesting worker's token.
#[derive(Default)]
pub(super) struct Holders {
    /// The trial leased to each token.
    given: HashMap<String, u64>,
    /// The token that leased each trial last.
    by_trial: HashMap<u64, String>,
}

impl Holders {
    /// Creates the holders of the open trials.
    pub(super) fn of(open: &[Trial]) -> Self {
        let mut holders = Self::default();
        holders.learn(open);
        holders
    }

    /// Adds the holders of open trials from the storage.
    pub(super) fn learn(&mut self, open: &[Trial]) {
        for trial in open {
            if let TrialState::Running(lease) = &trial.state
                && name_of(&lease.worker.id).is_some()
            {
                self.give(&lease.worker.id, trial.number);
            }
        }
    }

    pub(super) fn give(&mut self, id: &str, number: u64) {
        self.given.insert(id.to_owned(), number);
        self.by_trial.insert(number, id.to_owned());
    }

    /// Returns the trial leased to this token.
    pub(super) fn given_to(&self, id: &str) -> Option<u64> {
        self.given.get(id).copied()
    }

    /// Returns the token with which this worker leased the trial, if no other token has leased it
    /// since.
    pub(super) fn token(&self, name: &str, number: u64) -> Option<&str> {
        self.by_trial.get(&number).map(String::as_str).filter(|id| name_of(id) == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_known_by_its_name_whatever_its_nonce() {
        let (a, b) = (holder("node/7", "x"), holder("node/7", "y"));
        assert_ne!(a.id, b.id);
        assert_eq!(name_of(&a.id), Some("node/7"));
        for other in ["by-hand", "4711-18f-0", "serve:a", ""] {
            assert_eq!(name_of(other), None, "{other:?}");
        }
        let mut holders = Holders::default();
        holders.give(&a.id, 3);
        assert_eq!((holders.token("node/7", 3), holders.token("node", 3)), (Some(&*a.id), None));
        holders.give(&b.id, 3);
        assert_eq!(holders.token("node/7", 3), Some(&*b.id));
        assert_eq!(holders.given_to(&a.id), Some(3));
    }
}
