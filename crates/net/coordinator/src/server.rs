//! A running service, from startup to graceful shutdown.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fedbo_error_class::{Class, Classified};
use fedbo_transport::{
    ConnectionCounts, ConnectionLimits, ListenError, ListenSettings, Listening, TlsFiles, closing,
};
use fedbo_wire::SigningKey;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::home::Home;
use crate::host::LEASE;
use crate::metrics::Recorder;
use crate::observer::Observer;
use crate::service::{Audience, Shared, router};
use crate::store::{Store, StoreError};

/// Interval at which the store is polled for changed studies and agents.
const LOOK: Duration = Duration::from_millis(500);

/// Maximum number of connections to the operator's address.
const OPERATORS: usize = 64;

/// Settings of a service.
pub struct ServiceSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// TLS certificate and key. `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Allows plain HTTP on addresses that other machines can reach.
    pub plain_http: bool,
    /// Address for metrics and health checks, over plain HTTP.
    ///
    /// If `None`, they are served on the agents' address if it uses plain HTTP, and not at all if
    /// it uses TLS.
    pub metrics: Option<SocketAddr>,
    /// Store of the studies.
    pub store: Arc<dyn Store>,
    /// Folder that contains the ledgers.
    pub ledgers: PathBuf,
    /// Signing key of the coordinator.
    pub key: Arc<SigningKey>,
    /// Name that identifies this coordinator among others as the holder of leases.
    pub holder: String,
    /// Limits on connections.
    pub limits: ConnectionLimits,
    /// Lease duration: the time after which other coordinators take over the studies of an
    /// unresponsive one ([`crate::LEASE`]).
    pub lease: Duration,
    /// Settings for connections to helpers of secure sums.
    pub helper: HelperConnection,
    /// Additional sink for the metrics.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl ServiceSettings {
    /// Returns settings for serving a folder to this machine only: plain HTTP on a free loopback
    /// port, with the default limits.
    pub fn local(home: &Home, holder: impl Into<String>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: None,
            plain_http: false,
            metrics: None,
            store: home.store(),
            ledgers: home.path().to_owned(),
            key: home.key(),
            holder: holder.into(),
            limits: ConnectionLimits::default(),
            lease: LEASE,
            helper: HelperConnection::default(),
            recorder: None,
        }
    }
}

/// Settings for connections to helpers of secure sums.
#[derive(Clone, Debug, Default)]
pub struct HelperConnection {
    /// PEM file of certificate authorities trusted in addition to the system's.
    pub authority: Option<PathBuf>,
    /// Allows `http://` to other machines.
    pub plain_http: bool,
}

/// Error while starting a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The service cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Classified for ServiceError {
    fn class(&self) -> Class {
        match self {
            Self::Store(error) => error.class(),
            _ => Class::Input,
        }
    }
}

/// A running service.
pub struct Service {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    shared: Arc<Shared>,
    closes: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts the service on the current runtime. The service accepts requests once this returns.
    ///
    /// # Errors
    /// If the address, the certificate or the store cannot be used.
    pub async fn start(settings: ServiceSettings) -> Result<Self, ServiceError> {
        let audience = match (&settings.tls, settings.metrics) {
            (None, None) => Audience::Everybody,
            _ => Audience::Agents,
        };
        let listening = Listening::start(&ListenSettings {
            address: settings.listen,
            tls: settings.tls,
            plain_http: settings.plain_http,
            limits: settings.limits,
        })?;
        let address = listening.address();
        let operator = settings.metrics.map(|address| {
            Listening::start(&ListenSettings {
                address,
                tls: None,
                plain_http: true,
                limits: ConnectionLimits { n_connections: OPERATORS, ..settings.limits },
            })
        });
        let operator = operator.transpose()?;
        let metrics = operator.as_ref().map(Listening::address);
        let shared = Arc::new(Shared::new(
            settings.store,
            settings.key,
            (settings.holder, settings.lease),
            settings.ledgers,
            settings.limits.body_patience,
            settings.recorder,
            settings.helper,
        ));
        shared.refresh().await?;
        let (closes, ending) = watch::channel(false);
        let look = tokio::spawn(look(Arc::clone(&shared), ending.clone()));
        let connections = shared.metrics.connections.clone();
        let agents = router(Arc::clone(&shared), audience);
        let serving = listening.serve(agents, connections, ending.clone());
        let mut tasks = vec![look, tokio::spawn(serving)];
        if let Some(listening) = operator {
            let router = router(Arc::clone(&shared), Audience::Operator);
            let counts = ConnectionCounts::default(); // metrics cover agents' connections only
            tasks.push(tokio::spawn(listening.serve(router, counts, ending)));
        }
        Ok(Self { address, metrics, shared, closes, tasks })
    }

    /// Returns the address on which the service listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the separate address for metrics and health checks, if there is one.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Returns a view of the studies for the operator.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::clone(&self.shared))
    }

    /// Shuts the service down: stops accepting connections, completes pending polls, finishes
    /// writes in progress and releases leases.
    pub async fn stop(self) {
        let registry = self.shared.registry();
        let hosts = tokio::task::spawn_blocking(move || {
            for served in registry.studies.values() {
                served.with_host(crate::host::Host::close);
            }
        });
        // A panic of a study's thread has already been logged.
        let _ = hosts.await;
        self.closes.send_replace(true);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Periodically reloads studies and agents that have changed.
async fn look(shared: Arc<Shared>, mut closes: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = closing(&mut closes) => return,
        }
        if let Err(error) = shared.refresh().await {
            tracing::error!("cannot read studies and agents: {error}");
        }
    }
}
