//! Settings of the shared prior.

use fedbo_gp::WeightPriorSettings;

use serde::{Deserialize, Serialize};

use super::{MessageTerms, SharedPriorOptions};
use crate::{LogEiSettings, StrategyError};

/// Parts of the others' messages that a party uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OthersUse {
    /// The prior and the best points.
    #[default]
    Prior,
    /// The best points only, in random order for the first queries: a warm start, as a control.
    BestPoints,
    /// Nothing: each party alone.
    Nothing,
}

/// Function of the mixture to maximize for a query.
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
    /// The party's own model and search, the same as without others.
    pub own: LogEiSettings,
    /// Parts of the others' messages that are used.
    pub others: OthersUse,
    /// Function of the mixture to maximize for a query.
    pub acquisition: SharedAcquisition,
    /// r: number of shared functions, which must be the same for all parties.
    pub rank: usize,
    /// Prior of (m, Λ) before any message.
    pub prior: WeightPriorSettings,
    /// ρ, in units of the shared functions.
    pub own_variance: f64,
    /// τ² if the others do not report their levels.
    pub level_variance: f64,
    /// The least σ², in units of the shared functions.
    pub least_noise: f64,
    /// Sizes s to average over if the others do not report theirs, equally weighted before any
    /// output, in units of the party's outputs.
    pub sizes: Vec<f64>,
    /// Weight of the shared model before any output.
    ///
    /// If units are compared, the model with the others' negated functions has half of this weight
    /// or half of the remainder, whichever is less. The party's own model has the rest. Best points
    /// alone are queried only while the shared model has at least this weight.
    pub trust_before: f64,
    /// Number of first queries chosen among the others' best points, while these are trusted.
    pub n_best_first: usize,
    /// True if a random query follows the first of the others' best points, for a party without
    /// initial points. It shows whether these are better than any other point.
    pub probes: bool,
    /// Number of random trials at the start of a party without messages from others. A party misled
    /// by others makes twice as many queries, or d + 2 if that is fewer, in addition to the first
    /// best point before its model chooses.
    pub n_random_first: usize,
    /// True if the party's own best point is sent.
    pub sends_best: bool,
    /// True if level and size of outputs are compared with the others'. Models that use these are
    /// then models of outputs without a transform.
    pub compares_units: bool,
}

impl SharedPriorSettings {
    /// Defaults for a party with `dim` parameters.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn default_for(dim: usize, noisy: bool) -> Self {
        SharedPriorOptions::default().settings(LogEiSettings::for_study(dim, noisy))
    }

    /// The terms of the party's own messages.
    pub fn terms(&self) -> MessageTerms {
        MessageTerms {
            own_variance: self.own_variance,
            level_variance: self.level_variance,
            least_noise: self.least_noise,
            sends_best: self.sends_best,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// If one is out of range.
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
