//! The way to a coordinator by HTTP.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use fedbo_wire::{
    Accepted, EnrolRequest, Enrolled, EnrolmentToken, HEADER_CONFIG, HEADER_KEY, HEADER_PROTOCOL,
    HEADER_RESEND, HEADER_ROUND, HEADER_SIGNATURE, HEADER_STATE, HEADER_TIME, PROTOCOL_VERSION,
    Problem, RotateRequest, SigningKey, StudyState, StudyStatus, sign_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{HeaderMap, Method, Request};

use crate::authority::tls_config;
use crate::clock::{Clock as _, SystemClock};
use crate::link::{Link, LinkError, Place, Poll, Polled, SignedConfig, Standing};

/// Bytes of a JSON answer at most.
const JSON_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of a frozen configuration at most.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Longest time until the stop flag is looked at.
const TICK: Duration = Duration::from_millis(50);

const CONNECT: Duration = Duration::from_secs(15);
const SEND_HEADERS: Duration = Duration::from_secs(20);
const SEND_BODY: Duration = Duration::from_secs(120);
/// Besides what the coordinator was allowed to take.
const ANSWER: Duration = Duration::from_secs(30);
const READ_BODY: Duration = Duration::from_secs(300);

/// The way to a coordinator by HTTPS, or by HTTP where that was allowed. Proxies are those of the environment
/// (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`). A request is given up as soon as the stop flag is set.
#[derive(Debug)]
pub struct HttpLink {
    /// Without a slash at its end.
    url: String,
    client: ureq::Agent,
    stop: Arc<AtomicBool>,
}

/// A request before it is signed.
struct Ask<'a> {
    method: Method,
    target: &'a str,
    body: Vec<u8>,
    is_json: bool,
    /// What the coordinator may take to answer.
    wait: Duration,
    bytes_max: u64,
}

/// An answer of this protocol that is no refusal.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpLink {
    /// The way to the coordinator at `url`. Its certificate is checked against the system's authorities and those in the PEM
    /// file `authority`.
    ///
    /// # Errors
    /// If the file holds no certificates.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        stop: Arc<AtomicBool>,
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
            client: config.build().new_agent(),
            stop,
        })
    }

    /// Sends a request and waits for its answer, or for the stop flag: then the request is left to itself.
    fn ask(&self, key: &SigningKey, ask: Ask<'_>) -> Result<Answer, LinkError> {
        let Ask {
            method,
            target,
            body,
            is_json,
            wait,
            bytes_max,
        } = ask;
        let signed = sign_request(key, method.as_str(), target, &body, SystemClock.now_ms());
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("{}{target}", self.url))
            .header(HEADER_PROTOCOL, PROTOCOL_VERSION.to_string())
            .header(HEADER_KEY, signed.key.to_string())
            .header(HEADER_TIME, signed.time_ms.to_string())
            .header(HEADER_SIGNATURE, signed.signature.to_string());
        if method != Method::GET {
            let kind = if is_json {
                "application/json"
            } else {
                "application/octet-stream"
            };
            request = request.header("content-type", kind);
        }
        let unusable =
            |error: ureq::http::Error| LinkError::Setting(format!("{}: {error}", self.url));
        let (client, sent) = (self.client.clone(), sync_channel(1));
        let (sender, receiver) = sent;
        let timeout = ANSWER + wait;
        let exchange: Box<dyn FnOnce() -> Result<Answer, LinkError> + Send> =
            if method == Method::GET {
                let request = request.body(()).map_err(unusable)?;
                Box::new(move || {
                    let request = client.configure_request(request);
                    let request = request.timeout_recv_response(Some(timeout)).build();
                    answer(client.run(request), bytes_max)
                })
            } else {
                let request = request.body(body).map_err(unusable)?;
                Box::new(move || {
                    let request = client.configure_request(request);
                    let request = request.timeout_recv_response(Some(timeout)).build();
                    answer(client.run(request), bytes_max)
                })
            };
        let spawned = std::thread::Builder::new()
            .name("fedbo-agent-link".to_owned())
            .spawn(move || drop(sender.send(exchange()))); // nobody may be there any more
        spawned.map_err(|error| unreachable_by(format!("no thread can be started: {error}")))?;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(LinkError::Stopped);
            }
            match receiver.recv_timeout(TICK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(unreachable_by("the request was given up".to_owned()));
                }
            }
        }
    }

    fn get(&self, key: &SigningKey, target: &str, bytes_max: u64) -> Result<Answer, LinkError> {
        let ask = Ask {
            method: Method::GET,
            target,
            body: Vec::new(),
            is_json: false,
            wait: Duration::ZERO,
            bytes_max,
        };
        self.ask(key, ask)
    }

    fn post(
        &self,
        key: &SigningKey,
        target: &str,
        body: &impl Serialize,
    ) -> Result<Answer, LinkError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| LinkError::Setting(format!("the request has no form: {error}")))?;
        let ask = Ask {
            method: Method::POST,
            target,
            body,
            is_json: true,
            wait: Duration::ZERO,
            bytes_max: JSON_BYTES_MAX,
        };
        self.ask(key, ask)
    }
}

impl Link for HttpLink {
    fn enrol(&self, key: &SigningKey, token: &EnrolmentToken) -> Result<Enrolled, LinkError> {
        let token = token.clone();
        self.post(key, "/v1/enrol", &EnrolRequest { token })?.json()
    }

    fn config(&self, key: &SigningKey, study: &str) -> Result<SignedConfig, LinkError> {
        let target = format!("{}/config", study_target(study));
        let answer = self.get(key, &target, CONFIG_BYTES_MAX)?;
        answer.has_status(200)?;
        Ok(SignedConfig {
            digest: answer.header(HEADER_CONFIG)?,
            signature: answer.header(HEADER_SIGNATURE)?,
            text: answer.body,
        })
    }

