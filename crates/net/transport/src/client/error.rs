//! Errors of requests.

use std::time::Duration;

use fedbo_wire::{PROTOCOL_VERSION, Problem, ProblemCode};

/// Failure of a request: a refusal, or no usable response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The recipient refused the request.
    #[error("refused: {} ({})", .problem.message, .problem.code)]
    Refused {
        /// Reason for the refusal.
        problem: Problem,
        /// Minimum time before the request is repeated, if the response has one.
        retry_after: Option<Duration>,
    },
    /// The recipient cannot be reached now, or an intermediary responds in its place.
    #[error("{reason}")]
    Unreachable {
        /// Description of the problem.
        reason: String,
    },
    /// The response does not follow this protocol. Repeating the request would give the same
    /// response.
    #[error(
        "{reason}; this is not a server of this version; check the address and any proxy in between"
    )]
    Unusable {
        /// Problem with the response.
        reason: String,
    },
    /// The recipient uses another version of the protocol.
    #[error(
        "{recipient} uses version {theirs} of the protocol, this program version \
         {PROTOCOL_VERSION}; use the same version of fedbo on both sides"
    )]
    OtherVersion {
        /// Name of the recipient, for messages.
        recipient: &'static str,
        /// Recipient's version.
        theirs: u16,
    },
    /// The connection is not attempted because a setting is wrong.
    #[error("{0}")]
    Setting(String),
    /// The request is in progress and the caller has other work. Repeating the request waits for
    /// the same response.
    #[error("the answer has not arrived yet")]
    SetAside,
    /// The run is being stopped.
    #[error("stopped before the answer arrived")]
    Stopped,
}

impl LinkError {
    /// Returns true if repeating the same request later may succeed without any change.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.code.may_pass(),
            Self::Unreachable { .. } => true,
            Self::Unusable { .. }
            | Self::OtherVersion { .. }
            | Self::Setting(_)
            | Self::SetAside
            | Self::Stopped => false,
        }
    }

    /// Returns the minimum time before the request is repeated, if the recipient named one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the problem code if this is a refusal.
    #[must_use]
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused { problem, .. } => Some(problem.code),
            _ => None,
        }
    }
}
