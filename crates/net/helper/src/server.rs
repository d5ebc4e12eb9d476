//! A running helper service.

use std::net::SocketAddr;
use std::sync::Arc;

use fedbo_error_class::{Class, Classified};
use fedbo_transport::{ConnectionCounts, ListenError, ListenSettings, Listening};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::HelperError;
use crate::home::Home;
use crate::service::{Shared, router};

/// Error while starting a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The service cannot listen on its address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The helper's folder cannot be read.
    #[error(transparent)]
    Helper(#[from] HelperError),
}

impl Classified for ServiceError {
    fn class(&self) -> Class {
        match self {
            Self::Helper(error) => error.class(),
            Self::Listen(error) => error.class(),
        }
    }
}

/// A running helper service.
pub struct Service {
    address: SocketAddr,
    closes: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Service {
    /// Starts the service on the current runtime. The service accepts requests once this returns.
    ///
    /// # Errors
    /// If the address or the certificate cannot be used, or the folder cannot be read.
    pub fn start(home: Home, listen: &ListenSettings) -> Result<Self, ServiceError> {
        let shared = Arc::new(Shared::new(home)?);
        let listening = Listening::start(listen)?;
        let address = listening.address();
        let (closes, ending) = watch::channel(false);
        let serving = listening.serve(router(shared), ConnectionCounts::default(), ending);
        Ok(Self { address, closes, serving: tokio::spawn(serving) })
    }

    /// Returns the address on which the service listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the service once requests in progress are complete.
    pub async fn stop(self) {
        self.closes.send_replace(true);
        // A panic of the server has already been logged.
        let _ = self.serving.await;
    }
}
