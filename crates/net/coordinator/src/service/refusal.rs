//! Refusals for errors of the round machine and the store.

use fedbo_protocol::{MessageRejected, UpdateRejected};
use fedbo_transport::Refusal;
use fedbo_wire::ProblemCode;

use crate::store::StoreError;

/// Returns the refusal for an update that the round machine has rejected. The reason is public
/// (INV-4, INV-5).
pub(super) fn of_update(rejected: &UpdateRejected) -> Refusal {
    let code = match rejected {
        UpdateRejected::Message(MessageRejected::WrongLength { .. }) => ProblemCode::WrongLength,
        UpdateRejected::Message(MessageRejected::WrongMap { .. }) => ProblemCode::WrongMap,
        UpdateRejected::Message(MessageRejected::NotFinite { .. }) => ProblemCode::NotFinite,
        // Agents reject received messages for this reason; a coordinator never does.
        UpdateRejected::Message(MessageRejected::Implausible { .. }) => ProblemCode::Internal,
        UpdateRejected::UnknownSender { .. } => ProblemCode::UnknownAgent,
        UpdateRejected::Conflict { .. } => ProblemCode::Conflict,
        UpdateRejected::Early { .. } => ProblemCode::Early,
        UpdateRejected::Late { .. } => ProblemCode::Late,
        // The list of codes is fixed within a protocol version, so `Spent` shares this code. In
        // both cases, nothing from this sender is collected.
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
            // Paths and disk errors are for the operator only.
            _ => {
                tracing::error!("a request cannot use the store: {error}");
                let message = "the coordinator cannot use its store now; try again later";
                return Self::new(ProblemCode::Unavailable, message);
            }
        };
        Self::new(code, error.to_string())
    }
}
