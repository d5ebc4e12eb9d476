//! Accepts connections, and limits their number, buffers and duration (INV-18). `request.rs` limits
//! bodies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use fedbo_error_class::{Class, Classified};
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
use super::open_files::room_for;
use super::tls::{TlsFiles, TlsUnusable};

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Certificate and key, or `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// True if plain HTTP is allowed on addresses other than loopback.
    pub plain_http: bool,
    /// Limits on connections.
    pub limits: ConnectionLimits,
}

/// Error when listening on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Listening on the address failed.
    #[error("cannot listen on {address}: {cause}{}", advice(cause))]
    Address {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Plain HTTP would be reachable from other machines.
    #[error(
        "without a certificate only this machine is served, but {address} is reachable from \
         others; name a certificate and its key for TLS, or use --plain-http behind a TLS proxy"
    )]
    Plain {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsUnusable),
}

impl Classified for ListenError {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Returns advice for a failure to listen on an address.
fn advice(cause: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match cause.kind() {
        ErrorKind::AddrInUse => "; end the program that listens there, or name another port",
        ErrorKind::AddrNotAvailable => "; name an address of this machine",
        ErrorKind::PermissionDenied => "; name a port of at least 1024",
        _ => "",
    }
}

/// Metrics of connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCounts {
    /// Number of open connections.
    pub open: Gauge,
    /// Number of connections refused or evicted because too many were open.
    pub refused: Counter,
}

/// A service that is bound to its address but does not accept connections yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    limits: ConnectionLimits,
}

impl Listening {
    /// Binds the address on the current runtime.
    ///
    /// Raises the process's soft limit on open files if the connections need it. If the hard limit
    /// is too low, fewer connections are allowed.
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
        let mut limits = settings.limits;
        limits.n_connections = room_for(limits.n_connections);
        Ok(Self { listener, address, tls, limits })
    }

    /// Returns the local address that the service is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until `closes` is true, then waits up to 10 seconds for requests in
    /// progress.
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
/// All connections together hold at most
///
/// ```text
/// n_connections · (BYTES_EACH + 2 · body + answer)
/// ```
///
/// bytes. `body` is the size of the largest request in any study (88 + 8 M for an upload, and at
/// least 1024). It counts twice, because both the received and the decoded request are held.
/// `answer` is the size of the largest response that is not shared. For a private study, this is
/// 168 bytes, plus 1056 bytes and the size of a release for each release that an agent requests at
/// once. Up to four releases are shared.
///
/// In measurements, an idle connection takes 11 KiB before its handshake, 24 KiB after the
/// handshake and 26 KiB after an upload, so 4096 connections take 105 MiB. In addition, the
/// kernel's socket buffers take at most 128 KiB for receiving and 256 KiB for sending per
/// connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of open connections. A further connection evicts the oldest connection that
    /// no authorized request has authenticated ([`read_authorized`](crate::read_authorized)). If
    /// there is none, the new connection is closed immediately.
    pub n_connections: usize,
    /// Timeout for a TLS handshake and for a request's head. Idle connections are closed after the
    /// same time.
    pub patience: Duration,
    /// Timeout for a request's body.
    pub body_patience: Duration,
    /// Timeout for writing to a client that does not read its response.
    pub answer_patience: Duration,
}

impl ConnectionLimits {
    /// Maximum memory of a connection in bytes, without bodies. It consists of 24 KiB for the task
    /// and the TLS state, 16 KiB each for requests and responses, and 20 KiB for a TLS record in
    /// each direction.
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

/// Sizes of a connection's receive and send buffers in the kernel. The kernel doubles them for
/// bookkeeping.
///
/// Without a limit, the buffers grow to megabytes if a client sends data that is not read, or does
/// not read its responses.
const SOCKET_BUFFERS: (u32, u32) = (64 << 10, 128 << 10);
/// Maximum number of connections that are waiting to be accepted.
const BACKLOG: u32 = 1024;
/// Maximum wait for requests in progress at shutdown.
const CLOSING_PATIENCE: Duration = Duration::from_secs(10);
/// Size of a connection's buffer for requests, and of its TLS buffer for responses.
const BUFFER: usize = 16 << 10;
/// Maximum number of headers in a request.
const HEADERS: usize = 64;

/// Listens on an address with bounded socket buffers.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?; // after a restart, old connections may still be closing
    let (inward, outward) = SOCKET_BUFFERS;
    socket.set_recv_buffer_size(inward)?;
    socket.set_send_buffer_size(outward)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until `closes` is true, then waits up to 10 seconds for requests in
/// progress.
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
                if is_without_files(&error) && unauthenticated.evict_oldest() {
                    tracing::debug!("a connection makes room for another: {error}");
                    counts.refused.inc();
                    // Give the evicted connection's task time to close the connection.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                // The client aborted, or the machine is out of file descriptors, which other
                // processes may release.
                tracing::warn!("cannot accept a connection: {error}");
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
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
            break; // the semaphore is never closed
        };
        let state = unauthenticated.admit();
        // Send small responses immediately. If the option cannot be set, they are only delayed.
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
        tracing::warn!("some requests were cut off at shutdown");
    }
}

/// Returns true if accepting failed because this process or machine ran out of file descriptors or
/// memory.
fn is_without_files(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let without = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error
        .raw_os_error()
        .is_some_and(|code| without.iter().any(|errno| errno.raw_os_error() == code))
}

/// Attaches the state of the connection to each request.
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

/// Serves one connection until it closes.
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

/// Waits for the shutdown of the service.
pub async fn closing(closes: &mut watch::Receiver<bool>) {
    // A dropped sender also shuts down the service.
    let _ = closes.wait_for(|closes| *closes).await;
}
