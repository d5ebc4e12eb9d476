//! An HTTP client that signs its requests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fedbo_wire::{
    Digest, HEADER_KEY, HEADER_PROTOCOL, HEADER_SIGNATURE, HEADER_TIME, PROTOCOL_VERSION, Problem,
    PublicKey, SigningKey, digest, sign_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::LinkError;
use super::courier::{CarriedAnswer, CarriedRequest, Courier};
use super::tls_advice;
use super::trust_roots::tls_config;
use crate::{Clock as _, SystemClock};

/// Bytes of a JSON answer at most.
pub const JSON_BYTES_MAX: u64 = 64 * 1024;
/// Headers of an answer that a courier brings at most.
const CARRIED_HEADERS_MAX: usize = 64;
/// The time from its beginning for which a request is waited for by a client that is to hurry.
const HURRY: Duration = Duration::from_secs(1);
/// Longest time until the stop flag is looked at.
const TICK: Duration = Duration::from_millis(50);

const CONNECT: Duration = Duration::from_secs(15);
const SEND_HEADERS: Duration = Duration::from_secs(20);
const SEND_BODY: Duration = Duration::from_secs(120);
/// Besides the time that the receiver was allowed to take.
const ANSWER: Duration = Duration::from_secs(30);
const READ_BODY: Duration = Duration::from_secs(300);

/// A client of one address, with signed requests and others, by HTTPS, or by HTTP where that was allowed. Proxies are those of the environment
/// (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`). A request is given up as soon as the stop flag is set.
#[derive(Debug)]
pub struct HttpClient {
    /// Without a slash at its end.
    url: String,
    /// The name of the receiver, for messages.
    recipient: &'static str,
    carrier: Carrier,
    /// The file of certificates that are trusted besides those of the system.
    authority: Option<PathBuf>,
}

/// The carrier of requests: connections of this client, or a courier.
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
    /// The request that was set aside, if one was.
    set_aside: Mutex<Option<UnderWay>>,
}

/// A request that was sent, and whose answer is still to come.
#[derive(Debug)]
struct UnderWay {
    /// The digest of its method, target and body.
    digest: Digest,
    /// The request in words.
    named: String,
    began: Instant,
    answer: Receiver<Result<Answer, LinkError>>,
}

/// The signer of a request, and its receiver: to anybody else the signature says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// The signer's key.
    pub key: &'a SigningKey,
    /// The receiver's key.
    pub to: PublicKey,
}

/// A request before it is signed.
struct Ask<'a> {
    method: Method,
    target: &'a str,
    body: Vec<u8>,
    kind: &'static str,
    /// The time that the receiver may take to answer.
    wait: Duration,
    bytes_max: u64,
}

/// An answer of this protocol that is no refusal.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpClient {
    /// The way to `recipient` (for messages: `the coordinator`) at `url`. Its certificate is checked against the system's authorities
    /// and those in the PEM file `authority`.
    ///
    /// # Errors
    /// If the file holds no certificates.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        stop: Arc<AtomicBool>,
        recipient: &'static str,
    ) -> Result<Self, LinkError> {
        let is_https = url.starts_with("https:");
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .https_only(is_https)
            .max_redirects(0) // a signed request goes to whom it was signed for
            .user_agent(concat!("fedbo-agent/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(SEND_HEADERS))
            .timeout_send_body(Some(SEND_BODY))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(READ_BODY));
        if is_https {
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

    /// A client of `recipient` whose requests a courier carries; `url` names the way in messages.
    #[must_use]
    pub fn carried(url: &str, courier: Arc<dyn Courier>, recipient: &'static str) -> Self {
        let carrier = Carrier::Courier(courier);
        Self { url: url.to_owned(), recipient, carrier, authority: None }
    }

    /// The flag that, while it is set, ends the wait for an answer by [`LinkError::SetAside`] a second after the request began. The request
    /// goes on, and the same one, sent again, takes it up: on the way nothing shows of it. None where a courier carries requests.
    #[must_use]
    pub fn hurry(&self) -> Option<Arc<AtomicBool>> {
        match &self.carrier {
            Carrier::Connections(connections) => Some(Arc::clone(&connections.hurry)),
            Carrier::Courier(_) => None,
        }
    }

    /// Sends a request and waits for its answer.
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

    /// Asks for something that may take `wait` and has at most so many bytes; without a signer what anybody may ask for.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
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

    /// Puts bytes somewhere; the answer is in JSON.
    ///
    /// # Errors
    /// As for [`HttpClient::get`].
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

    /// Asks for something to be done, in bytes; the answer is in at most so many.
    ///
    /// # Errors
    /// As for [`HttpClient::get`].
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

    /// Asks for something to be done, in JSON.
    ///
    /// # Errors
    /// As for [`HttpClient::get`].
    pub fn post(
        &self,
        signer: Signer<'_>,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Answer, LinkError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| LinkError::Setting(format!("the request has no form: {error}")))?;
        let ask = Ask {
            method: Method::POST,
            target,
            body,
            kind: "application/json",
            wait: Duration::ZERO,
            bytes_max: JSON_BYTES_MAX,
        };
        self.ask(Some(signer), ask)
    }
}

/// Headers of a request, with the signature if there is a signer.
fn headers(signer: Option<Signer<'_>>, ask: &Ask<'_>) -> Vec<(String, String)> {
    let mut headers = vec![(HEADER_PROTOCOL.to_owned(), PROTOCOL_VERSION.to_string())];
    if let Some(Signer { key, to }) = signer {
        let now_ms = SystemClock.now_ms();
        let signed = sign_request(key, &to, ask.method.as_str(), ask.target, &ask.body, now_ms);
        headers.extend([
            (HEADER_KEY.to_owned(), signed.key.to_string()),
            (HEADER_TIME.to_owned(), signed.time_ms.to_string()),
            (HEADER_SIGNATURE.to_owned(), signed.signature.to_string()),
        ]);
    }
    if ask.method != Method::GET {
        headers.push(("content-type".to_owned(), ask.kind.to_owned()));
    }
    headers
}

impl Connections {
    /// Takes up the same request where it was set aside, or else sends it, and waits for its answer.
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
                    return Err(unreachable_by(recipient, "the request was given up"));
                }
            }
        }
    }

    /// Sends a request on a thread of its own, so that a wait for its answer can end.
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
            .spawn(move || drop(sender.send(exchange()))); // nobody may be there any more
        spawned.map_err(|error| {
            unreachable_by(recipient, &format!("no thread can be started: {error}"))
        })?;
        Ok(UnderWay { digest, named, began, answer })
    }
}

