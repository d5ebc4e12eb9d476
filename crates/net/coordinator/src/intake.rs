//! Vectors of a study whose replicas share a store: checked and sealed by whoever takes them, read by whoever plays the round.

use std::sync::Arc;

use fedbo_protocol::{AgentUpdate, UpdateRejected};
use fedbo_protocol::{Inbox as Checker, MessageRejected};
use fedbo_wire::SigningKey;

use crate::store::{
    Arrived, Lead, Owner, Place, Posted, PostgresStore, Posting, Seal, SealError, Store, StoreError,
};
use crate::study::Study;

/// An error in passing on a vector. Nothing of the vector is kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntakeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The reason why a vector is not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The machine of the round would reject it.
    Rejected(UpdateRejected),
    /// No round has begun: the same vector will be taken soon.
    BeforeTheFirst,
    /// The store has not been reached for so long that others may take this replica for gone.
    Away,
}

impl From<UpdateRejected> for NotTaken {
    fn from(rejected: UpdateRejected) -> Self {
        Self::Rejected(rejected)
    }
}

/// The way of a study's vectors through its store.
pub(crate) struct Intake {
    study: Arc<Study>,
    store: Arc<dyn Store>,
    seal: Seal,
    checker: Checker,
}

impl Intake {
    /// None where one process takes all vectors itself.
    pub(crate) fn of(
        study: &Arc<Study>,
        store: &Arc<dyn Store>,
        key: &SigningKey,
    ) -> Option<Arc<Self>> {
        store.shared()?;
        Some(Arc::new(Self {
            checker: Checker::new(study.n_features as usize, study.map),
            study: Arc::clone(study),
            store: Arc::clone(store),
            seal: Seal::of(key),
        }))
    }

    fn inbox(&self) -> Result<&PostgresStore, StoreError> {
        // Asked before this was made; a store does not change its kind.
        self.store.shared().ok_or(StoreError::Superseded)
    }

    /// Takes a vector; it is stored when this returns. The refusals are those of the round's machine, which sees the vector later.
    pub(crate) fn post(&self, update: &AgentUpdate) -> Result<Result<(), NotTaken>, IntakeError> {
        let (sender, round) = (update.sender, update.round);
        if let Err(rejected) = self.check(update) {
            return Ok(Err(rejected.into()));
        }
        let place = self.place(round, sender);
        let sealed = self.seal.seal(&place, &update.weights)?;
        let is_relayed = self.study.is_relayed();
        let mark = is_relayed.then(|| self.seal.mark(&place, &update.weights));
        let posted = self.inbox()?.post(&Posting {
            study: self.study.key,
            round,
            slot: sender,
            mark: mark.as_deref(),
            sealed: &sealed,
        })?;
        let rejected = match posted {
            Posted::Taken => return Ok(Ok(())),
            Posted::BeforeTheFirst => return Ok(Err(NotTaken::BeforeTheFirst)),
            Posted::Conflict => UpdateRejected::Conflict { sender, round },
            Posted::Early { current } => UpdateRejected::Early { sender, round, current },
            Posted::Late if !self.study.collects(round) => {
                UpdateRejected::NotCollected { sender, round }
            }
            Posted::Late => UpdateRejected::Late { sender, round },
        };
        Ok(Err(rejected.into()))
    }

    /// Checks what does not depend on the round. A vector of a private study that is not finite counts as zero (INV-5)
    /// and is taken like any other.
    fn check(&self, update: &AgentUpdate) -> Result<(), UpdateRejected> {
        let AgentUpdate { sender, map, .. } = *update;
        if sender >= self.study.n_slots {
            return Err(UpdateRejected::UnknownSender { sender });
        }
        match self.checker.check(sender, map, &update.weights) {
            Err(MessageRejected::NotFinite { .. }) if !self.study.is_relayed() => Ok(()),
            checked => Ok(checked?),
        }
    }

    fn place(&self, round: u64, slot: u32) -> Place {
        Place { config: self.study.digest, round, owner: Owner::Slot(slot) }
    }

    /// Returns true if a vector that an agent delivered is not here, as after a crash of the database.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> Result<bool, StoreError> {
        self.inbox()?.awaits(self.study.key, slot, round)
    }

    /// The vectors of a round but for those of `known` slots, by slot. One that cannot be read counts as missing.
    pub(crate) fn arrived(
        &self,
        round: u64,
        known: &[u32],
    ) -> Result<Vec<(u32, Option<AgentUpdate>)>, StoreError> {
        let arrived = self.inbox()?.arrived(self.study.key, round, known)?;
        let open = |arrived: Arrived| {
            let place = self.place(round, arrived.slot);
            let opened = self.seal.open(&place, &arrived.sealed);
            if let Err(error) = &opened {
                tracing::error!(study = %self.study.name, "a stored upload cannot be read: {error}");
            }
            let update = opened.ok().map(|weights| AgentUpdate {
                sender: arrived.slot,
                round,
                map: self.study.map,
                weights: weights.into(),
            });
            (arrived.slot, update)
        };
        Ok(arrived.into_iter().map(open).collect())
    }

    pub(crate) fn shut(&self, lead: &Lead) -> Result<(), StoreError> {
        self.inbox()?.shut_inbox(lead)
    }

    pub(crate) fn forget(&self, lead: &Lead, round: u64) -> Result<(), StoreError> {
        self.inbox()?.forget_vectors(lead, round)
    }

    pub(crate) fn epoch(&self) -> Result<i64, StoreError> {
        self.inbox()?.inbox_epoch()
    }
}
