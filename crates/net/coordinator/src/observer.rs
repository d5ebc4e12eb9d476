//! Studies as their operator may see them: public, or released (INV-4). docs/operations.md has the allow-list.

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

/// A study at a moment.
#[derive(Clone, Debug)]
pub struct ObservedStudy {
    /// Its state.
    pub state: StudyState,
    /// The round that is being played.
    pub round: u64,
    /// The time for which it has been played; none before it begins.
    pub elapsed: Option<Duration>,
    /// True if messages are taken in this round.
    pub collects: bool,
    /// The head of its ledger, as `SEQ:HASH`; none of a study that relays messages.
    pub head: Option<String>,
    /// Releases that have left.
    pub n_releases: usize,
    /// The reason why it stands still.
    pub error: Option<String>,
    /// The rounds in which this coordinator took messages since it began, each with whether each slot has delivered.
    pub rounds: BTreeMap<u64, Vec<bool>>,
    /// The time since the last signed request of each slot; none if there was none since this coordinator began.
    pub silences: Vec<Option<Duration>>,
}

impl Observer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The study with a name; none if it is not served, or not yet.
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
