//! Errors of requests.

use std::time::Duration;

use fedbo_wire::{PROTOCOL_VERSION, Problem, ProblemCode};

/// Error for a request that was refused or got no usable response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The recipient refused the request.
    #[error("refused: {} ({})", .problem.message, .problem.code)]
    Refused {
        /// The recipient's reason.
        problem: Problem,
        /// Minimum delay before a retry, if the response states one.
        retry_after: Option<Duration>,
    },
    /// The recipient is unreachable or temporarily unavailable, or an intermediary responded in its
    /// place.
    #[error("{reason}")]
    Unreachable {
        /// Description of the problem.
        reason: String,
    },
    /// The response does not follow this protocol. A retry would get the same response.
    #[error(
        "{reason}; this is not a server of this version; check the address and any proxy in between"
    )]
    Unusable {
        /// Problem with the response.
        reason: String,
    },
    /// The recipient uses a different version of the protocol.
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
    /// A setting is invalid, or the request cannot be built. Nothing is sent.
    #[error("{0}")]
    Setting(String),
    /// The request is still in flight, but the wait was cut short by
    /// [`HttpClient::hurry`](crate::HttpClient::hurry). Repeating the same request resumes the
    /// wait.
    #[error("the response has not arrived yet")]
    SetAside,
    /// The run is being stopped.
    #[error("stopped before the response arrived")]
    Stopped,
}

impl LinkError {
    /// Returns true if repeating the same request later may succeed without any change.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused { problem, .. } => problem.code.is_temporary(),
            Self::Unreachable { .. } => true,
            Self::Unusable { .. }
            | Self::OtherVersion { .. }
            | Self::Setting(_)
            | Self::SetAside
            | Self::Stopped => false,
        }
    }

    /// Returns the minimum delay before a retry, if the recipient stated one.
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
