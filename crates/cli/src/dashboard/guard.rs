//! The guard in front of the pages: a request of another site's page in the same browser is refused, and of another user of this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode, Uri};
use subtle::ConstantTimeEq;

use super::{Problem, actions};
use crate::exit::BadInput;

/// Nothing but what this server sends: no script within a page, no request elsewhere, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The secret that a browser shows to be let in.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A new one of 160 bits.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn new() -> Result<Self, BadInput> {
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes)
            .map_err(|error| BadInput(format!("the system has no randomness to give: {error}")))?;
        Ok(Self(data_encoding::BASE32_NOPAD.encode(&bytes).to_lowercase()))
    }

    /// A token that was kept as text.
    pub(super) fn kept(text: String) -> Self {
        Self(text)
    }

    /// The token as text, for the address that is opened.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on where they differ.
    fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// The rules for requests.
pub(crate) struct Guard {
    token: Token,
    /// Values of the header Host that mean this server.
    hosts: Vec<String>,
    /// Attributes of the cookie beyond those that it always has.
    attributes: &'static str,
    /// The cookie's name: cookies are shared by all ports of a host.
    cookie: String,
    /// The second secret, which a page shows with each action; none if no actions are served.
    actions: Option<Token>,
}

impl Guard {
    /// The guard of a server; `names` are further names of its host, with a port where it is not that of the scheme.
    pub(crate) fn new(token: Token, address: SocketAddr, names: &[String], is_tls: bool) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        hosts.push(address.to_string());
        if is_local(address.ip()) {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}")));
        }
        let attributes = if is_tls { "; Secure" } else { "" };
        Self { token, hosts, attributes, cookie: format!("fedbo-{port}"), actions: None }
    }

    /// The same, which also lets actions through that show this secret.
    pub(crate) fn with_actions(self, actions: Option<Token>) -> Self {
        Self { actions, ..self }
    }

    fn is_host(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        self.hosts.contains(&host)
    }

    /// Returns true if the cookie of the request is the token.
    fn is_known(&self, request: &Request) -> bool {
        let cookies =
            request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// The answer to a request that is not passed on.
    fn refusal(&self, request: &Request) -> Option<Response> {
        let refused = |status, message: &str| Some(Problem::new(status, message).into_response());
        let headers = request.headers();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.is_host(host) {
            let message = "this dashboard is not known by that name; open the address that the program printed, or name it with --host";
            return refused(StatusCode::MISDIRECTED_REQUEST, message);
        }
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let own = |origin: &str| {
            let host = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            host.is_some_and(|host| self.is_host(host))
        };
        if origin.is_some_and(|origin| !own(origin)) {
            return refused(StatusCode::FORBIDDEN, "a page of another site asked for this");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return self.refusal_of_action(request).map(IntoResponse::into_response);
        }
        if let Some(given) = token_of(request.uri())
            && request.uri().path() == "/"
        {
            return match self.token.is(&given) {
                true => Some(self.welcome(request.uri())),
                false => refused(StatusCode::UNAUTHORIZED, UNKNOWN),
            };
        }
        match self.is_known(request) {
            true => None,
            false => refused(StatusCode::UNAUTHORIZED, UNKNOWN),
        }
    }

    /// The refusal of a request that is to change something. Pages of other sites can make a browser send the cookie, but neither this type
    /// of content nor this header; and another user of this machine has no cookie.
    fn refusal_of_action(&self, request: &Request) -> Option<Problem> {
        let refused = |status, message: &str| Some(Problem::new(status, message));
        let headers = request.headers();
        let Some(secret) = &self.actions else {
            return refused(StatusCode::METHOD_NOT_ALLOWED, actions::NONE);
        };
        if request.method() != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "actions are asked for by POST");
        }
        if !self.is_known(request) {
            return refused(StatusCode::UNAUTHORIZED, UNKNOWN);
        }
        if !headers.contains_key(ORIGIN) || !is_same_site(headers) {
            let message =
                "an action comes from a page of this dashboard; its headers do not say so";
            return refused(StatusCode::FORBIDDEN, message);
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let message = "an action is JSON, with Content-Type: application/json";
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
        }
        let given = headers.get(SECRET).and_then(|given| given.to_str().ok()).unwrap_or_default();
        match secret.is(given) {
            true => None,
            false => refused(
                StatusCode::FORBIDDEN,
                "the secret of this action is not that of this dashboard, which may have been started anew; load the page again",
            ),
        }
    }

    /// Sets the cookie, and leads on to the same page without the token, which so stays out of the browser's history.
    fn welcome(&self, uri: &Uri) -> Response {
        let rest =
            uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("token="));
        let rest: Vec<&str> = rest.filter(|pair| !pair.is_empty()).collect();
        // Relative, for a proxy may serve it below a path of its own.
        let page = match rest.is_empty() {
            true => "./".to_owned(),
            false => format!("./?{}", rest.join("&")),
        };
        let (name, token, more) = (&self.cookie, self.token.text(), self.attributes);
        let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax{more}");
        let mut response = StatusCode::SEE_OTHER.into_response();
        for (name, value) in [(LOCATION, page), (SET_COOKIE, cookie)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

const UNKNOWN: &str = "open the address that the program printed when it began, with its token";

/// The header with the secret of an action.
const SECRET: HeaderName = HeaderName::from_static("x-fedbo-action");

/// Returns true unless the browser says that a page of another site asks.
pub(super) fn is_same_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin")
}

/// The token in the query of an address.
fn token_of(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned)
}

/// Addresses that a browser on this machine reaches by its own names.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

/// The pages behind the guard, with the headers that every answer has.
pub(crate) fn guarded(pages: Router, guard: Guard) -> Router {
    pages.layer(middleware::from_fn_with_state(Arc::new(guard), check))
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
