//! TLS trust roots from the system and from a PEM file.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use super::LinkError;

/// Returns a rustls configuration that trusts the system's certificate authorities and those in a
/// PEM file.
pub(crate) fn tls_config(authority: Option<&Path>) -> Result<TlsConfig, LinkError> {
    let system = rustls_native_certs::load_native_certs();
    let mut roots: Vec<Certificate<'static>> = system
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if let Some(path) = authority {
        roots.extend(read(path)?);
    }
    if roots.is_empty() {
        let causes: Vec<String> = system.errors.iter().map(ToString::to_string).collect();
        let message = format!(
            "no certificate authority is known on this machine{}{}; install the package \
             ca-certificates, or name a PEM file in the setting ca",
            if causes.is_empty() { "" } else { ": " },
            causes.join("; ")
        );
        return Err(LinkError::Setting(message));
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// Checks that a PEM file contains at least one certificate.
///
/// # Errors
/// If the file cannot be read, or contains no certificate.
pub fn check_authority(path: &Path) -> Result<(), LinkError> {
    read(path).map(|_| ())
}

fn read(path: &Path) -> Result<Vec<Certificate<'static>>, LinkError> {
    let refused = |cause: String| {
        LinkError::Setting(format!(
            "{}: {cause}; expected a file of certificates in PEM form (the setting ca, --ca, --helper-ca)",
            path.display()
        ))
    };
    let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    match certificates.is_empty() {
        true => Err(refused("it contains no certificate".to_owned())),
        false => Ok(certificates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let error = tls_config(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("ca.pem") && error.contains("the setting ca"), "{error}");
        std::fs::write(&path, "no certificate").unwrap();
        let error = tls_config(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("contains no certificate"), "{error}");
    }
}
