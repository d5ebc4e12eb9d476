//! Errors of requests.

use std::time::Duration;

use fedbo_wire::{PROTOCOL_VERSION, Problem, ProblemCode};

/// The failure of a request: a refusal, or no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The party that answers refuses.
    #[error("refused: {} ({})", .problem.message, .problem.code)]
    Refused {
        /// The reason that it gives.
        problem: Problem,
        /// The time after which the request may be repeated at the earliest, if the answer says so.
        retry_after: Option<Duration>,
    },
    /// There is no way to it now, or something between here and there answers in its place.
    #[error("{reason}")]
    Unreachable {
        /// A description of the obstacle.
        reason: String,
    },
    /// The answer is none of this protocol: the same request would get the same again.
    #[error(
        "{reason}; whoever answers is no server of this version: check the address and what stands between"
    )]
    Unusable {
        /// The defect of the answer.
        reason: String,
    },
    /// The party that answers speaks another version of the protocol.
    #[error(
        "{recipient} speaks version {theirs} of the protocol, this program version {PROTOCOL_VERSION}: use the same version of fedbo on \
         both sides"
    )]
    OtherVersion {
        /// The party that answers, in words.
        recipient: &'static str,
        /// The version that it speaks.
        theirs: u16,
    },
    /// The way cannot even be tried: a setting is wrong.
    #[error("{0}")]
    Setting(String),
    /// The request is under way, and its sender has something else to do first: sent again, it waits on for the same answer.
    #[error("the answer is still to come")]
    SetAside,
    /// The run is being stopped.
    #[error("stopped before there was an answer")]
    Stopped,
}

impl LinkError {
    /// Returns true if the same request may succeed later though nobody changes anything.
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

    /// Returns the time after which the same request is welcome at the earliest, if the coordinator said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the code of the coordinator's refusal, if it is one.
    #[must_use]
    pub fn code(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused { problem, .. } => Some(problem.code),
            _ => None,
        }
    }
}
