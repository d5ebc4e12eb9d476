//! A minimal HTTP client. It uses little processor time, because it shares the machine with the
//! server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Host name in the certificate.
pub(super) const SERVER_NAME: &str = "localhost";
/// Maximum size of a response in bytes.
const ANSWER_MAX: usize = 1 << 28;

/// Creates a TLS connector that trusts the given certificate.
pub(super) fn connector(
    certificate: rustls::pki_types::CertificateDer<'static>,
) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// HTTP connection over TLS.
pub(super) struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    n_read: usize,
}

/// Response to a request, valid until the next request.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) head: &'a str,
    pub(super) body: &'a [u8],
}

impl Client {
    pub(super) async fn connect(address: SocketAddr, connector: &TlsConnector) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(SERVER_NAME)?;
        Ok(Self {
            stream: connector.connect(name, stream).await?,
            buffer: vec![0; 4096],
            n_read: 0,
        })
    }

    /// Sends bytes without reading.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Returns true if the server closes the connection within the given time. Discards received
    /// data.
    pub(super) async fn ends_within(&mut self, time: Duration) -> bool {
        let ends =
            async { while !matches!(self.stream.read(&mut self.buffer).await, Ok(0) | Err(_)) {} };
        timeout(time, ends).await.is_ok()
    }

    /// Sends a request and reads the response.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.send(request).await?;
        self.n_read = 0;
        let (status, head_end, length) = loop {
            self.read_more().await?;
            let read = &self.buffer[..self.n_read];
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = std::str::from_utf8(&read[..end])?;
                let status = head.get(9..12).context("no status")?.parse()?;
                let length = header(head, "content-length").map_or(Ok(0), str::parse)?;
                break (status, end, length);
            }
        };
        let end = head_end + 4 + length;
        if length > ANSWER_MAX {
            bail!("a response of {length} bytes");
        }
        while self.n_read < end {
            self.read_more().await?;
        }
        Ok(Answer {
            status,
            head: std::str::from_utf8(&self.buffer[..head_end])?,
            body: &self.buffer[head_end + 4..end],
        })
    }

    async fn read_more(&mut self) -> Result<()> {
        if self.n_read == self.buffer.len() {
            self.buffer.resize(2 * self.n_read, 0);
        }
        match self.stream.read(&mut self.buffer[self.n_read..]).await? {
            0 => bail!("the server has closed the connection"),
            n => self.n_read += n,
        }
        Ok(())
    }
}

/// Returns the value of a header. Header names are matched case-insensitively.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
