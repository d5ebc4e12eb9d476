//! A served study with its parsed, frozen configuration.

use fedbo_config::FileError;
use fedbo_federated::{Exchange, named};
use fedbo_federation::{Arm, Collaboration, Federation, PrivacyPlan};
use fedbo_gp::{GpError, MapHash};
use fedbo_ledger::Head;
use fedbo_servers::{NoSum, SumStudy, card_of};
use fedbo_wire::{Digest, SealedUpload, Signature, SigningKey, Upload, config_digest, sign_config};

use crate::store::{StudyKey, StudyRecord};

/// A study as served by its coordinator. Immutable (INV-11).
#[derive(Clone)]
pub struct Study {
    /// Key of the study in the store.
    pub key: StudyKey,
    /// Name of the study.
    pub name: String,
    /// Public configuration, byte for byte as sent to agents.
    pub config: String,
    /// Hash of the configuration, which identifies the study in messages.
    pub digest: Digest,
    /// The coordinator's signature over the configuration.
    pub signature: Signature,
    /// Federation described by the configuration.
    pub federation: Federation,
    /// Hash of the shared features.
    pub map: MapHash,
    /// Number of slots, N.
    pub n_slots: u32,
    /// Length of a message: M, or a length defined by the algorithm.
    pub n_features: u32,
    /// Secure sum led by this coordinator. `None` if the study has no secure sum.
    pub sum: Option<SumStudy>,
}

/// Reason that a stored study cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StudyUnusable {
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] FileError),
    /// The shared features cannot be drawn.
    #[error("cannot draw the shared features: {0}")]
    Features(#[from] GpError),
    /// The algorithm runs each agent independently.
    #[error(
        "federation.algorithm = {algorithm:?} runs each agent alone and needs no coordinator; use `fedbo tune`, or algorithm = {}",
        named(&[Exchange::Relayed, Exchange::Released])
    )]
    Alone {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// The algorithm has no coordinator.
    #[error(
        "federation.algorithm = {algorithm:?} has no coordinator: neighbours share with each other; use `fedbo peer`"
    )]
    Neighbours {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// The study uses shards, which need a shared database.
    #[error(
        "network.intake = \"shards\" is for coordinators that share a PostgreSQL database; name one with --store, or remove the key"
    )]
    NoShards,
    /// The coordinator cannot lead the secure sum.
    #[error(transparent)]
    Sum(#[from] NoSum),
    /// The configuration names a different coordinator as the leader of the secure sum.
    #[error("secure_sum.leader of the study is the card of another coordinator")]
    OtherLeader,
    /// A count exceeds the range of the wire format.
    #[error("{what} = {found}, at most 4294967295 can be served")]
    TooMany {
        /// Name of the counted items.
        what: &'static str,
        /// Number of these items.
        found: usize,
    },
}

impl Study {
    /// Parses a stored study, and signs its configuration with `key`.
    ///
    /// # Errors
    /// If the study cannot be served.
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

    /// Returns the privacy plan, if releases are charged.
    pub(crate) fn plan(&self) -> Option<&PrivacyPlan> {
        self.federation.privacy()
    }

    /// Returns true if agents exchange messages, and false if they receive released sums.
    pub(crate) fn is_relayed(&self) -> bool {
        matches!(self.federation.collaboration, Collaboration::Relayed(_))
    }

    /// Returns true if a round collects vectors.
    pub(crate) fn collects(&self, round: u64) -> bool {
        match &self.federation.collaboration {
            Collaboration::Relayed(_) => true,
            Collaboration::Released(releases) => releases.schedule().releases(round),
            Collaboration::Neighbours(_) => false, // refused by `Study::of`
        }
    }

    /// Returns the size of an upload in bytes.
    pub(crate) fn upload_bytes(&self) -> usize {
        match &self.sum {
            Some(sum) => SealedUpload::n_bytes(sum.sealed_sizes()),
            None => Upload::n_bytes(self.n_features as usize),
        }
    }

    /// Returns the initial head of the release chain.
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
            alone.contains("\"ts\" runs each agent alone")
                && alone.ends_with(
                    "algorithm = \"shared-prior\", \"dp-shared-prior\", \"rgpe\", \"taf\", \"fts\" or \"dp-fts-de\""
                ),
            "{alone}"
        );
        let neighbours = StudyUnusable::Neighbours { algorithm: "distributed-ts" }.to_string();
        assert!(neighbours.contains("\"distributed-ts\" has no coordinator"), "{neighbours}");
    }
}
