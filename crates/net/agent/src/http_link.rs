//! An HTTP link to a coordinator.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_transport::{Courier, HttpClient, JSON_BYTES_MAX, LinkError, ProxySetting, Signer};
use fedbo_wire::{
    Accepted, CoordinatorProof, Digest, EnrolRequest, Enrolled, HEADER_CONFIG, HEADER_ELAPSED,
    HEADER_RESEND, HEADER_ROUND, HEADER_ROUND_KEY, HEADER_SIGNATURE, HEADER_SLOT, HEADER_STATE,
    PublicKey, RotateRequest, SigningKey, StudyState, StudyStatus,
};

use crate::link::{Caller, Link, Offer, Place, Poll, Polled, Progress};

/// Maximum size of a frozen configuration in bytes.
const CONFIG_BYTES_MAX: u64 = 16 << 20;
/// Maximum size in bytes of a response with a study's state. The response lists the rounds that the
/// agent's slots delivered.
const STATUS_BYTES_MAX: u64 = 4 << 20;

/// A link to a coordinator over HTTP.
#[derive(Debug)]
pub struct HttpLink {
    client: HttpClient,
    coordinator: PublicKey,
}

impl HttpLink {
    /// Creates a link to the coordinator at `url`. Requests are signed for the key `coordinator`.
    ///
    /// The server's certificate is checked against the system's authorities and those in the PEM
    /// file `authority`. The proxy is taken from the environment.
    ///
    /// # Errors
    /// If the file contains no certificates, or the proxy cannot be used.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        coordinator: PublicKey,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, LinkError> {
        Self::with_proxy(url, authority, &ProxySetting::Environment, coordinator, stop)
    }

    /// Like [`HttpLink::new`], but with an explicit proxy setting.
    ///
    /// # Errors
    /// As for [`HttpLink::new`].
    pub fn with_proxy(
        url: &str,
        authority: Option<&Path>,
        proxy: &ProxySetting,
        coordinator: PublicKey,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, LinkError> {
        let client = HttpClient::with_proxy(url, authority, proxy, stop, "the coordinator")?;
        Ok(Self { client, coordinator })
    }

    /// Creates a link to the coordinator with this key, over a courier.
    pub(crate) fn carried(courier: Arc<dyn Courier>, coordinator: PublicKey) -> Self {
        let client = HttpClient::carried("by messages", courier, "the coordinator");
        Self { client, coordinator }
    }

    fn by<'a>(&self, Caller { key, counter }: Caller<'a>) -> Signer<'a> {
        Signer { key, to: self.coordinator, counter }
    }

    /// Returns a signer for a request without a counter.
    fn uncounted<'a>(&self, key: &'a SigningKey) -> Signer<'a> {
        self.by(Caller { key, counter: 0 })
    }
}

impl Link for HttpLink {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        let target = format!("/v1/coordinator?challenge={challenge}");
        self.client.get(None, &target, Duration::ZERO, JSON_BYTES_MAX)?.json()
    }

    fn offer(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Offer, LinkError> {
        let answer =
            self.client.post_for(self.uncounted(key), "/v1/offer", request, CONFIG_BYTES_MAX)?;
        answer.has_status(200)?;
        Ok(Offer {
            slot: answer.header(HEADER_SLOT)?,
            digest: answer.header(HEADER_CONFIG)?,
            signature: answer.header(HEADER_SIGNATURE)?,
            text: answer.body,
        })
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        self.client.post(self.uncounted(key), "/v1/enrol", request)?.json()
    }

    fn upload(&self, by: Caller<'_>, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        self.client.put(self.by(by), &upload_target(to), body)?.json::<Accepted>().map(|_| ())
    }

    fn hurry(&self) -> Option<Arc<AtomicBool>> {
        self.client.hurry()
    }

    fn handouts(&self, by: Caller<'_>, study: &str, poll: Poll) -> Result<Polled, LinkError> {
        let mut target = format!(
            "{}/handouts?entries={}&wait={}",
            study_target(study),
            poll.entries,
            poll.wait_s
        );
        if poll.helper > 0 {
            target += &format!("&helper={}", poll.helper);
        }
        if let Some(after) = poll.after {
            target += &format!("&after={after}");
        }
        if let Some(delivered) = poll.delivered {
            target += &format!("&delivered={delivered}");
        }
        if let Some(state) = poll.state {
            target += &format!("&state={state}");
        }
        let wait = Duration::from_secs(poll.wait_s);
        let answer = self.client.get(Some(self.by(by)), &target, wait, poll.bytes_max)?;
        let elapsed_ms = answer.optional(HEADER_ELAPSED)?;
        if answer.status == 200 {
            let bytes = answer.body;
            return Ok(Polled::Handout { bytes, elapsed_ms });
        }
        answer.has_status(204)?;
        let resend = answer.optional(HEADER_RESEND)?;
        Ok(Polled::Nothing(Progress {
            round: answer.header(HEADER_ROUND)?,
            state: answer.header::<StudyState>(HEADER_STATE)?,
            resend,
            elapsed_ms,
            round_key: answer.optional(HEADER_ROUND_KEY)?,
        }))
    }

    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError> {
        let target = study_target(study);
        let signer = Some(self.uncounted(key));
        self.client.get(signer, &target, Duration::ZERO, STATUS_BYTES_MAX)?.json()
    }

    fn rotate(
        &self,
        by: Caller<'_>,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        let target = format!("{}/key", study_target(study));
        self.client.post(self.by(by), &target, request)?.json::<Accepted>().map(|_| ())
    }
}

/// Returns the request target of an upload.
pub(crate) fn upload_target(to: Place<'_>) -> String {
    format!("{}/rounds/{}/slots/{}", study_target(to.study), to.round, to.slot)
}

/// Returns `/v1/studies/{study}`, with the name percent-encoded.
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
        assert_eq!(study_target("a b/ä?#%"), "/v1/studies/a%20b%2F%C3%A4%3F%23%25");
    }
}
