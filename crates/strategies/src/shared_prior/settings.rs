//! Settings of the shared prior.

use fedbo_gp::WeightPriorSettings;

use serde::{Deserialize, Serialize};

use super::{MessageTerms, SharedPriorOptions};
use crate::{LogEiSettings, StrategyError};

/// The parts of the other parties' messages that a party uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OthersUse {
    /// The prior and the best points.
    #[default]
    Prior,
    /// Only the best points, which the first queries take in random order. This is a warm start,
    /// used as a control.
    BestPoints,
    /// Nothing: each party works on its own.
    Nothing,
}

/// The acquisition function that a query maximizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedAcquisition {
    /// The logarithm of the expected improvement.
    #[default]
    LogEi,
    /// A function drawn from one of the models: Thompson sampling.
    Ts,
    /// Mean plus 2 standard deviations, as in [`crate::GpUcbOptions::default`].
    GpUcb,
}

/// Settings of a [`super::SharedPrior`] strategy.
#[derive(Clone, Debug)]
pub struct SharedPriorSettings {
    /// The party's own model and search, the same as without other parties.
    pub own: LogEiSettings,
    /// The parts of the other parties' messages that are used.
    pub others: OthersUse,
    /// The acquisition function that a query maximizes.
    pub acquisition: SharedAcquisition,
    /// r: the number of shared functions, which must be the same for all parties.
    pub rank: usize,
    /// The prior of (m, Λ) before any message.
    pub prior: WeightPriorSettings,
    /// ρ, the variance of the party's own function, in units of the shared functions.
    pub own_variance: f64,
    /// τ² if the other parties do not report their levels.
    pub level_variance: f64,
    /// The minimum of σ², in units of the shared functions.
    pub least_noise: f64,
    /// Scales s to average over if the other parties do not report theirs, in units of the party's
    /// outputs. All scales have equal weights before any output.
    pub sizes: Vec<f64>,
    /// The weight of the shared model before any output.
    ///
    /// If units are compared, the model with negated functions has half of this weight or half of
    /// the remainder, whichever is less. The party's own model has the rest. Queries are restricted
    /// to the best points only while the weight of the shared model is at least this initial
    /// weight.
    pub trust_before: f64,
    /// Number of initial queries chosen among the other parties' best points, as long as these
    /// parties are trusted.
    pub n_best_first: usize,
    /// True if a random query follows the first of the other parties' best points, for a party
    /// without initial points. The random query shows whether the best points are better than other
    /// points.
    pub probes: bool,
    /// Number of random trials at the start of a party without messages. A party misled by the
    /// other parties makes twice as many random queries, or d + 2 if that is fewer. These queries
    /// and the first best point precede the queries chosen by its model.
    pub n_random_first: usize,
    /// True if the party sends its own best point.
    pub sends_best: bool,
    /// True if the level and scale of outputs are compared with those of the other parties. Models
    /// that use the other parties' level and scale are then models of untransformed outputs.
    pub compares_units: bool,
}

impl SharedPriorSettings {
    /// Returns the defaults for a party with `dim` parameters.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn default_for(dim: usize, noisy: bool) -> Self {
        SharedPriorOptions::default().settings(LogEiSettings::for_study(dim, noisy))
    }

    /// Returns the settings for the party's own messages.
    pub fn terms(&self) -> MessageTerms {
        MessageTerms {
            own_variance: self.own_variance,
            level_variance: self.level_variance,
            least_noise: self.least_noise,
            sends_best: self.sends_best,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn validate(self) -> Result<Self, StrategyError> {
        StrategyError::ensure(self.rank > 0, "rank", "0", "at least 1")?;
        StrategyError::ensure(
            self.trust_before > 0.0 && self.trust_before < 1.0,
            "trust",
            self.trust_before,
            "above 0 and below 1",
        )?;
        let numbers = self.sizes.iter().chain([
            &self.own_variance,
            &self.level_variance,
            &self.least_noise,
            &self.prior.covariance_weight,
        ]);
        if let Some(bad) = numbers.copied().find(|v| !(v.is_normal() && *v > 0.0)) {
            return Err(StrategyError::setting("variance or size", bad, "a finite number above 0"));
        }
        StrategyError::ensure(!self.sizes.is_empty(), "sizes", "none", "at least one")?;
        Ok(self)
    }
}
