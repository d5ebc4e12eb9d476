//! Advice on failed connections, mostly on TLS errors.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, InvalidMessage, RootCertStore};
use ureq::http::Uri;

/// Timeout of a TLS probe.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of certificate names in a message.
const N_NAMES: usize = 8;

/// Explains why a connection failed and how to fix it. Returns the library's message if no advice
/// applies.
///
/// `authority` is the PEM file with certificates trusted in addition to the system's.
pub(crate) fn explained(error: &ureq::Error, url: &str, authority: Option<&Path>) -> String {
    let advice = match of_rustls(error) {
        Some(error) => of_tls(error, url, authority),
        None if is_garbled(error) => of_plain(url),
        None => of_address(error),
    };
    advice.unwrap_or_else(|| error.to_string())
}

/// Returns advice if there is no server at the address.
fn of_address(error: &ureq::Error) -> Option<String> {
    use std::io::ErrorKind;
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => Some(format!(
            "{error}: no server listens there; check the host, the port and that the server runs"
        )),
        ureq::Error::HostNotFound => Some("no host has this name; check the address".to_owned()),
        _ => None,
    }
}

/// Recommends `https://` if the address is `http://` but the server uses TLS.
pub(crate) fn of_plain(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://")?;
    speaks_tls(url).then(|| {
        format!(
            "the server uses TLS, but the address is plain HTTP; use https:// instead of http://, https://{rest}"
        )
    })
}

/// Extracts the TLS error that an error wraps, if any.
fn of_rustls(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Other(error) => error.downcast_ref(),
        _ => None,
    }
}

/// Returns true if the response is empty or not HTTP, as it is from a server that expects TLS.
fn is_garbled(error: &ureq::Error) -> bool {
    use std::io::ErrorKind;
    match error {
        ureq::Error::Protocol(_) => true,
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        _ => false,
    }
}

fn of_tls(error: &rustls::Error, url: &str, authority: Option<&Path>) -> Option<String> {
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        // The server responded in plain HTTP, whose first bytes are not a TLS record.
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => {
            let rest = url.strip_prefix("https://").unwrap_or(url);
            return Some(format!(
                "the server does not use TLS; use http:// instead of https:// if plain HTTP is \
                 intended, http://{rest}, or have a certificate installed on the server \
                 (coordinators: --tls-cert and --tls-key)"
            ));
        }
        _ => return None,
    };
    Some(match certificate {
        CertificateError::UnknownIssuer => {
            let known = match authority {
                None => "this machine does not know the authority of the server's certificate".to_owned(),
                Some(path) => format!(
                    "neither {} nor this machine has the authority of the server's certificate",
                    path.display()
                ),
            };
            format!("{known}; name the file of this authority (PEM) with --ca FILE, or as ca = \"FILE\" in the file of an agent or peer")
        }
        CertificateError::BadSignature => format!(
            "the server's certificate was not made by the authority of that name in {}; get the current file of the authority from the server's operator",
            authority.map_or("this machine's store".into(), |path| path.display().to_string())
        ),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().take(N_NAMES).map(|name| bare(name)).collect();
            let names = match names.is_empty() {
                true => "has no name".to_owned(),
                false => format!("is for {}", names.join(", ")),
            };
            format!(
                "the server's certificate {names}, not for {}; use a name in the certificate, or have a certificate made for this name",
                host(url)
            )
        }
        CertificateError::NotValidForName => format!(
            "the server's certificate is not for {}; use a name in the certificate, or have a certificate made for this name",
            host(url)
        ),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the server's certificate expired {} ago; the server's operator must renew it, unless the clock of this machine is wrong",
            span(*not_after, *time)
        ),
        CertificateError::Expired => "the server's certificate has expired; the server's operator must renew it, unless the clock of this machine is wrong".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the server's certificate becomes valid in {}; correct the clock of this machine, or have a certificate made that is valid now",
            span(*time, *not_before)
        ),
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of an authority, which cannot also be a server's; \
             have this authority sign one for the server (for experiments: fedbo dev certs)"
                .to_owned()
        }
        other => format!("the server's certificate is not valid: {other}; ask the server's operator to fix it"),
    })
}

/// Extracts the name from a certificate's `DnsName("a")` or `IpAddress(::1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

/// Formats the time between two instants.
fn span(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    let (n, what) = match seconds {
        0..120 => (seconds, "second"),
        120..7200 => (seconds / 60, "minute"),
        7200..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn host(url: &str) -> String {
    let uri: Option<Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(Uri::host);
    host.unwrap_or(url).to_owned()
}

/// Returns true if the server at an address responds to a TLS ClientHello with TLS.
fn speaks_tls(url: &str) -> bool {
    greeted(url).unwrap_or(false)
}

fn greeted(url: &str) -> Option<bool> {
    const HANDSHAKE: u8 = 22;
    const ALERT: u8 = 21;
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let address = (host, uri.port_u16().unwrap_or(80)).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(RootCertStore::empty()) // trusts nothing; sends no request
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let mut greeting = Vec::new();
    let mut connection = ClientConnection::new(Arc::new(config), name).ok()?;
    connection.write_tls(&mut greeting).ok()?;
    stream.write_all(&greeting).ok()?;
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    Some(matches!(head, [HANDSHAKE | ALERT, 3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names_are_those_of_people() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for (seconds, words) in
            [(1, "1 second"), (121, "2 minutes"), (7200, "2 hours"), (864_000, "10 days")]
        {
            assert_eq!(span(at(1000), at(1000 + seconds)), words);
        }
        assert_eq!(bare("DnsName(\"localhost\")"), "localhost");
        assert_eq!(bare("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare("odd"), "odd");
        assert_eq!(host("https://fed.example.org:8443/a"), "fed.example.org");
    }
}
