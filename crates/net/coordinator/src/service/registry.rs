//! Studies and agents, cached in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use fedbo_transport::LinkError;
use fedbo_wire::{PublicKey, StudyState};

use super::{Deliveries, Shared};
use crate::attendance::Attendance;
use crate::host::Host;
use crate::intake::IntakeError;
use crate::metrics::StudyMetrics;
use crate::store::{StoreError, StudyKey};
use crate::study::Study;
use crate::sum::SumIntake;
use crate::vectors::Vectors;

/// Snapshot of studies and agents.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) generation: u64,
    pub(crate) studies: BTreeMap<String, Arc<Served>>,
    /// Errors of studies that cannot be served, by study name.
    unserved: BTreeMap<String, String>,
}

/// A study with its agents and its thread.
pub(crate) struct Served {
    pub(crate) study: Arc<Study>,
    pub(crate) host: Arc<Mutex<Host>>,
    pub(crate) published: tokio::sync::watch::Receiver<Arc<crate::published::Published>>,
    pub(crate) vectors: Vectors,
    pub(crate) attendance: Arc<Attendance>,
    pub(crate) deliveries: Arc<Deliveries>,
    /// Slot of each key, and whether the slot is revoked.
    agents: HashMap<PublicKey, (u32, bool)>,
}

impl Served {
    /// Returns the slot of a key, and whether it is revoked.
    pub(crate) fn slot(&self, key: &PublicKey) -> Option<(u32, bool)> {
        self.agents.get(key).copied()
    }

    pub(crate) fn with_host<R>(&self, act: impl FnOnce(&mut Host) -> R) -> R {
        act(&mut self.host.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Registry {
    /// Lists the studies that cannot continue, one per line with the reason, except those that the
    /// operator has paused. Returns an empty string if there are none.
    pub(super) fn stalled_studies(&self) -> String {
        let still = self.studies.iter().filter_map(|(name, served)| {
            let published = served.published.borrow();
            let error = published.error.as_ref()?;
            (published.state != StudyState::Paused)
                .then(|| format!("study {name:?} is blocked: {error}\n"))
        });
        let unserved = self
            .unserved
            .iter()
            .map(|(name, error)| format!("study {name:?} cannot be served: {error}\n"));
        still.chain(unserved).collect()
    }

    /// Rereads the store. Threads of known studies keep running.
    pub(super) fn reread(&self, shared: &Shared, generation: u64) -> Result<Self, StoreError> {
        let (mut studies, mut unserved) = (BTreeMap::new(), BTreeMap::new());
        for record in shared.store.studies()? {
            let agents = agents(shared, record.key)?;
            let served = match self.studies.get(&record.name) {
                Some(known) => {
                    known.with_host(|host| host.refresh());
                    Served {
                        study: Arc::clone(&known.study),
                        host: Arc::clone(&known.host),
                        published: known.published.clone(),
                        vectors: known.vectors.clone(),
                        attendance: Arc::clone(&known.attendance),
                        deliveries: Arc::clone(&known.deliveries),
                        agents,
                    }
                }
                None => {
                    let study = match Study::of(&record, &shared.key) {
                        Ok(study) => Arc::new(study),
                        Err(error) => {
                            tracing::error!(study = %record.name, "cannot be served: {error}");
                            unserved.insert(record.name, error.to_string());
                            continue;
                        }
                    };
                    let sum = match sum(shared, &study) {
                        Ok(sum) => sum,
                        Err(error) => {
                            tracing::error!(study = %record.name, "cannot be served: {error}");
                            unserved.insert(record.name, error.to_string());
                            continue;
                        }
                    };
                    let vectors = match sum {
                        Some(sum) => Ok(Vectors::Sum(sum)),
                        None => Vectors::of(&study, &shared.store, &shared.key, shared.lease),
                    };
                    let vectors = match vectors {
                        Ok(vectors) => vectors,
                        // The next refresh tries again.
                        Err(IntakeError::Store(error)) => return Err(error),
                        Err(error) => {
                            tracing::error!(study = %record.name, "cannot be served: {error}");
                            unserved.insert(record.name, error.to_string());
                            continue;
                        }
                    };
                    let host = Host::start(
                        Arc::clone(&study),
                        (record.state, record.round),
                        (shared.holder.clone(), shared.lease),
                        shared.ledgers.join(format!("{}.ledger.db", record.name)),
                        Arc::clone(&shared.store),
                        Arc::clone(&shared.key),
                        (StudyMetrics::new(Arc::clone(&shared.metrics), &record.name), vectors),
                    );
                    let host = match host {
                        Ok(host) => host,
                        Err(error) => {
                            tracing::error!(study = %record.name, "cannot start a thread: {error}");
                            unserved.insert(record.name, format!("cannot start a thread: {error}"));
                            continue;
                        }
                    };
                    Served {
                        attendance: Arc::new(Attendance::new(study.n_slots)),
                        deliveries: Arc::default(),
                        study,
                        published: host.published.clone(),
                        vectors: host.vectors.clone(),
                        host: Arc::new(Mutex::new(host)),
                        agents,
                    }
                }
            };
            studies.insert(record.name, Arc::new(served));
        }
        Ok(Self { generation, studies, unserved })
    }
}

/// Returns the intake of a study with a secure sum, or `None` for other studies.
fn sum(shared: &Shared, study: &Study) -> Result<Option<Arc<SumIntake>>, LinkError> {
    let Some(sum) = study.sum.clone() else {
        return Ok(None);
    };
    if shared.store.shared().is_some() {
        let message =
            "replicas that share a database do not serve studies with [secure_sum]; use a folder";
        return Err(LinkError::Setting(message.to_owned()));
    }
    let way = (shared.helper.authority.as_deref(), shared.helper.plain_http);
    let intake = SumIntake::new(sum, study.map, &shared.key, way)?;
    let commitments = shared.store.commitments(study.key);
    intake.remember(commitments.map_err(|error| LinkError::Setting(error.to_string()))?);
    Ok(Some(Arc::new(intake)))
}

fn agents(shared: &Shared, study: StudyKey) -> Result<HashMap<PublicKey, (u32, bool)>, StoreError> {
    let slots = shared.store.slots(study)?;
    let enrolled =
        slots.into_iter().filter_map(|slot| Some((slot.key?, (slot.slot, slot.is_revoked))));
    Ok(enrolled.collect())
}
