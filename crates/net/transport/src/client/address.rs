//! Checks service addresses.

use ureq::http::Uri;

/// Checks an address and returns it without trailing slashes.
///
/// `allow_plain_http` permits `http://` addresses of other machines. Everybody on the network path
/// can then read the traffic.
///
/// # Errors
/// Describes the problem with the address and how to fix it.
pub fn checked_url(given: &str, allow_plain_http: bool) -> Result<String, &'static str> {
    const EXPECTED: &str = "expected https://HOST, optionally followed by :PORT or /PATH";
    let url = given.trim().trim_end_matches('/');
    let uri: Uri = url.parse().map_err(|_| EXPECTED)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(EXPECTED);
    };
    if authority.host().is_empty() || uri.query().is_some() || url.contains('#') {
        return Err(EXPECTED);
    }
    if authority.as_str().contains('@') {
        return Err("remove the part before the @: the agent signs its requests with its key");
    }
    // An invalid port parses as an authority without a port.
    let rest = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
    if rest.contains(':') && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(EXPECTED);
    }
    match scheme {
        "https" => Ok(url.to_owned()),
        "http" if allow_plain_http || is_this_machine(authority.host()) => Ok(url.to_owned()),
        "http" => Err(
            "http lets everybody on the route read the traffic; use https, or allow http with --plain-http",
        ),
        _ => Err(EXPECTED),
    }
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_of_this_machine() {
        for (given, url) in [
            ("https://fed.example.org", "https://fed.example.org"),
            ("https://fed.example.org:8443/a/b/", "https://fed.example.org:8443/a/b"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("http://localhost:1", "http://localhost:1"),
        ] {
            assert_eq!(checked_url(given, false).unwrap(), url);
        }
        for (given, part) in [
            ("http://fed.example.org", "--plain-http"),
            ("http://127.0.0.1.example.org", "--plain-http"),
            ("fed.example.org", "expected https://HOST"),
            ("ftp://fed.example.org", "expected https://HOST"),
            ("https://fed.example.org?x=1", "expected https://HOST"),
            ("https://me:pw@fed.example.org", "before the @"),
            ("", "expected https://HOST"),
            ("https://", "expected https://HOST"),
            ("http://127.0.0.1:abc", "expected https://HOST"),
            ("http://127.0.0.1:99999", "expected https://HOST"),
            ("http://[::1]:", "expected https://HOST"),
            ("https://fed.example.org:0", "expected https://HOST"),
        ] {
            let error = checked_url(given, false).unwrap_err();
            assert!(error.contains(part), "{given}: {error}");
        }
        assert!(checked_url("http://fed.example.org", true).is_ok());
    }
}
