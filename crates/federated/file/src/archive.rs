//! An archive of a federation's releases, for parties that come after its last round.

use std::path::Path;

use fedbo_config::{ArchivedParameter, FileError, ReleaseArchive};
use fedbo_federated::{Alignment, Arm};
use fedbo_ledger::{Releases, Statement};
use fedbo_objective::Problems;
use fedbo_privacy::mechanism::SecureNoise;
use fedbo_protocol::{Aggregate, MechanismFailed, RoundMechanism};
use fedbo_strategies::{ReleasedFunction, StrategyError};

use crate::checked::{Collaboration, Federation};
use crate::releases::ReleasePlan;

/// The reason why no archive could be made.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveFailed {
    /// The federation is not one whose releases a ledger charges.
    #[error(
        "{federation} has no releases that a ledger charges; an archive is made of those of dp-fts-de or dp-shared-prior with a privacy budget"
    )]
    NotPrivate {
        /// Its name.
        federation: String,
    },
    /// The ledger belongs to another study.
    #[error(
        "the ledger is that of {found} with another configuration; name the file that {found} was run from, unchanged"
    )]
    OtherStudy {
        /// The ledger's study.
        found: String,
    },
    /// Nothing was released yet.
    #[error("{federation}: nothing was released yet")]
    Empty {
        /// Its name.
        federation: String,
    },
    /// A stored release cannot be read.
    #[error("round {round}: {source}")]
    Release {
        /// Its round.
        round: u64,
        /// The reason.
        source: MechanismFailed,
    },
    /// The features cannot be drawn, or the agents' settings are refused.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
}

impl Federation {
    /// Combines the releases of `statement` into one archive; past rounds count as the file says. It is computed from
    /// releases, whose cost is charged already, and from public settings, as is the alignment of the agents' vectors.
    ///
    /// # Errors
    /// If this is not the federation of the ledger, it is not private, or a release cannot be read.
    pub fn archive(
        &self,
        statement: &Statement,
        releases: &Releases,
    ) -> Result<(ReleaseArchive, Alignment), ArchiveFailed> {
        let name = || self.name.clone();
        let (Collaboration::Released(made), Some(plan)) = (&self.collaboration, self.privacy())
        else {
            return Err(ArchiveFailed::NotPrivate { federation: name() });
        };
        if plan.charter.config_hash() != statement.config_hash {
            let found = statement.name.clone();
            return Err(ArchiveFailed::OtherStudy { found });
        }
        let arm = self.own_arm();
        let restored = releases.iter().map(|(round, bytes)| {
            let round = *round;
            let aggregate = made.restore(arm, round, bytes);
            aggregate.map_err(|source| ArchiveFailed::Release { round, source })
        });
        let restored = restored.collect::<Result<Vec<_>, _>>()?;
        let released = self.released(&restored)?;
        let (function, alignment) =
            released.ok_or_else(|| ArchiveFailed::Empty { federation: name() })?;
        let parameters = self.space.parameters().iter();
        let space = parameters.map(|parameter| ArchivedParameter {
            name: parameter.name().to_owned(),
            spec: parameter.to_spec(),
        });
        let archive = ReleaseArchive::new(
            name(),
            self.direction,
            space.collect(),
            statement.claim.to_string(),
            statement.n_releases(),
            statement.head.to_string(),
            function,
        );
        Ok((archive, alignment))
    }

    /// The function that the releases of the algorithm's own arm stand for, and the alignment of the agents' vectors; `None`
    /// before the first, and where nothing is released.
    ///
    /// # Errors
    /// If the features cannot be drawn, or the agents' settings are refused.
    pub fn released(
        &self,
        releases: &[Aggregate],
    ) -> Result<Option<(ReleasedFunction, Alignment)>, StrategyError> {
        let Collaboration::Released(made) = &self.collaboration else {
            return Ok(None);
        };
        let (map, arm) = (self.feature_map()?, self.own_arm());
        let setup = self.setup(arm, &map, self.agent_seed(0));
        let mechanism = made.mechanism(arm);
        let rate_and_norm = (made.expected_rate(arm), mechanism.norm_and_noise().0);
        let released = made.algorithm.released_function(
            releases,
            &setup,
            rate_and_norm,
            self.features,
            self.seed,
        )?;
        let weight = mechanism.hostile_weight();
        Ok(released.map(|(function, found)| (function, found.with_hostile_weight(weight))))
    }

    /// The federation that a text describes and whose ledger begins with this configuration: an operator's file, or the public
    /// text that a coordinator froze of one.
    ///
    /// # Errors
    /// What is wrong with the operator's file, if it is neither.
    pub fn of_ledger(
        path: &Path,
        config_hash: [u8; 32],
        problems: &dyn Problems,
    ) -> Result<Self, FileError> {
        let fits = |federation: &Self| {
            let plan = federation.privacy();
            plan.is_some_and(|plan| plan.charter.config_hash() == config_hash)
        };
        let frozen = std::fs::read_to_string(path).ok();
        let frozen = frozen.and_then(|text| Self::thaw(&text).ok()).filter(fits);
        match frozen {
            Some(federation) => Ok(federation),
            None => Self::load(path, problems),
        }
    }
}

impl ReleasePlan {
    /// Reads a stored release of an arm.
    fn restore(&self, arm: Arm, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        self.rounds(arm, SecureNoise::new()).restore(round, bytes)
    }
}
