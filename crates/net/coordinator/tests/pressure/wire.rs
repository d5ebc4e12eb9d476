//! Connections of honest agents and attackers.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A TLS connection.
pub(crate) struct Tls(pub(crate) StreamOwned<ClientConnection, TcpStream>);

/// The status and body of a response.
pub(crate) type Answer = (u16, Vec<u8>);

impl Tls {
    /// Connects, and completes the TLS handshake.
    pub(crate) fn connect(address: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut connection =
            ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Self(StreamOwned::new(connection, stream)))
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// Sends a request and reads its response.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.send(request)?;
        self.answer()
    }

    /// Reads a response.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        let mut block = [0; 4096];
        loop {
            let n = self.0.read(&mut block)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend(&block[..n]);
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
            let length = value("content-length: ").map_or(Ok(0), str::parse);
            let status = head.get(9..12).map(str::parse);
            let (Ok(length), Some(Ok(status))) = (length, status) else {
                return Err(io::Error::other(head));
            };
            if bytes.len() >= end + 4 + length {
                return Ok((status, bytes[end + 4..].to_vec()));
            }
        }
    }
}
