//! HTTP client for signed requests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fedbo_wire::{
    Digest, HEADER_COUNTER, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME,
    PROTOCOL_VERSION, Problem, PublicKey, SigningKey, Stamp, digest, sign_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::LinkError;
use super::courier::{CarriedRequest, CarriedResponse, Courier};
use super::proxy::{ProxySetting, proxy_for, speaks_tls};
use super::tls_advice;
use super::trust_roots::tls_config;
use crate::{Clock as _, SystemClock};

/// Maximum size of a JSON response in bytes.
pub const JSON_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of headers in a carried response.
const CARRIED_HEADERS_MAX: usize = 64;
/// Maximum wait for a response while the hurry flag is set, measured from the start of the request.
const HURRY: Duration = Duration::from_secs(1);
/// Interval between checks of the stop flag.
const TICK: Duration = Duration::from_millis(50);

const CONNECT: Duration = Duration::from_secs(15);
const SEND_HEADERS: Duration = Duration::from_secs(20);
const SEND_BODY: Duration = Duration::from_secs(120);
/// Timeout for the head of a response, in addition to the `wait` of the request.
const ANSWER: Duration = Duration::from_secs(30);
const READ_BODY: Duration = Duration::from_secs(300);

/// HTTP client for one address. Sends signed and unsigned requests.
///
/// Uses HTTPS or HTTP, depending on the scheme of the address. [`ProxySetting`] documents the
/// choice of an outbound proxy.
///
/// Once the stop flag is set, calls fail with [`LinkError::Stopped`], and a request in flight
/// continues in the background. A client that sends through a courier has no stop flag.
#[derive(Debug)]
pub struct HttpClient {
    /// The address without a trailing slash. For a courier, the address as given.
    url: String,
    /// Name of the recipient, for messages.
    recipient: &'static str,
    carrier: Carrier,
    /// PEM file with certificates trusted in addition to the system's.
    authority: Option<PathBuf>,
}

/// Transport of requests: the client's own connections, or a courier.
#[derive(Debug)]
enum Carrier {
    Connections(Connections),
    Courier(Arc<dyn Courier>),
}

#[derive(Debug)]
struct Connections {
    client: ureq::Agent,
    stop: Arc<AtomicBool>,
    hurry: Arc<AtomicBool>,
    /// The request that was set aside, if any.
    set_aside: Mutex<Option<UnderWay>>,
}

/// A request in flight.
#[derive(Debug)]
struct UnderWay {
    /// Digest of method, target and body.
    digest: Digest,
    /// Description of the request, for logs.
    named: String,
    began: Instant,
    answer: Receiver<Result<Answer, LinkError>>,
}

/// The signer and recipient of a request. The signature is valid only for this recipient.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// The signer's key.
    pub key: &'a SigningKey,
    /// The recipient's key.
    pub to: PublicKey,
    /// The request counter, or 0 for requests without a counter.
    pub counter: u64,
}

/// A request before it is signed.
struct Ask<'a> {
    method: Method,
    target: &'a str,
    body: Vec<u8>,
    kind: &'static str,
    /// Additional time that the recipient may take to respond.
    wait: Duration,
    bytes_max: u64,
}

