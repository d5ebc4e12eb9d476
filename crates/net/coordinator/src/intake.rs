//! Intake of a study's vectors into a store shared by replicas. The replica that receives a vector
//! checks and seals it; the leader reads it.

use std::sync::Arc;

use fedbo_protocol::{AgentUpdate, UpdateRejected};
use fedbo_protocol::{Inbox as Checker, MessageRejected};
use fedbo_wire::SigningKey;

use crate::store::{
    Arrived, Lead, Owner, Place, Posted, PostgresStore, Posting, Seal, SealError, Store, StoreError,
};
use crate::study::Study;

/// Error while storing a vector. The vector is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntakeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// Reason that a vector was not accepted.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The round's state machine would reject it.
    Rejected(UpdateRejected),
    /// No round has begun, or this shard has not joined the round yet. The vector can be sent again
    /// soon.
    BeforeTheFirst,
    /// The store has been unreachable for so long that other replicas may consider this one gone.
    StoreUnreachable,
}

impl From<UpdateRejected> for NotTaken {
    fn from(rejected: UpdateRejected) -> Self {
        Self::Rejected(rejected)
    }
}

/// Intake of a study's vectors into a shared store.
pub(crate) struct Intake {
    study: Arc<Study>,
    store: Arc<dyn Store>,
    seal: Seal,
    checker: Checker,
}

impl Intake {
    /// Creates the intake. Returns `None` if the store is not shared, since a single process then
    /// receives all vectors.
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
        // `Intake::of` has checked that the store is shared, and a store never changes its kind.
        self.store.shared().ok_or(StoreError::Superseded)
    }

    /// Stores a vector. The refusals are those of the round's state machine, which processes the
    /// vector later. An accepted vector is in the store when this returns.
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

    /// Checks the conditions that do not depend on the round.
    ///
    /// A non-finite vector of a private study counts as zero (INV-5) and is accepted like any
    /// other.
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

    /// Returns true if a vector that an agent delivered is missing, for example after a crash of
    /// the database.
    pub(crate) fn awaits(&self, slot: u32, round: u64) -> Result<bool, StoreError> {
        self.inbox()?.awaits(self.study.key, slot, round)
    }

    /// Returns the vectors of a round by slot, except those of `known` slots. An unreadable vector
    /// is returned as `None`.
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
                tracing::error!(study = %self.study.name, "cannot read a stored upload: {error}");
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
