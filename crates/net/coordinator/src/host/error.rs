//! Errors that stall a study.

use fedbo_ledger::LedgerError;
use fedbo_protocol::RoundError;
use fedbo_wire::HandoutUnreadable;

use crate::intake::IntakeError;
use crate::machine::NoMachine;
use crate::releases::ReleasesError;
use crate::store::StoreError;

/// Error that stalls a study.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Releases(#[from] ReleasesError),
    #[error(transparent)]
    Machine(#[from] NoMachine),
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error(transparent)]
    Intake(#[from] IntakeError),
    #[error("round {round}: the database has lost the reports of the shards")]
    ShardsLost { round: u64 },
    #[error("round {round}: cannot read the broadcast: {source}")]
    Broadcast { round: u64, source: HandoutUnreadable },
}

impl HostError {
    /// Returns true if another coordinator now leads the study. This is not a failure.
    pub(super) fn is_superseded(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Superseded)
                | Self::Releases(ReleasesError::Store(StoreError::Superseded))
                | Self::Releases(ReleasesError::Ledger(
                    LedgerError::Superseded { .. } | LedgerError::Held { .. }
                ))
        )
    }

    /// Returns true if the study's budget is spent.
    pub(super) fn is_budget_spent(&self) -> bool {
        matches!(self, Self::Releases(ReleasesError::Ledger(LedgerError::BudgetSpent(_))))
    }
}