/// A response that follows this protocol and is not a refusal.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpClient {
    /// Creates a client for `url`, with the proxy from the environment. Messages call the server
    /// `recipient`, for example `the coordinator`.
    ///
    /// Trusts the system's certificate authorities and those in the PEM file `authority`.
    ///
    /// # Errors
    /// If the file does not contain certificates, no authority is trusted, or the proxy is not
    /// usable.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        stop: Arc<AtomicBool>,
        recipient: &'static str,
    ) -> Result<Self, LinkError> {
        Self::with_proxy(url, authority, &ProxySetting::Environment, stop, recipient)
    }

    /// Like [`HttpClient::new`], but with the given proxy setting.
    ///
    /// # Errors
    /// Same as [`HttpClient::new`].
    pub fn with_proxy(
        url: &str,
        authority: Option<&Path>,
        proxy: &ProxySetting,
        stop: Arc<AtomicBool>,
        recipient: &'static str,
    ) -> Result<Self, LinkError> {
        let is_https = url.starts_with("https:");
        let proxy = proxy_for(url, proxy)?;
        let needs_tls = is_https || proxy.as_ref().is_some_and(speaks_tls);
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .https_only(is_https)
            .max_redirects(0) // a signed request is valid for one server only
            .user_agent(concat!("fedbo-agent/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(SEND_HEADERS))
            .timeout_send_body(Some(SEND_BODY))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(READ_BODY))
            .proxy(proxy);
        if needs_tls {
            config = config.tls_config(tls_config(authority)?);
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            carrier: Carrier::Connections(Connections {
                client: config.build().new_agent(),
                stop,
                hurry: Arc::default(),
                set_aside: Mutex::default(),
            }),
            authority: authority.map(Path::to_owned),
            recipient,
        })
    }

    /// Creates a client for `recipient` that sends through a courier. `url` is used only in
    /// messages.
    #[must_use]
    pub fn carried(url: &str, courier: Arc<dyn Courier>, recipient: &'static str) -> Self {
        let carrier = Carrier::Courier(courier);
        Self { url: url.to_owned(), recipient, carrier, authority: None }
    }

    /// Returns a flag that shortens waits.
    ///
    /// While the flag is set, a request that is still in flight after one second fails with
    /// [`LinkError::SetAside`]. The exchange continues in the background. If the next request has
    /// the same method, target and body, it waits for the same response instead of being sent
    /// again. Any other request discards that response. Returns `None` if a courier carries the
    /// requests.
    #[must_use]
    pub fn hurry(&self) -> Option<Arc<AtomicBool>> {
        match &self.carrier {
            Carrier::Connections(connections) => Some(Arc::clone(&connections.hurry)),
            Carrier::Courier(_) => None,
        }
    }

    /// Sends a request and waits for its response.
    fn ask(&self, signer: Option<Signer<'_>>, ask: Ask<'_>) -> Result<Answer, LinkError> {
        let headers = headers(signer, &ask);
        let asked = OutgoingRequest {
            recipient: self.recipient,
            url: self.url.clone(),
            authority: self.authority.clone(),
            bytes_max: ask.bytes_max,
        };
        match &self.carrier {
            Carrier::Connections(connections) => connections.exchange(asked, &headers, ask),
            Carrier::Courier(courier) => {
                let answer = courier.carry(CarriedRequest {
                    method: ask.method.to_string(),
                    target: ask.target.to_owned(),
                    headers,
                    body: ask.body,
                })?;
                asked.carried(answer)
            }
        }
    }

    /// Sends a GET request. `wait` extends the response timeout, and `bytes_max` limits the size of
    /// a successful response. All resources except public ones require a signer.
    ///
    /// # Errors
    /// If the request is refused, or there is no usable response.
    pub fn get(
        &self,
        signer: Option<Signer<'_>>,
        target: &str,
        wait: Duration,
        bytes_max: u64,
    ) -> Result<Answer, LinkError> {
        let ask = Ask { method: Method::GET, target, body: Vec::new(), kind: "", wait, bytes_max };
        self.ask(signer, ask)
    }

    /// Sends bytes in a PUT request. The response is limited to [`JSON_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Same as [`HttpClient::get`].
    pub fn put(&self, signer: Signer<'_>, target: &str, body: &[u8]) -> Result<Answer, LinkError> {
        let ask = Ask {
            method: Method::PUT,
            target,
            body: body.to_vec(),
            kind: "application/octet-stream",
            wait: Duration::ZERO,
            bytes_max: JSON_BYTES_MAX,
        };
        self.ask(Some(signer), ask)
    }

    /// Sends bytes in a POST request. The response is limited to `bytes_max` bytes.
    ///
    /// # Errors
    /// Same as [`HttpClient::get`].
    pub fn post_bytes(
        &self,
        signer: Signer<'_>,
        target: &str,
        body: &[u8],
        bytes_max: u64,
    ) -> Result<Answer, LinkError> {
        let ask = Ask {
            method: Method::POST,
            target,
            body: body.to_vec(),
            kind: "application/octet-stream",
            wait: Duration::ZERO,
            bytes_max,
        };
        self.ask(Some(signer), ask)
    }

    /// Sends JSON in a POST request. The response is limited to [`JSON_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Same as [`HttpClient::get`].
    pub fn post(
        &self,
        signer: Signer<'_>,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Answer, LinkError> {
        self.post_for(signer, target, body, JSON_BYTES_MAX)
    }

    /// Sends JSON in a POST request. The response is limited to `bytes_max` bytes.
    ///
    /// # Errors
    /// Same as [`HttpClient::get`].
    pub fn post_for(
        &self,
        signer: Signer<'_>,
        target: &str,
        body: &impl Serialize,
        bytes_max: u64,
    ) -> Result<Answer, LinkError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            LinkError::Setting(format!("the request cannot be serialized: {error}"))
        })?;
        let ask = Ask {
            method: Method::POST,
            target,
            body,
            kind: "application/json",
            wait: Duration::ZERO,
            bytes_max,
        };
        self.ask(Some(signer), ask)
    }
}

