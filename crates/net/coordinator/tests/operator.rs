//! Metrics and health checks are only for the operator. If agents use TLS, metrics and health
//! checks are served on a separate address or not at all.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fedbo_coordinator::{Home, Service, ServiceSettings};
use fedbo_database::Mode;
use fedbo_transport::TlsFiles;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::runtime::Runtime;

const OPERATORS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];
const AGENTS: &str = "/v1/openapi.json";

fn settings(home: &Home, tls: Option<TlsFiles>, metrics: Option<SocketAddr>) -> ServiceSettings {
    ServiceSettings { tls, metrics, ..ServiceSettings::local(home, "test") }
}

/// Writes a certificate to the folder. Returns the certificate's files, and a client configuration
/// that trusts it.
fn certificate(folder: &Path) -> (TlsFiles, Arc<ClientConfig>) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&files.certificate, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pair.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (files, Arc::new(trust))
}

/// Sends a request, and returns the status of the response.
fn ask(mut stream: impl Read + Write, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.flush().unwrap();
    let mut answer = [0; 12]; // HTTP/1.1 200
    stream.read_exact(&mut answer).unwrap();
    std::str::from_utf8(&answer[9..]).unwrap().parse().unwrap()
}

fn plain(address: SocketAddr, path: &str) -> u16 {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    ask(stream, path)
}

fn encrypted(address: SocketAddr, trust: &Arc<ClientConfig>, path: &str) -> u16 {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(trust), name).unwrap();
    ask(StreamOwned::new(connection, stream), path)
}

#[test]
fn agents_on_tls_are_not_shown_the_operators_figures() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("coordinator"), Mode::Create).unwrap();
    let runtime = Runtime::new().unwrap();
    let (files, trust) = certificate(folder.path());
    let own = Some("127.0.0.1:0".parse().unwrap());
    for metrics in [own, None] {
        let settings = settings(&home, Some(files.clone()), metrics);
        let service = runtime.block_on(Service::start(settings)).unwrap();
        assert_eq!(service.metrics().is_some(), metrics.is_some());
        for path in OPERATORS {
            assert_eq!(encrypted(service.address(), &trust, path), 404, "{path}");
            if let Some(operators) = service.metrics() {
                assert_eq!(plain(operators, path), 200, "{path}");
            }
        }
        assert_eq!(encrypted(service.address(), &trust, AGENTS), 200);
        if let Some(operators) = service.metrics() {
            assert_eq!(plain(operators, AGENTS), 404);
        }
        runtime.block_on(service.stop());
    }
}

/// One address is enough behind a proxy or on a single machine. A second address separates the
/// operator from the agents.
#[test]
fn plain_http_serves_both_unless_metrics_have_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("coordinator"), Mode::Create).unwrap();
    let runtime = Runtime::new().unwrap();
    for (metrics, found) in [(None, 200), (Some("127.0.0.1:0".parse().unwrap()), 404)] {
        let service = Service::start(settings(&home, None, metrics));
        let service = runtime.block_on(service).unwrap();
        for path in OPERATORS {
            assert_eq!(plain(service.address(), path), found, "{path}");
        }
        assert_eq!(plain(service.address(), AGENTS), 200);
        runtime.block_on(service.stop());
    }
}
