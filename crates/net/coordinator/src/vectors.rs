//! Storage of agents' vectors until their round closes.

use std::sync::Arc;

use fedbo_wire::SigningKey;

use crate::intake::{Intake, IntakeError};
use crate::shards::ShardIntake;
use crate::store::{Lead, Store, StoreError};
use crate::study::Study;
use crate::sum::SumIntake;

/// The intake of a study's vectors. Its kind is fixed for the lifetime of the study.
#[derive(Clone)]
pub(crate) enum Vectors {
    /// The study's thread receives the vectors.
    Thread,
    /// Any replica can receive a vector, and stores it sealed in the inbox of the shared store.
    Inbox(Arc<Intake>),
    /// Any replica can receive vectors, and sums its own. The inbox only shuts rounds and detects
    /// crashes of the database.
    Shards(Arc<Intake>, Arc<ShardIntake>),
    /// Two servers receive shares of the vectors.
    Sum(Arc<SumIntake>),
}

impl Vectors {
    /// Returns the intake of a study without a secure sum.
    ///
    /// # Errors
    /// If the store cannot be written, or the system provides no random numbers.
    pub(crate) fn of(
        study: &Arc<Study>,
        store: &Arc<dyn Store>,
        key: &SigningKey,
        lease: std::time::Duration,
    ) -> Result<Self, IntakeError> {
        let Some(inbox) = Intake::of(study, store, key) else {
            return Ok(Self::Thread);
        };
        Ok(match ShardIntake::of(study, store, key, lease)? {
            Some(shards) => Self::Shards(inbox, shards),
            None => Self::Inbox(inbox),
        })
    }

    /// Returns the inbox of the shared store, or `None` if one process serves the study.
    pub(crate) fn inbox(&self) -> Option<&Arc<Intake>> {
        match self {
            Self::Inbox(inbox) | Self::Shards(inbox, _) => Some(inbox),
            Self::Thread | Self::Sum(_) => None,
        }
    }

    pub(crate) fn shards(&self) -> Option<&Arc<ShardIntake>> {
        match self {
            Self::Shards(_, shards) => Some(shards),
            _ => None,
        }
    }

    pub(crate) fn sum(&self) -> Option<&Arc<SumIntake>> {
        match self {
            Self::Sum(sum) => Some(sum),
            _ => None,
        }
    }

    /// Returns true if replicas share the study's store.
    pub(crate) fn are_shared(&self) -> bool {
        self.inbox().is_some()
    }

    /// Returns true if vectors are summed outside the machine, so that a round closes only once the
    /// slots that count are known.
    pub(crate) fn are_summed_before(&self) -> bool {
        matches!(self, Self::Shards(..) | Self::Sum(_))
    }

    /// Deletes the vectors of a round from the shared store (INV-16).
    pub(crate) fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        if let Some(inbox) = self.inbox() {
            inbox.forget(lead, round)?;
        }
        if let Some(shards) = self.shards() {
            shards.forget(lead, round)?;
        }
        Ok(())
    }
}
