//! The way to a coordinator by HTTP.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedbo_transport::{Courier, HttpClient, JSON_BYTES_MAX, LinkError, Signer};
use fedbo_wire::{
    Accepted, CoordinatorProof, Digest, EnrolRequest, Enrolled, HEADER_CONFIG, HEADER_ELAPSED,
    HEADER_RESEND, HEADER_ROUND, HEADER_SIGNATURE, HEADER_STATE, PublicKey, RotateRequest,
    SigningKey, StudyState, StudyStatus,
};

use crate::link::{Link, Place, Poll, Polled, Progress, SignedConfig};

/// Bytes of a frozen configuration at most.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// The way to a coordinator, by HTTP.
#[derive(Debug)]
pub struct HttpLink {
    client: HttpClient,
    coordinator: PublicKey,
}

impl HttpLink {
    /// The way to the coordinator at `url`, whose key is `coordinator`: requests are signed for it. Its certificate is checked against the system's authorities and those in the PEM
    /// file `authority`.
    ///
    /// # Errors
    /// If the file holds no certificates.
    pub fn new(
        url: &str,
        authority: Option<&Path>,
        coordinator: PublicKey,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, LinkError> {
        Ok(Self { client: HttpClient::new(url, authority, stop, "the coordinator")?, coordinator })
    }

    /// The way to the coordinator with this key, whose requests a courier carries.
    pub(crate) fn carried(courier: Arc<dyn Courier>, coordinator: PublicKey) -> Self {
        let client = HttpClient::carried("by messages", courier, "the coordinator");
        Self { client, coordinator }
    }

    fn by<'a>(&self, key: &'a SigningKey) -> Signer<'a> {
        let to = self.coordinator;
        Signer { key, to }
    }
}

impl Link for HttpLink {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        let target = format!("/v1/coordinator?challenge={challenge}");
        self.client.get(None, &target, Duration::ZERO, JSON_BYTES_MAX)?.json()
    }

    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError> {
        self.client.post(self.by(key), "/v1/enrol", request)?.json()
    }

    fn config(&self, key: &SigningKey, study: &str) -> Result<SignedConfig, LinkError> {
        let target = format!("{}/config", study_target(study));
        let answer =
            self.client.get(Some(self.by(key)), &target, Duration::ZERO, CONFIG_BYTES_MAX)?;
        answer.has_status(200)?;
        Ok(SignedConfig {
            digest: answer.header(HEADER_CONFIG)?,
            signature: answer.header(HEADER_SIGNATURE)?,
            text: answer.body,
        })
    }

    fn upload(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> Result<(), LinkError> {
        self.client.put(self.by(key), &upload_target(to), body)?.json::<Accepted>().map(|_| ())
    }

    fn hurry(&self) -> Option<Arc<AtomicBool>> {
        self.client.hurry()
    }

    fn handouts(&self, key: &SigningKey, study: &str, poll: Poll) -> Result<Polled, LinkError> {
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
        let answer = self.client.get(Some(self.by(key)), &target, wait, poll.bytes_max)?;
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
        }))
    }

    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError> {
        let target = study_target(study);
        self.client.get(Some(self.by(key)), &target, Duration::ZERO, JSON_BYTES_MAX)?.json()
    }

    fn rotate(
        &self,
        key: &SigningKey,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError> {
        let target = format!("{}/key", study_target(study));
        self.client.post(self.by(key), &target, request)?.json::<Accepted>().map(|_| ())
    }
}

/// The target of an upload.
pub(crate) fn upload_target(to: Place<'_>) -> String {
    format!("{}/rounds/{}/slots/{}", study_target(to.study), to.round, to.slot)
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
        assert_eq!(study_target("a b/ä?#%"), "/v1/studies/a%20b%2F%C3%A4%3F%23%25");
    }
}
