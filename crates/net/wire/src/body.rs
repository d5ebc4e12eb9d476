//! JSON bodies of requests and answers. Requests with unknown keys are refused; answers may gain keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{BadSignature, Digest, EnrolmentToken, PublicKey, Signature, SigningKey};

/// Bytes of a JSON request at most; those of version 2 have fewer than 400.
pub const JSON_REQUEST_BYTES_MAX: usize = 1024;

/// A proof that its sender holds the coordinator's key, for somebody who sent 32 bytes of their own as a challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorProof {
    /// The coordinator's key.
    pub coordinator: PublicKey,
    /// Its signature under the challenge.
    pub proof: Signature,
}

const COORDINATOR: &str = "fedbo coordinator, version 1";

impl CoordinatorProof {
    /// The owner of `key`, to somebody who sent this challenge.
    pub fn new(key: &SigningKey, challenge: &Digest) -> Self {
        Self { coordinator: key.public(), proof: key.sign(COORDINATOR, &[&challenge.0]) }
    }

    /// Checks that the coordinator that answered the challenge holds the key that it names.
    ///
    /// # Errors
    /// If it does not.
    pub fn verify(&self, challenge: &Digest) -> Result<(), BadSignature> {
        self.coordinator.verify(COORDINATOR, &[&challenge.0], &self.proof)
    }
}

/// Takes a slot, for the key that signs the request. It shows that its sender has the token, and does not hold the secret: whoever
/// reads it can take no slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    /// The token, named by the public half of [`EnrolmentToken::key`].
    pub token: PublicKey,
    /// The configuration that the sender agrees to.
    pub config: Digest,
    /// Signature by the token's key: that the slot is for this key, at this coordinator, under this configuration.
    pub proof: Signature,
}

const ENROLMENT: &str = "fedbo enrolment, version 2";

impl EnrolRequest {
    /// A request to take the token's slot for `agent`.
    pub fn new(token: &EnrolmentToken, agent: &PublicKey) -> Self {
        let (key, config) = (token.key(), token.config);
        Self {
            token: key.public(),
            config,
            proof: key.sign(ENROLMENT, &[&agent.0, &token.coordinator.0, &config.0]),
        }
    }

    /// Checks that the holder of the token asks for its slot for `agent`, at this coordinator.
    ///
    /// # Errors
    /// If it does not.
    pub fn verify(&self, agent: &PublicKey, coordinator: &PublicKey) -> Result<(), BadSignature> {
        let parts: [&[u8]; 3] = [&agent.0, &coordinator.0, &self.config.0];
        self.token.verify(ENROLMENT, &parts, &self.proof)
    }
}

/// The slot that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// Name of the study.
    pub study: String,
    /// Slot, from 0 on.
    pub slot: u32,
    /// Name of the agent on the roster.
    pub agent: String,
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// The coordinator's key: the one that the token names.
    pub coordinator: PublicKey,
}

/// Puts a new key in the place of the one that signs the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// The new key.
    pub key: PublicKey,
    /// Signature by the new key: that its holder asks for this.
    pub proof: Signature,
}

const ROTATION: &str = "fedbo key rotation, version 1";

impl RotateRequest {
    /// A request to put `new` in the place of `old` for a slot of a study.
    pub fn new(new: &SigningKey, study: &str, slot: u32, old: &PublicKey) -> Self {
        Self {
            key: new.public(),
            proof: new.sign(ROTATION, &[study.as_bytes(), &slot.to_le_bytes(), &old.0]),
        }
    }

    /// Checks that the holder of the new key asks to put it in the place of `old`, for this slot of this study.
    ///
    /// # Errors
    /// If it does not.
    pub fn verify(&self, study: &str, slot: u32, old: &PublicKey) -> Result<(), BadSignature> {
        let parts: [&[u8]; 3] = [study.as_bytes(), &slot.to_le_bytes(), &old.0];
        self.key.verify(ROTATION, &parts, &self.proof)
    }
}

/// The answer that the request is carried out and durable (INV-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The only one there is.
    pub status: AcceptedStatus,
}

/// The word `accepted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedStatus {
    /// Done.
    #[default]
    Accepted,
}

/// The state of a study. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyStatus {
    /// Its name.
    pub study: String,
    /// The state of its rounds.
    pub state: StudyState,
    /// Round that is being played.
    pub round: u64,
    /// Rounds in all.
    pub rounds: u64,
    /// True if vectors are collected in this round.
    pub collects: bool,
    /// The head of its ledger, `SEQ:HASH`; empty without a ledger.
    pub head: String,
    /// The coordinator's clock, milliseconds since 1970 UTC: an agent compares it with its own before it evaluates anything.
    pub time_ms: u64,
    /// The time for which the round has been played, in milliseconds; missing while the study waits or the round is about to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// The state of a study's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudyState {
    /// No round has begun.
    Waiting,
    /// The rounds go on.
    Running,
    /// Its operator has stopped them for a time.
    Paused,
    /// The last one is over.
    Finished,
}

impl StudyState {
    const ALL: [Self; 4] = [Self::Waiting, Self::Running, Self::Paused, Self::Finished];

    /// Its name in headers and bodies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
        }
    }
}

impl fmt::Display for StudyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no state of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a study is waiting, running, paused or finished")]
pub struct StateUnknown;

impl FromStr for StudyState {
    type Err = StateUnknown;

    fn from_str(text: &str) -> Result<Self, StateUnknown> {
        let mut all = Self::ALL.into_iter();
        all.find(|state| state.name() == text).ok_or(StateUnknown)
    }
}

