//! The address of a PostgreSQL database, and a form of it without secrets.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use fedbo_error_class::masked;
use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::{Host, SslMode};

const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// The address of a PostgreSQL database in libpq's format,
/// `postgresql://USER@HOST:PORT/DATABASE?key=value`.
///
/// Supports the same libpq keys as the crate `postgres`. In addition, `sslmode` accepts
/// `verify-full`, and `sslrootcert=FILE` names a certificate authority that the system does not
/// know. Servers on other hosts require `verify-full`. The address can contain a password, which is
/// never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    /// The address in the form that the crate `postgres` parses. May contain a password.
    url: String,
    trust: TlsTrust,
    shown: String,
}

/// The server certificates to accept over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsTrust {
    /// All certificates. The connection is encrypted, but the server is not authenticated, as with
    /// libpq's `prefer` and `require`.
    Anyone,
    /// Certificates for this host that are signed by one of the system's certificate authorities.
    System,
    /// Certificates for this host that are signed by a certificate authority in this file.
    File(PathBuf),
}

impl PostgresAddress {
    /// Returns true if a string looks like a PostgreSQL address.
    pub fn is_postgres_address(text: &str) -> bool {
        let scheme = text.split(':').next().unwrap_or_default().to_lowercase();
        text.contains(':') && matches!(&*scheme, "postgresql" | "postgres")
    }

    /// Parses an address.
    ///
    /// # Errors
    /// Returns a message that describes the problem and does not contain the password.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Err("it begins with postgresql://".to_owned());
        }
        let shown = masked(text);
        let (url, tls) = without_tls_keys(text)?;
        let config: Config = url.parse().map_err(|error| in_words(&error, text))?;
        if config.get_password() == Some(b"***") {
            return Err(
                "*** replaces a hidden password; write the password, or omit it and set PGPASSWORD"
                    .to_owned(),
            );
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(
                "it names no host; for a server on this machine use localhost, or add ?host= with the folder of its socket"
                    .to_owned(),
            );
        }
        if config.get_dbname().is_none() {
            return Err("it names no database".to_owned());
        }
        let trust = tls.trust()?;
        if trust == TlsTrust::Anyone && !is_on_this_machine(&config) {
            return Err(
                "the server is on another host, and another machine on the route could answer in \
                 its place; add sslmode=verify-full after a ? or &, with sslrootcert=FILE for an \
                 authority of your own; a server on this machine is localhost, 127.0.0.1 or the \
                 folder of its socket"
                    .to_owned(),
            );
        }
        Ok(Self { url, trust, shown })
    }

    /// Returns a copy with a relative certificate path resolved against `folder`.
    #[must_use]
    pub fn relative_to(&self, folder: &Path) -> Self {
        let mut address = self.clone();
        if let TlsTrust::File(path) = &mut address.trust {
            *path = folder.join(&*path);
        }
        address
    }

    pub(crate) fn trust(&self) -> &TlsTrust {
        &self.trust
    }

    /// Returns the connection settings, without settings from the environment.
    ///
    /// # Errors
    /// Returns a message. Never fails for an address that was parsed.
    pub(crate) fn config(&self) -> Result<Config, String> {
        let mut config: Config = self.url.parse().map_err(|error| in_words(&error, &self.shown))?;
        if self.trust != TlsTrust::Anyone {
            config.ssl_mode(SslMode::Require);
        }
        // PostgreSQL does not support TLS on Unix sockets, where it is not needed.
        if config.get_hostaddrs().is_empty() && config.get_hosts().iter().all(is_socket) {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(config)
    }
}

/// Error for a string that is not a database address. The message shows the string without its
/// password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{shown:?} is not the address of a PostgreSQL database (postgresql://USER@HOST/DATABASE): {cause}"
)]
pub struct AddressUnreadable {
    shown: String,
    cause: String,
}

impl std::str::FromStr for PostgresAddress {
    type Err = AddressUnreadable;

    fn from_str(text: &str) -> Result<Self, AddressUnreadable> {
        Self::parse(text).map_err(|cause| AddressUnreadable { shown: masked(text), cause })
    }
}

impl fmt::Display for PostgresAddress {
    /// Formats the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    /// Formats the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresAddress").field(&self.shown).finish()
    }
}

/// Returns true if all servers are on this machine, so that no traffic crosses a network.
fn is_on_this_machine(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback); // hosts then only name certificates
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

#[cfg(unix)]
pub(crate) fn is_socket(host: &Host) -> bool {
    matches!(host, Host::Unix(_))
}

#[cfg(not(unix))]
pub(crate) fn is_socket(_: &Host) -> bool {
    false
}

/// The TLS keys that the crate `postgres` does not support.
#[derive(Default)]
struct TlsKeys {
    verifies: bool,
    root: Option<PathBuf>,
}

impl TlsKeys {
    fn trust(self) -> Result<TlsTrust, String> {
        match (self.verifies, self.root) {
            (false, None) => Ok(TlsTrust::Anyone),
            (true, None) => Ok(TlsTrust::System),
            (true, Some(path)) => Ok(TlsTrust::File(path)),
            (false, Some(_)) => Err("sslrootcert needs sslmode=verify-full".to_owned()),
        }
    }
}

/// Separates the TLS keys from an address.
fn without_tls_keys(text: &str) -> Result<(String, TlsKeys), String> {
    let mut keys = TlsKeys::default();
    let Some((start, query)) = text.split_once('?') else {
        return Ok((text.to_owned(), keys));
    };
    let mut rest = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("sslmode", "verify-full")) => keys.verifies = true,
            Some(("sslmode", mode @ ("allow" | "verify-ca"))) => {
                return Err(format!(
                    "sslmode={mode} is not supported; use disable, prefer, require or verify-full"
                ));
            }
            Some(("sslrootcert", file)) => {
                let file = percent_decode_str(file).decode_utf8();
                let file = file.map_err(|_| "sslrootcert is not UTF-8".to_owned())?;
                keys.root = Some(PathBuf::from(file.into_owned()));
            }
            _ => rest.push(part),
        }
    }
    let url = match rest.is_empty() {
        true => start.to_owned(),
        false => format!("{start}?{}", rest.join("&")),
    };
    Ok((url, keys))
}

