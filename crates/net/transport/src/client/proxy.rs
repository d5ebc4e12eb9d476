//! Selects an outbound proxy.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ureq::http::Uri;
use ureq::{Proxy, ProxyProtocol};

use super::LinkError;
use super::address::is_this_machine;

/// Environment variables with the proxy for `https://` addresses, in order of precedence.
const HTTPS: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
/// Environment variables with the proxy for `http://` addresses, in order of precedence.
const HTTP: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
/// Environment variables with the hosts to connect to without a proxy.
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The outbound proxy of a client, as configured by the user.
///
/// With any setting, requests to this machine (`127.0.0.0/8`, `::1`, `localhost`, `*.localhost`)
/// and to hosts in `NO_PROXY` bypass the proxy.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ProxySetting {
    /// The proxy from the environment: `HTTPS_PROXY` or `HTTP_PROXY`, depending on the scheme of
    /// the address, or else `ALL_PROXY`.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// This proxy, `http://HOST:PORT` or `https://HOST:PORT`, optionally with `USER:PASSWORD@`
    /// before the host.
    Url(String),
}

impl FromStr for ProxySetting {
    type Err = &'static str;

    /// Parses the value of the configuration key `proxy` or of the option `--proxy`: a proxy
    /// address, or `none`.
    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.trim() {
            "none" => Ok(Self::Direct),
            url => parsed(url).map(|_| Self::Url(url.to_owned())),
        }
    }
}

impl fmt::Debug for ProxySetting {
    /// Omits the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "Environment",
            Self::Direct => "Direct",
            Self::Url(_) => "Url(..)",
        })
    }
}

/// Selects the proxy for requests to an address, or `None` for a direct connection.
///
/// Every client in this crate calls this function, so that the HTTP library never chooses a proxy.
///
/// # Errors
/// [`LinkError::Setting`] if the configured proxy or `url` is not a valid address.
pub fn proxy_for(url: &str, setting: &ProxySetting) -> Result<Option<Proxy>, LinkError> {
    let target: Uri =
        url.parse().map_err(|_| LinkError::Setting(format!("{url} is not an address")))?;
    let variable =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    chosen(&target, setting, &variable)
}

/// Returns true if the connection to the proxy itself uses TLS.
pub(crate) fn speaks_tls(proxy: &Proxy) -> bool {
    proxy.protocol() == ProxyProtocol::Https
}