/// Returns the headers of a request, including a signature if there is a signer.
fn headers(signer: Option<Signer<'_>>, ask: &Ask<'_>) -> Vec<(String, String)> {
    let mut headers = vec![(HEADER_PROTOCOL.to_owned(), PROTOCOL_VERSION.to_string())];
    if let Some(Signer { key, to, counter }) = signer {
        let stamp = Stamp { time_ms: SystemClock.now_ms(), counter };
        let signed = sign_request(key, &to, ask.method.as_str(), ask.target, &ask.body, stamp);
        headers.extend([
            (HEADER_KEY.to_owned(), signed.key.to_string()),
            (HEADER_TIME.to_owned(), stamp.time_ms.to_string()),
            (HEADER_COUNTER.to_owned(), stamp.counter.to_string()),
            (HEADER_SIGNATURE.to_owned(), signed.signature.to_string()),
        ]);
    }
    if ask.method != Method::GET {
        headers.push(("content-type".to_owned(), ask.kind.to_owned()));
    }
    headers
}

impl Connections {
    /// Sends a request, or resumes it if it was set aside, and waits for the response.
    fn exchange(
        &self,
        asked: OutgoingRequest,
        headers: &[(String, String)],
        ask: Ask<'_>,
    ) -> Result<Answer, LinkError> {
        let recipient = asked.recipient;
        let parts: [&[u8]; 3] = [ask.method.as_str().as_bytes(), ask.target.as_bytes(), &ask.body];
        let digest = digest("fedbo request under way, version 1", &parts);
        let set_aside = || self.set_aside.lock().unwrap_or_else(PoisonError::into_inner);
        let same = set_aside().take().filter(|under_way| under_way.digest == digest);
        let under_way = match same {
            Some(under_way) => under_way,
            None => self.send(digest, asked, headers, ask)?,
        };
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(LinkError::Stopped);
            }
            match under_way.answer.recv_timeout(TICK) {
                Ok(result) => {
                    let (named, ms) = (&under_way.named, under_way.began.elapsed().as_millis());
                    match &result {
                        Ok(answer) => tracing::debug!(
                            "{named}: status {}, {} bytes, {ms} ms",
                            answer.status,
                            answer.body.len()
                        ),
                        Err(error) => tracing::debug!("{named}: {ms} ms: {error}"),
                    }
                    return result;
                }
                Err(RecvTimeoutError::Timeout)
                    if self.hurry.load(Ordering::Relaxed) && under_way.began.elapsed() > HURRY =>
                {
                    *set_aside() = Some(under_way);
                    return Err(LinkError::SetAside);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(unreachable_by(recipient, "the request failed unexpectedly"));
                }
            }
        }
    }

    /// Sends a request on a separate thread, so that the caller can stop waiting for the response.
    fn send(
        &self,
        digest: Digest,
        asked: OutgoingRequest,
        headers: &[(String, String)],
        ask: Ask<'_>,
    ) -> Result<UnderWay, LinkError> {
        let Ask { method, target, body, wait, .. } = ask;
        let (client, recipient, timeout) = (self.client.clone(), asked.recipient, ANSWER + wait);
        let named = format!("{method} {}{target}", asked.url);
        let mut request = Request::builder().method(&method).uri(format!("{}{target}", asked.url));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let url = asked.url.clone();
        let unusable = |error: ureq::http::Error| LinkError::Setting(format!("{url}: {error}"));
        let (sender, answer) = sync_channel(1);
        let exchange: Box<dyn FnOnce() -> Result<Answer, LinkError> + Send> =
            if method == Method::GET {
                let request = request.body(()).map_err(unusable)?;
                Box::new(move || {
                    let request = client.configure_request(request);
                    let request = request.timeout_recv_response(Some(timeout)).build();
                    asked.answer(client.run(request))
                })
            } else {
                let request = request.body(body).map_err(unusable)?;
                Box::new(move || {
                    let request = client.configure_request(request);
                    let request = request.timeout_recv_response(Some(timeout)).build();
                    asked.answer(client.run(request))
                })
            };
        let began = Instant::now();
        let spawned = std::thread::Builder::new()
            .name("fedbo-agent-link".to_owned())
            .spawn(move || drop(sender.send(exchange()))); // the receiver may be gone
        spawned.map_err(|error| {
            unreachable_by(recipient, &format!("no thread can be started: {error}"))
        })?;
        Ok(UnderWay { digest, named, began, answer })
    }
}

impl Answer {
    /// Checks that the response has the status `expected`.
    ///
    /// # Errors
    /// If the response has a different status.
    pub fn has_status(&self, expected: u16) -> Result<(), LinkError> {
        if self.status == expected {
            return Ok(());
        }
        let reason = format!("the response has status {}, expected {expected}", self.status);
        Err(LinkError::Unusable { reason })
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// If the status is not a success, or the body cannot be deserialized.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, LinkError> {
        if !(200..300).contains(&self.status) {
            self.has_status(200)?;
        }
        serde_json::from_slice(&self.body).map_err(|error| LinkError::Unusable {
            reason: format!("the response has an unexpected form ({error})"),
        })
    }

