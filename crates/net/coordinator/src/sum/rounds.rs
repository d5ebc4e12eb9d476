//! The leader's rounds, as a mechanism of the round machine.

use std::sync::Arc;

use fedbo_privacy::mechanism::{Kind as _, NoiseSource, Server, VectorRefused};
use fedbo_protocol::{
    Aggregate, AggregateContent, MechanismFailed, PendingRelease, RoundMechanism,
};
use fedbo_secure_sum::ServerRound;

use super::SumIntake;

/// The leader's rounds, with noise from `S`.
///
/// The intake provides verified vectors once the helper has closed the round over the same slots.
/// The machine receives only their slots.
pub(crate) struct LeaderRounds<S> {
    intake: Arc<SumIntake>,
    source: S,
}

impl<S> LeaderRounds<S> {
    pub(crate) fn new(intake: Arc<SumIntake>, source: S) -> Self {
        Self { intake, source }
    }
}

/// A round at the leader. The noise is drawn when the leader closes the round, after the helper has
/// closed it over the same slots (INV-29).
pub(crate) struct LeaderRound {
    sums: ServerRound,
    slots: Vec<u32>,
}

impl<S: NoiseSource> RoundMechanism for LeaderRounds<S> {
    type Round = LeaderRound;

    fn n_slots(&self) -> u32 {
        self.intake.study().n_slots
    }

    /// Zero, since slots arrive without weights.
    fn n_features(&self) -> usize {
        0
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        let study = self.intake.study();
        let at = (round, study.schedule.shape(round));
        let sums = study.sharing.begin(Server::Leader, at);
        Ok(LeaderRound { sums, slots: Vec::new() })
    }

    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        _: &[f64],
    ) -> Result<(), VectorRefused> {
        if let Some(vector) = self.intake.take(slot) {
            collecting.sums.keep(slot, vector);
            collecting.slots.push(slot);
        }
        Ok(())
    }

    fn close(&mut self, mut collecting: Self::Round) -> Result<PendingRelease, MechanismFailed> {
        collecting.slots.sort_unstable();
        let share = collecting.sums.close(&collecting.slots, &mut self.source);
        let share = share.map_err(|(_, refused)| MechanismFailed::from(refused));
        let event = self.intake.study().event.filter(|_| S::Kind::PRIVATE); // INV-10
        Ok(PendingRelease { bytes: share?.to_bytes(), event })
    }

    /// Checks the leader's share of a round. The aggregate is empty, since the share is meaningless
    /// without the helper's.
    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        let study = self.intake.study();
        let at = (round, study.schedule.shape(round));
        let read = study.sharing.read::<S::Kind>(Server::Leader, at, bytes);
        read.map_err(|error| MechanismFailed::SecureSum(error.to_string()))?;
        let content = AggregateContent::Total(Vec::new());
        Ok(Aggregate { round, content, noise_std: 0.0, witnesses: Vec::new() })
    }
}
