//! Options of servers that speak TLS, or plain HTTP behind a proxy that does.

use std::path::PathBuf;

use fedbo_transport::TlsFiles;

/// The certificate of a server.
#[derive(clap::Args)]
pub(crate) struct TlsOptions {
    /// Certificate and those between it and its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Speak plain HTTP on an address that others reach: for a proxy that speaks TLS in front of it
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) plain_http: bool,
}

impl TlsOptions {
    /// The files of the certificate; none for plain HTTP.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }
}
