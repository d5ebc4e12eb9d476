//! A running service, from its first socket to its last answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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

/// The interval at which the store is asked whether studies or agents have changed.
const LOOK: Duration = Duration::from_millis(500);

/// Connections of the operator at most.
const OPERATORS: usize = 64;

/// The settings of a service.
pub struct ServiceSettings {
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// Its certificate; none for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// True if plain HTTP is also spoken on addresses that others reach.
    pub plain_http: bool,
    /// The address for metrics and health checks, over plain HTTP. Without one they are served at the agents' address
    /// if that is plain HTTP too, and nowhere if it is TLS.
    pub metrics: Option<SocketAddr>,
    /// The store of its studies.
    pub store: Arc<dyn Store>,
    /// The folder of ledgers.
    pub ledgers: PathBuf,
    /// Signs what is handed out.
    pub key: Arc<SigningKey>,
    /// Tells this coordinator from others.
    pub holder: String,
    /// The limits of its connections.
    pub limits: ConnectionLimits,
    /// The lease: how long it keeps others from taking over its studies when it does not answer ([`crate::LEASE`]).
    pub lease: Duration,
    /// The way to helpers of secure sums.
    pub helper: HelperWay,
    /// A further place to which its metrics go.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl ServiceSettings {
    /// The settings of a service of a folder that this machine alone reaches: plain HTTP on a free port, with the usual limits.
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
            helper: HelperWay::default(),
            recorder: None,
        }
    }
}

/// The way to the helpers of secure sums.
#[derive(Clone, Debug, Default)]
pub struct HelperWay {
    /// Certificates of an authority besides the usual, in PEM form.
    pub authority: Option<PathBuf>,
    /// True if `http://` is allowed beyond this machine.
    pub plain_http: bool,
}

/// An error in starting a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Nobody can be listened to.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// Starts it on the current runtime; it answers when this returns.
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
            let counts = ConnectionCounts::default(); // the figures are of agents' connections
            tasks.push(tokio::spawn(listening.serve(router, counts, ending)));
        }
        Ok(Self { address, metrics, shared, closes, tasks })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for metrics and health checks, if they have one of their own.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// A view of its studies for the operator.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::clone(&self.shared))
    }

    /// Ends it: no more connections, polls are answered, what is being made durable is, leases are let go.
    pub async fn stop(self) {
        let registry = self.shared.registry();
        let hosts = tokio::task::spawn_blocking(move || {
            for served in registry.studies.values() {
                served.with_host(crate::host::Host::close);
            }
        });
        // A panic of a study's thread is in the log already.
        let _ = hosts.await;
        self.closes.send_replace(true);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Looks now and then whether studies or agents have changed.
async fn look(shared: Arc<Shared>, mut closes: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = closing(&mut closes) => return,
        }
        if let Err(error) = shared.refresh().await {
            tracing::error!("studies and agents cannot be read: {error}");
        }
    }
}
