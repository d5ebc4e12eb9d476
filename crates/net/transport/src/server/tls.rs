//! TLS of a service: its certificate and its key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files of a service's certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those between it and its authority, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// An error in setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsUnusable {
    /// A file cannot be used.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        message: String,
    },
    /// The two do not belong together.
    #[error("{} and {} do not belong together: {message}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The TLS library's error message.
        message: String,
    },
}

impl TlsFiles {
    /// Reads the files. TLS 1.2 and 1.3, HTTP/1.1.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, TlsUnusable> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(|certificates| certificates.collect())
            .map_err(|error| unusable(&self.certificate, "certificate", &error))?;
        if chain.is_empty() {
            return Err(TlsUnusable::File {
                path: self.certificate.clone(),
                message: "it holds no certificate; a file with BEGIN CERTIFICATE is expected"
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
        // Who comes again needs no signature of the certificate, and this process keeps nothing of who came before.
        config.ticketer = Ticketer::new().map_err(pair)?;
        Ok(Arc::new(config))
    }
}

fn unusable(path: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> TlsUnusable {
    TlsUnusable::File {
        path: path.to_owned(),
        message: format!("no {what} in PEM can be read from it: {error}"),
    }
}
