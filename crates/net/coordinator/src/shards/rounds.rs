//! The leader's rounds if shards sum the vectors.

use std::sync::Arc;

use fedbo_privacy::mechanism::{NoiseSource, VectorRefused};
use fedbo_protocol::{Aggregate, LatticeRounds, MechanismFailed, PendingRelease, RoundMechanism};

use super::ShardIntake;

/// Rounds with noise from `S`. The intake provides the sums, and the machine receives only their
/// slots.
pub(crate) struct ShardRounds<S> {
    lattice: LatticeRounds<S>,
    intake: Arc<ShardIntake>,
}

impl<S> ShardRounds<S> {
    pub(crate) fn new(lattice: LatticeRounds<S>, intake: Arc<ShardIntake>) -> Self {
        Self { lattice, intake }
    }
}

impl<S: NoiseSource> RoundMechanism for ShardRounds<S> {
    /// Number of the round.
    type Round = u64;

    fn n_slots(&self) -> u32 {
        self.lattice.n_slots()
    }

    /// Zero, since slots arrive without weights.
    fn n_features(&self) -> usize {
        0
    }

    fn open(&mut self, round: u64) -> Result<u64, MechanismFailed> {
        Ok(round)
    }

    fn receive(&self, _: &mut u64, _: u32, _: &[f64]) -> Result<(), VectorRefused> {
        Ok(())
    }

    fn close(&mut self, round: u64) -> Result<PendingRelease, MechanismFailed> {
        self.lattice.close_parts(round, self.intake.take_sums(round))
    }

    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        self.lattice.restore(round, bytes)
    }
}