/// Returns the error message of the crate `postgres` about an address. If the address seems to
/// contain an unescaped password, the message may quote a part of it, so a general message is
/// returned instead.
fn in_words(error: &postgres::Error, text: &str) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    match cause {
        Some(cause) if masked(text) == text => cause,
        _ => "it cannot be read; in a password, write %40 for @, %3A for :, %2F for /, %3F for ? and %26 for &"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgresql://me:secret@h/db", "postgresql://me:***@h/db"),
            ("postgres://me:secret@h:1,i:2/db?a=b", "postgres://me:***@h:1,i:2/db?a=b"),
            ("postgresql://me:se@c:r/e?t&x=@h/db", "postgresql://me:***@h/db"),
            ("postgresql://me@h/db?password=secret&a=b", "postgresql://me@h/db?password=***&a=b"),
            ("postgresql://h/db?PassWord=secret", "postgresql://h/db?PassWord=***"),
            ("postgresq://me:secret@h/db", "postgresq://me:***@h/db"),
            ("postgresql://h/db?password=secret:a@b", "postgresql://h/db?password=***"),
            ("postgresql://h/db?pass%77ord=secret&a=b", "postgresql://h/db?pass%77ord=***&a=b"),
            ("postgresql://h/db?a=b=password=secret", "postgresql://h/db?a=b=password=***"),
            ("postgresql://me@h:5432/db", "postgresql://me@h:5432/db"),
            ("postgresql://h/db?passwort=secret&a=b", "postgresql://h/db?passwort=***&a=b"),
            ("passes = 3 # a=b", "passes = 3 # a=b"),
        ] {
            assert_eq!(masked(text), shown);
            let told = match PostgresAddress::parse(text) {
                Ok(address) => format!("{address} {address:?}"),
                Err(words) => words,
            };
            assert!(!told.contains("secret") && !told.contains("r/e"), "{told}");
        }
        assert!(PostgresAddress::parse("postgresql://me:secret@localhost/db").is_ok());
    }

    #[test]
    fn what_cannot_be_used_is_said_in_words() {
        for (text, words) in [
            ("postgresql:/h/db", "postgresql://"),
            ("postgresql:///db", "no host"),
            ("postgresql://me@h", "no database"),
            ("postgresql://me@h:port/db", "port"),
            ("postgresql://me@h/db?sslcert=x", "sslcert"),
            ("postgresql://me@h/db?sslmode=verify-ca", "verify-full"),
            ("postgresql://me@h/db?sslrootcert=ca.pem", "verify-full"),
            ("postgresql://me:***@h/db", "PGPASSWORD"),
            ("postgresql://me:p@w@h:x/db", "%40"),
        ] {
            let told = PostgresAddress::parse(text).unwrap_err();
            assert!(told.contains(words), "{text}: {told}");
        }
    }

    #[test]
    fn keys_of_tls_are_read() {
        let parse = |query: &str| {
            let text = format!("postgresql://me@localhost/db{query}");
            PostgresAddress::parse(&text).unwrap()
        };
        assert_eq!(parse("").config().unwrap().get_ssl_mode(), SslMode::Prefer);
        assert_eq!(parse("").trust(), &TlsTrust::Anyone);
        let verified = parse("?application_name=a&sslmode=verify-full&sslrootcert=my%20ca.pem");
        let verified = verified.relative_to(Path::new("/data"));
        assert_eq!(verified.trust(), &TlsTrust::File("/data/my ca.pem".into()));
        let config = verified.config().unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        assert_eq!(config.get_application_name(), Some("a"));
        let socket = parse("?sslmode=require&host=/run/postgresql");
        assert_eq!(socket.config().unwrap().get_ssl_mode(), SslMode::Require);
        let socket =
            PostgresAddress::parse("postgresql://me@%2Frun%2Fpostgresql/db?sslmode=require");
        let config = socket.unwrap().config().unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }

    /// Otherwise, a man in the middle could impersonate the server, and receive the password and
    /// all stored data.
    #[test]
    fn a_server_on_another_host_is_verified_or_refused() {
        for server in [
            "db.example.org/db",
            "192.0.2.7/db?sslmode=require",
            "db/db?sslmode=prefer",
            "[2001:db8::1]/db?sslmode=disable",
            "localhost,db:5432/db",
            "localhost/db?hostaddr=192.0.2.7",
            "localhost.example.org/db",
        ] {
            let text = format!("postgresql://me@{server}");
            let told = PostgresAddress::parse(&text).unwrap_err();
            assert!(told.contains("add sslmode=verify-full"), "{text}: {told}");
            let query = if text.contains('?') { '&' } else { '?' };
            let text = format!("{text}{query}sslmode=verify-full");
            assert!(PostgresAddress::parse(&text).is_ok(), "{text}");
        }
        for server in [
            "localhost/db",
            "LOCALHOST:5433/db?sslmode=require",
            "127.0.0.1/db",
            "127.8.0.1/db?sslmode=disable",
            "[::1]/db",
            "%2Frun%2Fpostgresql/db",
            "db/db?hostaddr=127.0.0.1",
        ] {
            let text = format!("postgresql://me@{server}");
            assert!(PostgresAddress::parse(&text).is_ok(), "{text}");
        }
    }
}
