//! An agent's requests to its coordinator, independent of the transport.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_transport::LinkError;
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, RotateRequest, RoundKey, Signature,
    SigningKey, StudyState, StudyStatus,
};

/// A link to a coordinator. Requests are idempotent. A repeated request gets the same response as
/// the first.
///
/// Requests other than [`Link::prove`] are signed with the given key for the coordinator's key.
/// Requests with a [`Caller`] carry a counter. A call blocks until there is a response, or until
/// the link gives up.
pub trait Link {
    /// Requests a proof of the coordinator's identity without revealing the caller's identity. The
    /// link does not verify the proof.
    ///
    /// # Errors
    /// If there is no usable response.
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError>;

    /// Returns the challenge of a proof that an earlier process requested, if its response arrives
    /// in this process.
    fn pending_challenge(&self) -> Option<Digest> {
        None
    }

    /// Returns true if a response can belong to an earlier transmission of the same request, with a
    /// counter that is no longer known.
    fn is_carried(&self) -> bool {
        false
    }

    /// Requests the study and slot that the token is for, without claiming the slot.
    ///
    /// # Errors
    /// If the token is refused, or there is no usable response.
    fn offer(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Offer, LinkError>;

    /// Claims a slot for the key.
    ///
    /// # Errors
    /// If the token is refused, or there is no usable response.
    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError>;

    /// Delivers an upload. `Ok` means that the coordinator has stored the upload durably, or treats
    /// it as stored.
    ///
    /// # Errors
    /// If the request is refused, or there is no usable response.
    fn upload(&self, by: Caller<'_>, to: Place<'_>, body: &[u8]) -> Result<(), LinkError>;

    /// Returns true if the response to this upload has already arrived. Sending the upload again
    /// returns that response.
    fn has_answer(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> bool {
        let _ = (key, to, body);
        false
    }

    /// Returns a flag that makes a waiting request return early with [`LinkError::SetAside`] while
    /// it is set. `None` if the link does not wait.
    ///
    /// The caller sets the flag if it has other work to do first, and repeats the same request to
    /// continue waiting.
    fn hurry(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Polls for the newest round.
    ///
    /// # Errors
    /// If the request is refused, or there is no usable response.
    fn handouts(&self, by: Caller<'_>, study: &str, poll: Poll) -> Result<Polled, LinkError>;

    /// Requests the state of a study.
    ///
    /// # Errors
    /// If the request is refused, or there is no usable response.
    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError>;

    /// Replaces this key by a new one.
    ///
    /// # Errors
    /// If the request is refused, or there is no usable response.
    fn rotate(&self, by: Caller<'_>, study: &str, request: &RotateRequest)
    -> Result<(), LinkError>;
}

/// The sender and the counter of a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The sender's key.
    pub key: &'a SigningKey,
    /// The request's counter. Larger than in every earlier request for the slot, and stored before
    /// the request is sent (INV-28).
    pub counter: u64,
}

/// The destination of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The study.
    pub study: &'a str,
    /// The round.
    pub round: u64,
    /// The agent's slot.
    pub slot: u32,
}

/// An agent's request for the newest round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The agent's newest round, or `None` before the first.
    pub after: Option<u64>,
    /// Number of the agent's last ledger entry.
    pub entries: u64,
    /// Number of the agent's last entry of the helper's ledger if two servers sum, otherwise 0.
    pub helper: u64,
    /// Seconds for which the coordinator can hold the poll while there is nothing new.
    pub wait_s: u64,
    /// The last round with an acknowledged upload.
    pub delivered: Option<u64>,
    /// The last state of the study that the agent knows. The coordinator responds immediately if
    /// the state has changed.
    pub state: Option<StudyState>,
    /// Maximum size of the response in bytes.
    pub bytes_max: u64,
}

/// The response to a [`Poll`].
#[derive(Clone, PartialEq, Eq)]
pub enum Polled {
    /// A signed handout, not yet verified.
    Handout {
        /// The signed bytes.
        bytes: Vec<u8>,
        /// Milliseconds since its round began, as reported by the coordinator.
        elapsed_ms: Option<u64>,
    },
    /// There is nothing new.
    Nothing(Progress),
}

/// The progress of a study when there is nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current round.
    pub round: u64,
    /// The state of the study; rounds advance only while it is running.
    pub state: StudyState,
    /// The round of an upload that the coordinator has lost and still accepts. The agent must send
    /// the same bytes again.
    pub resend: Option<u64>,
    /// Milliseconds since the round began, or `None` while the study waits.
    pub elapsed_ms: Option<u64>,
    /// The helper's key for the round, if two servers sum and the helper has confirmed the round.
    /// Not yet verified.
    pub round_key: Option<RoundKey>,
}

/// The study and slot that a token is for, with the coordinator's signature of the configuration.
/// Not yet verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The slot that the token can claim.
    pub slot: u32,
    /// The configuration text, byte for byte.
    pub text: Vec<u8>,
    /// The digest of the configuration, as reported by the coordinator.
    pub digest: Digest,
    /// The coordinator's signature of the configuration.
    pub signature: Signature,
}
