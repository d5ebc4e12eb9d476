//! Rounds of a secure sum with agents and both servers in one process.

use std::collections::BTreeMap;
use std::fmt;

use fedbo_privacy::mechanism::{Kind as _, NoiseSource, ReleaseShape, Server, VectorRefused};
use fedbo_protocol::{
    Aggregate, AggregateContent, MechanismFailed, PendingRelease, ReleaseSchedule, RoundMechanism,
};
use zeroize::Zeroizing;

use crate::{
    NotClosed, NotShared, OutputShare, Place, ReportRefused, ServerRound, Sharing, VerificationKey,
    combine,
};

/// Rounds with the agents and both servers in this process, and noise from `S`. The computations
/// are the same as with two parties. Nothing is secret, because there is only one process.
#[derive(Debug)]
pub struct SecureSumRounds<S> {
    sharing: Sharing,
    schedule: ReleaseSchedule,
    source: S,
}

impl<S: NoiseSource> SecureSumRounds<S> {
    /// Creates rounds with the release shapes in `schedule`.
    pub fn new(sharing: Sharing, schedule: ReleaseSchedule, source: S) -> Self {
        Self { sharing, schedule, source }
    }
}

/// An open round, which stores vectors unread until it closes.
pub struct SecureSumRound {
    round: u64,
    shape: ReleaseShape,
    vectors: BTreeMap<u32, Zeroizing<Vec<f64>>>,
}

impl fmt::Debug for SecureSumRound {
    /// Omits vectors and counts (INV-4).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureSumRound").field("round", &self.round).finish_non_exhaustive()
    }
}

impl From<NotClosed> for MechanismFailed {
    fn from(refused: NotClosed) -> Self {
        match refused {
            NotClosed::Noise(error) => Self::Noise(error),
            missing @ NotClosed::Missing { .. } => Self::SecureSum(missing.to_string()),
        }
    }
}

/// An error in a step of a round.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Shared(#[from] NotShared),
    #[error("an honest agent's report was refused: {0}")]
    Report(#[from] ReportRefused),
}

impl<S: NoiseSource> SecureSumRounds<S> {
    /// Runs the protocol for an agent's vector, and returns both servers' verified shares.
    fn verified(&self, round: u64, slot: u32, vector: &[f64]) -> Result<[OutputShare; 2], Failed> {
        let sharing = &self.sharing;
        let context = Place { study: sharing.hash(), round, slot }.context();
        let key = VerificationKey(Zeroizing::new([0; 32])); // not secret: there is only one process
        let report = sharing.share(&context, vector)?;
        let look = |server, share: &[u8]| {
            sharing.verify(server, &key, &context, (&report.nonce, &report.public, share))
        };
        let (of_leader, from_leader) = look(Server::Leader, &report.leader)?;
        let (of_helper, from_helper) = look(Server::Helper, &report.helper)?;
        let answer = sharing.decide(&context, &of_helper, [&from_leader, &from_helper])?;
        Ok([
            sharing.accept(&context, of_leader, &answer)?,
            sharing.accept(&context, of_helper, &answer)?,
        ])
    }
}

impl<S: NoiseSource> RoundMechanism for SecureSumRounds<S> {
    type Round = SecureSumRound;

    fn n_slots(&self) -> u32 {
        self.sharing.mechanism().settings().n_slots
    }

    fn n_features(&self) -> usize {
        self.sharing.n_features()
    }

    fn open(&mut self, round: u64) -> Result<Self::Round, MechanismFailed> {
        Ok(SecureSumRound { round, shape: self.schedule.shape(round), vectors: BTreeMap::new() })
    }

    fn receive(
        &self,
        collecting: &mut Self::Round,
        slot: u32,
        vector: &[f64],
    ) -> Result<(), VectorRefused> {
        let (n_slots, expected, found) = (self.n_slots(), self.n_features(), vector.len());
        if slot >= n_slots {
            return Err(VectorRefused::UnknownSlot { slot, last: n_slots - 1 });
        }
        if found != expected {
            let expected = u32::try_from(expected).unwrap_or(u32::MAX); // at most the mechanism's
            return Err(VectorRefused::WrongLength { slot, expected, found });
        }
        if collecting.vectors.contains_key(&slot) {
            return Err(VectorRefused::Repeated { slot });
        }
        collecting.vectors.insert(slot, Zeroizing::new(vector.to_vec()));
        Ok(())
    }

    fn close(&mut self, collecting: Self::Round) -> Result<PendingRelease, MechanismFailed> {
        let SecureSumRound { round, shape, vectors } = collecting;
        let begin = |server| self.sharing.begin(server, (round, shape));
        let (mut leader, mut helper) = (begin(Server::Leader), begin(Server::Helper));
        for (slot, vector) in &vectors {
            let verified = self.verified(round, *slot, vector);
            let verified = verified.map_err(|error| MechanismFailed::SecureSum(error.to_string()));
            let [of_leader, of_helper] = verified?;
            leader.keep(*slot, of_leader);
            helper.keep(*slot, of_helper);
        }
        let slots: Vec<u32> = vectors.into_keys().collect();
        let mut share = |server: ServerRound| {
            let share = server.close(&slots, &mut self.source);
            let share = share.map_err(|(_, refused)| MechanismFailed::from(refused));
            share.map(|share| share.to_bytes())
        };
        let bytes = [share(leader)?, share(helper)?].concat();
        let event = S::Kind::PRIVATE.then(|| self.sharing.mechanism().event()); // INV-10
        Ok(PendingRelease { bytes, event })
    }

    /// Parses a stored release, which is the leader's share followed by the helper's.
    fn restore(&self, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        let at = (round, self.schedule.shape(round));
        let (leader, helper) = bytes.split_at(bytes.len() / 2);
        let refused = |error: crate::ShareRefused| MechanismFailed::SecureSum(error.to_string());
        let leader = self.sharing.read::<S::Kind>(Server::Leader, at, leader).map_err(refused)?;
        let helper = self.sharing.read::<S::Kind>(Server::Helper, at, helper).map_err(refused)?;
        let sums = combine(&leader, &helper).map_err(refused)?;
        Ok(self.sharing.aggregate(at, &sums))
    }
}

impl Sharing {
    /// Converts a release to the form that agents use. The noise is the sum of both servers' noise.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a released value; beyond 2^53 it is still rounded to a multiple of the spacing"
    )]
    fn aggregate(&self, (round, shape): (u64, ReleaseShape), sums: &[i64]) -> Aggregate {
        let spacing = self.mechanism().lattice().spacing();
        let width = self.mechanism().settings().n_features as usize;
        let mut witnesses = Vec::new();
        let mut rows = sums.chunks(width).map(|row| {
            let mut values: Vec<f64> = row.iter().map(|k| *k as f64 * spacing).collect();
            witnesses.extend(values.split_off(self.n_features()));
            values
        });
        let content = match shape {
            ReleaseShape::Regions => AggregateContent::RegionSums(rows.collect()),
            ReleaseShape::Total => AggregateContent::Total(rows.next().unwrap_or_default()),
        };
        let noise_std = self.mechanism().noise_std() * std::f64::consts::SQRT_2;
        Aggregate { round, content, noise_std, witnesses }
    }
}