fn chosen(
    target: &Uri,
    setting: &ProxySetting,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, LinkError> {
    let Some(host) = target.host() else {
        return Ok(None);
    };
    if is_local(host) {
        return Ok(None);
    }
    let first = |names: &[&'static str]| {
        names
            .iter()
            .find_map(|name| Some((*name, variable(name).filter(|text| !text.trim().is_empty())?)))
    };
    let is_https = target.scheme_str() == Some("https");
    let (source, given) = match setting {
        ProxySetting::Direct => return Ok(None),
        ProxySetting::Url(url) => ("proxy", url.clone()),
        ProxySetting::Environment => match first(if is_https { &HTTPS } else { &HTTP }) {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let port = target.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    if first(&NO_PROXY).is_some_and(|(_, list)| bypasses(&list, host, port)) {
        return Ok(None);
    }
    // The error omits the address, which may contain a password.
    parsed(given.trim()).map(Some).map_err(|expected| {
        LinkError::Setting(format!("{source} does not name a usable proxy: {expected}"))
    })
}

fn parsed(url: &str) -> Result<Proxy, &'static str> {
    const EXPECTED: &str =
        "expected http://HOST:PORT or https://HOST:PORT, or none for a direct connection";
    let proxy = Proxy::new(url).map_err(|_| EXPECTED)?;
    match proxy.protocol() {
        ProxyProtocol::Http | ProxyProtocol::Https if !proxy.host().is_empty() => Ok(proxy),
        _ => Err(EXPECTED),
    }
}

/// Returns true if the host is this machine.
fn is_local(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    let is_under_localhost =
        name.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case("localhost"));
    // Connecting to the unspecified address reaches this machine.
    is_this_machine(name)
        || is_under_localhost
        || address(name).is_some_and(|ip| ip.is_unspecified())
}

/// Parses an IP address, with or without brackets. An IPv4-mapped IPv6 address becomes an IPv4
/// address.
fn address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    inner.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// Returns true if a `NO_PROXY` list contains the host.
fn bypasses(list: &str, host: &str, port: u16) -> bool {
    list.split([',', ';', ' ', '\t'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| matches(entry, host, port))
}

/// Matches a host and port against one entry of `NO_PROXY`.
///
/// An entry is `*`, `NAME` (with all subdomains), `.NAME` or `*.NAME` (the same), an address, or a
/// network such as `10.0.0.0/8`. Names and addresses can end in `:PORT`, and `*` can replace the
/// beginning or the end of a name.
fn matches(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let ip = address(host);
    if let Some((network, bits)) = entry.split_once('/') {
        return match (address(network), bits.parse()) {
            (Some(network), Ok(bits)) => ip.is_some_and(|ip| is_within(ip, network, bits)),
            _ => {
                tracing::warn!(
                    "NO_PROXY: {entry:?} is not a network, expected for example 10.0.0.0/8"
                );
                false
            }
        };
    }
    let (name, of_port) = without_port(entry);
    if of_port.is_some_and(|listed| listed != port) {
        return false;
    }
    if let Some(listed) = address(name) {
        return ip == Some(listed);
    }
    let (name, host) =
        (name.trim_end_matches('.').to_lowercase(), host.trim_end_matches('.').to_lowercase());
    if let Some(start) = name.strip_suffix('*') {
        return !start.is_empty() && host.starts_with(start);
    }
    let name = name.strip_prefix('*').map_or(name.as_str(), |end| end).trim_start_matches('.');
    let above = host.strip_suffix(name);
    ip.is_none()
        && !name.is_empty()
        && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// Splits `HOST:PORT`. An IPv6 address can have a port only if it is in brackets.
fn without_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

/// Returns true if the first `bits` bits of two addresses are equal.
fn is_within(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) if bits <= 32 => {
            (ip.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) if bits <= 128 => {
            (ip.to_bits() ^ network.to_bits()).leading_zeros() >= bits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::{SocketAddr, TcpListener};
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;
    use crate::HttpClient;

    /// Returns the host and port of the proxy for a URL, given these environment variables.
    fn proxy(url: &str, setting: &ProxySetting, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxy = chosen(&url.parse().unwrap(), setting, &variable).unwrap();
        proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
    }

    fn by_environment(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        proxy(url, &ProxySetting::Environment, variables)
    }

    #[test]
    fn this_machine_is_never_proxied() {
        let variables = [
            ("HTTP_PROXY", "http://proxy:1"),
            ("HTTPS_PROXY", "http://proxy:2"),
            ("ALL_PROXY", "http://proxy:3"),
        ];
        let configured = "http://proxy:4".parse().unwrap();
        for scheme in ["http", "https"] {
            for host in [
                "127.0.0.1",
                "127.8.9.1",
                "[::1]",
                "[::ffff:127.0.0.1]",
                "localhost",
                "LocalHost.",
                "north.localhost",
                "0.0.0.0",
            ] {
                let url = format!("{scheme}://{host}:7433/v1");
                assert_eq!(by_environment(&url, &variables), None, "{url}");
                assert_eq!(proxy(&url, &configured, &variables), None, "{url}");
            }
            for host in
                ["127.0.0.1.example.org", "localhost.example.org", "notlocalhost", "128.0.0.1"]
            {
                let url = format!("{scheme}://{host}/");
                assert!(by_environment(&url, &variables).is_some(), "{url}");
            }
        }
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let both = [("HTTP_PROXY", "http://plain:1"), ("HTTPS_PROXY", "https://tls:2")];
        assert_eq!(by_environment("http://a.org", &both).as_deref(), Some("plain:1"));
        assert_eq!(by_environment("https://a.org", &both).as_deref(), Some("tls:2"));
        let lower = [("https_proxy", "lower:3"), ("HTTPS_PROXY", "upper:4")];
        assert_eq!(by_environment("https://a.org", &lower).as_deref(), Some("lower:3"));
        let all = [("ALL_PROXY", "http://all:5"), ("https_proxy", "")];
        assert_eq!(by_environment("https://a.org", &all).as_deref(), Some("all:5"));
        assert_eq!(by_environment("https://a.org", &[("HTTP_PROXY", "http://plain:1")]), None);
        assert_eq!(by_environment("https://a.org", &[]), None);
    }

    #[test]
    fn a_configured_proxy_comes_before_the_environment() {
        let variables = [("HTTPS_PROXY", "http://environment:1"), ("NO_PROXY", "inside.org")];
        let configured = "http://me:secret@configured:2".parse().unwrap();
        assert_eq!(
            proxy("https://a.org", &configured, &variables).as_deref(),
            Some("configured:2")
        );
        assert_eq!(proxy("https://inside.org", &configured, &variables), None);
        assert_eq!(proxy("https://a.org", &"none".parse().unwrap(), &variables), None);
        assert!(!format!("{configured:?}").contains("secret"));
    }

    #[test]
    fn no_proxy_has_names_suffixes_and_networks() {
        for (list, host, port, expected) in [
            ("*", "a.org", 443, true),
            ("a.org", "a.org", 443, true),
            ("A.org", "a.ORG", 443, true),
            ("a.org", "x.a.org", 443, true),
            (".a.org", "x.a.org", 443, true),
            (".a.org", "a.org", 443, true),
            ("*.a.org", "x.y.a.org", 443, true),
            ("a.org", "ba.org", 443, false),
            ("a.org", "a.org.evil.net", 443, false),
            ("b.org, a.org", "a.org", 443, true),
            ("b.org a.org", "a.org", 443, true),
            ("", "a.org", 443, false),
            (",", "a.org", 443, false),
            ("a.org:8443", "a.org", 8443, true),
            ("a.org:8443", "a.org", 443, false),
            ("10.1.2.3", "10.1.2.3", 443, true),
            ("10.1.2.3", "10.1.2.30", 443, false),
            ("10.1.2.3:80", "10.1.2.3", 443, false),
            ("10.0.0.0/8", "10.255.0.1", 443, true),
            ("10.0.0.0/8", "11.0.0.1", 443, false),
            ("192.168.4.0/22", "192.168.7.255", 443, true),
            ("192.168.4.0/22", "192.168.8.0", 443, false),
            ("192.168.4.7/32", "192.168.4.7", 443, true),
            ("0.0.0.0/0", "8.8.8.8", 443, true),
            ("10.0.0.0/8", "[::ffff:10.1.2.3]", 443, true),
            ("10.0.0.0/33", "10.0.0.1", 443, false),
            ("10.0.0.0/x", "10.0.0.1", 443, false),
            ("10.0.0.0/8", "ten.org", 443, false),
            ("fd00::/8", "[fd12:3456::1]", 443, true),
            ("fd00::/8", "[fe80::1]", 443, false),
            ("::/0", "[2001:db8::1]", 443, true),
            ("::/0", "10.0.0.1", 443, false),
            ("2001:db8::1", "[2001:db8::1]", 443, true),
            ("[2001:db8::1]:8443", "[2001:db8::1]", 8443, true),
            ("[2001:db8::1]:8443", "[2001:db8::1]", 443, false),
            ("192.168.*", "192.168.4.1", 443, true),
            ("192.168.*", "192.169.4.1", 443, false),
            ("1.2.3", "9.1.2.3", 443, false),
        ] {
            assert_eq!(bypasses(list, host, port), expected, "{list:?} of {host}:{port}");
        }
    }

    #[test]
    fn an_unusable_proxy_is_an_error_without_its_password() {
        for given in ["socks5://me:secret@proxy:1080", "ftp://proxy", "http://"] {
            assert!(given.parse::<ProxySetting>().is_err(), "{given}");
            let variable = |name: &str| (name == "HTTPS_PROXY").then(|| given.to_owned());
            let target = "https://a.org".parse().unwrap();
            let error =
                chosen(&target, &ProxySetting::Environment, &variable).unwrap_err().to_string();
            assert!(error.contains("HTTPS_PROXY") && error.contains("http://HOST:PORT"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    /// Clients in a process with `HTTP_PROXY` set use the proxy only for other machines.
    #[test]
    fn clients_send_nothing_for_this_machine_to_the_proxy_of_the_environment() {
        const MARK: &str = "FEDBO_TEST_PROXY";
        const ELSEWHERE: &str = "coordinator.invalid";
        if let Ok(address) = std::env::var(MARK) {
            for url in [format!("http://{address}"), format!("http://{ELSEWHERE}")] {
                let never = Arc::new(AtomicBool::new(false));
                let client = HttpClient::new(&url, None, never, "the coordinator").unwrap();
                let _none = client.get(None, "/signed", Duration::ZERO, 1024).unwrap_err();
            }
            return;
        }
        let (server, proxy) = (listener(), listener());
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture"]);
        again.arg("client::proxy::tests::clients_send_nothing_for_this_machine_to_the_proxy_of_the_environment");
        again.env(MARK, server.0.to_string()).env("HTTP_PROXY", format!("http://{}", proxy.0));
        for name in ["http_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            again.env_remove(name);
        }
        let ran = again.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        let heard = |of: Receiver<String>| -> Vec<String> { of.try_iter().collect() };
        assert_eq!(heard(server.1), ["GET /signed HTTP/1.1"]);
        assert_eq!(heard(proxy.1), [format!("CONNECT {ELSEWHERE}:80 HTTP/1.1")]);
    }

    /// Sends the first line of each request to the returned receiver, and closes the connection.
    ///
    /// Ignores TLS handshakes, which clients use to diagnose failed requests.
    fn listener() -> (SocketAddr, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (lines, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                const HANDSHAKE: u8 = 22;
                let mut reader = BufReader::new(stream.unwrap());
                if reader.fill_buf().unwrap().first() == Some(&HANDSHAKE) {
                    continue;
                }
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                lines.send(line.trim_end().to_owned()).unwrap();
            }
        });
        (address, heard)
    }
}
