//! The median rule: a trial stops when its best so far is worse than what others had on average by then.

use super::{Because, StoppingRule, TrainedTrial, Training, Verdict};

/// The conditions under which [`MedianRule`] begins to stop trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MedianSettings {
    /// In the first so many epochs nobody is stopped: early averages are dominated by the values of the first epochs, which say
    /// more of initial weights and step sizes than of where a curve ends.
    pub warmup_epochs: usize,
    /// Complete trials before anybody is stopped: a median of fewer says little of the typical trial. 0 counts as 1.
    pub trials_min: usize,
}

impl Default for MedianSettings {
    /// 5 epochs and 5 trials, the cautious settings of the services that offer the rule.
    fn default() -> Self {
        Self {
            warmup_epochs: 5,
            trials_min: 5,
        }
    }
}

/// The median stopping rule (Golovin et al. 2017, section 3.2.2): a trial stops after epoch s if
///
/// max_{n ≤ s} y_n < median_j ō_j(s),   ō_j(s) = (1/s) Σ_{n ≤ s} y_{j,n},   j over the complete trials.
///
/// It compares a *best* value with *averages*, so it is lenient: on rising curves the average lags behind. It models nothing,
/// and knows nothing of the other trials' parameters. As in the paper only complete trials count, neither running nor stopped
/// ones; so the median rises as the rule weeds out, and the rule grows stricter. The median of an even number is the mean of the
/// middle two, and a complete trial of fewer than s epochs enters with the average of all its values; the paper says neither.
/// Deviation: the two settings, without which the second trial would be judged by the first alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MedianRule {
    settings: MedianSettings,
}

impl MedianRule {
    /// A rule with these settings.
    pub fn new(settings: MedianSettings) -> Self {
        Self { settings }
    }
}

impl StoppingRule for MedianRule {
    fn judge(&self, trial: &TrainedTrial, others: &[TrainedTrial]) -> Verdict {
        let epoch = trial.curve.n_epochs();
        if epoch <= self.settings.warmup_epochs {
            return Verdict::Continue;
        }
        let averages: Vec<f64> = others
            .iter()
            .filter(|other| other.training == Training::Complete)
            .map(|other| average(&other.curve.values()[..epoch.min(other.curve.n_epochs())]))
            .collect();
        let n_trials = averages.len();
        if n_trials < self.settings.trials_min.max(1) {
            return Verdict::Continue;
        }
        let median = median(averages);
        let best = trial
            .curve
            .values()
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        if best < median {
            Verdict::Stop {
                because: Because::WorseThanMedian {
                    best,
                    median,
                    n_trials,
                    epoch,
                },
            }
        } else {
            Verdict::Continue
        }
    }
}

/// The mean of some values, kept from overflow.
fn average(values: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^53")]
    let n = values.len() as f64;
    values.iter().map(|value| value / n).sum()
}

/// The middle of at least one value, or the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        0.5 * values[middle - 1] + 0.5 * values[middle]
    }
}
