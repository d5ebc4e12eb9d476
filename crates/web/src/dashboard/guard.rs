//! Access control for the pages. It rejects requests from pages of other sites in the same browser,
//! and from other users of this machine.
//!
//! All URLs are below a random path. Browsers send a host's cookies to every port, but only below
//! the cookie's path. Therefore, another user's server on another port of this machine does not
//! receive the cookie.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use fedbo_transport::authenticate;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode, Uri};

use super::request::Problem;
use crate::token::Token;

/// Allows only content from this server: no inline scripts, no requests to other origins, no
/// embedding in frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the path that contains all pages, without slashes. It stays the same for a stored token.
pub(super) fn path_of(token: &Token) -> String {
    token.derived("dashboard, path", PATH_BYTES).text().to_owned()
}

/// Bytes of the path. 80 bits are infeasible to guess.
const PATH_BYTES: usize = 10;
/// Bytes of the cookie, the same as for a token.
const COOKIE_BYTES: usize = 20;

/// Access rules for requests.
pub(crate) struct Guard {
    token: Token,
    /// A single-use token for the browser that the program opens, since that browser keeps the URL
    /// in its history.
    once: Mutex<Option<Token>>,
    /// The path that contains all pages, without slashes.
    path: String,
    /// Accepted values of the Host header.
    hosts: Vec<String>,
    /// The accepted host names of TLS proxies.
    names: Vec<String>,
    /// True if this server itself uses TLS.
    is_tls: bool,
    /// Name of the cookie, unique to each dashboard.
    cookie: String,
    /// Value of the cookie.
    known: Token,
    /// A second secret, which pages send with each action; `None` if actions are disabled.
    actions: Option<Token>,
}

impl Guard {
    /// Creates the guard of a server. `names` are additional host names, with a port unless it is
    /// the default of the scheme.
    pub(crate) fn new(token: Token, address: SocketAddr, names: &[String], is_tls: bool) -> Self {
        let port = address.port();
        let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        let mut hosts = names.clone();
        hosts.push(address.to_string());
        if is_local(address.ip()) {
            hosts.extend(LOCAL_NAMES.map(|name| format!("{name}:{port}")));
        }
        Self {
            path: path_of(&token),
            // A stolen cookie does not reveal the token, which may be valid for years.
            known: token.derived("dashboard, cookie", COOKIE_BYTES),
            token,
            once: Mutex::new(None),
            hosts,
            // Local names are used through `ssh -L`, over plain HTTP.
            names: names.into_iter().filter(|name| !is_local_name(name)).collect(),
            is_tls,
            cookie: format!("fedbo-{port}"),
            actions: None,
        }
    }

    /// Also accepts this token, for a single request.
    pub(crate) fn with_once(self, once: Token) -> Self {
        Self { once: Mutex::new(Some(once)), ..self }
    }

    /// Returns true if a token grants access. Consumes a single-use token.
    fn admits(&self, given: &str) -> bool {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        self.token.is(given) || once.take_if(|once| once.is(given)).is_some()
    }

    /// Also accepts actions with this secret.
    pub(crate) fn with_actions(self, actions: Option<Token>) -> Self {
        Self { actions, ..self }
    }

    fn is_host(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        self.hosts.contains(&host)
    }

