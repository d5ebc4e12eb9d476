//! JSON bodies of requests and responses. Unknown keys are refused in requests and ignored in
//! responses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Account, BadSignature, Digest, EnrolmentToken, PublicKey, RoundKey, Signature, SigningKey,
};

/// Maximum size of a JSON request in bytes. Requests of version 3 have fewer than 400 bytes.
pub const JSON_REQUEST_BYTES_MAX: usize = 1024;

/// Response to a 32-byte challenge. Proves that the sender holds the coordinator's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorProof {
    /// The coordinator's key.
    pub coordinator: PublicKey,
    /// Signature over the challenge.
    pub proof: Signature,
}

const COORDINATOR: &str = "fedbo coordinator, version 1";

impl CoordinatorProof {
    /// Creates the response to a challenge, signed with `key`.
    pub fn new(key: &SigningKey, challenge: &Digest) -> Self {
        Self { coordinator: key.public(), proof: key.sign(COORDINATOR, &[&challenge.0]) }
    }

    /// Checks that the sender holds the key that it names.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(&self, challenge: &Digest) -> Result<(), BadSignature> {
        self.coordinator.verify(COORDINATOR, &[&challenge.0], &self.proof)
    }
}

/// A request to claim a slot for the key that signs the request.
///
/// The request proves possession of the token without containing the secret, so nobody who reads it
/// can claim the slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolRequest {
    /// Public half of [`EnrolmentToken::key`]. Identifies the token.
    pub token: PublicKey,
    /// The configuration that the sender agrees to.
    pub config: Digest,
    /// Signature by the token's key over the agent's key, the coordinator's key and the
    /// configuration.
    pub proof: Signature,
}

const ENROLMENT: &str = "fedbo enrolment, version 2";

impl EnrolRequest {
    /// Creates a request to claim the token's slot for `agent`.
    pub fn new(token: &EnrolmentToken, agent: &PublicKey) -> Self {
        let (key, config) = (token.key(), token.config);
        Self {
            token: key.public(),
            config,
            proof: key.sign(ENROLMENT, &[&agent.0, &token.coordinator.0, &config.0]),
        }
    }

    /// Checks that the token's holder requested the slot for `agent`, at this coordinator.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(&self, agent: &PublicKey, coordinator: &PublicKey) -> Result<(), BadSignature> {
        let parts: [&[u8]; 3] = [&agent.0, &coordinator.0, &self.config.0];
        self.token.verify(ENROLMENT, &parts, &self.proof)
    }
}

/// The assigned slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// Name of the study.
    pub study: String,
    /// The slot, counted from 0.
    pub slot: u32,
    /// Name of the agent on the roster.
    pub agent: String,
    /// [`config_digest`](crate::config_digest) of the study.
    pub config: Digest,
    /// The coordinator's key, as in the token.
    pub coordinator: PublicKey,
}

/// A request to replace the key that signs the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// The new key.
    pub key: PublicKey,
    /// Signature by the new key over the study, the slot and the old key.
    pub proof: Signature,
}

const ROTATION: &str = "fedbo key rotation, version 1";

impl RotateRequest {
    /// Creates a request to replace the key `old` by `new` for a slot of a study.
    pub fn new(new: &SigningKey, study: &str, slot: u32, old: &PublicKey) -> Self {
        Self {
            key: new.public(),
            proof: new.sign(ROTATION, &[study.as_bytes(), &slot.to_le_bytes(), &old.0]),
        }
    }

    /// Checks that the new key's holder requested to replace the key `old` for this slot of this
    /// study.
    ///
    /// # Errors
    /// If the signature does not match.
    pub fn verify(&self, study: &str, slot: u32, old: &PublicKey) -> Result<(), BadSignature> {
        let parts: [&[u8]; 3] = [study.as_bytes(), &slot.to_le_bytes(), &old.0];
        self.key.verify(ROTATION, &parts, &self.proof)
    }
}

/// Response to a request whose effect is durable (INV-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Always `accepted`.
    pub status: AcceptedStatus,
}

/// The word `accepted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedStatus {
    /// The request has taken effect.
    #[default]
    Accepted,
}

