//! Refusals for the reasons that the machine and the store give.

use fedbo_protocol::{MessageRejected, UpdateRejected};
use fedbo_transport::Refusal;
use fedbo_wire::ProblemCode;

use crate::store::StoreError;

/// The refusal of an update for a reason that the machine knows: a public one (INV-4, INV-5).
pub(super) fn of_update(rejected: &UpdateRejected) -> Refusal {
    let code = match rejected {
        UpdateRejected::Message(MessageRejected::WrongLength { .. }) => ProblemCode::WrongLength,
        UpdateRejected::Message(MessageRejected::WrongMap { .. }) => ProblemCode::WrongMap,
        UpdateRejected::Message(MessageRejected::NotFinite { .. }) => ProblemCode::NotFinite,
        // An agent's own finding of what it was sent, which no coordinator makes.
        UpdateRejected::Message(MessageRejected::Implausible { .. }) => ProblemCode::Internal,
        UpdateRejected::UnknownSender { .. } => ProblemCode::UnknownAgent,
        UpdateRejected::Conflict { .. } => ProblemCode::Conflict,
        UpdateRejected::Early { .. } => ProblemCode::Early,
        UpdateRejected::Late { .. } => ProblemCode::Late,
        // The list of codes does not grow within a version: nothing of this sender is collected.
        UpdateRejected::Spent { .. } | UpdateRejected::NotCollected { .. } => {
            ProblemCode::NotCollected
        }
        UpdateRejected::Unfit { .. } => ProblemCode::Internal,
    };
    Refusal::new(code, rejected.to_string())
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NoStudy { .. } => ProblemCode::UnknownStudy,
            StoreError::NoSlot { .. } => ProblemCode::UnknownAgent,
            StoreError::TokenUnknown => ProblemCode::TokenUnknown,
            StoreError::OtherConfig => ProblemCode::WrongConfig,
            StoreError::TokenExpired => ProblemCode::TokenExpired,
            StoreError::TokenUsed => ProblemCode::TokenUsed,
            StoreError::KeyTaken { .. } => ProblemCode::Conflict,
            // Paths and what the disk says are the operator's.
            _ => {
                tracing::error!("a request found the store out of order: {error}");
                let message = "the coordinator cannot use its store at present; try again later";
                return Self::new(ProblemCode::Unavailable, message);
            }
        };
        Self::new(code, error.to_string())
    }
}
