//! Connections: how many, how slow, in which form. What is not given a limit here has none (INV-18).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use super::eviction::{ConnectionState, Unauthenticated};
use super::tls::{TlsFiles, TlsUnusable};

/// The settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// The address.
    pub address: SocketAddr,
    /// Its certificate; none for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// True if plain HTTP is also spoken on addresses that others reach.
    pub plain_http: bool,
    /// The limits of its connections.
    pub limits: ConnectionLimits,
}

/// An error in listening on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}{}", way_out(cause))]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Plain HTTP would leave this machine.
    #[error(
        "without a certificate only this machine is served, and {address} is reached by others; name a certificate and its key for \
         TLS, or --plain-http if something in front of it speaks TLS"
    )]
    Plain {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsUnusable),
}

/// Returns the way out where an address cannot be listened on.
fn way_out(cause: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match cause.kind() {
        ErrorKind::AddrInUse => "; end the program that listens there, or name another port",
        ErrorKind::AddrNotAvailable => "; name an address of this machine",
        ErrorKind::PermissionDenied => "; name a port from 1024 on",
        _ => "",
    }
}

/// Connections, counted.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts {
    /// Those that are open.
    pub open: Gauge,
    /// Those that were refused because too many were open.
    pub refused: Counter,
}

/// A service that listens on its address and answers nobody yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    limits: ConnectionLimits,
}

impl Listening {
    /// Takes the address, on the current runtime.
    ///
    /// # Errors
    /// If the address or the certificate cannot be used.
    pub fn start(settings: &ListenSettings) -> Result<Self, ListenError> {
        let asked = settings.address;
        if settings.tls.is_none() && !settings.plain_http && !asked.ip().is_loopback() {
            return Err(ListenError::Plain { address: asked });
        }
        let tls = settings.tls.as_ref().map(TlsFiles::config).transpose()?;
        let refused = |cause| ListenError::Address { address: asked, cause };
        let listener = listen(asked).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address, tls, limits: settings.limits })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until `closes` says so, then waits for requests that are being answered.
    pub async fn serve(
        self,
        router: Router,
        counts: ConnectionCounts,
        closes: watch::Receiver<bool>,
    ) {
        let Self { listener, tls, limits, .. } = self;
        serve(listener, tls, router, limits, counts, closes).await;
    }
}

/// Limits on connections.
///
/// All of them together hold at most
///
/// ```text
/// n_connections · (BYTES_EACH + 2 · body + answer)
/// ```
///
/// bytes: `body` is the largest request of the studies, 88 + 8 M of an upload and at least 1024, once as it is read and once as
/// it is decoded; `answer` the largest answer that is not shared, for a private study 168 and, for each release that an agent asks
/// for at once, 1056 and the size of a release; up to four releases are shared. Measured: an idle connection needs 11 KiB before
/// its handshake, 24 KiB after it and 26 KiB after an upload, so 4096 of them 105 MiB. Buffers of the system's sockets come to
/// that, at most 128 KiB in and 256 KiB out for each connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Open connections at most. One more takes the place of the oldest on which no agent of a study has signed a request; if
    /// there is none, it is closed at once.
    pub n_connections: usize,
    /// The time that a handshake, and the head of a request, may take; an idle connection is closed after it.
    pub patience: Duration,
    /// The time that the body of a request may take.
    pub body_patience: Duration,
    /// The time that an answer may wait for a client that reads nothing of it.
    pub answer_patience: Duration,
}

impl ConnectionLimits {
    /// Bytes that a connection needs at most beside bodies: 24 KiB for its task and the state of TLS, 16 KiB of requests, as
    /// much of answers, and 20 KiB for a record of TLS in each direction.
    pub const BYTES_EACH: usize = (24 + 16 + 16 + 2 * 20) << 10;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            n_connections: 4096,
            patience: Duration::from_secs(10),
            body_patience: Duration::from_secs(30),
            answer_patience: Duration::from_secs(30),
        }
    }
}

/// Bytes of a connection that the system holds at most on their way in, and on their way out; it takes as much again for itself.
/// Without a limit it takes megabytes from who sends what is not read, or reads nothing of its answers.
const SOCKET_BUFFERS: (u32, u32) = (64 << 10, 128 << 10);
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// The time that requests which are being answered may take when the service ends.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are buffered of a connection's requests, and as many of its answers on their way through TLS.
const BUFFER: usize = 16 << 10;
/// Headers of a request at most.
const HEADERS: usize = 64;

/// Listens on an address, with bounded buffers for all connections.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?; // after a restart, connections of before may still be closing
    let (inward, outward) = SOCKET_BUFFERS;
    socket.set_recv_buffer_size(inward)?;
    socket.set_send_buffer_size(outward)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until `closes` says so, then waits for requests that are being answered.
async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: ConnectionLimits,
    counts: ConnectionCounts,
    mut closes: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(limits.n_connections));
    let mut unauthenticated = Unauthenticated::new(limits.n_connections);
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
        if permits.available_permits() == 0 {
            counts.refused.inc();
            if !unauthenticated.evict_oldest() {
                drop(stream);
                continue;
            }
        }
        let permit = tokio::select! {
            permit = Arc::clone(&permits).acquire_owned() => permit,
            () = closing(&mut closes) => break,
        };
        let Ok(permit) = permit else {
            break; // nobody closes the semaphore
        };
        let state = unauthenticated.admit();
        // Small answers leave at once; where the system refuses, they leave later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.answer_patience));
        let (acceptor, router, counts) = (acceptor.clone(), router.clone(), counts.clone());
        let closes = closes.clone();
        connections.spawn(async move {
            counts.open.inc();
            let service =
                Known { router: TowerToHyperService::new(router), state: Arc::clone(&state) };
            let served = async {
                let Some(acceptor) = acceptor else {
                    return connection(Box::pin(stream), service, limits, closes).await;
                };
                let limit = |tls: &mut rustls::ServerConnection| {
                    tls.set_buffer_limit(Some(BUFFER));
                };
                let handshake = acceptor.accept_with(Box::pin(stream), limit);
                match timeout(limits.patience, handshake).await {
                    Ok(Ok(stream)) => connection(stream, service, limits, closes).await,
                    Ok(Err(error)) => tracing::debug!("no TLS connection: {error}"),
                    Err(_) => tracing::debug!("no TLS connection in time"),
                }
            };
            tokio::select! {
                () = served => {}
                () = state.evicted() => tracing::debug!("a connection made room for another"),
            }
            counts.open.dec();
            drop(permit);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(CLOSING_PATIENCE, all).await.is_err() {
        tracing::warn!("some requests were cut off when the service ended");
    }
}

/// Gives each request the state of its connection.
struct Known {
    router: TowerToHyperService<Router>,
    state: Arc<ConnectionState>,
}

impl Service<Request<Incoming>> for Known {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Arc::clone(&self.state));
        self.router.call(request)
    }
}

/// Serves one connection to its end.
async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    service: Known,
    limits: ConnectionLimits,
    mut closes: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_buf_size(BUFFER)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
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

/// Waits until the service ends.
pub async fn closing(closes: &mut watch::Receiver<bool>) {
    // Whoever could say so is gone: that is the end too.
    let _ = closes.wait_for(|closes| *closes).await;
}
