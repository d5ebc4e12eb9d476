//! Archives of a federation's releases, for parties that join after the last round.

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

/// The reason that an archive cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveFailed {
    /// The federation has no releases that are charged to a ledger.
    #[error(
        "{federation} has no releases that are charged to a ledger; only releases of dp-fts-de or dp-shared-prior with a privacy budget can be archived"
    )]
    NotPrivate {
        /// Name of the federation.
        federation: String,
    },
    /// The ledger belongs to a different study.
    #[error(
        "the ledger belongs to {found} with a different configuration; name the unchanged file that {found} was run from"
    )]
    OtherStudy {
        /// Name of the ledger's study.
        found: String,
    },
    /// There are no releases yet.
    #[error("{federation}: nothing has been released yet")]
    Empty {
        /// Name of the federation.
        federation: String,
    },
    /// A stored release cannot be parsed.
    #[error("round {round}: {source}")]
    Release {
        /// Round of the release.
        round: u64,
        /// The reason.
        source: MechanismFailed,
    },
    /// The features cannot be drawn, or the agents' settings are refused.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
}

impl Federation {
    /// Combines the releases listed in `statement` into one archive, with the weights that the file
    /// sets for past rounds.
    ///
    /// The archive, including the alignment of the agents' vectors, is computed only from public
    /// settings and from releases, which are already charged.
    ///
    /// # Errors
    /// If the ledger belongs to a different federation, the federation is not private, there are no
    /// releases, or a release cannot be parsed.
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

    /// Returns the function that the releases of the algorithm's own arm represent, and the
    /// alignment of the agents' vectors. `None` before the first release, and for algorithms
    /// without releases.
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

    /// Loads the federation that a ledger with this configuration belongs to. `path` is an
    /// operator's file, or the public text that a coordinator froze.
    ///
    /// # Errors
    /// If the file is neither, returns the error from parsing it as an operator's file.
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
    /// Parses a stored release of an arm.
    fn restore(&self, arm: Arm, round: u64, bytes: &[u8]) -> Result<Aggregate, MechanismFailed> {
        self.rounds(arm, SecureNoise::new()).restore(round, bytes)
    }
}
