//! TLS configuration of a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Paths of a service's certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediate certificates, as PEM.
    pub certificate: PathBuf,
    /// The certificate's key, as PEM.
    pub key: PathBuf,
}

/// Error when setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsUnusable {
    /// A file is not usable.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with the file.
        message: String,
    },
    /// The certificate and the key do not match.
    #[error("{} and {} do not match: {message}", certificate.display(), key.display())]
    Pair {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// Error message of the TLS library.
        message: String,
    },
}

impl TlsFiles {
    /// Reads the files and returns a configuration for TLS 1.2 and 1.3 with HTTP/1.1.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, TlsUnusable> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(|certificates| certificates.collect())
            .map_err(|error| unusable(&self.certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(TlsUnusable::File {
                path: self.certificate.clone(),
                message: "it contains no certificate; expected a file with BEGIN CERTIFICATE"
                    .to_owned(),
            });
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| unusable(&self.key, "private key", &error))?;
        let pair = |error: rustls::Error| TlsUnusable::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            message: error.to_string(),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // With tickets, clients resume sessions without a certificate signature and without
        // server-side state.
        config.ticketer = Ticketer::new().map_err(pair)?;
        Ok(Arc::new(config))
    }
}

fn unusable(path: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> TlsUnusable {
    TlsUnusable::File {
        path: path.to_owned(),
        message: format!("cannot read a {what} in PEM form from it: {error}"),
    }
}