/// The state of a study. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyStatus {
    /// Name of the study.
    pub study: String,
    /// The state of the rounds.
    pub state: StudyState,
    /// The current round.
    pub round: u64,
    /// Total number of rounds.
    pub rounds: u64,
    /// True if the current round collects vectors.
    pub collects: bool,
    /// Head of the study's ledger, `SEQ:HASH`. Empty if there is no ledger.
    pub head: String,
    /// The coordinator's clock, in milliseconds since 1970 UTC. An agent compares it with its own
    /// clock before it evaluates anything.
    pub time_ms: u64,
    /// Time since the current round began, in milliseconds. Absent while the study waits or the
    /// round is about to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// The helper's key for the round. Present if two servers sum and the helper has opened the
    /// round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_key: Option<RoundKey>,
    /// The coordinator's signed account of the requesting agent.
    pub account: Account,
}

/// The state of a study's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudyState {
    /// No round has begun.
    Waiting,
    /// Rounds are in progress.
    Running,
    /// The operator has paused the rounds.
    Paused,
    /// The last round is over.
    Finished,
}

impl StudyState {
    const ALL: [Self; 4] = [Self::Waiting, Self::Running, Self::Paused, Self::Finished];

    /// Returns the state's name in headers and bodies.
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

/// Error for a string that is not the name of a study's state.
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
    /// The reason, for programs.
    pub code: ProblemCode,
    /// The reason in words, for people, and how to fix the problem.
    ///
    /// Deserializing reduces the message to one line of at most 500 characters. Programs embed it
    /// in their own messages, where it must not look like further lines (INV-24).
    #[serde(deserialize_with = "one_line")]
    pub message: String,
}

/// Deserializes an untrusted string, without line breaks and characters that control a terminal.
fn one_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const CHARS_MAX: usize = 500;
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let text = String::deserialize(deserializer)?;
    let plain = text.chars().map(|c| if breaks(c) { ' ' } else { c });
    Ok(plain.take(CHARS_MAX).collect())
}

/// The reason for refusing a request, for programs. The set of codes is fixed within a version of
/// the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemCode {
    /// The request is malformed.
    BadRequest,
    /// The coordinator does not support this version of the protocol.
    UnsupportedVersion,
    /// A header of the signature is missing or unreadable.
    NotSigned,
    /// The signature is invalid.
    BadSignature,
    /// The clocks differ too much.
    ClockDiffers,
    /// The key is not on a roster.
    UnknownAgent,
    /// The key was removed from the roster.
    Revoked,
    /// The coordinator did not issue this token.
    TokenUnknown,
    /// A different key has used the token.
    TokenUsed,
    /// The token has expired.
    TokenExpired,
    /// There is no such study, or the key has no slot in it.
    UnknownStudy,
    /// The slot belongs to a different agent.
    NotYourSlot,
    /// The upload was made for a different configuration.
    WrongConfig,
    /// The upload was made with a different feature map.
    WrongMap,
    /// The upload does not have the size that the study requires.
    WrongLength,
    /// A relayed message has weights that are not finite. Never returned by a private study
    /// (INV-5).
    NotFinite,
    /// The round has not begun.
    Early,
    /// The round is over.
    Late,
    /// The round collects no vectors.
    NotCollected,
    /// A different message for this slot and round has already arrived (never returned by a private
    /// study, INV-6), or the new key already has a slot.
    Conflict,
    /// The study is paused.
    Paused,
    /// The study has not begun.
    NotStarted,
    /// The study is over.
    Finished,
    /// The request's counter is not larger than that of an earlier request for the slot (INV-28).
    CounterBehind,
    /// There are too many concurrent requests.
    Busy,
    /// The body is larger than any valid one.
    TooLarge,
    /// The resource does not exist.
    NotFound,
    /// The resource does not support this method.
    Method,
    /// The coordinator had an internal error.
    Internal,
    /// The coordinator is temporarily unavailable.
    Unavailable,
}

impl ProblemCode {
    /// All codes.
    pub const ALL: [Self; 30] = [
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
        Self::CounterBehind,
        Self::Busy,
        Self::TooLarge,
        Self::NotFound,
        Self::Method,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Returns the code's name in bodies.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the HTTP status of the response.
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    /// Returns true if repeating the same request later may succeed without any other change.
    pub fn is_temporary(self) -> bool {
        self.row().2
    }

    /// Name, HTTP status, and the result of [`is_temporary`](Self::is_temporary).
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
            Self::CounterBehind => ("counter-behind", 409, false),
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