impl Answer {
    /// Checks the status.
    ///
    /// # Errors
    /// If it is another.
    pub fn has_status(&self, expected: u16) -> Result<(), LinkError> {
        if self.status == expected {
            return Ok(());
        }
        let reason = format!("the answer has the status {}, expected {expected}", self.status);
        Err(LinkError::Unusable { reason })
    }

    /// The answer in JSON.
    ///
    /// # Errors
    /// If it is none, or of another form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, LinkError> {
        if !(200..300).contains(&self.status) {
            self.has_status(200)?;
        }
        serde_json::from_slice(&self.body).map_err(|error| LinkError::Unusable {
            reason: format!("the answer has another form than expected ({error})"),
        })
    }

    /// A header that may be missing.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn optional<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, LinkError> {
        match self.headers.contains_key(name) {
            true => self.header(name).map(Some),
            false => Ok(None),
        }
    }

    /// A header.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn header<T: std::str::FromStr>(&self, name: &str) -> Result<T, LinkError> {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        let parsed = value.and_then(|value| value.parse().ok());
        parsed.ok_or_else(|| LinkError::Unusable {
            reason: format!("the answer's header {name} is missing or unreadable"),
        })
    }
}

/// The receiver of a request, and the limit on its answer.
struct OutgoingRequest {
    recipient: &'static str,
    url: String,
    authority: Option<PathBuf>,
    bytes_max: u64,
}

impl OutgoingRequest {
    /// Reads what came by a connection.
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
        // The limit is that of what is read before an error: one byte more than is allowed.
        let read = body.with_config().limit(limit.saturating_add(1)).read_to_vec();
        let body = read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => too_long(limit),
            error => unreachable_by(recipient, &format!("the answer was cut off: {error}")),
        })?;
        self.sorted(status, head.headers, body)
    }

    /// Reads what a courier has brought.
    fn carried(&self, answer: CarriedAnswer) -> Result<Answer, LinkError> {
        let limit = self.limit(answer.status);
        if u64::try_from(answer.body.len()).map_or(true, |length| length > limit) {
            return Err(too_long(limit));
        }
        let count = answer.headers.len();
        if count > CARRIED_HEADERS_MAX {
            let reason = format!("the answer has {count} headers; at most {CARRIED_HEADERS_MAX}");
            return Err(LinkError::Unusable { reason });
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &answer.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) else {
                let reason = "a header of the answer is not in the form of HTTP".to_owned();
                return Err(LinkError::Unusable { reason });
            };
            headers.append(name, value);
        }
        self.sorted(answer.status, headers, answer.body)
    }

    /// Bytes of an answer with this status at most.
    fn limit(&self, status: u16) -> u64 {
        if is_success(status) { self.bytes_max } else { JSON_BYTES_MAX }
    }

    /// Sorts what came: an answer, a refusal by who was asked, or something else in its place.
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
                    true => format!("{recipient} answers with status {status}"),
                    false => format!(
                        "something that is not {recipient} of this version answers with status {status}"
                    ),
                };
                // So answer many who expect TLS.
                let is_plain = status == 400 && !is_ours;
                let reason = match is_plain.then(|| tls_advice::of_plain(&self.url)) {
                    Some(Some(advice)) => format!("{reason}: {advice}"),
                    _ => reason,
                };
                // What stands before a service answers so while it is away.
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
    LinkError::Unusable { reason: format!("the answer is longer than {limit} bytes") }
}

fn unreachable_by(recipient: &str, reason: &str) -> LinkError {
    LinkError::Unreachable { reason: format!("{recipient} cannot be reached: {reason}") }
}
