//! A secure-sum study, parsed from its public configuration.

use fedbo_error_class::{Class, Classified};
use fedbo_federation::{Collaboration, Federation, Protection, ReleaseMechanism};
use fedbo_ledger::{Charter, Head, UnreadableEvent, event_to_bytes};
use fedbo_privacy::accounting::PrivacyEvent;
use fedbo_privacy::mechanism::{Kind, ReleaseShape, Secure, Server, Simulated};
use fedbo_protocol::ReleaseSchedule;
use fedbo_secure_sum::{
    Place, SealingKey, SealingPublicKey, ShareRefused, Sharing, combine, sealed_size,
};
use fedbo_wire::{
    CardUnreadable, Digest, PassedSizes, PublicKey, SealedSizes, ServerCard, Session, SigningKey,
    SumPlace, config_digest,
};

/// Reason that a configuration does not describe a runnable secure-sum study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSum {
    /// A card cannot be read.
    #[error("secure_sum.{key} of the study: {source}")]
    Card {
        /// Configuration key of the card.
        key: &'static str,
        /// Reason that the card cannot be read.
        source: CardUnreadable,
    },
    /// The study's coordinator is not the owner of the leader's card.
    #[error(
        "secure_sum.leader of the study is the card of {leader}, but its coordinator is {coordinator}; they must be the same"
    )]
    OtherLeader {
        /// Key of the card.
        leader: PublicKey,
        /// Key of the coordinator.
        coordinator: String,
    },
    /// The privacy event cannot be encoded.
    #[error("the study's privacy event is invalid: {0}")]
    Event(#[from] UnreadableEvent),
    /// The same party would run both servers.
    #[error(
        "both servers of the study have the same {what}: one party would see every vector; another party must run the helper"
    )]
    OneParty {
        /// Name of the key that both servers have in common.
        what: &'static str,
    },
}

impl Classified for NoSum {
    fn class(&self) -> Class {
        Class::Input
    }
}

/// Derives, from a server's signing key, the keys with which the server opens shares.
#[must_use]
pub fn sealing_key_of(key: &SigningKey) -> SealingKey {
    SealingKey::from_seed(&key.derived("fedbo server of a secure sum, version 1"))
}

/// Returns the card of the server with this key.
#[must_use]
pub fn card_of(key: &SigningKey) -> ServerCard {
    let SealingPublicKey { seal, agree } = sealing_key_of(key).public();
    ServerCard::new(key, seal, agree)
}

/// A secure-sum study. Immutable (INV-11).
#[derive(Clone, Debug)]
pub struct SumStudy {
    /// Name of the study.
    pub name: String,
    /// Digest of the study's public configuration.
    pub config: Digest,
    /// Scheme for secret-sharing vectors between the servers.
    pub sharing: Sharing,
    /// The coordinator's card.
    pub leader: ServerCard,
    /// The helper's card.
    pub helper: ServerCard,
    /// The helper's address, as used by the coordinator.
    pub helper_url: String,
    /// Release schedule.
    pub schedule: ReleaseSchedule,
    /// Number of slots, N.
    pub n_slots: u32,
    /// Privacy event of a release, or `None` without a privacy guarantee.
    pub event: Option<PrivacyEvent>,
    /// Encoded privacy event, empty if there is none.
    pub event_bytes: Vec<u8>,
    /// Charter of the helper's ledger, or `None` if nothing is charged.
    pub helper_charter: Option<Charter>,
    /// Maximum number of releases per slot, or `None` if unlimited.
    pub participations: Option<u64>,
    /// Head of the helper's chain before the first entry.
    pub helper_genesis: Head,
}

