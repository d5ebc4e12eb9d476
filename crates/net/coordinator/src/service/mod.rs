//! The HTTP interface: authentication, requests and responses. docs/protocol.md describes it.

mod accounts;
mod counting;
mod handouts;
mod openapi;
mod refusal;
mod registry;
mod request;
mod routes;
mod uploads;

pub(crate) use accounts::Deliveries;
pub(crate) use counting::Counting;
pub use openapi::OPENAPI;
pub(crate) use registry::Registry;
pub(crate) use routes::{Audience, router};

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fedbo_wire::SigningKey;
use tokio::sync::Mutex;

use crate::metrics::{Metrics, Recorder};
use crate::server::HelperConnection;
use crate::store::{Store, StoreError};

/// State shared by all requests.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: Arc<SigningKey>,
    pub(crate) metrics: Arc<Metrics>,
    /// Name that identifies this coordinator among others as the holder of leases.
    pub(crate) holder: String,
    /// Folder that contains the ledgers.
    pub(crate) ledgers: PathBuf,
    /// Lease duration: leadership expires after this time unless it is renewed.
    pub(crate) lease: Duration,
    /// Settings for connections to helpers of secure sums.
    pub(crate) helper: HelperConnection,
    /// Queue that checks the counters of agents' requests.
    pub(crate) counting: Counting,
    /// Maximum time to receive the body of a request.
    body_patience: Duration,
    registry: RwLock<Arc<Registry>>,
    /// Held while the registry is reloaded.
    refreshing: Mutex<()>,
}

impl Shared {
    /// Creates the state. Must be called within a Tokio runtime, which runs the task that counts
    /// requests.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        key: Arc<SigningKey>,
        (holder, lease): (String, Duration),
        ledgers: PathBuf,
        body_patience: Duration,
        recorder: Option<Arc<dyn Recorder>>,
        helper: HelperConnection,
    ) -> Self {
        Self {
            counting: Counting::start(Arc::clone(&store)),
            store,
            key,
            metrics: Arc::new(Metrics::new(recorder)),
            holder,
            ledgers,
            lease,
            helper,
            body_patience,
            registry: RwLock::default(),
            refreshing: Mutex::default(),
        }
    }

    /// Returns the studies and agents as of the last read of the store.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads studies and agents if they have changed.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), StoreError> {
        let _one_at_a_time = self.refreshing.lock().await;
        let shared = Arc::clone(self);
        let read = move || {
            let generation = shared.store.generation()?;
            let known = shared.registry();
            if known.generation == generation {
                return Ok(());
            }
            let registry = known.reread(&shared, generation)?;
            *shared.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
            Ok(())
        };
        match tokio::task::spawn_blocking(read).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!("cannot read studies: {error}");
                Ok(())
            }
        }
    }
}
