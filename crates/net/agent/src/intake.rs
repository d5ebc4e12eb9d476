//! Encodes uploads for the recipients of a study's vectors.

use fedbo_federation::Federation;
use fedbo_privacy::mechanism::Server;
use fedbo_protocol::AgentUpdate;
use fedbo_servers::{NoSum, SumStudy};
use fedbo_wire::{Digest, SealedUpload, Upload};

use crate::{Membership, RunError};

/// The recipients of a study's vectors.
pub(crate) enum Intake {
    /// The coordinator, which reads the vectors.
    Plain,
    /// The coordinator and a helper, which sum shares of the vectors.
    Sum(Box<SumStudy>),
}

impl Intake {
    /// # Errors
    /// If the study's secure sum cannot be run.
    pub(crate) fn of(federation: &Federation, membership: &Membership) -> Result<Self, NoSum> {
        let sum = SumStudy::of(federation, &membership.config)?;
        Ok(sum.map_or(Self::Plain, |study| Self::Sum(Box::new(study))))
    }

    /// Returns the bytes of an upload. If two servers sum, the upload contains a share of the
    /// vector for each server, which only that server can open. `helper` is the helper's key for
    /// the round.
    ///
    /// # Errors
    /// If the vector cannot be shared, or the helper has not confirmed the round.
    pub(crate) fn bytes(
        &self,
        (membership, map): (&Membership, Digest),
        update: &AgentUpdate,
        helper: Option<&[u8; 32]>,
    ) -> Result<Vec<u8>, RunError> {
        let (config, slot, round) = (membership.digest, membership.slot, update.round);
        let Self::Sum(study) = self else {
            let weights = update.weights.to_vec();
            return Ok(Upload { config, map, slot, round, weights }.to_bytes());
        };
        let place = study.place(round, slot);
        let report = study.sharing.share(&place.context(), &update.weights)?;
        let bound = [report.nonce.as_slice(), &report.public].concat();
        let helper = helper.ok_or(RunError::NotAnswered { round })?;
        let seal = |server, share: &[u8]| {
            let key = match server {
                Server::Leader => &study.leader.seal,
                Server::Helper => helper,
            };
            fedbo_secure_sum::seal(key, &place.info(server), &bound, share)
        };
        let upload = SealedUpload {
            config,
            map,
            slot,
            round,
            nonce: report.nonce,
            for_leader: seal(Server::Leader, &report.leader)?,
            for_helper: seal(Server::Helper, &report.helper)?,
            public: report.public,
        };
        Ok(upload.to_bytes(study.sealed_sizes().n_features))
    }
}