    fn upload(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        let study = study_target(to.study);
        let target = format!("{study}/rounds/{}/slots/{}", to.round, to.slot);
        let ask = Ask {
            method: Method::PUT,
            target: &target,
            body: body.to_vec(),
            is_json: false,
            wait: Duration::ZERO,
            bytes_max: JSON_BYTES_MAX,
        };
        self.ask(key, ask)?.json::<Accepted>().map(|_| ())
    }

    fn handouts(&self, key: &SigningKey, study: &str, poll: Poll) -> Result<Polled, LinkError> {
        let mut target = format!(
            "{}/handouts?entries={}&wait={}",
            study_target(study),
            poll.entries,
            poll.wait_s
        );
        if let Some(after) = poll.after {
            target += &format!("&after={after}");
        }
        if let Some(delivered) = poll.delivered {
            target += &format!("&delivered={delivered}");
        }
        let ask = Ask {
            method: Method::GET,
            target: &target,
            body: Vec::new(),
            is_json: false,
            wait: Duration::from_secs(poll.wait_s),
            bytes_max: poll.bytes_max,
        };
        let answer = self.ask(key, ask)?;
        if answer.status == 200 {
            return Ok(Polled::Handout(answer.body));
        }
        answer.has_status(204)?;
        let resend = match answer.headers.contains_key(HEADER_RESEND) {
            true => Some(answer.header(HEADER_RESEND)?),
            false => None,
        };
        Ok(Polled::Nothing(Standing {
            round: answer.header(HEADER_ROUND)?,
            state: answer.header::<StudyState>(HEADER_STATE)?,
            resend,
        }))
    }

    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError> {
        self.get(key, &study_target(study), JSON_BYTES_MAX)?.json()
    }

    fn rotate(
        &self,
        key: &SigningKey,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        let target = format!("{}/key", study_target(study));
        self.post(key, &target, request)?
            .json::<Accepted>()
            .map(|_| ())
    }
}

impl Answer {
    fn has_status(&self, expected: u16) -> Result<(), LinkError> {
        if self.status == expected {
            return Ok(());
        }
        let reason = format!(
            "the answer has the status {}, expected {expected}",
            self.status
        );
        Err(LinkError::Unusable { reason })
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, LinkError> {
        if !(200..300).contains(&self.status) {
            self.has_status(200)?;
        }
        serde_json::from_slice(&self.body).map_err(|error| LinkError::Unusable {
            reason: format!("the answer has another form than expected ({error})"),
        })
    }

    fn header<T: std::str::FromStr>(&self, name: &str) -> Result<T, LinkError> {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        let parsed = value.and_then(|value| value.parse().ok());
        parsed.ok_or_else(|| LinkError::Unusable {
            reason: format!("the answer's header {name} is missing or unreadable"),
        })
    }
}

/// Sorts what came: an answer, a refusal by a coordinator, or something else in its place.
fn answer(
    result: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    bytes_max: u64,
) -> Result<Answer, LinkError> {
    let response = result.map_err(|error| unreachable_by(error.to_string()))?;
    let status = response.status().as_u16();
    let (head, mut body) = response.into_parts();
    let is_success = (200..300).contains(&status);
    let limit = if is_success {
        bytes_max
    } else {
        JSON_BYTES_MAX
    };
    // The limit is that of what is read before an error: one byte more than is allowed.
    let read = body
        .with_config()
        .limit(limit.saturating_add(1))
        .read_to_vec();
    let body = read.map_err(|error| match error {
        ureq::Error::BodyExceedsLimit(_) => LinkError::Unusable {
            reason: format!("the answer is longer than {limit} bytes"),
        },
        error => unreachable_by(format!("the answer was cut off: {error}")),
    })?;
    let version = PROTOCOL_VERSION.to_string();
    let is_ours = head
        .headers
        .get(HEADER_PROTOCOL)
        .is_some_and(|found| found.as_bytes() == version.as_bytes());
    match (is_success, is_ours) {
        (true, true) => Ok(Answer {
            status,
            headers: head.headers,
            body,
        }),
        (false, _) if let Ok(problem) = serde_json::from_slice::<Problem>(&body) => {
            let after = head.headers.get("retry-after");
            let seconds = after.and_then(|after| after.to_str().ok()?.parse().ok());
            Err(LinkError::Refused {
                problem,
                retry_after: seconds.map(Duration::from_secs),
            })
        }
        (_, is_ours) => {
            let what = if is_ours {
                "the coordinator"
            } else {
                "something that is no coordinator of this version"
            };
            let reason = format!("{what} answers with status {status}");
            // What stands before a coordinator answers so while it is away.
            match matches!(status, 408 | 429 | 500..=599) {
                true => Err(LinkError::Unreachable { reason }),
                false => Err(LinkError::Unusable { reason }),
            }
        }
    }
}

fn unreachable_by(reason: String) -> LinkError {
    LinkError::Unreachable {
        reason: format!("the coordinator cannot be reached: {reason}"),
    }
}

/// `/v1/studies/{study}`, the name as a part of a path.
fn study_target(study: &str) -> String {
    let mut target = "/v1/studies/".to_owned();
    for &byte in study.as_bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' => target.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => target.push(char::from(byte)),
            _ => target += &format!("%{byte:02X}"),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_paths() {
        assert_eq!(study_target("wine-2.0_a~"), "/v1/studies/wine-2.0_a~");
        assert_eq!(
            study_target("a b/ä?#%"),
            "/v1/studies/a%20b%2F%C3%A4%3F%23%25"
        );
    }
}
