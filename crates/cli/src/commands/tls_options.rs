//! Options for servers that use TLS, or plain HTTP behind a TLS proxy.

use std::path::PathBuf;

use fedbo_transport::TlsFiles;

/// Certificate of a server.
#[derive(clap::Args)]
pub(crate) struct TlsOptions {
    /// Certificate with its intermediate certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Allow plain HTTP on an address reachable by others, for use behind a TLS proxy
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) plain_http: bool,
}

impl TlsOptions {
    /// Returns the files of the certificate, or `None` for plain HTTP.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }
}
