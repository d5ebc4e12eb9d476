//! A study that is being served: its frozen configuration, read.

use fedbo_config::FileError;
use fedbo_federated::{Exchange, named};
use fedbo_federation::{Arm, Collaboration, Federation, PrivacyPlan};
use fedbo_gp::{GpError, MapHash};
use fedbo_ledger::Head;
use fedbo_servers::{NoSum, SumStudy, card_of};
use fedbo_wire::{Digest, SealedUpload, Signature, SigningKey, Upload, config_digest, sign_config};

use crate::store::{StudyKey, StudyRecord};

/// A study as its coordinator knows it; nobody may change any of it (INV-11).
#[derive(Clone)]
pub struct Study {
    /// Its key in the store.
    pub key: StudyKey,
    /// Its name.
    pub name: String,
    /// Its public configuration, as it is handed out.
    pub config: String,
    /// The hash by which messages name it.
    pub digest: Digest,
    /// The coordinator's signature of it.
    pub signature: Signature,
    /// The federation that the configuration describes.
    pub federation: Federation,
    /// Hash of the shared features.
    pub map: MapHash,
    /// N.
    pub n_slots: u32,
    /// Numbers of a message: M, or what the algorithm says.
    pub n_features: u32,
    /// The sum by two servers, of which this is the leader; none where the coordinator sums alone.
    pub sum: Option<SumStudy>,
}

/// An error that keeps a stored study from being served.
#[derive(Debug, thiserror::Error)]
pub enum StudyUnusable {
    /// Its configuration cannot be read.
    #[error(transparent)]
    Config(#[from] FileError),
    /// Its features cannot be drawn.
    #[error("the shared features cannot be drawn: {0}")]
    Features(#[from] GpError),
    /// Its agents do not work together.
    #[error(
        "federation.algorithm = {algorithm:?} is each agent alone, which needs no coordinator; use `fedbo tune`, or algorithm = {}",
        named(&[Exchange::Relayed, Exchange::Released])
    )]
    Alone {
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// Its agents have no coordinator.
    #[error(
        "federation.algorithm = {algorithm:?} has no coordinator: neighbours share with each other; use `fedbo peer`"
    )]
    Neighbours {
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// Its vectors are to be kept by shards, which meet in a database.
    #[error(
        "network.intake = \"shards\" is for coordinators that share a PostgreSQL database; name one with --store, or remove the key"
    )]
    NoShards,
    /// Its secure sum cannot be led.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// Its secure sum was frozen for another coordinator.
    #[error("secure_sum.leader of the study is the card of another coordinator")]
    OtherLeader,
    /// There are more of something than messages can count.
    #[error("{what} = {found}, at most 4294967295 can be served")]
    TooMany {
        /// The things that are counted.
        what: &'static str,
        /// The number of them.
        found: usize,
    },
}

impl Study {
    /// Reads a stored study; `key` signs its configuration.
    ///
    /// # Errors
    /// If it cannot be served.
    pub fn of(record: &StudyRecord, key: &SigningKey) -> Result<Self, StudyUnusable> {
        let federation = Federation::thaw(&record.config)?;
        let config = record.config.clone();
        let algorithm = federation.algorithm.name;
        if federation.own_arm() == Arm::ALONE {
            return Err(StudyUnusable::Alone { algorithm });
        }
        if matches!(federation.collaboration, Collaboration::Neighbours(_)) {
            return Err(StudyUnusable::Neighbours { algorithm });
        }
        let count = |what, found: usize| {
            u32::try_from(found).map_err(|_| StudyUnusable::TooMany { what, found })
        };
        let sum = SumStudy::of(&federation, &config)?;
        if sum.as_ref().is_some_and(|sum| sum.leader != card_of(key)) {
            return Err(StudyUnusable::OtherLeader);
        }
        Ok(Self {
            sum,
            key: record.key,
            name: record.name.clone(),
            digest: config_digest(config.as_bytes()),
            signature: sign_config(key, config.as_bytes()),
            map: federation.feature_map()?.hash(),
            n_slots: count("agents", federation.agents.len())?,
            n_features: count("numbers of a message", federation.message_len())?,
            federation,
            config,
        })
    }

    /// The privacy plan of its releases, where they are charged.
    pub(crate) fn plan(&self) -> Option<&PrivacyPlan> {
        self.federation.privacy()
    }

    /// Returns true if agents exchange messages; if not, they get releases of sums.
    pub(crate) fn is_relayed(&self) -> bool {
        matches!(self.federation.collaboration, Collaboration::Relayed(_))
    }

    /// Returns true if vectors are taken in a round.
    pub(crate) fn collects(&self, round: u64) -> bool {
        match &self.federation.collaboration {
            Collaboration::Relayed(_) => true,
            Collaboration::Released(releases) => releases.schedule().releases(round),
            Collaboration::Neighbours(_) => false, // no study is made of such a federation
        }
    }

    /// Bytes of an upload.
    pub(crate) fn upload_bytes(&self) -> usize {
        match &self.sum {
            Some(sum) => SealedUpload::n_bytes(sum.sealed_sizes()),
            None => Upload::n_bytes(self.n_features as usize),
        }
    }

    /// Returns the head with which the chain of its releases begins.
    pub(crate) fn genesis(&self) -> Head {
        match self.plan() {
            Some(plan) => plan.charter.genesis(),
            None => Head::uncharged(self.config.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StudyUnusable;

    #[test]
    fn algorithms_without_a_coordinator_are_refused_by_their_names() {
        let alone = StudyUnusable::Alone { algorithm: "ts" }.to_string();
        assert!(
            alone.contains("\"ts\" is each agent alone")
                && alone.ends_with(
                    "algorithm = \"shared-prior\", \"dp-shared-prior\", \"rgpe\", \"taf\", \"fts\" or \"dp-fts-de\""
                ),
            "{alone}"
        );
        let neighbours = StudyUnusable::Neighbours { algorithm: "distributed-ts" }.to_string();
        assert!(neighbours.contains("\"distributed-ts\" has no coordinator"), "{neighbours}");
    }
}
