//! The operator's view of studies, which contains only public or released data (INV-4);
//! docs/operations.md has the allow-list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fedbo_wire::StudyState;

use crate::service::Shared;

/// A view of the studies of a running service.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
}

/// Snapshot of a study.
#[derive(Clone, Debug)]
pub struct ObservedStudy {
    /// State of the study.
    pub state: StudyState,
    /// Current round.
    pub round: u64,
    /// Elapsed time of the round. `None` before it begins.
    pub elapsed: Option<Duration>,
    /// True if the current round collects messages.
    pub collects: bool,
    /// Head of the study's ledger, as `SEQ:HASH`. `None` if the study relays messages.
    pub head: Option<String>,
    /// Number of published releases.
    pub n_releases: usize,
    /// Reason for a stall. `None` if the study is not stalled.
    pub error: Option<String>,
    /// Delivery flags of all slots, for the last rounds with messages since this coordinator
    /// started.
    pub rounds: BTreeMap<u64, Vec<bool>>,
    /// Time since the last signed request from each slot. `None` for slots without a request since
    /// this coordinator started.
    pub silences: Vec<Option<Duration>>,
}

impl Observer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the study with this name, or `None` if it is not served (yet).
    #[must_use]
    pub fn study(&self, name: &str) -> Option<ObservedStudy> {
        let served = self.shared.registry().studies.get(name).cloned()?;
        let now = Arc::clone(&served.published.borrow());
        Some(ObservedStudy {
            state: now.state,
            round: now.round,
            elapsed: now.elapsed_ms().map(Duration::from_millis),
            collects: now.collects,
            head: (!served.study.is_relayed()).then(|| now.head.to_string()),
            n_releases: now.entries.len(),
            error: now.error.clone(),
            rounds: served.attendance.rounds(),
            silences: served.attendance.silences(),
        })
    }
}
