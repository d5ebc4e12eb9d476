//! Rounds of a federation's mechanism, for any kind of mechanism.

use fedbo_privacy::mechanism::{Collecting, NoiseSource, PaperCollecting, VectorRefused};
use fedbo_protocol::{
    Aggregate, LatticeRounds, MechanismFailed, PaperRounds, PendingRelease, RoundMechanism,
};
use fedbo_secure_sum::{SecureSumRound, SecureSumRounds};

use crate::release_mechanism::ReleaseMechanism;
use crate::releases::ReleasePlan;
use fedbo_federated::Arm;

/// The agents' weights in each round, for the paper's mechanism.
type Weights = Box<dyn Fn(u64) -> Vec<Vec<f64>> + Send + Sync>;

/// Rounds of a federation's mechanism, with noise from `S`.
pub struct Rounds<S>(Kind<S>);

enum Kind<S> {
    Lattice(LatticeRounds<S>),
    Paper(PaperRounds<S, Weights>),
    SecureSum(SecureSumRounds<S>),
}

/// An open round, which accepts vectors.
#[derive(Debug)]
pub enum OpenRound {
    /// A round of the lattice mechanism.
    Lattice(Collecting),
    /// A round of the paper's mechanism.
    Paper(PaperCollecting),
    /// A round of a secure sum.
    SecureSum(SecureSumRound),
}

impl ReleasePlan {
    /// Returns the rounds of an arm, with noise from `source`.
    pub fn rounds<S: NoiseSource>(&self, arm: Arm, source: S) -> Rounds<S> {
        let schedule = self.schedule();
        Rounds(match self.mechanism(arm) {
            ReleaseMechanism::Lattice(mechanism) => Kind::Lattice(
                LatticeRounds::new(mechanism, schedule, source)
                    .with_witnesses(self.releases.n_witnesses),
            ),
            ReleaseMechanism::Paper(mechanism) => {
                Kind::Paper(PaperRounds::new(mechanism, self.agent_weights(), source))
            }
            ReleaseMechanism::SecureSum(sharing) => {
                Kind::SecureSum(SecureSumRounds::new(sharing, schedule, source))
            }
        })
    }
}

impl<S: NoiseSource> RoundMechanism for Rounds<S> {
    type Round = OpenRound;

    fn n_slots(&self) -> u32 {
        match &self.0 {
            Kind::Lattice(rounds) => rounds.n_slots(),
            Kind::Paper(rounds) => rounds.n_slots(),
            Kind::SecureSum(rounds) => rounds.n_slots(),
        }
    }

    fn n_features(&self) -> usize {
        match &self.0 {
            Kind::Lattice(rounds) => rounds.n_features(),
            Kind::Paper(rounds) => rounds.n_features(),
            Kind::SecureSum(rounds) => rounds.n_features(),
        }
    }

    fn open(&mut self, round: u64) -> Result<OpenRound, MechanismFailed> {
        Ok(match &mut self.0 {
            Kind::Lattice(rounds) => OpenRound::Lattice(rounds.open(round)?),
            Kind::Paper(rounds) => OpenRound::Paper(rounds.open(round)?),
            Kind::SecureSum(rounds) => OpenRound::SecureSum(rounds.open(round)?),
        })
    }

    fn receive(
        &self,
        collecting: &mut OpenRound,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        match (&self.0, collecting) {
            (Kind::Lattice(rounds), OpenRound::Lattice(round)) => {
                rounds.receive(round, slot, vector)
            }
            (Kind::Paper(rounds), OpenRound::Paper(round)) => rounds.receive(round, slot, vector),
            (Kind::SecureSum(rounds), OpenRound::SecureSum(round)) => {
                rounds.receive(round, slot, vector)
            }
            _ => unreachable!("{OTHER}"),
        }
    }

    fn close(&mut self, collecting: OpenRound) -> Result<PendingRelease, MechanismFailed> {
        match (&mut self.0, collecting) {
            (Kind::Lattice(rounds), OpenRound::Lattice(round)) => rounds.close(round),
            (Kind::Paper(rounds), OpenRound::Paper(round)) => rounds.close(round),
            (Kind::SecureSum(rounds), OpenRound::SecureSum(round)) => rounds.close(round),
            _ => unreachable!("{OTHER}"),
        }
    }

    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        match &self.0 {
            Kind::Lattice(rounds) => rounds.restore(round, bytes),
            Kind::Paper(rounds) => rounds.restore(round, bytes),
            Kind::SecureSum(rounds) => rounds.restore(round, bytes),
        }
    }
}

const OTHER: &str = "a round is opened and closed by the same mechanism";
