//! Connections: how many, how slow, in which form. What is not given a limit here has none (INV-18).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::metrics::Metrics;

/// What connections may use.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Open connections at most; more are closed at once.
    pub n_connections: usize,
    /// How long a handshake, and the head of a request, may take; an idle connection is closed after it.
    pub patience: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            n_connections: 4096,
            patience: Duration::from_secs(10),
        }
    }
}

/// How long an answer may wait for a client that does not read it.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests that are being answered may take when the service ends.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are buffered of a connection's requests.
const BUFFER: usize = 16 << 10;
/// Headers of a request at most.
const HEADERS: usize = 64;

/// Accepts connections until `closes` says so, then waits for requests that are being answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    mut closes: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(limits.n_connections));
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing(&mut closes) => break,
        };
        while connections.try_join_next().is_some() {}
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Of the peer, or of this machine when it has no more descriptors: others may be closed meanwhile.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            metrics.refused.inc();
            drop(stream);
            continue;
        };
        // Small answers leave at once; where the system refuses, they leave later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_PATIENCE));
        let (acceptor, router, metrics) = (acceptor.clone(), router.clone(), Arc::clone(&metrics));
        let closes = closes.clone();
        connections.spawn(async move {
            metrics.connections.inc();
            match acceptor {
                None => connection(Box::pin(stream), router, limits, closes).await,
                Some(acceptor) => {
                    let handshake = acceptor.accept(Box::pin(stream));
                    match timeout(limits.patience, handshake).await {
                        Ok(Ok(stream)) => connection(stream, router, limits, closes).await,
                        Ok(Err(error)) => tracing::debug!("no TLS connection: {error}"),
                        Err(_) => tracing::debug!("no TLS connection in time"),
                    }
                }
            }
            metrics.connections.dec();
            drop(permit);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(CLOSING_PATIENCE, all).await.is_err() {
        tracing::warn!("some requests were cut off when the service ended");
    }
}

/// Serves one connection to its end.
async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    limits: ConnectionLimits,
    mut closes: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_buf_size(BUFFER)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing(&mut closes) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// Until the service ends.
pub(crate) async fn closing(closes: &mut watch::Receiver<bool>) {
    // Whoever could say so is gone: that is the end too.
    let _ = closes.wait_for(|closes| *closes).await;
}
