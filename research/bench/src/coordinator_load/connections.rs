//! Memory cost of open connections to a coordinator.

use std::net::SocketAddr;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Load;
use super::client::{Client, connector};
use super::server::Server;
use super::study::{Prepared, Uploads};
use crate::measure::{count, rounded};

/// Returns one row per number of connections.
///
/// Each row contains the growth of the server's memory, in MiB and in KiB per connection, with open
/// sockets only, after the handshakes, and after an upload on each connection.
pub(crate) fn rows(numbers: &[u32]) -> Result<Vec<Value>> {
    let load = Load::idle();
    let prepared = Prepared::new(&load)?;
    let uploads = Uploads::sign(&prepared, &load)?;
    let connector = connector(prepared.certificate.clone())?;
    let mut rows = Vec::new();
    for n in numbers {
        let server = Server::start(&prepared.folder(), None)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let grown = runtime.block_on(grow(&server, *n, &connector, &uploads))?;
        let mut row = crate::measure::columns(json!({ "peer": "fedbo", "connections": n }));
        for (stage, mib) in ["sockets", "handshakes", "uploads"].into_iter().zip(grown) {
            row.insert(format!("{stage}_mib"), rounded(mib, 1));
            let kib = 1024.0 * mib / f64::from(*n);
            row.insert(format!("{stage}_kib_each"), rounded(kib, 1));
        }
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

async fn grow(
    server: &Server,
    n: u32,
    connector: &TlsConnector,
    uploads: &Uploads,
) -> Result<[f64; 3]> {
    // A first connection triggers the one-time allocations of the service.
    let mut first = Client::connect(server.address, connector).await?;
    first.ask(&uploads.request(0, 0)).await?;
    let (before, _) = server.resident_mib()?;
    let sockets = silent(server.address, n).await?;
    let with_sockets = server.resident_mib()?.0 - before;
    drop(sockets);
    tokio::time::sleep(tokio::time::Duration::from_millis(500)).await;
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(Client::connect(server.address, connector).await?);
    }
    let with_handshakes = server.resident_mib()?.0 - before;
    for (at, client) in clients.iter_mut().enumerate() {
        // A valid upload. The study is paused, so the upload is read, checked and rejected.
        let slot = u32::try_from(at)? % Load::idle().agents;
        client.ask(&uploads.request(slot, 0)).await?;
    }
    let with_uploads = server.resident_mib()?.0 - before;
    anyhow::ensure!(count(clients.len()) >= f64::from(n), "connections are missing");
    Ok([with_sockets, with_handshakes, with_uploads])
}

async fn silent(address: SocketAddr, n: u32) -> Result<Vec<TcpStream>> {
    let mut sockets = Vec::new();
    for _ in 0..n {
        sockets.push(TcpStream::connect(address).await?);
    }
    // Wait until the server has accepted the last connection.
    tokio::time::sleep(tokio::time::Duration::from_millis(500)).await;
    Ok(sockets)
}