    /// Returns the part of a path below the guard's path, with its leading slash; `None` if the
    /// path is not below it.
    fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix('/')?.strip_prefix(self.path.as_str())?;
        below.starts_with('/').then_some(below)
    }

    /// Returns true if the request contains the cookie.
    fn is_known(&self, request: &Request) -> bool {
        let cookies =
            request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.known.is(value))
    }

    /// Returns the response that rejects a request; `None` if the request is accepted.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let refused = |status, message: &str| Some(Problem::new(status, message).into_response());
        let headers = request.headers();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.is_host(host) {
            let message = "this dashboard does not have that name; open the address that the program printed, or name it with --host";
            return refused(StatusCode::MISDIRECTED_REQUEST, message);
        }
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let own = |origin: &str| {
            let host = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            host.is_some_and(|host| self.is_host(host))
        };
        if origin.is_some_and(|origin| !own(origin)) {
            return refused(StatusCode::FORBIDDEN, "the request comes from a page of another site");
        }
        let Some(below) = self.below(request.uri().path()) else {
            return Some(self.at_the_root(request));
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return self.refusal_of_action(request).map(IntoResponse::into_response);
        }
        if below.starts_with("/api/") && !is_same_site(headers) && !is_opened(headers) {
            return refused(StatusCode::FORBIDDEN, "the request comes from a page of another site");
        }
        if let Some(given) = token_of(request.uri())
            && below == "/"
        {
            return match self.admits(&given) {
                true => Some(self.welcome(request.uri(), host)),
                false => refused(StatusCode::UNAUTHORIZED, UNKNOWN),
            };
        }
        match self.is_known(request) {
            true => {
                // Unauthenticated connections are closed first when the connection limit is
                // reached.
                authenticate(request);
                None
            }
            false => refused(StatusCode::UNAUTHORIZED, UNKNOWN),
        }
    }

    /// Handles a request outside of the path. A client that has only the token, for example from a
    /// file, is redirected to the path. The path is not disclosed to anyone else.
    fn at_the_root(&self, request: &Request) -> Response {
        let uri = request.uri();
        let is_known = token_of(uri).is_some_and(|given| self.token.is(&given));
        match is_known && uri.path() == "/" && request.method() == Method::GET {
            true => led_to(&format!("./{}/?{}", self.path, uri.query().unwrap_or_default())),
            false => Problem::new(StatusCode::UNAUTHORIZED, UNKNOWN).into_response(),
        }
    }

    /// Returns the error for a rejected action request; `None` if the request is accepted.
    ///
    /// Pages of other sites can make a browser send the cookie, but not this content type and
    /// header. Other users of this machine have neither the path nor the cookie.
    fn refusal_of_action(&self, request: &Request) -> Option<Problem> {
        let refused = |status, message: &str| Some(Problem::new(status, message));
        let headers = request.headers();
        let Some(secret) = &self.actions else {
            return refused(StatusCode::METHOD_NOT_ALLOWED, NO_ACTIONS);
        };
        if request.method() != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "actions must be requested with POST");
        }
        if !self.is_known(request) {
            return refused(StatusCode::UNAUTHORIZED, UNKNOWN);
        }
        if !headers.contains_key(ORIGIN) || !is_same_site(headers) {
            let message =
                "an action must come from a page of this dashboard; the headers do not show this";
            return refused(StatusCode::FORBIDDEN, message);
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let message = "an action must be JSON, with Content-Type: application/json";
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
        }
        let given = headers.get(SECRET).and_then(|given| given.to_str().ok()).unwrap_or_default();
        match secret.is(given) {
            true => None,
            false => refused(
                StatusCode::FORBIDDEN,
                "the secret of this action does not match this dashboard, which may have been restarted; reload the page",
            ),
        }
    }

    /// Sets the cookie and redirects to the same page without the token, so that bookmarks and
    /// copied URLs do not contain it.
    fn welcome(&self, uri: &Uri, host: &str) -> Response {
        let rest =
            uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("token="));
        let rest: Vec<&str> = rest.filter(|pair| !pair.is_empty()).collect();
        // The redirect is relative, since a proxy can serve the dashboard below its own path.
        let mut response = led_to(&match rest.is_empty() {
            true => "./".to_owned(),
            false => format!("./?{}", rest.join("&")),
        });
        let is_secure = self.is_tls || self.names.contains(&host.to_lowercase());
        let secure = if is_secure { "; Secure" } else { "" };
        // Without a Path attribute, the cookie is scoped to the path that the browser requested,
        // even behind a proxy.
        let (name, value) = (&self.cookie, self.known.text());
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

/// Redirects a browser to another page.
fn led_to(page: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(page) = HeaderValue::try_from(page) {
        response.headers_mut().insert(LOCATION, page);
    }
    response
}

const UNKNOWN: &str = "open the address that the program printed at startup, with its token";

/// Error message if actions are disabled.
pub(super) const NO_ACTIONS: &str =
    "these pages are read-only (fedbo dashboard --actions serves actions too)";

/// Header that contains the secret of an action.
const SECRET: HeaderName = HeaderName::from_static("x-fedbo-action");

/// Returns true if the browser marks the request as same-origin, or does not send `Sec-Fetch-Site`.
pub(super) fn is_same_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin")
}

/// Returns true if the user opened the URL directly rather than from a page.
fn is_opened(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "none")
}

/// Returns the token in a URL's query.
fn token_of(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned)
}

/// Returns true for addresses that a browser on this machine can reach by local names.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

/// Names that a browser uses for its own machine.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Returns true if the host, with or without a port, is a local name.
fn is_local_name(host: &str) -> bool {
    LOCAL_NAMES.iter().any(|name| {
        host.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

/// Returns the pages below the guard's path, with the headers common to all responses.
pub(crate) fn guarded(pages: Router, guard: Guard) -> Router {
    let below = Router::new().nest(&format!("/{}/", guard.path), pages);
    below.layer(middleware::from_fn_with_state(Arc::new(guard), check))
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let always: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
