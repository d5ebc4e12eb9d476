//! The HTTP side: who asks, for what, and what is answered. docs/protocol.md is its description.

mod handouts;
mod openapi;
mod refusal;
mod registry;
mod request;
mod routes;
mod uploads;

pub use openapi::OPENAPI;
pub(crate) use registry::Registry;
pub(crate) use routes::{Audience, router};

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fedbo_wire::SigningKey;
use tokio::sync::Mutex;

use crate::metrics::{Metrics, Recorder};
use crate::server::HelperWay;
use crate::store::{Store, StoreError};

/// The state that all requests share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: Arc<SigningKey>,
    pub(crate) metrics: Arc<Metrics>,
    /// Tells this coordinator from others.
    pub(crate) holder: String,
    /// The folder of ledgers.
    pub(crate) ledgers: PathBuf,
    /// The time for which a lead lasts that is not renewed.
    pub(crate) lease: Duration,
    /// The way to helpers of secure sums.
    pub(crate) helper: HelperWay,
    /// The time that the body of a request may take.
    body_patience: Duration,
    registry: RwLock<Arc<Registry>>,
    /// Held while the registry is read anew.
    refreshing: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        key: Arc<SigningKey>,
        (holder, lease): (String, Duration),
        ledgers: PathBuf,
        body_patience: Duration,
        recorder: Option<Arc<dyn Recorder>>,
        helper: HelperWay,
    ) -> Self {
        Self {
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

    /// Studies and agents, as they were read last.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads studies and agents anew, if they have changed.
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
                tracing::error!("studies could not be read: {error}");
                Ok(())
            }
        }
    }
}
