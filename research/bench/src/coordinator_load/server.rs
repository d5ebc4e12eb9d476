//! Starts a coordinator in a separate process, and sends it requests from the benchmark.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use fedbo_coordinator::{Home, Service, ServiceSettings};
use fedbo_database::Mode;
use fedbo_transport::{ConnectionLimits, TlsFiles};

use super::process::{cpu_seconds, resident_mib};

/// File name of the certificate in the coordinator's folder.
pub(super) const CERTIFICATE: &str = "certificate.pem";
/// File name of the certificate's key.
pub(super) const CERTIFICATE_KEY: &str = "certificate.key.pem";

/// File name of the key shared by coordinators on one database.
pub(super) const KEY: &str = "shared.key";

/// Serves the studies of a folder, or of a database with the key in the folder, over TLS.
///
/// Runs until standard input is closed. The first line of standard output contains the addresses of
/// the service and its metrics.
pub(crate) fn serve(folder: &Path, store: Option<&str>) -> Result<()> {
    let home = match store {
        Some(url) => Home::shared(&url.parse()?, &folder.join(KEY), Mode::Existing)?,
        None => Home::open(folder, Mode::Existing)?,
    };
    let _lock = store.is_none().then(|| home.lock()).transpose()?;
    let settings = ServiceSettings {
        tls: Some(TlsFiles {
            certificate: folder.join(CERTIFICATE),
            key: folder.join(CERTIFICATE_KEY),
        }),
        metrics: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        limits: ConnectionLimits { n_connections: 8192, ..ConnectionLimits::default() },
        ..ServiceSettings::local(&home, format!("process {}", std::process::id()))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let service = runtime.block_on(Service::start(settings))?;
    let metrics = service.metrics().context("metrics have an address")?;
    println!("{} {metrics}", service.address());
    // The parent process stops this one by closing its standard input, explicitly or by exiting.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    runtime.block_on(service.stop());
    Ok(())
}

/// A coordinator in another process. Dropping it stops the process.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    metrics: SocketAddr,
}

impl Server {
    pub(super) fn start(folder: &Path, store: Option<&str>) -> Result<Self> {
        let shared = store.map(|url| format!("--store={url}"));
        let mut child = Command::new(std::env::current_exe()?)
            .arg("coordinator_serve")
            .arg(folder)
            .args(shared)
            .env("MALLOC_ARENA_MAX", "1") // as in the unit and the chart
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("its standard output is not piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let addresses = line.trim().split_once(' ');
        let Some((Ok(address), Ok(metrics))) =
            addresses.map(|(address, metrics)| (address.parse(), metrics.parse()))
        else {
            let status = child.wait()?;
            bail!("the coordinator did not start ({status})");
        };
        Ok(Self { child, address, metrics })
    }

    /// Returns the metrics served at `/metrics`.
    pub(super) fn metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.metrics)?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.child.id())
    }

    /// Returns the server's current and peak resident memory, in MiB.
    pub(super) fn resident_mib(&self) -> Result<(f64, f64)> {
        resident_mib(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process exits when its standard input is closed.
        let _ = self.child.wait();
    }
}