impl SumStudy {
    /// Parses a secure-sum study. Returns `None` if the vectors are not summed by two servers.
    ///
    /// # Errors
    /// If the configuration does not describe a runnable secure-sum study.
    pub fn of(federation: &Federation, text: &str) -> Result<Option<Self>, NoSum> {
        let Collaboration::Released(made) = &federation.collaboration else {
            return Ok(None);
        };
        let ReleaseMechanism::SecureSum(sharing) = made.mechanism(federation.own_arm()) else {
            return Ok(None);
        };
        let table = federation.file().secure_sum.clone().unwrap_or_default();
        let card = |key, text: Option<String>| {
            let read = text.unwrap_or_default().parse::<ServerCard>();
            read.map_err(|source| NoSum::Card { key, source })
        };
        let (leader, helper) = (card("leader", table.leader)?, card("helper", table.helper)?);
        let named = federation.file().network.coordinator.as_ref();
        if let Some(coordinator) = named.filter(|named| **named != leader.key.to_string()) {
            let coordinator = coordinator.clone();
            return Err(NoSum::OtherLeader { leader: leader.key, coordinator });
        }
        let same = [
            ("key", leader.key.0 == helper.key.0),
            ("key of shares", leader.seal == helper.seal),
            ("key of the verification", leader.agree == helper.agree),
        ];
        if let Some((what, _)) = same.into_iter().find(|(_, same)| *same) {
            return Err(NoSum::OneParty { what });
        }
        let (event, helper_charter) = match &made.releases.protection {
            Protection::Charged(plan) => {
                let name = format!("{} (helper)", plan.charter.name);
                (Some(plan.event), Some(Charter { name, ..plan.charter.clone() }))
            }
            Protection::Off | Protection::Simulated => (None, None),
        };
        let event_bytes = event.as_ref().map(event_to_bytes).transpose()?.unwrap_or_default();
        let helper_genesis = match &helper_charter {
            Some(charter) => charter.genesis(),
            None => Head::uncharged(format!("{text}\n# helper").as_bytes()),
        };
        Ok(Some(Self {
            name: federation.name.clone(),
            config: config_digest(text.as_bytes()),
            n_slots: sharing.mechanism().settings().n_slots,
            sharing,
            leader,
            helper,
            helper_url: table.helper_url.unwrap_or_default(),
            schedule: made.schedule(),
            event,
            event_bytes,
            helper_charter,
            participations: made.releases.participations,
            helper_genesis,
        }))
    }

    /// Returns the public sealing keys of a server.
    #[must_use]
    pub fn sealing(&self, server: Server) -> SealingPublicKey {
        let card = match server {
            Server::Leader => &self.leader,
            Server::Helper => &self.helper,
        };
        SealingPublicKey { seal: card.seal, agree: card.agree }
    }

    /// Checks that both servers' shares are for this round and over the same slots.
    ///
    /// # Errors
    /// If the shares do not combine into a release.
    pub fn check_shares(
        &self,
        round: u64,
        leader: &[u8],
        helper: &[u8],
    ) -> Result<(), ShareRefused> {
        match self.event {
            Some(_) => self.combined::<Secure>(round, leader, helper),
            None => self.combined::<Simulated>(round, leader, helper),
        }
    }

    fn combined<K: Kind>(
        &self,
        round: u64,
        leader: &[u8],
        helper: &[u8],
    ) -> Result<(), ShareRefused> {
        let at = (round, self.schedule.shape(round));
        let read = |server, bytes: &[u8]| self.sharing.read::<K>(server, at, bytes);
        combine(&read(Server::Leader, leader)?, &read(Server::Helper, helper)?)?;
        Ok(())
    }

    /// Returns the context of a report.
    #[must_use]
    pub fn place(&self, round: u64, slot: u32) -> Place {
        Place { study: self.config.0, round, slot }
    }

    /// Returns the context of a message between the servers, in a session of the helper.
    #[must_use]
    pub fn sum_place(&self, round: u64, session: Session) -> SumPlace {
        SumPlace { config: self.config, round, session }
    }

    /// Returns the sizes of the parts of an upload in bytes.
    #[must_use]
    pub fn sealed_sizes(&self) -> SealedSizes {
        let sizes = self.sharing.sizes();
        SealedSizes {
            n_features: u32::try_from(self.sharing.n_features()).unwrap_or(u32::MAX), // at most 2^14
            public: sizes.public,
            for_leader: sealed_size(sizes.leader),
            for_helper: sealed_size(sizes.helper),
        }
    }

    /// Returns the sizes in bytes of the parts of a report that the leader passes on.
    #[must_use]
    pub fn passed_sizes(&self) -> PassedSizes {
        let sizes = self.sharing.sizes();
        PassedSizes {
            public: sizes.public,
            for_helper: sealed_size(sizes.helper),
            verifier: sizes.verifier,
            message: sizes.message,
        }
    }

    /// Returns the maximum size in bytes of a server's share of a release.
    #[must_use]
    pub fn share_bytes_max(&self) -> u64 {
        let shapes = [ReleaseShape::Regions, ReleaseShape::Total];
        shapes.map(|shape| self.sharing.share_size(shape) as u64)[0]
            .max(self.sharing.share_size(ReleaseShape::Total) as u64)
    }
}
