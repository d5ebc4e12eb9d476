//! Errors that make a study stand still.

use fedbo_ledger::LedgerError;
use fedbo_protocol::RoundError;
use fedbo_wire::HandoutUnreadable;

use crate::book::BookError;
use crate::machine::NoMachine;
use crate::store::StoreError;

/// An error that makes a study stand still.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Book(#[from] BookError),
    #[error(transparent)]
    Machine(#[from] NoMachine),
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error("round {round}: what was handed out cannot be read: {source}")]
    Broadcast {
        round: u64,
        source: HandoutUnreadable,
    },
}

impl Trouble {
    /// Returns true if another coordinator plays the study now, which is nobody's mistake.
    pub(super) fn is_succession(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Superseded)
                | Self::Book(BookError::Store(StoreError::Superseded))
                | Self::Book(BookError::Ledger(
                    LedgerError::Superseded { .. } | LedgerError::Held { .. }
                ))
        )
    }

    /// Returns true if the study's budget is spent.
    pub(super) fn is_of_the_budget(&self) -> bool {
        matches!(
            self,
            Self::Book(BookError::Ledger(LedgerError::BudgetSpent(_)))
        )
    }
}
