//! The requests of an agent to its coordinator, whatever carries them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_transport::LinkError;
use fedbo_wire::{
    CoordinatorProof, Digest, EnrolRequest, Enrolled, RotateRequest, Signature, SigningKey,
    StudyState, StudyStatus,
};

/// A way to a coordinator. Every request may be repeated: the coordinator answers it as the first time.
///
/// Requests are signed with the given key, for the coordinator's. A call blocks until there is an answer, or until the way itself gives up.
pub trait Link {
    /// Asks who answers, without saying anything of the asker; not yet verified.
    ///
    /// # Errors
    /// If there is no usable answer.
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError>;

    /// The challenge of a proof that was asked for in an earlier process, if the answer comes in this one.
    fn pending_challenge(&self) -> Option<Digest> {
        None
    }

    /// Takes a slot for the key.
    ///
    /// # Errors
    /// If the token is refused, or there is no usable answer.
    fn enrol(&self, key: &SigningKey, request: &EnrolRequest) -> Result<Enrolled, LinkError>;

    /// The frozen configuration of a study.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
    fn config(&self, key: &SigningKey, study: &str) -> Result<SignedConfig, LinkError>;

    /// Delivers an upload. `Ok` says that it is durable there, or counts as if it were.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
    fn upload(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> Result<(), LinkError>;

    /// Returns true if the answer to this upload has come without that it was waited for: sending it again gets that answer.
    fn has_answer(&self, key: &SigningKey, to: Place<'_>, body: &[u8]) -> bool {
        let _ = (key, to, body);
        false
    }

    /// The flag that, while it is set, ends the wait for an answer soon, by [`LinkError::SetAside`]: its owner has something else to do first, and
    /// sends the same again to go on waiting. None where nobody waits.
    fn hurry(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Asks for the newest round.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
    fn handouts(&self, key: &SigningKey, study: &str, poll: Poll) -> Result<Polled, LinkError>;

    /// Asks for the state of a study.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
    fn status(&self, key: &SigningKey, study: &str) -> Result<StudyStatus, LinkError>;

    /// Puts another key in the place of this one.
    ///
    /// # Errors
    /// If it is refused, or there is no usable answer.
    fn rotate(
        &self,
        key: &SigningKey,
        study: &str,
        request: &RotateRequest,
    ) -> Result<(), LinkError>;
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
    /// The newest round that it knows; none before the first.
    pub after: Option<u64>,
    /// Number of the last ledger entry that it knows.
    pub entries: u64,
    /// The same of the helper's ledger, where two servers sum; else 0.
    pub helper: u64,
    /// Seconds that the coordinator may take to answer when there is nothing new.
    pub wait_s: u64,
    /// The last round whose upload was acknowledged.
    pub delivered: Option<u64>,
    /// The state that it knows the study to be in: the answer comes at once if it is in another.
    pub state: Option<StudyState>,
    /// Bytes of an answer at most.
    pub bytes_max: u64,
}

/// The answer to a [`Poll`].
#[derive(Clone, PartialEq, Eq)]
pub enum Polled {
    /// A handout, signed; not yet looked at.
    Handout {
        /// As it was signed.
        bytes: Vec<u8>,
        /// Milliseconds for which its round has been played, as the coordinator says.
        elapsed_ms: Option<u64>,
    },
    /// There is nothing new.
    Nothing(Progress),
}

/// The progress of a study when there is nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The round that is being played.
    pub round: u64,
    /// The state of the study; rounds go on only while it is running.
    pub state: StudyState,
    /// The coordinator has lost the agent's upload of this round and still collects it: the same bytes are to be sent again.
    pub resend: Option<u64>,
    /// Milliseconds for which the round has been played; none while the study waits.
    pub elapsed_ms: Option<u64>,
}

/// A configuration with its coordinator's signature; not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedConfig {
    /// The text, byte for byte.
    pub text: Vec<u8>,
    /// Its digest, as the coordinator says.
    pub digest: Digest,
    /// The signature.
    pub signature: Signature,
}
