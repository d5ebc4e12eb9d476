//! TLS to a PostgreSQL server is used if available, and required and verified if the address
//! demands it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test helpers: a failure here fails the test")]

use std::net::TcpListener;

use fedbo_storage::{Address, Mode, StorageError, open};
use fedbo_testkit::postgres::Server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Returns a certificate authority's certificate, a certificate for `localhost` signed by the
/// authority, and the key of the latter certificate.
fn certificates() -> [String; 3] {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let signed = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    [signed.pem(), server.pem(), key.serialize_pem()]
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Opens the storage. Returns true if the connection is encrypted.
fn is_encrypted(server: &Server, url: &str) -> Result<bool, StorageError> {
    let address: Address = url.parse()?;
    let storage = open(&address, Mode::Create)?;
    storage.create("study", "{}")?;
    let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'fedbo'";
    let rows = server.connect("postgres").query(sql, &[]).unwrap();
    assert_eq!(rows.len(), 1);
    Ok(rows[0].get(0))
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn tls_is_used_demanded_and_verified_as_the_address_says() {
    let [authority, certificate, key] = certificates();
    let [stranger, _, _] = certificates();
    let mut server = Server::start();
    let authority = server.path("authority.pem", &authority);
    let stranger = server.path("stranger.pem", &stranger);
    let certificate = server.path("server.pem", &certificate);
    let key = server.path("server.key", &key);
    let port = free_port().to_string();
    let settings = [
        ("listen_addresses", "localhost"),
        ("port", &*port),
        ("ssl_cert_file", certificate.to_str().unwrap()),
        ("ssl_key_file", key.to_str().unwrap()),
        ("ssl", "on"),
    ];
    server.restart_with(&settings);
    let at = |host: &str, query: &str| server.url_at(host, &format!("postgres{query}"));
    let verified = |host: &str, file: &std::path::Path| {
        let query = format!("?sslmode=verify-full&sslrootcert={}", file.display());
        is_encrypted(&server, &at(host, &query))
    };
    for (query, expected) in [("", true), ("?sslmode=require", true), ("?sslmode=disable", false)] {
        let found = is_encrypted(&server, &at("localhost", query));
        assert_eq!(found, Ok(expected), "{query:?}");
    }
    assert_eq!(verified("localhost", &authority), Ok(true));
    // The certificate is for a different name, from a different authority, or from an authority
    // that the system does not know, or the authority's file contains no certificate.
    for refused in [
        verified("127.0.0.1", &authority),
        verified("localhost", &stranger),
        is_encrypted(&server, &at("localhost", "?sslmode=verify-full")),
        verified("localhost", &key),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, StorageError::Connect { .. }), "{error:?}");
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
    }
    // The server does not support TLS.
    server.restart_with(&settings[..2]);
    let at = |query: &str| server.url_at("localhost", &format!("postgres{query}"));
    assert_eq!(is_encrypted(&server, &at("")), Ok(false));
    for query in ["?sslmode=require", "?sslmode=verify-full"] {
        let error = is_encrypted(&server, &at(query)).unwrap_err();
        assert!(error.to_string().contains("does not support TLS"), "{error}");
    }
}
