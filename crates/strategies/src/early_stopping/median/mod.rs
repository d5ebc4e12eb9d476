//! The median rule: a trial is stopped if its best value so far is worse than the median of the
//! other trials' averages up to the same epoch.

use serde::{Deserialize, Serialize};

use super::options::{below, whole};
use super::{
    OptionError, StopReason, StoppingMethod, StoppingOptions, StoppingRule, TrainedTrial, Training,
    Verdict,
};

/// Options of `median`: conditions that must hold before any trial is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedianOptions {
    /// Number of initial epochs after which no trial is stopped. The values of the first epochs
    /// dominate early averages, and these values depend more on initial weights and step sizes than
    /// on where the curve ends.
    #[serde(deserialize_with = "whole::<0, _>")]
    pub warmup_epochs: u32,
    /// Number of complete trials required before any trial is stopped, because the median of fewer
    /// trials is not representative. 0 counts as 1.
    #[serde(deserialize_with = "whole::<0, _>")]
    pub trials_min: u32,
}

impl Default for MedianOptions {
    /// 5 epochs and 5 trials, as in the cautious settings of services that offer this rule.
    fn default() -> Self {
        Self { warmup_epochs: 5, trials_min: 5 }
    }
}

impl MedianOptions {
    /// Returns the defaults, but with a warm-up of at most half a training run, so that at least
    /// one epoch remains for stopping.
    pub fn for_epochs(epochs: u32) -> Self {
        let default = Self::default();
        let warmup_max = (epochs / 2).min(epochs.saturating_sub(2));
        Self { warmup_epochs: default.warmup_epochs.min(warmup_max), ..default }
    }
}

impl StoppingOptions for MedianOptions {
    fn make(&self, epochs: u32) -> Result<StoppingMethod, OptionError> {
        below("warmup_epochs", self.warmup_epochs, epochs)?;
        Ok(StoppingMethod::Curves(Box::new(MedianRule::new(*self))))
    }
}

/// The median stopping rule (Golovin et al. 2017, section 3.2.2): a trial stops after epoch s if
///
/// max_{n ≤ s} y_n < median_j ō_j(s),   ō_j(s) = (1/s) Σ_{n ≤ s} y_{j,n},   j over the complete trials.
///
/// The trial's *best* value is compared with *averages*, which makes the rule lenient: on rising
/// curves the average lags behind. The rule uses neither a model nor the trials' parameters. As in
/// the paper, only complete trials count; running and stopped trials do not. The median therefore
/// rises as poor trials are stopped, and the rule becomes stricter.
///
/// The median of an even number of values is the mean of the middle two. A complete trial with
/// fewer than s epochs contributes the average of all its values. The paper specifies neither. The
/// two options are not part of the paper; without them, the second trial would be judged by the
/// first one only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MedianRule {
    options: MedianOptions,
}

impl MedianRule {
    /// Creates the rule with these options.
    pub fn new(options: MedianOptions) -> Self {
        Self { options }
    }
}

impl StoppingRule for MedianRule {
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        let epoch = trial.curve.n_epochs();
        if epoch <= self.options.warmup_epochs as usize {
            return Verdict::Continue;
        }
        let averages: Vec<f64> = others
            .iter()
            .filter(|other| other.training == Training::Complete)
            .map(|other| average(&other.curve.values()[..epoch.min(other.curve.n_epochs())]))
            .collect();
        let n_trials = averages.len();
        if n_trials < self.options.trials_min.max(1) as usize {
            return Verdict::Continue;
        }
        let median = median(averages);
        let best = trial.curve.values().iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if best < median {
            Verdict::Stop { because: StopReason::WorseThanMedian { best, median, n_trials, epoch } }
        } else {
            Verdict::Continue
        }
    }
}

/// Returns the mean of at least one value, without overflow. The mean of equal values is exactly
/// their common value, so a tie stops no trial.
fn average(values: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^53")]
    let n = values.len() as f64;
    values[0] + values.iter().map(|value| value / n - values[0] / n).sum::<f64>()
}

/// Returns the median of at least one value: the middle one, or the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        0.5 * values[middle - 1] + 0.5 * values[middle]
    }
}