    /// Parses a header that may be absent.
    ///
    /// # Errors
    /// If the header is present but unreadable.
    pub fn optional<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, LinkError> {
        match self.headers.contains_key(name) {
            true => self.header(name).map(Some),
            false => Ok(None),
        }
    }

    /// Parses a header.
    ///
    /// # Errors
    /// If the header is absent or unreadable.
    pub fn header<T: std::str::FromStr>(&self, name: &str) -> Result<T, LinkError> {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        let parsed = value.and_then(|value| value.parse().ok());
        parsed.ok_or_else(|| LinkError::Unusable {
            reason: format!("the response's header {name} is missing or unreadable"),
        })
    }
}

/// The recipient of a request, and the size limit of the response.
struct OutgoingRequest {
    recipient: &'static str,
    url: String,
    authority: Option<PathBuf>,
    bytes_max: u64,
}

impl OutgoingRequest {
    /// Reads a response from a connection.
    fn answer(
        &self,
        result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Answer, LinkError> {
        let recipient = self.recipient;
        let response = result.map_err(|error| {
            let why = tls_advice::explained(&error, &self.url, self.authority.as_deref());
            unreachable_by(recipient, &why)
        })?;
        let status = response.status().as_u16();
        let (head, mut body) = response.into_parts();
        let limit = self.limit(status);
        // `ureq` reports an error at the limit, so the limit is one byte above the allowed length.
        let read = body.with_config().limit(limit.saturating_add(1)).read_to_vec();
        let body = read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => too_long(limit),
            error => unreachable_by(recipient, &format!("the response was cut off: {error}")),
        })?;
        self.sorted(status, head.headers, body)
    }

    /// Reads a response from a courier.
    fn carried(&self, answer: CarriedResponse) -> Result<Answer, LinkError> {
        let limit = self.limit(answer.status);
        if u64::try_from(answer.body.len()).map_or(true, |length| length > limit) {
            return Err(too_long(limit));
        }
        let count = answer.headers.len();
        if count > CARRIED_HEADERS_MAX {
            let reason = format!("the response has {count} headers; at most {CARRIED_HEADERS_MAX}");
            return Err(LinkError::Unusable { reason });
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &answer.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) else {
                let reason = "a header of the response is not valid HTTP".to_owned();
                return Err(LinkError::Unusable { reason });
            };
            headers.append(name, value);
        }
        self.sorted(answer.status, headers, answer.body)
    }

    /// Returns the maximum size of a response with this status.
    fn limit(&self, status: u16) -> u64 {
        if is_success(status) { self.bytes_max } else { JSON_BYTES_MAX }
    }

    /// Classifies a response as a success, a refusal, a response in a different version of the
    /// protocol, or an unexpected status from the recipient or an intermediary.
    fn sorted(&self, status: u16, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, LinkError> {
        let recipient = self.recipient;
        let spoken = headers.get(HEADER_PROTOCOL);
        let spoken = spoken.and_then(|found| found.to_str().ok()?.parse::<u16>().ok());
        if let Some(theirs) = spoken.filter(|theirs| *theirs != PROTOCOL_VERSION) {
            return Err(LinkError::OtherVersion { recipient, theirs });
        }
        let is_ours = spoken.is_some();
        match (is_success(status), is_ours) {
            (true, true) => Ok(Answer { status, headers, body }),
            (false, _) if let Ok(problem) = serde_json::from_slice::<Problem>(&body) => {
                let after = headers.get("retry-after");
                let seconds = after.and_then(|after| after.to_str().ok()?.parse().ok());
                Err(LinkError::Refused { problem, retry_after: seconds.map(Duration::from_secs) })
            }
            (_, is_ours) => {
                let reason = match is_ours {
                    true => format!("{recipient} responds with status {status}"),
                    false => format!(
                        "something that is not {recipient} of this version responds with status {status}"
                    ),
                };
                // Many TLS servers respond to plain HTTP with this status.
                let is_plain = status == 400 && !is_ours;
                let reason = match is_plain.then(|| tls_advice::of_plain(&self.url)) {
                    Some(Some(advice)) => format!("{reason}: {advice}"),
                    _ => reason,
                };
                // These statuses are temporary: the recipient is overloaded, or it is down and an
                // intermediary responds.
                match matches!(status, 408 | 429 | 500..=599) {
                    true => Err(LinkError::Unreachable { reason }),
                    false => Err(LinkError::Unusable { reason }),
                }
            }
        }
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn too_long(limit: u64) -> LinkError {
    LinkError::Unusable { reason: format!("the response is longer than {limit} bytes") }
}

fn unreachable_by(recipient: &str, reason: &str) -> LinkError {
    LinkError::Unreachable { reason: format!("{recipient} cannot be reached: {reason}") }
}
