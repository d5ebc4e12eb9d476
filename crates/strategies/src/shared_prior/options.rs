//! Options of the shared prior, and the strategy of a study, in which old studies take the role of
//! the other parties.

use std::sync::Arc;

use fedbo_gp::{FeatureDescription, FeatureMap, WeightPriorSettings};
use fedbo_streams::Purpose;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use super::{OthersUse, SharedAcquisition, SharedPrior, SharedPriorSettings};
use crate::meta::OutputScale;
use crate::{Earlier, LogEiSettings, MetaOptions, Setup, Strategy, StrategyError};

/// Options of the shared prior for both studies and federations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedPriorOptions {
    /// r: number of shared functions, at most the number of features.
    #[serde(deserialize_with = "rank")]
    pub rank: usize,
    /// Weight of the shared model before the party's first observation, in (0, 1).
    #[serde(deserialize_with = "trust")]
    pub trust: f64,
    /// Number of initial queries chosen among the other parties' best points, as long as these
    /// parties are trusted.
    pub best_points: usize,
    /// True if a random query follows the first of the best points, for a party without initial
    /// points. The random query shows earlier whether the other parties are misleading.
    pub probe: bool,
    /// The acquisition function that a query maximizes.
    pub acquisition: SharedAcquisition,
}

impl Default for SharedPriorOptions {
    fn default() -> Self {
        Self {
            rank: 25,
            trust: 0.5,
            best_points: 3,
            probe: true,
            acquisition: SharedAcquisition::LogEi,
        }
    }
}

impl SharedPriorOptions {
    /// Upper limit of r: messages contain r(r + 3)/2 numbers, and a fit costs O(N r³) per step.
    pub const RANK_MAX: usize = 100;

    /// Returns the settings of a party with these options and with `own` as its own model.
    pub fn settings(&self, own: LogEiSettings) -> SharedPriorSettings {
        SharedPriorSettings {
            own,
            others: OthersUse::Prior,
            acquisition: self.acquisition,
            rank: self.rank,
            prior: WeightPriorSettings::default(),
            own_variance: 0.1,
            level_variance: 10.0,
            least_noise: 1e-2,
            sizes: (-4..=6).map(|step| 2.0_f64.powf(f64::from(step) / 2.0)).collect(),
            trust_before: self.trust,
            n_best_first: self.best_points,
            probes: self.probe,
            n_random_first: 3,
            sends_best: true,
            compares_units: true,
        }
    }
}

impl MetaOptions for SharedPriorOptions {
    /// Creates the strategy as in a finished federation in which each earlier study has sent a
    /// message. The features of the basis are drawn from the study's seed. Fitting an earlier study
    /// with n observations and creating its message costs O(n³), once.
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError> {
        let own = LogEiSettings {
            surrogate: setup.surrogate(),
            ..LogEiSettings::for_study(setup.dim(), setup.noisy)
        };
        let description = FeatureDescription::for_parties(setup.dim());
        let mut stream = setup.seed.stream(Purpose::SHARED_FEATURES, 0, 0);
        let map = Arc::new(FeatureMap::draw(&description, &mut stream)?);
        let mut strategy = SharedPrior::new(setup.domain(), self.settings(own), map, setup.seed)?;
        let surrogate = earlier.surrogate(setup);
        for (sender, task) in (0..).zip(earlier.tasks) {
            let seed = setup.seed.child(crate::META_TASK, u64::from(sender));
            let message = strategy.message_of_task(task, &surrogate, seed)?;
            strategy.receive(sender, message)?;
        }
        Ok(Box::new(strategy))
    }

    fn without_scale(&self) -> &'static str {
        "learns level and size from the old studies"
    }

    fn begins_with_old_studies(&self, _: OutputScale) -> bool {
        true
    }
}

fn rank<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    const MAX: usize = SharedPriorOptions::RANK_MAX;
    let rank = usize::deserialize(deserializer)?;
    match (1..=MAX).contains(&rank) {
        true => Ok(rank),
        false => Err(D::Error::custom(format!("expected a whole number from 1 to {MAX}"))),
    }
}

fn trust<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let trust = f64::deserialize(deserializer)?;
    match trust > 0.0 && trust < 1.0 {
        true => Ok(trust),
        false => Err(D::Error::custom("expected a number above 0 and below 1")),
    }
}