/// The refusal of a request, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// For programs.
    pub code: ProblemCode,
    /// For people; says what to do. As it is read, it is one line of at most 500 characters: it becomes a part of messages of whoever
    /// reads it, and cannot pass for lines of theirs (INV-24).
    #[serde(deserialize_with = "one_line")]
    pub message: String,
}

/// A text of others without what begins a line or steers a terminal.
fn one_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const CHARS_MAX: usize = 500;
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let text = String::deserialize(deserializer)?;
    let plain = text.chars().map(|c| if breaks(c) { ' ' } else { c });
    Ok(plain.take(CHARS_MAX).collect())
}

/// The reason why a request was refused, for programs. The list is that of the protocol's version: it does not grow
/// within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemCode {
    /// The request is not in its form.
    BadRequest,
    /// A version of the protocol that the coordinator does not speak.
    UnsupportedVersion,
    /// A header of the signature is missing or unreadable.
    NotSigned,
    /// The signature does not fit.
    BadSignature,
    /// The clocks differ too much.
    ClockDiffers,
    /// The key is on no roster.
    UnknownAgent,
    /// The key was taken off the roster.
    Revoked,
    /// The coordinator gave no such token.
    TokenUnknown,
    /// Another key has used the token.
    TokenUsed,
    /// The token's time is over.
    TokenExpired,
    /// There is no such study, or the key has no slot in it.
    UnknownStudy,
    /// The slot is another agent's.
    NotYourSlot,
    /// The upload was made under another configuration.
    WrongConfig,
    /// The upload was made with another feature map.
    WrongMap,
    /// The upload has another size than the study's.
    WrongLength,
    /// A relayed message has weights that are not finite. Never of a private study (INV-5).
    NotFinite,
    /// The round has not begun.
    Early,
    /// The round is over.
    Late,
    /// The round collects no vectors.
    NotCollected,
    /// Another message of this slot and round is known (never of a private study, INV-6), or the new key has a slot already.
    Conflict,
    /// The study is stopped for a time.
    Paused,
    /// The study has not begun.
    NotStarted,
    /// The study is over.
    Finished,
    /// Too many requests at once.
    Busy,
    /// The body is larger than any of its kind.
    TooLarge,
    /// There is no such resource.
    NotFound,
    /// The resource has no such method.
    Method,
    /// The coordinator met a defect of its own.
    Internal,
    /// The coordinator cannot answer at present.
    Unavailable,
}

impl ProblemCode {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::BadRequest,
        Self::UnsupportedVersion,
        Self::NotSigned,
        Self::BadSignature,
        Self::ClockDiffers,
        Self::UnknownAgent,
        Self::Revoked,
        Self::TokenUnknown,
        Self::TokenUsed,
        Self::TokenExpired,
        Self::UnknownStudy,
        Self::NotYourSlot,
        Self::WrongConfig,
        Self::WrongMap,
        Self::WrongLength,
        Self::NotFinite,
        Self::Early,
        Self::Late,
        Self::NotCollected,
        Self::Conflict,
        Self::Paused,
        Self::NotStarted,
        Self::Finished,
        Self::Busy,
        Self::TooLarge,
        Self::NotFound,
        Self::Method,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Its name in bodies.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Status of the answer.
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    /// Returns true if the same request may be accepted later though nobody changes anything. It is then worth
    /// repeating after a while.
    pub fn may_pass(self) -> bool {
        self.row().2
    }

    /// Name, status, whether it may pass.
    fn row(self) -> (&'static str, u16, bool) {
        match self {
            Self::BadRequest => ("bad-request", 400, false),
            Self::UnsupportedVersion => ("unsupported-version", 400, false),
            Self::NotSigned => ("not-signed", 401, false),
            Self::BadSignature => ("bad-signature", 401, false),
            Self::ClockDiffers => ("clock-differs", 401, false),
            Self::UnknownAgent => ("unknown-agent", 403, false),
            Self::Revoked => ("revoked", 403, false),
            Self::TokenUnknown => ("token-unknown", 403, false),
            Self::TokenUsed => ("token-used", 409, false),
            Self::TokenExpired => ("token-expired", 410, false),
            Self::UnknownStudy => ("unknown-study", 404, false),
            Self::NotYourSlot => ("not-your-slot", 403, false),
            Self::WrongConfig => ("wrong-config", 409, false),
            Self::WrongMap => ("wrong-map", 409, false),
            Self::WrongLength => ("wrong-length", 422, false),
            Self::NotFinite => ("not-finite", 422, false),
            Self::Early => ("early", 409, true),
            Self::Late => ("late", 409, false),
            Self::NotCollected => ("not-collected", 409, false),
            Self::Conflict => ("conflict", 409, false),
            Self::Paused => ("paused", 409, true),
            Self::NotStarted => ("not-started", 409, true),
            Self::Finished => ("finished", 410, false),
            Self::Busy => ("busy", 429, true),
            Self::TooLarge => ("too-large", 413, false),
            Self::NotFound => ("not-found", 404, false),
            Self::Method => ("method", 405, false),
            Self::Internal => ("internal", 500, true),
            Self::Unavailable => ("unavailable", 503, true),
        }
    }
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ProblemCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let mut all = Self::ALL.into_iter();
        all.find(|code| code.name() == name)
            .ok_or_else(|| serde::de::Error::custom("a problem of an unknown code"))
    }
}
